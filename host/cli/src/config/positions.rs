//! Positions of rules and A/B tests in a configuration file.
//!
//! Only TOML provides line and column. In the other two formats a rule has its file and number.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use toml::Spanned;
use toolhost_contract::manifest::line_of;
use toolhost_contract::policy::{Diagnostic, RuleFile, RuleSource, RuleTable, Tier};

use super::{Config, FileFormat, RuleText, key_case};

/// The parts of a file that have positions. All other keys are read before. Keys are accepted in every spelling that
/// the other reader accepts, because a rule that only one of them recognizes would be ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PositionedFile {
    rule: Vec<Spanned<RuleTable>>,
    #[serde(deserialize_with = "key_case::any_case")]
    policy: PositionedPolicy,
    ab_test: Vec<Spanned<IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PositionedPolicy {
    allow: Vec<Spanned<String>>,
    ask: Vec<Spanned<String>>,
    deny: Vec<Spanned<String>>,
}

/// Parses the rules of a file whose other keys are valid.
pub fn add_positions(
    config: &mut Config,
    file: &Path,
    format: FileFormat,
    text: &str,
) -> Result<(), String> {
    let name = file.display().to_string();
    let tables = std::mem::take(&mut config.rule);
    config.rules = match format {
        FileFormat::Toml => {
            let placed = toml::Deserializer::parse(text).and_then(key_case::any_case);
            let placed: PositionedFile = placed.map_err(|error| {
                let at = error.span().map_or_else(
                    || RuleSource::file(&name),
                    |span| RuleSource::at_offset(&name, text, span.start),
                );
                let message =
                    toolhost_contract::serde_errors::describe_serde_error(error.message());
                Diagnostic::error(&at, message).to_string()
            })?;
            let policy = &mut config.policy;
            set_positions(&mut policy.allow, &placed.policy.allow, text);
            set_positions(&mut policy.ask, &placed.policy.ask, text);
            set_positions(&mut policy.deny, &placed.policy.deny, text);
            for (test, position) in config.ab_test.iter_mut().zip(&placed.ab_test) {
                test.line = Some(line_of(text, position.span().start));
            }
            RuleTable::all(placed.rule, &name, text, Tier::User).map_err(join_diagnostics)?
        }
        FileFormat::Yaml | FileFormat::Json => {
            let mut rules = Vec::with_capacity(tables.len());
            for (number, table) in (1..).zip(tables) {
                rules.extend(rule_from_value(&name, number, table)?);
            }
            rules
        }
    };
    Ok(())
}

fn set_positions(forms: &mut [RuleText], positions: &[Spanned<String>], text: &str) {
    for (form, position) in forms.iter_mut().zip(positions) {
        let source = RuleSource::at_offset("", text, position.span().start);
        form.position = Some((source.line, source.column));
    }
}

/// Parses one rule without a position, by converting it to TOML for the rule parser.
fn rule_from_value(
    file: &str,
    number: usize,
    table: Value,
) -> Result<Vec<toolhost_contract::policy::RuleSpec>, String> {
    let wrong = |message: &str| format!("{file}: error: rule {number}: {message}");
    let text = toml::to_string(&serde_json::json!({"rule": [table]}))
        .map_err(|error| wrong(&error.to_string()))?;
    let mut rules = RuleFile::parse(file, &text, Tier::User).map_err(|found| {
        let lines: Vec<String> = found.iter().map(|one| wrong(&one.message)).collect();
        lines.join("\n")
    })?;
    for rule in &mut rules {
        rule.source = RuleSource::file(file);
    }
    Ok(rules)
}

fn join_diagnostics(found: Vec<Diagnostic>) -> String {
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
