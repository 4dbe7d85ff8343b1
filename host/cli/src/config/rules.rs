//! Positions of rules and A/B tests in a configuration file.
//!
//! Only TOML provides line and column. In the other two formats a rule has its file and number.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use toml::Spanned;
use toolhost_contract::manifest::line_of;
use toolhost_contract::policy::{Diagnostic, RuleFile, RuleTable, Source, Tier};

use super::{Config, Form, Format};

/// The parts of a file that have positions. All other keys are read before.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Placed {
    rule: Vec<Spanned<RuleTable>>,
    policy: PlacedPolicy,
    #[serde(alias = "abTest")]
    ab_test: Vec<Spanned<IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PlacedPolicy {
    allow: Vec<Spanned<String>>,
    ask: Vec<Spanned<String>>,
    deny: Vec<Spanned<String>>,
}

/// Parses the rules of a file whose other keys are valid.
pub fn place(config: &mut Config, file: &Path, format: Format, text: &str) -> Result<(), String> {
    let name = file.display().to_string();
    let tables = std::mem::take(&mut config.raw_rules);
    config.rules = match format {
        Format::Toml => {
            let placed: Placed = toml::from_str(text).map_err(|error| {
                let at = error.span().map_or_else(
                    || Source::file(&name),
                    |span| Source::of(&name, text, span.start),
                );
                let message = toolhost_contract::explain::serde(error.message());
                Diagnostic::error(&at, message).to_string()
            })?;
            let policy = &mut config.policy;
            mark(&mut policy.allow, &placed.policy.allow, text);
            mark(&mut policy.ask, &placed.policy.ask, text);
            mark(&mut policy.deny, &placed.policy.deny, text);
            for (test, place) in config.ab_tests.iter_mut().zip(&placed.ab_test) {
                test.line = Some(line_of(text, place.span().start));
            }
            RuleTable::all(placed.rule, &name, text, Tier::User).map_err(all)?
        }
        Format::Yaml | Format::Json => {
            let mut rules = Vec::with_capacity(tables.len());
            for (number, table) in (1..).zip(tables) {
                rules.extend(of_value(&name, number, table)?);
            }
            rules
        }
    };
    Ok(())
}

fn mark(forms: &mut [Form], places: &[Spanned<String>], text: &str) {
    for (form, place) in forms.iter_mut().zip(places) {
        let source = Source::of("", text, place.span().start);
        form.at = Some((source.line, source.column));
    }
}

/// Parses one rule without a position, by converting it to TOML for the rule parser.
fn of_value(
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
        rule.source = Source::file(file);
    }
    Ok(rules)
}

fn all(found: Vec<Diagnostic>) -> String {
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
