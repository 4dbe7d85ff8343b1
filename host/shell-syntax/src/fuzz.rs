//! Fuzz target for the parser. `cargo test` replays its corpus, `cargo xtask fuzz` searches for new inputs.

use toolhost_fuzz_input::{assembled, check_message};

const SHELL: &[&str] = &[
    " ",
    "\n",
    "\t",
    ";",
    "&",
    "&&",
    "||",
    "|",
    "|&",
    "(",
    ")",
    "((",
    "))",
    "{ ",
    "; }",
    "$(",
    "${",
    "}",
    "`",
    "\"",
    "'",
    "$'",
    "\\",
    "<",
    ">",
    ">>",
    "<<",
    "<<-E",
    "<<<",
    "<(",
    ">(",
    ">&",
    "2>&1",
    "\nE\n",
    "#",
    "!",
    "~",
    "*",
    "?",
    "[",
    "]",
    "[[ ",
    " ]]",
    "=",
    "+=",
    "a=b ",
    "if ",
    "then ",
    "else ",
    "fi",
    "for ",
    "in ",
    "do ",
    "done",
    "while ",
    "case ",
    "esac",
    ";;",
    "function ",
    "f() ",
    "echo ",
    "rm ",
    "git ",
    "push ",
    "-C ",
    "-c ",
    "--",
    "sudo ",
    "env ",
    "bash -c ",
    "eval ",
    "xargs ",
    "find . -exec ",
    "timeout 1 ",
    "$x",
    "$((",
    "time ",
    "coproc ",
    "é",
    "\u{a0}",
    "\u{202e}",
    "{a,b}",
    "{1..9}",
    "/dev/tcp/a/1",
    "/bin/",
];

#[test]
fn fuzz_shell() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let line = assembled(bytes, SHELL);
        match crate::parse(&line) {
            Ok(script) => {
                crate::describe_danger(&script);
                crate::is_read_only(&script);
                assert!(script.commands.len() <= crate::MAX_COMMANDS);
                for command in &script.commands {
                    crate::approval_prefix(command);
                }
            }
            Err(error) => check_message(&error.to_string()),
        }
    });
}
