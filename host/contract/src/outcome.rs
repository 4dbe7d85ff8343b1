//! Outcomes of completed calls.

use serde_json::{Map, Value};

use crate::text;

/// The outcome of a completed call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    pub summary: Option<String>,
    /// Content for the model.
    pub llm: Vec<Part>,
    pub structured: Option<Value>,
    /// Content for the user.
    pub display: Option<Display>,
    /// A logical failure: the call completed, but its result is an error.
    pub error: Option<Failure>,
    pub truncated: Option<Truncation>,
    pub tail: Option<TailCall>,
    pub meta: Option<Value>,
}

impl Outcome {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            llm: vec![Part::Text(text.into())],
            ..Self::default()
        }
    }

    pub fn is_error(&self) -> bool {
        self.error.is_some()
    }

    /// Removes text that is visible to a model but not to a user (see [`text::remove_tags`]) from all content for the
    /// model, and adds a note.
    pub fn remove_hidden_text(&mut self) {
        let mut removed = 0;
        let maybe = |text: &mut Option<String>| text.as_mut().map_or(0, remove_tags_from);
        for part in &mut self.llm {
            removed += match part {
                Part::Text(text) => remove_tags_from(text),
                Part::Json(value) => remove_tags_from_value(value),
                Part::Image { media_type, .. } | Part::Audio { media_type, .. } => {
                    remove_tags_from(media_type)
                }
                Part::File {
                    media_type,
                    uri,
                    name,
                    ..
                } => remove_tags_from(media_type) + maybe(uri) + maybe(name),
                Part::ResourceLink {
                    uri,
                    name,
                    media_type,
                } => remove_tags_from(uri) + maybe(name) + maybe(media_type),
                Part::Other { kind, text } => remove_tags_from(kind) + maybe(text),
            };
        }
        removed += self.structured.as_mut().map_or(0, remove_tags_from_value);
        removed += self.summary.as_mut().map_or(0, remove_tags_from);
        if let Some(error) = &mut self.error {
            removed += remove_tags_from(&mut error.message);
            removed += error
                .recommendations
                .iter_mut()
                .map(remove_tags_from)
                .sum::<usize>();
        }
        if removed > 0 {
            let note = removal_note(removed);
            // Without parts, the model is given the structured value or the error.
            if self.llm.is_empty() && self.error.is_none() {
                self.llm.push(Part::Text(self.model_text()));
            }
            match &mut self.error {
                Some(error) if self.llm.is_empty() => error.recommendations.push(note),
                _ => self.llm.push(Part::Text(note)),
            }
        }
    }

    /// Adds a notice of the host for the model. The notice is also added to `meta`, because a client may show the
    /// structured value instead of the parts.
    pub fn add_notice(&mut self, notice: String) {
        if self.llm.is_empty() {
            self.llm.push(Part::Text(self.model_text()));
        }
        if let Value::Object(meta) = self.meta.get_or_insert_with(|| Value::Object(Map::new())) {
            meta.insert("notice".to_owned(), Value::String(notice.clone()));
        }
        self.llm.push(Part::Text(format!("({notice})")));
    }

    /// Returns the text for the model: the parts, or if there are none, the error or the structured value.
    pub fn model_text(&self) -> String {
        let mut texts: Vec<String> = self
            .llm
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Json(value) => value.to_string(),
                Part::Image { media_type, .. }
                | Part::Audio { media_type, .. }
                | Part::File { media_type, .. } => {
                    format!("Binary content of type {media_type}")
                }
                Part::ResourceLink { uri, .. } => uri.clone(),
                Part::Other { kind, text } => text
                    .clone()
                    .unwrap_or_else(|| format!("content of kind {kind}")),
            })
            .collect();
        if texts.is_empty() {
            match (&self.error, &self.structured) {
                (Some(error), _) => texts.push(error.for_model()),
                (None, Some(value)) => texts.push(pretty(value)),
                (None, None) => texts.push("(no output)".to_owned()),
            }
        }
        texts.join("\n")
    }
}

/// Returns the note for the model about removed characters.
pub(crate) fn removal_note(removed: usize) -> String {
    format!(
        "[the host removed {removed} invisible characters (Unicode tags) that can hide instructions]"
    )
}

pub(crate) fn remove_tags_from(text: &mut String) -> usize {
    let Some((cleaned, removed)) = text::remove_tags(text) else {
        return 0;
    };
    *text = cleaned;
    removed
}

