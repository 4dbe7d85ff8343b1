//! Replacement of tool and parameter names in descriptions, error messages and recommendations.
//!
//! Only whole words in texts of the host are replaced, and only where they cannot be part of a path or a quoted value:
//! standalone words with underscores, and words in backticks.

use serde_json::Value;

use super::mapping::{ParamMapping, ToolMapping};
use super::params::property;
use super::profiled_registry::ProfiledRegistry;

/// Pairs of canonical and agent names.
pub(super) struct NameReplacer<'a> {
    pairs: Vec<(&'a str, &'static str)>,
    schema: Option<&'a Value>,
    params: &'static [ParamMapping],
}

impl<'a> ProfiledRegistry<'a> {
    /// Returns the replacements for texts about one tool: all tool names, and the parameters of this tool.
    pub(super) fn replacer(&self, row: &ToolMapping) -> NameReplacer<'a> {
        let mut replacer = self.tool_name_replacer();
        replacer.params = row.params;
        replacer.schema = self.tool(row.canonical).map(|tool| &tool.input_schema);
        if let Some(schema) = replacer.schema {
            for param in row.params {
                if let Some((ours, _)) = property(schema, param.canonical)
                    && ours != param.agent_name
                    && !replacer.pairs.iter().any(|(name, _)| *name == ours)
                {
                    replacer.pairs.push((ours, param.agent_name));
                }
            }
        }
        replacer
    }

    pub(super) fn tool_name_replacer(&self) -> NameReplacer<'a> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for row in self.profile.mappings() {
            if row.name != row.canonical
                && self.tool(row.canonical).is_some()
                && self.name(row.canonical) == row.name
            {
                pairs.push((row.canonical, row.name));
            }
        }
        NameReplacer {
            pairs,
            schema: None,
            params: &[],
        }
    }
}

impl<'a> NameReplacer<'a> {
    /// Replaces a tool name that the model cannot use by a mark.
    pub(super) fn hide(&mut self, name: &'a str, mark: &'static str) {
        self.pairs.push((name, mark));
    }

    pub(super) fn apply(&self, text: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = None;
        while !rest.is_empty() {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(length);
            out.push_str(self.replacement(before, word, after).unwrap_or(word));
            before = word.chars().next_back().or(before);
            let gap = after.find(is_word).unwrap_or(after.len());
            let (between, next) = after.split_at(gap);
            out.push_str(between);
            before = between.chars().next_back().or(before);
            rest = next;
        }
        out
    }

    fn replacement(&self, before: Option<char>, word: &str, after: &str) -> Option<&'static str> {
        let (_, theirs) = self.pairs.iter().find(|(ours, _)| *ours == word)?;
        let mut next = after.chars();
        let (first, second) = (next.next(), next.next());
        let quoted = before == Some('`') && first == Some('`');
        let opens = before.is_none_or(|c| c.is_whitespace() || c == '(');
        let closes = match first {
            None => true,
            Some('.' | ',' | ':' | ';' | ')') => second.is_none_or(char::is_whitespace),
            Some(c) => c.is_whitespace(),
        };
        (quoted || word.contains('_') && opens && closes).then_some(*theirs)
    }

    /// Replaces names in the descriptions of a schema. Other strings, such as patterns and enumerated values, are
    /// unchanged.
    pub(super) fn apply_to_descriptions(&self, schema: &mut Value) {
        match schema {
            Value::Object(members) => {
                for (name, member) in members {
                    match member {
                        Value::String(text) if name == "description" => *text = self.apply(text),
                        _ => self.apply_to_descriptions(member),
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.apply_to_descriptions(item);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Replaces names in `Parameter validation failed: path: is required; edits[0].old_string: …` and in its
    /// recommendations.
    pub(super) fn apply_to_problems(&self, text: &str) -> String {
        const STARTS: [&str; 2] = ["Parameter validation failed: ", "schema of "];
        for start in STARTS {
            if let Some(problems) = text.strip_prefix(start) {
                let problems: Vec<_> = problems
                    .split("; ")
                    .map(|problem| match problem.split_once(": ") {
                        Some((path, reason)) => format!("{}: {reason}", self.path(path)),
                        None => problem.to_owned(),
                    })
                    .collect();
                return format!("{start}{}", problems.join("; "));
            }
        }
        self.apply(text)
    }

    fn path(&self, path: &str) -> String {
        let mut params = self.params;
        let mut shown = Vec::new();
        let mut schema = self.schema;
        for step in path.split('.') {
            let (name, index) = step.split_at(step.find('[').unwrap_or(step.len()));
            let param = params.iter().find(|param| match schema {
                Some(schema) => {
                    property(schema, param.canonical).is_some_and(|(own, _)| own == name)
                }
                None => param.canonical == name,
            });
            shown.push(format!(
                "{}{index}",
                param.map_or(name, |param| param.agent_name)
            ));
            params = param.map_or(&[], ParamMapping::members);
            schema = None;
        }
        shown.join(".")
    }
}
