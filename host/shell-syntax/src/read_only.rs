//! Detection of read-only command lines.

use super::pattern::are_inert;
use super::{Script, SimpleCommand, Word, option_search::find_risky_options};

/// Programs that never write, whatever their arguments.
const READ_ONLY_PROGRAMS: &[&str] = &[
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

/// Programs that are read-only without these flags. Short flags are found in clusters, long ones also abbreviated.
const UNSAFE_FLAGS: &[(&str, &[&str])] = &[
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

/// Prefixes of `find` options that run programs or write.
const UNSAFE_FIND_OPTIONS: &[&str] =
    &["-delete", "-exec", "-ok", "-fprint", "-fls", "-files0-from"];

/// Read-only `git` subcommands, and prefixes of flags that make them run programs or write.
const READ_ONLY_GIT_COMMANDS: &[&str] = &[
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
const UNSAFE_GIT_FLAGS: &[&str] = &[
    "-o",
    "-O",
    "--output",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--open-files-in-pager",
];

/// Wrappers without side effects; the inner command is checked separately.
const TRANSPARENT: &[&str] = &["builtin", "command", "nice", "time", "timeout", "xargs"];

/// Whether every command is known to be read-only. An unknown program, flag or redirection makes it `false`.
pub fn is_read_only(script: &Script) -> bool {
    // Reading `/dev/tcp/host/1` opens a connection, and an unknown path could become such a path.
    let plain_reads = script.reads.iter().all(|read| {
        read.path
            .literal()
            .is_some_and(|path| !path.starts_with("/dev/"))
    });
    // git runs programs from the settings of the directory it runs in.
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
        && script.commands.iter().all(is_read_only_command)
}

fn is_read_only_command(command: &SimpleCommand) -> bool {
    if !are_inert(&command.assignments) || !find_risky_options(command).is_empty() {
        return false;
    }
    // Bare names only, because a path may lead to any program.
    let Some(program) = command.words.first().and_then(Word::literal) else {
        return false;
    };
    if command.via.iter().any(|via| via.starts_with("find ")) {
        return false;
    }
    match program {
        "test" | "[" => !command.has_argument("-v") && !command.has_argument("-R"),
        "file" => !has_unknown_argument(command),
        _ if READ_ONLY_PROGRAMS.contains(&program) => true,
        "find" => {
            !has_unknown_argument(command)
                && !command
                    .arguments()
                    .iter()
                    .filter_map(Word::literal)
                    .any(|word| {
                        UNSAFE_FIND_OPTIONS
                            .iter()
                            .any(|flag| word.starts_with(flag))
                    })
        }
        "git" => is_read_only_git(command),
        // `time` and `xargs` have options that name files; their values are not checked one by one.
        "time" | "xargs" => {
            !has_unknown_argument(command)
                && !has_flag(command, "-o")
                && !has_flag(command, "--output")
        }
        _ if TRANSPARENT.contains(&program) => true,
        // `date` with an argument without `+` sets the clock.
        "date"
            if command
                .arguments()
                .iter()
                .any(|word| !word.as_written().starts_with(['+', '-'])) =>
        {
            false
        }
        _ => UNSAFE_FLAGS
            .iter()
            .find(|(name, _)| *name == program)
            .is_some_and(|(_, flags)| {
                !has_unknown_argument(command) && !flags.iter().any(|flag| has_flag(command, flag))
            }),
    }
}

fn is_read_only_git(command: &SimpleCommand) -> bool {
    let words = command.arguments();
    // The subcommand must come first: `git -c core.pager=x log` runs x, `git -C dir log` uses another directory's
    // settings.
    let known = words
        .first()
        .and_then(Word::literal)
        .is_some_and(|word| READ_ONLY_GIT_COMMANDS.contains(&word));
    known
        && !has_unknown_argument(command)
        && !UNSAFE_GIT_FLAGS.iter().any(|flag| has_flag(command, flag))
}

/// Whether an argument could expand to a flag.
fn has_unknown_argument(command: &SimpleCommand) -> bool {
    command.has_unknown_word()
}

/// Whether an argument is this flag. Long flags may be abbreviated and have a value; short ones may be in a cluster.
fn has_flag(command: &SimpleCommand, flag: &str) -> bool {
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
