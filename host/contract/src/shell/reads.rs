//! Whether a command line only looks.

use super::pattern::are_harmless;
use super::{Script, Simple, Word, risky_options};

/// Programs that write nothing whatever their arguments are.
const ALWAYS: &[&str] = &[
    "[",
    "arch",
    "basename",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "df",
    "diff",
    "dir",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expr",
    "false",
    "fgrep",
    "file",
    "fold",
    "free",
    "grep",
    "groups",
    "head",
    "hexdump",
    "id",
    "join",
    "ls",
    "lsblk",
    "lscpu",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "paste",
    "pgrep",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "stat",
    "strings",
    "sum",
    "tac",
    "tail",
    "test",
    "tr",
    "true",
    "tty",
    "type",
    "uname",
    "uptime",
    "users",
    "vdir",
    "w",
    "wc",
    "which",
    "who",
    "whoami",
    ":",
];

/// Programs that are safe without these flags; short ones are found in clusters and long ones by their beginning.
const WITHOUT: &[(&str, &[&str])] = &[
    (
        "sort",
        &[
            "-o",
            "-T",
            "-S",
            "--output",
            "--compress-program",
            "--temporary-directory",
        ],
    ),
    ("rg", &["-z", "--pre", "--search-zip", "--hostname-bin"]),
    ("tree", &["-o", "-R"]),
    ("date", &["-s", "--set", "-f"]),
    ("ps", &[]),
    (
        "jq",
        &[
            "-i",
            "--in-place",
            "-L",
            "-f",
            "--from-file",
            "--library-path",
        ],
    ),
    ("fd", &["-x", "-X", "--exec", "--exec-batch"]),
];

/// What `find` may not be told; anything that begins so counts.
const FIND: &[&str] = &["-delete", "-exec", "-ok", "-fprint", "-fls", "-files0-from"];

/// What `git` may be asked, and no flag of these begins with what follows.
const GIT: &[&str] = &[
    "blame",
    "cat-file",
    "describe",
    "diff",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
];
const GIT_FLAGS: &[&str] = &[
    "-o",
    "-O",
    "--output",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--open-files-in-pager",
];

/// Wrappers that add nothing: their inner command is in the list and judged by itself.
const TRANSPARENT: &[&str] = &["builtin", "command", "nice", "time", "timeout", "xargs"];

/// True when every command is known to look and not to touch. A program, a flag or a redirection that is not known
/// here is a no.
pub fn reads_only(script: &Script) -> bool {
    // Reading `/dev/tcp/host/1` opens a connection, and a path that is not known could become that.
    let plain_reads = script.reads.iter().all(|read| {
        read.path
            .literal()
            .is_some_and(|path| !path.starts_with("/dev/"))
    });
    // git runs what another folder's settings say.
    let runs = |name: &str| {
        script
            .commands
            .iter()
            .any(|command| command.program() == Some(name))
    };
    script.writes.is_empty()
        && plain_reads
        && script.functions.is_empty()
        && !(runs("cd") && runs("git"))
        && script.commands.iter().all(looks)
}

fn looks(command: &Simple) -> bool {
    if !are_harmless(&command.assignments) || !risky_options(command).is_empty() {
        return false;
    }
    // By its bare name: a path may lead to anything.
    let Some(program) = command.words.first().and_then(Word::literal) else {
        return false;
    };
    if command.via.iter().any(|via| via.starts_with("find ")) {
        return false;
    }
    match program {
        "test" | "[" => !command.has("-v") && !command.has("-R"),
        "file" => !has_flag(command, "-C") && !has_flag(command, "-m") && !unsure(command),
        _ if ALWAYS.contains(&program) => true,
        "find" => {
            !unsure(command)
                && !command
                    .arguments()
                    .iter()
                    .filter_map(Word::literal)
                    .any(|word| FIND.iter().any(|flag| word.starts_with(flag)))
        }
        "git" => git(command),
        // The options of `time` and `xargs` that name files, and the values of others, are not looked at one by one.
        "time" | "xargs" => {
            !unsure(command) && !has_flag(command, "-o") && !has_flag(command, "--output")
        }
        _ if TRANSPARENT.contains(&program) => true,
        // A date without a `+` is set.
        "date"
            if command
                .arguments()
                .iter()
                .any(|word| !word.shown().starts_with(['+', '-'])) =>
        {
            false
        }
        _ => WITHOUT
            .iter()
            .find(|(name, _)| *name == program)
            .is_some_and(|(_, flags)| {
                !unsure(command) && !flags.iter().any(|flag| has_flag(command, flag))
            }),
    }
}

fn git(command: &Simple) -> bool {
    let words = command.arguments();
    // The subcommand comes first: `git -c core.pager=x log` runs x, `git -C dir log` trusts another folder.
    let known = words
        .first()
        .and_then(Word::literal)
        .is_some_and(|word| GIT.contains(&word));
    known && !unsure(command) && !GIT_FLAGS.iter().any(|flag| has_flag(command, flag))
}

/// An argument that could turn out to be a flag.
fn unsure(command: &Simple) -> bool {
    command.has_dynamic()
}

/// A long flag may be shortened and may carry its value; a short one may stand in a cluster.
fn has_flag(command: &Simple, flag: &str) -> bool {
    command
        .arguments()
        .iter()
        .filter_map(Word::literal)
        .any(|word| {
            if let Some(long) = flag.strip_prefix("--") {
                let name = word
                    .strip_prefix("--")
                    .map(|word| word.split('=').next().unwrap_or(word));
                return name.is_some_and(|name| !name.is_empty() && long.starts_with(name));
            }
            word.strip_prefix('-')
                .is_some_and(|word| !word.starts_with('-') && word.contains(&flag[1..]))
        })
}
