//! Rewording of the notes that built-in tools add to their results: a profile's model cannot call canonical names, and
//! cannot call tools that the profile does not list.
//!
//! Only lines in the form of a known note are changed, so that the content of files and the output of commands are
//! passed on unchanged.

use std::cell::OnceCell;

use serde_json::{Map, Value};

use super::calls::constant_defaults;
use super::clauses::{UNUSABLE, usable_text};
use super::mapping::{BUILT_IN, ToolMapping};
use super::name_replacement::{NameReplacer, UnlistedNames};
use super::params::to_agent;
use super::profiled_registry::ProfiledRegistry;
use toolhost_contract::{Outcome, Part};

/// How the lines begin that a tool adds to its text. `#` is a number. The beginnings are so long that lines of files do not
/// have them: `grep` and `read_many_files` show lines without their numbers.
const NOTES: &[(&str, &[&str])] = &[
    (
        "read_file",
        &[LINES, CUT_LINE, CUT_LINES, NOT_UTF8, "(the file has #"],
    ),
    ("read_many_files", &[LINES, CUT_LINE, CUT_LINES, NOT_UTF8]),
    (
        "grep",
        &[
            "[showing ",
            "[the search stopped",
            "[only the newest ",
            "[the pattern contains a line end",
            "[`case_insensitive = true` w",
            "[`fixed_strings = true` would",
            "[`no_ignore = true` would",
        ],
    ),
    (
        "glob",
        &[
            "[showing ",
            "[the search stopped",
            "[`kind = \"any\"` would",
            "[`case_sensitive = false` would",
            "[`dot = true` would",
            "[`respect_git_ignore = false` ",
            "[`respect_tool_ignore = false` would",
        ],
    ),
    ("list_directory", &["(showing entries "]),
    ("write_file", &["warning: "]),
    ("edit_file", &["warning: "]),
    (
        "shell",
        &[OMISSION, "To continue reading: ", "To allow more: "],
    ),
    (
        "shell_output",
        &[OMISSION, "No result yet. ", "To allow more: "],
    ),
    ("shell_kill", &["To kill it: "]),
    ("background_run", &["read it: "]),
    ("task", &["read it: "]),
    ("enter_plan_mode", &["plan mode: "]),
    ("exit_plan_mode", &["Still in plan mode: "]),
    ("tool_search", &["(showing "]),
    ("web_fetch", &["[characters ", "[only the main part "]),
];

const LINES: &str = "(showing lines ";
const CUT_LINE: &str = "(# line is cut after 2000 characters; to see another part of it: ";
const CUT_LINES: &str = "(# lines are cut after 2000 characters; to see another part of them: ";
const NOT_UTF8: &str = "(the file is not UTF-8 and shown as ";

/// A line in the place of output that was left out. It counts as a note only if it contains a call.
const OMISSION: &str = "[… ";

/// Maximum length of a note in bytes. A longer line is passed on unchanged.
const MAX_NOTE: usize = 2 << 10;

/// Maximum total length in bytes of the notes in the text or in a member of a result that are reworded. A tool writes
/// only a few notes, but its output can contain any number of lines in the form of one.
const MAX_NOTES: usize = 64 << 10;

/// Members of a structured result that contain such lines.
const OUTPUT_MEMBERS: [&str; 3] = ["stdout", "stderr", "output"];

/// Whether the tool adds notes to its results.
pub(super) fn has_notes(canonical: &str) -> bool {
    NOTES.iter().any(|(tool, _)| *tool == canonical)
}

