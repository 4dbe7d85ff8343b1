//! Replacement of tool and parameter names in descriptions, error messages, recommendations and notes.
//!
//! Only whole words in texts of the host are replaced, and only where they cannot be part of a path or a quoted value:
//! standalone words with underscores, words in backticks, and tools in an enumeration with one of these.

use std::ops::Range;

use serde_json::Value;

use super::clauses::{UNUSABLE, usable_text};
use super::mapping::{BUILT_IN, ParamMapping, ToolMapping, ValueConversion};
use super::params::{items, property};
use super::profiled_registry::ProfiledRegistry;

/// How a replacer treats the tools and the parameters of the called tool that the profile does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnlistedNames {
    Keep,
    /// Replaces them by [`UNUSABLE`].
    Mark,
}

/// Pairs of canonical names and their replacements.
pub(super) struct NameReplacer<'a> {
    pairs: Vec<(&'a str, &'static str)>,
}

impl<'a> ProfiledRegistry<'a> {
    /// Returns the replacements for texts about one tool: the parameters of this tool, and all tool names.
    pub(super) fn replacer(
        &self,
        row: Option<&ToolMapping>,
        unlisted: UnlistedNames,
    ) -> NameReplacer<'a> {
        let mut pairs = Vec::new();
        let called = row.and_then(|row| Some((row, self.tool(row.canonical)?)));
        if let Some((row, tool)) = called {
            let schema = &tool.input_schema;
            add_parameters(schema, schema, row.params, &mut pairs);
            if unlisted == UnlistedNames::Mark {
                mark_parameters(row, schema, &mut pairs);
            }
        }
        for row in self.profile.mappings() {
            if self.tool(row.canonical).is_some() && self.name(row.canonical) == row.name {
                pairs.push((row.canonical, row.name));
            }
        }
        if unlisted == UnlistedNames::Mark {
            let called = row.map(|row| row.canonical);
            let others = BUILT_IN.iter().filter(|name| Some(**name) != called);
            let unusable = others.filter(|name| !self.is_usable(name));
            pairs.extend(unusable.map(|name| (*name, UNUSABLE)));
        }
        NameReplacer { pairs }
    }
}

/// Adds the parameters that the profile lists, with those in lists of objects. The words about a parameter with another
/// meaning do not apply to the agent's parameter.
fn add_parameters<'a>(
    root: &'a Value,
    schema: &'a Value,
    params: &[ParamMapping],
    pairs: &mut Vec<(&'a str, &'static str)>,
) {
    for param in params {
        match param.conversion {
            ValueConversion::Flag(_) | ValueConversion::Negate => {}
            ValueConversion::Flatten(members) => add_parameters(root, schema, members, pairs),
            ValueConversion::Same | ValueConversion::Encoding | ValueConversion::Items(_) => {
                let Some((name, own)) = property(schema, param.canonical) else {
                    continue;
                };
                pairs.push((name, param.agent_name));
                if let Some(items) = items(root, own) {
                    add_parameters(root, items, param.members(), pairs);
                }
            }
        }
    }
}

/// Marks the parameters that the profile does not list.
fn mark_parameters<'a>(
    row: &ToolMapping,
    schema: &'a Value,
    pairs: &mut Vec<(&'a str, &'static str)>,
) {
    let converted = row.params.iter().filter_map(|param| {
        let (_, own) = property(schema, param.canonical)?;
        matches!(param.conversion, ValueConversion::Items(_)).then(|| items(schema, own))?
    });
    let fills = |name: &str| {
        let mut fills = row.defaults.iter();
        fills.any(|(ours, _)| property(schema, ours).is_some_and(|(own, _)| own == name))
    };
    for level in converted.chain([schema]) {
        let properties = level.get("properties").and_then(Value::as_object);
        for name in properties.into_iter().flat_map(|all| all.keys()) {
            let required = level.get("required").and_then(Value::as_array);
            // Required parameters are listed even if the agent has none for them.
            let is_required = required.is_some_and(|all| all.iter().any(|one| one == name));
            let is_listed = pairs.iter().any(|(listed, _)| listed == name);
            if !is_listed && (!is_required || fills(name)) {
                pairs.push((name, UNUSABLE));
            }
        }
    }
}

/// A name in a text, with the backticks around it.
struct Name {
    word: Range<usize>,
    whole: Range<usize>,
}

