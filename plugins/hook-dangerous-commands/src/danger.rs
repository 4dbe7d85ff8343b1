//! Detection of dangerous command lines.

use crate::command::{Command, commands};

/// Depth limit of nested commands: `sh -c "ssh host 'rm -rf x'"` has depth two.
const DEPTH: usize = 4;

/// Devices that are safe to write to.
const HARMLESS: [&str; 7] = ["null", "zero", "full", "stdout", "stderr", "tty", "random"];

/// The reason why `line` is dangerous, or `None`.
pub fn danger_reason(line: &str) -> Option<&'static str> {
    if is_fork_bomb(line) {
        return Some("fork bomb: it starts itself repeatedly until the machine stops responding");
    }
    inside(line, DEPTH)
}

fn inside(line: &str, depth: usize) -> Option<&'static str> {
    commands(line).iter().find_map(|command| {
        let nested = || {
            let mut words = command.words.iter();
            words.find_map(|word| {
                let depth = depth.checked_sub(1)?;
                let nested = word.contains(char::is_whitespace);
                nested.then(|| inside(word, depth)).flatten()
            })
        };
        of_command(command).or_else(nested)
    })
}

fn of_command(command: &Command) -> Option<&'static str> {
    if command.writes.iter().any(|file| is_device(file)) {
        return Some("it overwrites a device");
    }
    // A command may follow other words: `sudo`, `env`, `xargs`, `find -exec` and others run commands.
    (0..command.words.len()).find_map(|start| of_words(&command.words[start..]))
}

fn of_words(words: &[String]) -> Option<&'static str> {
    let (program, arguments) = words.split_first()?;
    let program = program.rsplit('/').next().unwrap_or(program);
    match program {
        "rm" if has_flag(arguments, &['r', 'R'], "--recursive")
            && has_flag(arguments, &['f'], "--force") =>
        {
            Some("`rm` deletes directories recursively without confirmation")
        }
        "dd" if arguments
            .iter()
            .any(|word| word.starts_with("if=") || word.starts_with("of=")) =>
        {
            Some("`dd` overwrites its target")
        }
        "tee" if arguments.iter().any(|word| is_device(word)) => Some("it overwrites a device"),
        _ if program == "mkfs" || program.starts_with("mkfs.") => {
            Some("`mkfs` replaces a file system")
        }
        _ => None,
    }
}

/// Whether one of the short flags or the long flag is set.
fn has_flag(arguments: &[String], letters: &[char], long: &str) -> bool {
    arguments
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| match word.strip_prefix("--") {
            // Long flags can be abbreviated: `--rec` means `--recursive`.
            Some(name) => name.len() > 1 && long.starts_with(word.as_str()),
            None => word
                .strip_prefix('-')
                .is_some_and(|flags| flags.contains(letters)),
        })
}

fn is_device(file: &str) -> bool {
    file.strip_prefix("/dev/").is_some_and(|device| {
        let open_already = device.starts_with("fd/");
        !(open_already || HARMLESS.contains(&device) || device == "urandom")
    })
}

/// Detects a function that pipes itself into itself, such as `:(){ :|:& };:`.
fn is_fork_bomb(line: &str) -> bool {
    let tight: String = line
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .collect();
    tight.match_indices("(){").any(|(at, brace)| {
        let is_name = |letter: char| letter.is_alphanumeric() || ":_-.".contains(letter);
        let name = &tight[tight[..at].trim_end_matches(is_name).len()..at];
        let name = name
            .strip_prefix("function")
            .filter(|name| !name.is_empty())
            .unwrap_or(name);
        let body = tight[at + brace.len()..]
            .split('}')
            .next()
            .unwrap_or_default();
        !name.is_empty() && body.contains(&format!("{name}|{name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason must contain `expected`, which is empty for harmless commands.
    fn check(expected: &str, lines: &[&str]) {
        for line in lines {
            let found = danger_reason(line);
            match expected {
                "" => assert_eq!(found, None, "{line}"),
                expected => assert!(
                    found.is_some_and(|reason| reason.contains(expected)),
                    "{line}: {found:?}"
                ),
            }
        }
    }

    #[test]
    fn r_213_rm_with_recursive_and_force() {
        check(
            "`rm`",
            &[
                "rm -rf /",
                "rm -fr x",
                "rm -r -f x",
                "rm -Rf x",
                "rm -rvf x",
                "rm x -rf",
                "rm --recursive --force x",
                "rm --rec -f x",
                "/bin/rm -rf x",
                "sudo -n rm -rf x",
                "cd /tmp && rm -rf x",
                "ls | xargs rm -rf",
                "find . -exec rm -rf {} +",
                "A=1 env B=2 rm -rf x",
                "r''m \"-rf\" x",
                "bash -c 'rm -rf x'",
                "bash -c \"ssh host 'rm -rf x'\"",
                "echo $(rm -rf x)",
                "if true; then rm -rf x; fi",
                "rm \\\n -rf x",
                "echo 'rm -rf x' | sh",
            ],
        );
        check(
            "",
            &[
                "rm x",
                "rm -r x",
                "rm -f x",
                "rm -- -rf",
                "rmdir -rf",
                "farm -rf",
                "cat rm-rf.txt",
                "git commit -m 'do not rm'",
                "grep -rf patterns .",
            ],
        );
    }

    #[test]
    fn r_213_dd() {
        check(
            "`dd`",
            &[
                "dd if=/dev/zero of=/dev/sda",
                "sudo dd bs=1M if=a.iso",
                "dd of=x",
            ],
        );
        check("", &["dd", "add if=x", "dd --help", "echo if=1"]);
    }

    #[test]
    fn r_213_mkfs() {
        check(
            "`mkfs`",
            &["mkfs /dev/sda1", "/sbin/mkfs.ext4 -F x", "yes | mkfs.xfs x"],
        );
        check("", &["mkfsx", "cat mkfs.c/x"]);
    }

    #[test]
    fn r_213_writing_to_a_device() {
        check(
            "device",
            &[
                "> /dev/sda",
                "cat x >/dev/nvme0n1",
                "a 2>> /dev/mem",
                "cat x | tee /dev/sdb",
                "a >| '/dev/sda'",
            ],
        );
        check(
            "",
            &[
                "make > /dev/null 2>&1",
                "a 2>/dev/stderr",
                "a >/dev/fd/3",
                "cat /dev/urandom",
                "a < /dev/sda",
                "a > dev/sda",
            ],
        );
    }

    #[test]
    fn r_213_fork_bombs() {
        check(
            "itself",
            &[
                ":(){ :|:& };:",
                "bomb() { bomb | bomb & }; bomb",
                "function f(){ f|f& };f",
            ],
        );
        check("", &["f(){ g | h; }; f", "f() { echo; }", "(){}", "a|a"]);
    }

    #[test]
    fn any_text_is_judged() {
        let deep = "sh -c '".repeat(10_000);
        for line in [
            deep.as_str(),
            "\"\\",
            "'",
            ">",
            "ä> /dev/ß",
            "(){",
            "}(){ö|ö",
        ] {
            danger_reason(line);
        }
    }
}