fn remove_tags_from_value(value: &mut Value) -> usize {
    match value {
        Value::String(text) => remove_tags_from(text),
        Value::Array(items) => items.iter_mut().map(remove_tags_from_value).sum(),
        Value::Object(members) => {
            let mut removed = members.values_mut().map(remove_tags_from_value).sum();
            if members.keys().any(|name| text::remove_tags(name).is_some()) {
                for (mut name, member) in std::mem::take(members) {
                    removed += remove_tags_from(&mut name);
                    members.insert(name, member);
                }
            }
            removed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn pretty(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}

/// One piece of content for the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(String),
    Json(Value),
    Image {
        data: Vec<u8>,
        media_type: String,
    },
    Audio {
        data: Vec<u8>,
        media_type: String,
    },
    File {
        data: Vec<u8>,
        media_type: String,
        uri: Option<String>,
        name: Option<String>,
    },
    ResourceLink {
        uri: String,
        name: Option<String>,
        media_type: Option<String>,
    },
    /// A kind that is unknown to this host.
    Other {
        kind: String,
        text: Option<String>,
    },
}

/// Content for the user, separate from the content for the model. `kind` is an open set: text, markdown, diff, ansi,
/// table …
#[derive(Debug, Clone, PartialEq)]
pub struct Display {
    pub kind: String,
    pub text: Option<String>,
    pub diff: Option<FileDiff>,
    pub data: Option<Value>,
}

impl Display {
    /// Returns the content as plain text, which has to be escaped before it is shown.
    pub fn plain_text(&self) -> String {
        if let Some(diff) = &self.diff {
            return diff.diff.clone();
        }
        let member = |name: &str| self.data.as_ref()?.get(name)?.as_str();
        let content = match self.kind.as_str() {
            "table" => self.table().map(|rows| {
                let rows = rows.iter().map(|row| row.join(" | "));
                rows.collect::<Vec<_>>().join("\n")
            }),
            "file" => member("path").map(str::to_owned),
            "image" => member("media_type").map(|media_type| format!("({media_type})")),
            _ => None,
        };
        let parts = [self.text.clone(), content];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join("\n")
    }

    /// Returns the rows of a table, the header first.
    pub fn table(&self) -> Option<Vec<Vec<String>>> {
        let data = self.data.as_ref().filter(|_| self.kind == "table")?;
        let cells = |row: &Value| -> Option<Vec<String>> {
            let cells = row.as_array()?.iter();
            Some(
                cells
                    .map(|cell| {
                        cell.as_str()
                            .map_or_else(|| cell.to_string(), str::to_owned)
                    })
                    .collect(),
            )
        };
        let header = cells(&data["columns"])?;
        let rows = data["rows"].as_array()?.iter().map(cells);
        std::iter::once(Some(header)).chain(rows).collect()
    }
}

/// The change of a text file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileDiff {
    pub file_name: String,
    pub diff: String,
    /// None for a new file.
    pub original: Option<String>,
    pub new: String,
}

impl FileDiff {
    /// Returns the diff without the two lines of its header.
    pub fn body(&self) -> &str {
        let header: usize = self.diff.split_inclusive('\n').take(2).map(str::len).sum();
        &self.diff[header..]
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn memory_size(&self) -> usize {
        let original = self.original.as_ref().map_or(0, String::len);
        self.file_name.len() + self.diff.len() + original + self.new.len()
    }
}

/// A logical failure of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: Option<String>,
    pub message: String,
    pub recommendations: Vec<String>,
    pub retryable: bool,
    pub cause: Option<String>,
    /// A JSON object for programs. Models do not get it.
    pub details: Option<Value>,
}

impl Failure {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: Some(code.to_owned()),
            message: message.into(),
            recommendations: Vec::new(),
            retryable: false,
            cause: None,
            details: None,
        }
    }

    /// Returns the message and the recommendations as one text.
    pub fn for_model(&self) -> String {
        let mut text = self.message.clone();
        for recommendation in &self.recommendations {
            text.push_str("\n- ");
            text.push_str(recommendation);
        }
        text
    }
}

/// The truncation of an outcome, with sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Truncation {
    pub original_bytes: f64,
    pub shown_bytes: f64,
    pub saved_to: Option<String>,
}

/// A call whose result replaces that of the current call.
#[derive(Debug, Clone, PartialEq)]
pub struct TailCall {
    pub tool: String,
    pub input: Value,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_15_hidden_text_is_removed_and_counted() {
        let hidden = "a\u{e0041}\u{e0042}";
        let note =
            "[the host removed 2 invisible characters (Unicode tags) that can hide instructions]";
        let shown = |mut outcome: Outcome| {
            outcome.remove_hidden_text();
            outcome.model_text()
        };
        assert_eq!(shown(Outcome::text(hidden)), format!("a\n{note}"));
        assert_eq!(shown(Outcome::text("a\u{202e}\u{1b}")), "a\u{202e}\u{1b}");
        let json = Outcome {
            llm: vec![Part::Json(json!({hidden: ["b"]}))],
            ..Outcome::default()
        };
        assert_eq!(shown(json), format!("{{\"a\":[\"b\"]}}\n{note}"));
        let structured = Outcome {
            structured: Some(json!(hidden)),
            ..Outcome::default()
        };
        assert_eq!(shown(structured), format!("a\n{note}"));
        let failed = Outcome {
            error: Some(Failure::new("x", hidden)),
            ..Outcome::default()
        };
        assert_eq!(shown(failed), format!("a\n- {note}"));
        let data = Outcome {
            llm: vec![Part::Image {
                data: Vec::new(),
                media_type: hidden.to_owned(),
            }],
            ..Outcome::default()
        };
        assert_eq!(shown(data), format!("Binary content of type a\n{note}"));
    }
}