impl NameReplacer<'_> {
    /// Replaces the names, and removes those that are marked from enumerations with others.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut end = 0;
        let names = self.names(text);
        for run in names.chunk_by(|a, b| is_separator(&text[a.whole.end..b.whole.start])) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else {
                continue;
            };
            out.push_str(&text[end..first.whole.start]);
            self.push_run(&mut out, text, run);
            end = last.whole.end;
        }
        out.push_str(&text[end..]);
        out
    }

    /// Appends an enumeration of names.
    fn push_run(&self, out: &mut String, text: &str, run: &[Name]) {
        let gaps: Vec<&str> = run
            .windows(2)
            .map(|pair| &text[pair[0].whole.end..pair[1].whole.start])
            .collect();
        let mut names: Vec<String> = run.iter().map(|name| self.replaced(text, name)).collect();
        names.retain(|name| name != UNUSABLE);
        let left_out = run.len() - names.len();
        if names.is_empty() {
            out.push_str(UNUSABLE);
        }
        // The last separator can be a conjunction.
        for (name, gap) in names.iter().zip(gaps.iter().skip(left_out).chain([&""])) {
            out.push_str(name);
            out.push_str(gap);
        }
    }

    /// Returns the replacement of a name, in backticks if it had them or could be read as an ordinary word.
    fn replaced(&self, text: &str, name: &Name) -> String {
        let (word, whole) = (&text[name.word.clone()], &text[name.whole.clone()]);
        match self.replacement(word) {
            None => whole.to_owned(),
            Some(UNUSABLE) => UNUSABLE.to_owned(),
            Some(theirs) => {
                let is_word = |name: &str| name.bytes().all(|c| c.is_ascii_lowercase());
                if name.word != name.whole || is_word(theirs) && !is_word(word) {
                    format!("`{theirs}`")
                } else {
                    theirs.to_owned()
                }
            }
        }
    }

    /// Whether it marks the name as one that the model cannot use.
    pub(super) fn hides(&self, word: &str) -> bool {
        self.replacement(word) == Some(UNUSABLE)
    }

    fn replacement(&self, word: &str) -> Option<&'static str> {
        let pair = self.pairs.iter().find(|(ours, _)| *ours == word);
        pair.map(|(_, theirs)| *theirs)
    }

    /// Finds the names in a text.
    fn names(&self, text: &str) -> Vec<Name> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // Each with whether it is certainly a name. Other words are the names of tools only next to one that is.
        let mut found: Vec<(Name, bool)> = Vec::new();
        let mut at = 0;
        while let Some(skipped) = text[at..].find(is_word) {
            let start = at + skipped;
            let end = text[start..]
                .find(|c| !is_word(c))
                .map_or(text.len(), |length| start + length);
            at = end;
            let word = &text[start..end];
            if self.replacement(word).is_none() && !BUILT_IN.contains(&word) {
                continue;
            }
            let mut name = Name {
                word: start..end,
                whole: start..end,
            };
            if text[..start].ends_with('`') && text[end..].starts_with('`') {
                name.whole = start - 1..end + 1;
                found.push((name, true));
            } else if is_standalone(text, &name.word)
                && (word.contains('_') || BUILT_IN.contains(&word))
            {
                found.push((name, word.contains('_')));
            }
        }
        with_neighbours(text, found)
    }

    /// Replaces names in the descriptions of a schema, and removes what they say about unlisted ones. Other strings, such
    /// as patterns and enumerated values, are unchanged.
    pub(super) fn apply_to_descriptions(&self, schema: &mut Value) {
        match schema {
            Value::Object(members) => {
                if let Some(Value::String(text)) = members.get("description") {
                    match self.describe(text) {
                        Some(text) => members["description"] = text.into(),
                        None => drop(members.shift_remove("description")),
                    }
                }
                members
                    .values_mut()
                    .for_each(|member| self.apply_to_descriptions(member));
            }
            Value::Array(items) => {
                for item in items {
                    self.apply_to_descriptions(item);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Replaces names in a description, and removes the sentences and clauses about marked ones. Returns `None` if
    /// nothing remains.
    pub(super) fn describe(&self, text: &str) -> Option<String> {
        let lines = text.split('\n').filter_map(|line| {
            let mut shown = usable_text(&self.apply(line))?;
            if line.starts_with(char::is_uppercase)
                && let Some(first) = shown.get_mut(..1)
            {
                first.make_ascii_uppercase();
            }
            Some(shown)
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// Keeps the names that are certain, and those in an enumeration with one of them.
fn with_neighbours(text: &str, mut found: Vec<(Name, bool)>) -> Vec<Name> {
    let count = found.len();
    let mut add = |name: usize, neighbour: usize| {
        let (first, second) = (&found[name.min(neighbour)].0, &found[name.max(neighbour)].0);
        let joined = is_separator(&text[first.whole.end..second.whole.start]);
        found[name].1 |= found[neighbour].1 && joined;
    };
    (1..count).for_each(|at| add(at, at - 1));
    (1..count).rev().for_each(|at| add(at - 1, at));
    let certain = found.into_iter().filter(|(_, is_certain)| *is_certain);
    certain.map(|(name, _)| name).collect()
}

fn is_separator(gap: &str) -> bool {
    matches!(gap, ", " | " and " | " or ")
}

fn is_standalone(text: &str, word: &Range<usize>) -> bool {
    let before = text[..word.start].chars().next_back();
    let mut after = text[word.end..].chars();
    let (first, second) = (after.next(), after.next());
    let opens = before.is_none_or(|c| c.is_whitespace() || c == '(');
    let closes = match first {
        None => true,
        Some('.' | ',' | ':' | ';' | ')') => second.is_none_or(char::is_whitespace),
        Some(c) => c.is_whitespace(),
    };
    opens && closes
}
