//! Command prefixes that a saved approval may cover.

use super::option_search::find_risky_options;
use super::pattern::are_inert;
use super::risky_options::without_version;
use super::{SimpleCommand, wrapper};

/// Programs that execute their arguments, input or a file, or that access another machine.
const INTERPRETERS: &[&str] = &[
    ".",
    "awk",
    "bun",
    "bunx",
    "curl",
    "deno",
    "dotnet",
    "ed",
    "emacs",
    "ex",
    "find",
    "fd",
    "gawk",
    "ghci",
    "groovy",
    "guile",
    "irb",
    "java",
    "jshell",
    "julia",
    "just",
    "lua",
    "luajit",
    "m4",
    "mawk",
    "nawk",
    "nix",
    "nix-shell",
    "node",
    "nodejs",
    "npx",
    "nvim",
    "ocaml",
    "osascript",
    "perl",
    "php",
    "pnpx",
    "psql",
    "python",
    "python2",
    "python3",
    "pypy",
    "pypy3",
    "r",
    "rlwrap",
    "rscript",
    "rsync",
    "ruby",
    "runghc",
    "scp",
    "sed",
    "sftp",
    "socat",
    "source",
    "sqlite3",
    "ssh",
    "swift",
    "tar",
    "tclsh",
    "tee",
    "trap",
    "ts-node",
    "tsx",
    "uvx",
    "vi",
    "vim",
    "wget",
    "wish",
    "zip",
    "nc",
    "ncat",
    "netcat",
    "telnet",
];

/// Programs that destroy data or change permissions.
const DESTRUCTIVE: &[&str] = &[
    "chattr",
    "chgrp",
    "chmod",
    "chown",
    "cp",
    "crontab",
    "dd",
    "fdisk",
    "halt",
    "install",
    "kill",
    "killall",
    "launchctl",
    "ln",
    "mkfs",
    "mount",
    "mv",
    "parted",
    "passwd",
    "pkill",
    "poweroff",
    "reboot",
    "rm",
    "rmdir",
    "setfacl",
    "shred",
    "shutdown",
    "srm",
    "truncate",
    "umount",
    "unlink",
    "useradd",
    "userdel",
    "usermod",
    "visudo",
    "wipefs",
];

/// Builtins that can change the meaning of later commands.
const BUILTINS: &[&str] = &[
    "alias",
    "bind",
    "complete",
    "declare",
    "enable",
    "export",
    "getopts",
    "hash",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "set",
    "shopt",
    "typeset",
    "unset",
];

/// Programs with subcommands; the program name alone would cover too much.
const WITH_SUBCOMMANDS: &[&str] = &[
    "apt",
    "apt-get",
    "aws",
    "az",
    "brew",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "dnf",
    "docker",
    "flutter",
    "gcloud",
    "gem",
    "gh",
    "git",
    "glab",
    "go",
    "gradle",
    "helm",
    "jj",
    "kubectl",
    "make",
    "mvn",
    "npm",
    "pip",
    "pip3",
    "pipenv",
    "pnpm",
    "podman",
    "poetry",
    "rustup",
    "swiftly",
    "systemctl",
    "terraform",
    "uv",
    "yarn",
    "yum",
    "hg",
    "svn",
];

/// Subcommands of those programs that run arbitrary programs or destroy data.
const UNSAFE_SUBCOMMANDS: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "bisect",
            "checkout",
            "clean",
            "config",
            "difftool",
            "filter-branch",
            "mergetool",
            "push",
            "rebase",
            "reset",
            "restore",
            "rm",
            "submodule",
        ],
    ),
    (
        "docker",
        &["compose", "container", "exec", "image", "run", "system"],
    ),
    ("podman", &["container", "exec", "image", "run", "system"]),
    ("kubectl", &["delete", "exec", "run"]),
    ("npm", &["exec", "x", "explore"]),
    ("pnpm", &["dlx", "exec"]),
    ("yarn", &["dlx", "exec", "node"]),
    ("uv", &["run", "tool"]),
    ("poetry", &["run"]),
    ("pipenv", &["run"]),
    ("bundle", &["exec"]),
    ("conda", &["run"]),
    ("gh", &["alias", "api", "extension", "auth"]),
    ("go", &["generate", "run", "tool"]),
    ("gcloud", &["compute"]),
    ("aws", &["ssm"]),
    ("rustup", &["run"]),
    ("jj", &["util"]),
    ("hg", &["config"]),
];

/// The first words up to the first flag, path or argument: `cargo test -p x` gives `[cargo, test]`. `None` if the
/// prefix would cover arbitrary programs or destructive commands.
pub fn approval_prefix(command: &SimpleCommand) -> Option<Vec<String>> {
    let written = command.words.first()?.literal()?;
    let program = command.program()?;
    let lower = program.to_ascii_lowercase();
    let stem = without_version(&lower);
    let listed = |list: &[&str]| {
        [lower.as_str(), stem]
            .iter()
            .any(|name| list.contains(name))
    };
    let unsafe_name = listed(INTERPRETERS)
        || listed(DESTRUCTIVE)
        || listed(BUILTINS)
        || wrapper::is_wrapper(&lower)
        || lower.starts_with("mkfs");
    // A program given by path may be another file later.
    if unsafe_name
        || !find_risky_options(command).is_empty()
        || written != program
        || !are_inert(&command.assignments)
        || !is_plain_name(program)
    {
        return None;
    }
    let mut words = vec![program.to_owned()];
    if !WITH_SUBCOMMANDS.contains(&program) {
        return Some(words);
    }
    let subcommand = command
        .words
        .get(1)?
        .literal()
        .filter(|word| is_plain_name(word))?;
    if UNSAFE_SUBCOMMANDS
        .iter()
        .any(|(name, refused)| *name == program && refused.contains(&subcommand))
    {
        return None;
    }
    words.push(subcommand.to_owned());
    // `npm run build`: the user approved this script only.
    if matches!(program, "npm" | "pnpm" | "yarn" | "composer")
        && matches!(subcommand, "run" | "run-script")
    {
        let script = command
            .words
            .get(2)?
            .literal()
            .filter(|word| is_plain_name(word))?;
        words.push(script.to_owned());
    }
    Some(words)
}

/// Whether it is a name rather than a flag, a path or a text.
fn is_plain_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '+'))
}
