//! Tab completion of commands, tools, parameters and their known values.

use std::sync::Arc;

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use serde_json::{Map, Value};
use toolhost_kernel::{Kernel, RegistrySnapshot};

use super::line::COMMANDS;

pub struct LineHelper {
    kernel: Arc<Kernel>,
}

impl LineHelper {
    pub fn new(kernel: Arc<Kernel>) -> Self {
        Self { kernel }
    }
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(&line[..pos], &self.kernel.registry()))
    }
}

impl Hinter for LineHelper {
    type Hint = String;
}
impl Highlighter for LineHelper {}
impl Validator for LineHelper {}
impl Helper for LineHelper {}

/// The start of the word at the cursor, and its completions.
fn complete(line: &str, registry: &RegistrySnapshot) -> (usize, Vec<String>) {
    let start = line.rfind(char::is_whitespace).map_or(0, |space| space + 1);
    let word = &line[start..];
    let before: Vec<&str> = line[..start].split_whitespace().collect();
    // A complete word includes the following space.
    let tools = || registry.list().map(|entry| format!("{} ", entry.name));
    let mut offers: Vec<String> = match before.as_slice() {
        [] => COMMANDS
            .iter()
            .map(|command| format!("{command} "))
            .chain(tools())
            .collect(),
        ["help" | "?" | "inspect" | "call"] => tools().collect(),
        ["call", tool, given @ ..] | [tool, given @ ..] => match registry.get(tool) {
            Some(entry) => parameters(&entry.tool.input_schema, word, given),
            None => Vec::new(),
        },
    };
    offers.retain(|offer| offer.starts_with(word));
    offers.sort();
    (start, offers)
}

fn parameters(schema: &Value, word: &str, given: &[&str]) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some((key, _)) = word.split_once('=') {
        return properties
            .and_then(|properties| properties.get(key))
            .map_or(Vec::new(), |property| values(key, property));
    }
    let is_given = |key: &str| {
        given
            .iter()
            .any(|word| word.split(['=', ':']).next() == Some(key))
    };
    properties
        .into_iter()
        .flat_map(Map::keys)
        .filter(|key| !is_given(key) && is_plain(key))
        .map(|key| format!("{key}="))
        .collect()
}

fn values(key: &str, property: &Value) -> Vec<String> {
    let choices: Vec<&str> = match property.get("enum").and_then(Value::as_array) {
        Some(values) => values.iter().filter_map(Value::as_str).collect(),
        None if property.get("type") == Some(&Value::from("boolean")) => vec!["true", "false"],
        None => Vec::new(),
    };
    choices
        .into_iter()
        .filter(|value| is_plain(value))
        .map(|value| format!("{key}={value} "))
        .collect()
}

/// Whether a word from a guest's schema is safe to insert into the line, which is not escaped.
fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= 64
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost_contract::{Descriptor, ToolName};

    use super::*;
    use crate::testing;

    fn check(line: &str, start: usize, offers: &[&str]) {
        let mut tool = Descriptor::new(ToolName::parse("grep").unwrap(), "");
        tool.input_schema = json!({"type": "object", "properties": {
            "path": {"type": "string"},
            "pattern": {"type": "string"},
            "mode": {"enum": ["fast", "slow", "\u{1b}[2J"]},
            "all": {"type": "boolean"},
            "x\n": {},
        }});
        let kernel = testing::kernel("search", vec![tool]);
        assert_eq!(
            complete(line, &kernel.registry()),
            (
                start,
                offers.iter().map(|offer| (*offer).to_owned()).collect()
            )
        );
    }

    #[test]
    fn tab_completes_commands_tools_and_parameters() {
        check(
            "",
            0,
            &[
                "call ", "grep ", "help ", "inspect ", "plugins ", "quit ", "tools ",
            ],
        );
        check("gr", 0, &["grep "]);
        check("help ", 5, &["grep "]);
        check("call gr", 5, &["grep "]);
        check("grep p", 5, &["path=", "pattern="]);
        check("call grep p", 10, &["path=", "pattern="]);
        check("grep path=x ", 12, &["all=", "mode=", "pattern="]);
        check("grep mode=", 5, &["mode=fast ", "mode=slow "]);
        check("grep all=t", 5, &["all=true "]);
        check("unknown p", 8, &[]);
    }
}
