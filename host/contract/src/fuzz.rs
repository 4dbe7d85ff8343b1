//! Fuzz targets for the parsers of this crate. `cargo test` replays their corpora, `cargo xtask fuzz` searches for new
//! inputs.

use serde_json::Value;
use toolhost_fuzz_input::{assembled, check_message};

use crate::format::Format;
use crate::policy::{Decision, Policy, PolicySpec, RuleFile, RuleSpec, Tier};
use crate::{Manifest, shell, text, units};

#[test]
fn fuzz_manifest() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return;
        };
        if let Err(error) = Manifest::parse("plugin.toml", text) {
            check_message(&error.to_string());
        }
    });
}

#[test]
fn fuzz_rule_file() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return;
        };
        let diagnostics = match RuleFile::parse("rules.toml", text, Tier::User) {
            Ok(rules) => Policy::new(PolicySpec {
                rules,
                ..PolicySpec::default()
            })
            .err(),
            Err(diagnostics) => Some(diagnostics),
        };
        for diagnostic in diagnostics.unwrap_or_default() {
            check_message(&diagnostic.to_string());
        }
    });
}

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
        match shell::parse(&line) {
            Ok(script) => {
                shell::describe_danger(&script);
                shell::is_read_only(&script);
                assert!(script.commands.len() <= shell::MAX_COMMANDS);
                for command in &script.commands {
                    shell::approval_prefix(command);
                }
            }
            Err(error) => check_message(&error.to_string()),
        }
    });
}

const RULE: &[&str] = &[
    "Bash(",
    "Read(",
    "Edit(",
    "WebFetch(",
    "mcp__",
    "tool",
    "plugin/",
    "domain:",
    "*",
    "**",
    "?",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    "/",
    "//",
    "~/",
    "../",
    "./",
    "\\",
    ":",
    "://",
    "git ",
    "push",
    "secrets",
    ".env",
    "!",
    ",",
    " ",
    "é",
];

#[test]
fn fuzz_rule_form() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let form = assembled(bytes, RULE);
        let spec = PolicySpec {
            rules: vec![RuleSpec::new(Decision::Allow, form)],
            ..PolicySpec::default()
        };
        for diagnostic in Policy::new(spec).err().unwrap_or_default() {
            check_message(&diagnostic.to_string());
        }
    });
}

const TURN: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "1",
    "\"role\":",
    "\"assistant\"",
    "\"model\"",
    "\"content\":",
    "\"type\":",
    "\"tool_use\"",
    "\"tool_calls\":",
    "\"id\":",
    "\"name\":",
    "\"input\":",
    "\"function\":",
    "\"arguments\":",
    "\"{}\"",
    "\"parts\":",
    "\"functionCall\":",
    "\"args\":",
    "\"candidates\":",
    "\"choices\":",
    "\"message\":",
    "\"output\":",
    "\"function_call\"",
    "\"call_id\":",
    "\"error\":",
    "\"a\"",
    "\"\\u202e\"",
];

#[test]
fn fuzz_model_turn() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(turn) = serde_json::from_str::<Value>(&assembled(bytes, TURN)) else {
            return;
        };
        Format::detect(&turn);
        for format in Format::ALL {
            format.abnormal_stop_reason(&turn);
            if let Err(error) = format.read_turn(&turn) {
                check_message(&error.to_string());
            }
        }
    });
}

#[test]
fn fuzz_units_and_text() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return;
        };
        if let Err(error) = units::parse_size(text) {
            check_message(&error.to_string());
        }
        if let Err(error) = units::parse_duration(text) {
            check_message(&error.to_string());
        }
        let line = text::escape_line(text, 80);
        assert_eq!(text::escape_line(&line, usize::MAX), line);
        assert!(!line.contains('\n'));
    });
}
