//! Option syntax of wrapper programs, which determines where the wrapped command begins.

use super::parser::is_name;
use super::{ParseResult, SimpleCommand, UnparsedCommand};

/// Options and operands that precede the wrapped command. An unlisted option makes the command unparsed: it might take
/// the next word as its value, and then another word would be the program.
pub(super) struct OptionSyntax {
    /// Short options without and with a value.
    flags: &'static str,
    values: &'static str,
    /// Long options without a separate value, and with one.
    long_flags: &'static [&'static str],
    long_values: &'static [&'static str],
    /// Number of operands between the options and the command.
    operands: usize,
    /// `NAME=value` words may precede the command.
    assigns: bool,
}

pub(super) const PLAIN: OptionSyntax = OptionSyntax {
    flags: "",
    values: "",
    long_flags: &[],
    long_values: &[],
    operands: 0,
    assigns: false,
};

pub(super) fn option_syntax(program: &str) -> Option<OptionSyntax> {
    Some(match program {
        "sudo" => OptionSyntax {
            flags: "AbBEHiknNPsS",
            values: "CDghpRrTtuU",
            long_flags: &[
                "askpass",
                "background",
                "bell",
                "preserve-env",
                "login",
                "non-interactive",
                "stdin",
                "shell",
                "set-home",
                "reset-timestamp",
                "preserve-groups",
            ],
            long_values: &[
                "user",
                "group",
                "host",
                "prompt",
                "chdir",
                "chroot",
                "close-from",
                "role",
                "type",
                "command-timeout",
                "other-user",
            ],
            assigns: true,
            ..PLAIN
        },
        "doas" => OptionSyntax {
            flags: "Lns",
            values: "aCu",
            ..PLAIN
        },
        "env" => OptionSyntax {
            flags: "i0v",
            values: "uC",
            long_flags: &["ignore-environment", "null", "debug"],
            long_values: &["unset", "chdir"],
            assigns: true,
            ..PLAIN
        },
        "timeout" | "gtimeout" => OptionSyntax {
            flags: "fpv",
            values: "ks",
            long_flags: &["foreground", "preserve-status", "verbose"],
            long_values: &["kill-after", "signal"],
            operands: 1,
            ..PLAIN
        },
        "nice" => OptionSyntax {
            flags: "0123456789",
            values: "n",
            long_values: &["adjustment"],
            ..PLAIN
        },
        "ionice" => OptionSyntax {
            flags: "t",
            values: "cn",
            long_flags: &["ignore"],
            long_values: &["class", "classdata"],
            ..PLAIN
        },
        "time" => OptionSyntax {
            flags: "apqvV",
            values: "fo",
            long_flags: &["append", "portability", "quiet", "verbose"],
            long_values: &["format", "output"],
            // The keyword of the shell; the program takes none.
            assigns: true,
            ..PLAIN
        },
        "setsid" => OptionSyntax {
            flags: "cfw",
            long_flags: &["ctty", "fork", "wait"],
            ..PLAIN
        },
        "stdbuf" => OptionSyntax {
            values: "ioe",
            long_values: &["input", "output", "error"],
            ..PLAIN
        },
        "command" => OptionSyntax {
            flags: "pvV",
            ..PLAIN
        },
        "exec" => OptionSyntax {
            flags: "cl",
            values: "a",
            ..PLAIN
        },
        "xargs" => OptionSyntax {
            flags: "0optrx",
            values: "adEIJLnPRsS",
            long_flags: &[
                "null",
                "no-run-if-empty",
                "verbose",
                "interactive",
                "exit",
                "open-tty",
                "max-lines",
                "eof",
            ],
            long_values: &[
                "arg-file",
                "delimiter",
                "max-args",
                "max-procs",
                "max-chars",
                "process-slot-var",
            ],
            ..PLAIN
        },
        "watch" => OptionSyntax {
            flags: "bcCdegprtwx",
            values: "nqs",
            long_flags: &[
                "beep",
                "color",
                "no-color",
                "differences",
                "errexit",
                "chgexit",
                "exec",
                "precise",
                "no-title",
                "no-wrap",
                "no-rerun",
            ],
            long_values: &["interval", "equexit", "shotsdir"],
            ..PLAIN
        },
        "nohup" | "builtin" | "busybox" | "toybox" | "unbuffer" | "fakeroot" => PLAIN,
        _ => return None,
    })
}

/// Finds the index of the wrapped command and the variables set for it.
pub(super) fn skip_options(
    simple: &SimpleCommand,
    program: &str,
    shape: &OptionSyntax,
) -> ParseResult<(usize, Vec<String>)> {
    let mut at = 1;
    let mut operands = shape.operands;
    let mut assignments = Vec::new();
    let mut options = true;
    while let Some(word) = simple.words.get(at) {
        let Some(word) = word.literal() else {
            return Err(UnparsedCommand::at(
                "the program it runs is not known in advance:",
                program,
            ));
        };
        let unknown = || UnparsedCommand::at("unknown option:", &format!("{program} {word}"));
        if options && word == "--" {
            options = false;
        } else if options && word == "-" && program == "env" {
        } else if let Some(long) = word.strip_prefix("--").filter(|_| options) {
            match long.split_once('=') {
                Some((name, _))
                    if shape.long_values.contains(&name) || shape.long_flags.contains(&name) => {}
                None if shape.long_flags.contains(&long) => {}
                None if shape.long_values.contains(&long) => at += 1,
                _ => return Err(unknown()),
            }
        } else if let Some(cluster) = word
            .strip_prefix('-')
            .filter(|cluster| options && !cluster.is_empty())
        {
            for (index, flag) in cluster.char_indices() {
                if shape.values.contains(flag) {
                    at += usize::from(index + flag.len_utf8() == cluster.len());
                    break;
                }
                if !shape.flags.contains(flag) {
                    return Err(unknown());
                }
            }
        } else if let Some((name, _)) = word
            .split_once('=')
            .filter(|(name, _)| shape.assigns && is_name(name))
        {
            assignments.push(name.to_owned());
        } else if operands > 0 {
            operands -= 1;
        } else {
            break;
        }
        at += 1;
    }
    Ok((at.min(simple.words.len()), assignments))
}
