//! Fuzz target for configuration files in TOML, YAML and JSON.

use std::path::Path;

use serde_json::Value;
use toolhost_contract::policy::RuleSource;
use toolhost_fuzz_input::{assembled, check_message};

use super::{Config, FileFormat, expand_variables, parse};

const FRAGMENTS: &[&str] = &[
    "\n",
    "  ",
    "- ",
    ": ",
    " = ",
    "\"",
    "'",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "&a ",
    "*a",
    "<<: ",
    "!!binary ",
    "---\n",
    "# ",
    "null",
    "true",
    "1",
    "-1",
    "1e9",
    "99999999999999999999",
    "\"plugins\"",
    "\"allowed_paths\"",
    "\"data:rw\"",
    "\"env\"",
    "\"timeout\"",
    "\"20s\"",
    "\"toolTimeoutMs\"",
    "\"policy\"",
    "\"mode\"",
    "\"allow\"",
    "\"deny\"",
    "\"Bash(git *)\"",
    "\"rule\"",
    "\"tool\"",
    "\"decision\"",
    "\"hook\"",
    "\"name\"",
    "\"command\"",
    "\"matcher\"",
    "\"tools\"",
    "\"plugin\"",
    "\"limits\"",
    "\"memory\"",
    "\"64MiB\"",
    "\"mcpServers\"",
    "\"mcp_servers\"",
    "\"one\"",
    "\"url\"",
    "\"https://a.example\"",
    "\"args\"",
    "\"headers\"",
    "\"secrets\"",
    "\"agents\"",
    "\"ab_test\"",
    "\"retention\"",
    "\"signatures\"",
    "\"webSearch\"",
    "\"provider\"",
    "[policy]\n",
    "[[rule]]\n",
    "[[hook]]\n",
    "[mcp_servers.one]\n",
    "${HOME}",
    "${X:-",
    "\\u001b[2J",
    "\\u202e",
    "\u{1b}",
    "\u{202e}",
    "é",
];

/// Parses a file and drops the positions that only TOML provides.
fn read(format: FileFormat, text: &str) -> Option<Config> {
    match parse(Path::new("toolhost"), format, text) {
        Ok(mut config) => {
            for rule in &mut config.rules {
                rule.source = RuleSource::default();
            }
            for test in &mut config.ab_test {
                test.line = None;
            }
            Some(config)
        }
        Err(error) => {
            check_message(&error.to_string());
            None
        }
    }
}

/// The production `c-printable` of YAML 1.2.2, section 5.1. The YAML reader refuses other characters, also in quotes.
fn is_printable_in_yaml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

#[test]
fn fuzz_config() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let text = assembled(bytes, FRAGMENTS);
        for format in [FileFormat::Toml, FileFormat::Yaml, FileFormat::Json] {
            let Some(config) = read(format, &text) else {
                continue;
            };
            for path in config.plugins.iter().chain(&config.exclude_paths) {
                if let Err(error) = expand_variables(path, |_| None) {
                    check_message(&error);
                }
            }
        }
        // The parsed configuration does not depend on the format.
        let Ok(value @ Value::Object(_)) = serde_json::from_str::<Value>(&text) else {
            return;
        };
        let json = value.to_string();
        let of_json = read(FileFormat::Json, &json);
        if let Ok(toml) = toml::to_string(&value) {
            assert_eq!(read(FileFormat::Toml, &toml), of_json, "{json}\n{toml}");
        }
        if json.chars().all(is_printable_in_yaml) {
            assert_eq!(read(FileFormat::Yaml, &json), of_json, "{json}");
        }
    });
}
