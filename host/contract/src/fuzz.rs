//! Fuzz targets for the parsers of this crate. `cargo test` replays their corpora, `cargo xtask fuzz` searches for new
//! inputs.

use toolhost_fuzz_input::{assembled, check_message};

use crate::policy::{Decision, Policy, PolicySpec, RuleFile, RuleSpec, Tier};
use crate::{Manifest, text, units};

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