impl ProfiledRegistry<'_> {
    /// Rewords the notes in a successful result of a tool.
    pub(super) fn reword_notes(
        &self,
        canonical: &str,
        row: Option<&ToolMapping>,
        outcome: &mut Outcome,
    ) {
        let Some((_, starts)) = NOTES.iter().find(|(tool, _)| *tool == canonical) else {
            return;
        };
        let facts = outcome.structured.clone().unwrap_or_default();
        // Only the result of a task in the background is a note; any other is the text of a sub-agent.
        if canonical == "task" && facts["task_id"].is_null() {
            return;
        }
        let is_note = |line: &str| {
            starts.iter().any(|start| begins(line, start))
                && (!line.starts_with(OMISSION) || line.contains(" {\""))
        };
        let replacer = OnceCell::new();
        let reword = |text: &mut String, budget: &mut usize| {
            let Some(first) = first_note(text, is_note, budget) else {
                return;
            };
            let replacer = replacer.get_or_init(|| self.replacer(row, UnlistedNames::Mark));
            let lines = text[first..].split('\n').filter_map(|line| {
                if is_note(line) {
                    self.note(row, line, &facts, replacer)
                } else {
                    Some(line.to_owned())
                }
            });
            // The text before the first note, without its last line feed.
            let before = first.checked_sub(1).map(|end| text[..end].to_owned());
            *text = before
                .into_iter()
                .chain(lines)
                .collect::<Vec<_>>()
                .join("\n");
        };
        let mut budget = MAX_NOTES;
        // The notes of a tool usually follow its output.
        for part in outcome.llm.iter_mut().rev() {
            if let Part::Text(text) = part {
                reword(text, &mut budget);
            }
        }
        for name in OUTPUT_MEMBERS {
            if let Some(Value::String(text)) = outcome
                .structured
                .as_mut()
                .and_then(|value| value.get_mut(name))
            {
                let mut budget = MAX_NOTES;
                reword(text, &mut budget);
            }
        }
        if let Some(Value::String(tool)) = outcome
            .structured
            .as_mut()
            .filter(|_| canonical == "background_run")
            .and_then(|value| value.get_mut("tool"))
        {
            *tool = self.name(tool).to_owned();
        }
    }

    /// Rewords a note or a recommendation. `None` if all of it is about tools or parameters that the model cannot use.
    /// `facts` is the structured result, which can name the same thing in another way. `replacer` is the
    /// replacer of `row` that marks unlisted names.
    pub(super) fn note(
        &self,
        row: Option<&ToolMapping>,
        text: &str,
        facts: &Value,
        replacer: &NameReplacer<'_>,
    ) -> Option<String> {
        if text.len() > MAX_NOTE {
            return Some(text.to_owned());
        }
        let reword = |text: &str| replacer.apply(&self.reword_values(row, text));
        usable_text(&self.reword_calls(text, facts, reword))
    }

    /// The canonical names in `Did you mean: a, b?`, as the model calls these tools.
    pub(super) fn reword_suggestions(&self, message: &str) -> String {
        const START: &str = ". Did you mean: ";
        let Some((problem, names)) = message
            .split_once(START)
            .and_then(|(problem, rest)| Some((problem, rest.strip_suffix('?')?)))
        else {
            return message.to_owned();
        };
        // Other errors suggest files.
        let is_tool = |name: &str| self.tool(name.trim_matches('`')).is_some();
        if !names.split(", ").any(is_tool) {
            return message.to_owned();
        }
        let names: Vec<String> = names
            .split(", ")
            .filter_map(|name| {
                let plain = name.trim_matches('`');
                self.is_usable(plain)
                    .then(|| name.replace(plain, self.name(plain)))
            })
            .collect();
        if names.is_empty() {
            return problem.to_owned();
        }
        format!("{problem}{START}{}?", names.join(", "))
    }

    /// Whether the model sees the tool, under some name.
    pub(super) fn is_usable(&self, canonical: &str) -> bool {
        self.tool(canonical).is_some()
            && (self.mappings(canonical).next().is_some() || self.is_listed_unmapped(canonical))
    }

    /// Converts `` `parameter = 3` `` of the called tool.
    fn reword_values(&self, row: Option<&ToolMapping>, text: &str) -> String {
        let Some((row, tool)) = row.and_then(|row| Some((row, self.tool(row.canonical)?))) else {
            return text.to_owned();
        };
        let schema = &tool.input_schema;
        let pieces = text.split('`').map(|piece| {
            let Some((name, value)) = piece.split_once(" = ") else {
                return piece.to_owned();
            };
            if schema["properties"].get(name).is_none() {
                return piece.to_owned();
            }
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            let input = Map::from_iter([(name.to_owned(), value)]);
            let theirs = to_agent(schema, schema, row.params, &input);
            match theirs.into_iter().flatten().next() {
                Some((name, value)) => format!("{name} = {value}"),
                None => UNUSABLE.to_owned(),
            }
        });
        pieces.collect::<Vec<_>>().join("`")
    }

    /// Translates calls in a note: `read_file with path "a" and offset 3`, `shell_output {"task_id": "job-1"}`.
    /// `reword` translates the other text.
    fn reword_calls(&self, text: &str, facts: &Value, reword: impl Fn(&str) -> String) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((start, call)) = next_call(rest) {
            out.push_str(&reword(&rest[..start]));
            match self.express(call.tool, &call.input, facts) {
                Some((name, input)) => out.push_str(&call.form.show(name, &input)),
                None => out.push_str(UNUSABLE),
            }
            rest = &rest[start + call.len..];
        }
        out.push_str(&reword(rest));
        out
    }

    /// Returns the name and input with which the model can make the call, or another one with the same purpose.
    fn express(
        &self,
        tool: &'static str,
        input: &Map<String, Value>,
        facts: &Value,
    ) -> Option<(&'static str, Map<String, Value>)> {
        let exact = self.express_exactly(tool, input);
        if exact.is_some() || !matches!(tool, "shell_output" | "shell_kill") {
            return exact;
        }
        // A task is also known by its process, and its output is in a file.
        let by_process = facts["pid"].as_u64().and_then(|pid| {
            let mut input = input.clone();
            input.shift_remove("task_id");
            input.insert("pid".to_owned(), pid.into());
            self.express_exactly(tool, &input)
        });
        by_process.or_else(|| {
            let file = facts["output_file"].as_str();
            let file = file.filter(|_| tool == "shell_output")?;
            let input = Map::from_iter([("path".to_owned(), file.into())]);
            self.express_exactly("read_file", &input)
        })
    }

    fn express_exactly(
        &self,
        tool: &'static str,
        input: &Map<String, Value>,
    ) -> Option<(&'static str, Map<String, Value>)> {
        let schema = &self.tool(tool)?.input_schema;
        let mut rows = self.mappings(tool).peekable();
        if rows.peek().is_none() && self.is_listed_unmapped(tool) {
            return Some((tool, input.clone()));
        }
        rows.find_map(|row| {
            let mut input = input.clone();
            input.retain(|name, value| {
                let mut defaults = constant_defaults(row, schema);
                !defaults.any(|default| (default.0, &default.1) == (name.as_str(), &*value))
            });
            let theirs = to_agent(schema, schema, row.params, &input)?;
            let mut needed = row.params.iter().filter(|param| param.required);
            needed
                .all(|param| theirs.contains_key(param.agent_name))
                .then_some((row.name, theirs))
        })
    }
}

