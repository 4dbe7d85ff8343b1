//! Warnings for prompts about dangerous commands.

use super::{RedirectTarget, Script, SimpleCommand, Word, wrapper};

const DOWNLOADERS: &[&str] = &[
    "curl", "wget", "fetch", "aria2c", "http", "https", "nc", "ncat",
];
const INTERPRETERS: &[&str] = &["python", "python3", "perl", "ruby", "node", "php"];

/// Describes the worst danger of a command line, if any.
pub fn describe_danger(script: &Script) -> Option<&'static str> {
    if let Some(danger) = script.writes.iter().find_map(dangerous_write) {
        return Some(danger);
    }
    let connects = |target: &RedirectTarget| target.path.literal().is_some_and(is_network);
    if script.reads.iter().any(connects) {
        return Some("opens a network connection");
    }
    let bomb = script.commands.iter().any(|command| {
        command.piped
            && command
                .program()
                .is_some_and(|name| script.functions.iter().any(|f| f == name))
    });
    if bomb {
        return Some("starts itself repeatedly until the machine stops (fork bomb)");
    }
    if runs_download(script) {
        return Some("runs a program downloaded from the network");
    }
    if script
        .commands
        .iter()
        .any(|command| command.piped && reads_commands(command))
    {
        return Some("executes the output of another command");
    }
    let elevated = || {
        let found = script
            .commands
            .iter()
            .any(|command| matches!(command.program(), Some("sudo" | "doas")));
        found.then_some("runs with the privileges of another user")
    };
    script
        .commands
        .iter()
        .find_map(dangerous_command)
        .or_else(elevated)
}

fn dangerous_write(target: &RedirectTarget) -> Option<&'static str> {
    let path = target.path.literal()?;
    if is_network(path) {
        return Some("sends data over the network");
    }
    if path.starts_with("/dev/") && !path.starts_with("/dev/fd/") && path != "/dev/tty" {
        return Some("writes to a device");
    }
    [
        "/etc/", "/boot/", "/proc/", "/sys/", "/bin/", "/usr/", "/sbin/",
    ]
    .iter()
    .any(|directory| path.starts_with(directory))
    .then_some("writes to a system directory")
}

fn is_network(path: &str) -> bool {
    path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/")
}

/// Whether a shell or interpreter runs commands from its standard input.
fn reads_commands(command: &SimpleCommand) -> bool {
    let Some(program) = command.program() else {
        return false;
    };
    let dash = command.first_operand().is_none()
        || command.has_argument("-")
        || command.has_short_flag('s');
    let inline = command.has_short_flag('c') || command.has_short_flag('e');
    (wrapper::is_shell(program) || INTERPRETERS.contains(&program)) && dash && !inline
}

fn runs_download(script: &Script) -> bool {
    let fetches = script.commands.iter().any(|command| {
        command
            .program()
            .is_some_and(|name| DOWNLOADERS.contains(&name))
    });
    fetches
        && script.commands.iter().any(|command| {
            let Some(program) = command.program() else {
                return false;
            };
            let from_process =
                |word: &Word| matches!(word, Word::Dynamic(text) if text.starts_with("<("));
            let sources = wrapper::is_shell(program) || matches!(program, "source" | ".");
            (command.piped && reads_commands(command))
                || sources && command.arguments().iter().any(from_process)
        })
}

fn dangerous_command(command: &SimpleCommand) -> Option<&'static str> {
    let program = command.program()?.to_ascii_lowercase();
    let long = |flag: &str| command.has_argument(flag);
    let recursive =
        command.has_short_flag('r') || command.has_short_flag('R') || long("--recursive");
    match program.as_str() {
        "rm" if recursive && (command.has_short_flag('f') || long("--force")) => {
            Some("deletes directories recursively without prompting")
        }
        "rm" if recursive => Some("deletes directories recursively"),
        "rm" if command.arguments().iter().any(is_system_path) => Some("deletes system files"),
        "find" if long("-delete") => Some("deletes every file it finds"),
        "dd" if !command.arguments().is_empty() => Some("copies raw data over files or disks"),
        "shred" | "wipefs" | "srm" => Some("destroys data permanently"),
        "fdisk" | "parted" | "sgdisk" | "mkswap" => Some("changes a disk's layout"),
        name if name == "mkfs" || name.starts_with("mkfs.") || name == "newfs" => {
            Some("formats a disk")
        }
        "chmod" | "chown" | "chgrp"
            if recursive && command.arguments().iter().any(is_system_path) =>
        {
            Some("changes permissions of the whole system")
        }
        "chmod" if long("777") || long("a+rwx") || long("0777") => {
            Some("makes files writable by everyone")
        }
        "chown" | "chgrp" if recursive => Some("changes the owner of a whole directory"),
        "mv" if command.arguments().iter().any(is_system_path) => Some("moves system files"),
        "git" => dangerous_git(command),
        "shutdown" | "reboot" | "halt" | "poweroff" => Some("stops the machine"),
        "kill" if command.arguments().last().and_then(Word::literal) == Some("-1") => {
            Some("stops every process")
        }
        "crontab" if command.has_short_flag('r') => Some("deletes all scheduled jobs"),
        _ => None,
    }
}

fn dangerous_git(command: &SimpleCommand) -> Option<&'static str> {
    let arguments: Vec<&str> = command
        .arguments()
        .iter()
        .filter_map(Word::literal)
        .collect();
    let forced = arguments
        .iter()
        .any(|word| word.starts_with("--force") || word.starts_with('+') || *word == "--mirror");
    if arguments.contains(&"push") && (forced || command.has_short_flag('f')) {
        return Some("overwrites history on the server");
    }
    if arguments.contains(&"reset") && arguments.contains(&"--hard") {
        return Some("discards uncommitted changes");
    }
    if arguments.contains(&"clean")
        && (command.has_short_flag('f') || arguments.contains(&"--force"))
    {
        return Some("deletes untracked files");
    }
    arguments
        .contains(&"filter-branch")
        .then_some("rewrites the entire history")
}

/// Whether it is the root, the home directory or a system directory.
fn is_system_path(word: &Word) -> bool {
    let path = word.as_written().trim_end_matches(['/', '*']);
    let home = matches!(path, "~" | "$HOME" | "\"$HOME\"" | "${HOME}");
    (path.is_empty() && word.as_written().starts_with('/'))
        || home
        || matches!(
            path,
            "/bin"
                | "/boot"
                | "/dev"
                | "/etc"
                | "/home"
                | "/lib"
                | "/opt"
                | "/root"
                | "/sbin"
                | "/usr"
                | "/var"
        )
        || path.starts_with("/etc/")
        || path.starts_with("/boot/")
}