/// Whether a line begins like a note.
fn begins(line: &str, start: &str) -> bool {
    match start.split_once('#') {
        None => line.starts_with(start),
        Some((before, after)) => line.strip_prefix(before).is_some_and(|rest| {
            let words = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            words.len() < rest.len() && words.starts_with(after)
        }),
    }
}

/// How a note writes the input of a call.
#[derive(Debug, Clone, Copy)]
enum CallForm {
    Json,
    /// The separator between the members.
    Prose(&'static str),
}

impl CallForm {
    fn show(self, name: &str, input: &Map<String, Value>) -> String {
        match self {
            CallForm::Json => {
                let members = input.iter();
                let members = members.map(|(name, value)| format!("{name:?}: {value}"));
                let members: Vec<_> = members.collect();
                format!("{name} {{{}}}", members.join(", "))
            }
            CallForm::Prose(separator) => {
                let members = input.iter();
                let members = members.map(|(name, value)| format!("{name} {value}"));
                let members: Vec<_> = members.collect();
                format!("{name} with {}", members.join(separator))
            }
        }
    }
}

/// A call in a note. `len` is the length of its text in bytes.
struct NotedCall {
    tool: &'static str,
    input: Map<String, Value>,
    form: CallForm,
    len: usize,
}

/// Returns where the first of the notes that are reworded starts: those at the end of the text that fit into the
/// budget, which is reduced by their length.
fn first_note(text: &str, is_note: impl Fn(&str) -> bool, budget: &mut usize) -> Option<usize> {
    let (mut first, mut end) = (None, text.len());
    for line in text.rsplit('\n') {
        let start = end - line.len();
        // A longer line is unchanged, and so needs no budget.
        if line.len() <= MAX_NOTE && is_note(line) {
            let Some(left) = budget.checked_sub(line.len()) else {
                break;
            };
            *budget = left;
            first = Some(start);
        }
        end = start.saturating_sub(1);
    }
    first
}

/// Finds the first call of a built-in tool in a text, and where it starts. Reads each word once.
fn next_call(text: &str) -> Option<(usize, NotedCall)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    loop {
        at += text[at..].find(is_word)?;
        let rest = &text[at..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if let Some(tool) = BUILT_IN.iter().find(|tool| **tool == word)
            && let Some((form, input, len)) = json_input(after).or_else(|| prose_input(after))
        {
            let call = NotedCall {
                tool,
                input,
                form,
                len: end + len,
            };
            return Some((at, call));
        }
        at += end;
    }
}

/// Reads ` {"name": value}`.
fn json_input(text: &str) -> Option<(CallForm, Map<String, Value>, usize)> {
    let json = text
        .strip_prefix(' ')
        .filter(|json| json.starts_with('{'))?;
    let mut values = serde_json::Deserializer::from_str(json).into_iter();
    let input: Map<String, Value> = values.next()?.ok()?;
    Some((CallForm::Json, input, 1 + values.byte_offset()))
}

/// Reads ` with name value and name value` or ` with name value, name value`, where a value is a JSON string or a number.
fn prose_input(text: &str) -> Option<(CallForm, Map<String, Value>, usize)> {
    let mut input = Map::new();
    let mut rest = text.strip_prefix(" with ")?;
    let mut separator = None;
    loop {
        let (name, value) = rest.split_once(' ')?;
        let digits = value.bytes().take_while(u8::is_ascii_digit).count();
        let (value, len) = if digits > 0 {
            (value[..digits].parse::<u64>().ok()?.into(), digits)
        } else {
            let mut values = serde_json::Deserializer::from_str(value).into_iter::<String>();
            let string = values.next()?.ok()?;
            (Value::String(string), values.byte_offset())
        };
        if !name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_') {
            return None;
        }
        input.insert(name.to_owned(), value);
        rest = &rest[name.len() + 1 + len..];
        let next = [" and ", ", "].iter().find_map(|gap| {
            let next = rest.strip_prefix(gap)?;
            let (_, value) = next.split_once(' ')?;
            let is_value = value.starts_with(|c: char| c == '"' || c.is_ascii_digit());
            is_value.then_some((*gap, next))
        });
        let Some((gap, next)) = next else {
            let form = CallForm::Prose(separator.unwrap_or(" and "));
            return Some((form, input, text.len() - rest.len()));
        };
        separator = Some(gap);
        rest = next;
    }
}
