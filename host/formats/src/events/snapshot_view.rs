//! Access to call snapshots and shared helpers of event formats.

use serde_json::{Map, Value, json};

use toolhost_contract::bus::BusEvent;
use toolhost_contract::lifecycle::{CallState, mask_text, mask_value};
use toolhost_contract::{ChangeSet, text};

/// Maximum number of characters of a text in a prompt. Truncation is marked.
const MAX_PROMPT_TEXT_CHARS: usize = 64 << 10;

/// Maximum length in bytes of a result that is a text.
const MAX_RESULT_TEXT_BYTES: usize = 2_000;

/// The snapshot of a call, with access by member name.
#[derive(Clone, Copy)]
pub(super) struct SnapshotView<'a> {
    record: &'a Value,
}

impl<'a> SnapshotView<'a> {
    /// Returns `None` for an event that does not concern a call.
    pub(super) fn of(event: &'a BusEvent) -> Option<Self> {
        let record = event.snapshot.as_ref()?.json();
        event.call.as_ref().map(|_| Self { record })
    }

    pub(super) fn get(self, name: &str) -> &'a Value {
        &self.record[name]
    }

    pub(super) fn text(self, name: &str) -> &'a str {
        self.get(name).as_str().unwrap_or_default()
    }

    pub(super) fn id(self) -> &'a str {
        self.text("id")
    }

    pub(super) fn name(self) -> &'a str {
        self.text("name")
    }

    pub(super) fn state(self) -> CallState {
        // Every snapshot has a valid state, but an event consumer must not panic.
        CallState::parse(self.text("state")).unwrap_or(CallState::Pending)
    }

    pub(super) fn is_error(self) -> bool {
        self.get("isError") == &Value::Bool(true)
    }

    pub(super) fn code(self) -> &'a str {
        self.get("error")["code"].as_str().unwrap_or_default()
    }

    pub(super) fn message(self) -> &'a str {
        self.get("error")["message"].as_str().unwrap_or_default()
    }

    pub(super) fn approval(self, member: &str) -> &'a Value {
        &self.get("approval")[member]
    }

    /// Returns the kind of the last transition.
    pub(super) fn last_step(self) -> &'a str {
        let trail = self.get("auditTrail").as_array();
        let last = trail.and_then(|trail| trail.last());
        last.and_then(|line| line["kind"].as_str())
            .unwrap_or_default()
    }

    /// Returns whether a guest was started.
    pub(super) fn was_started(self) -> bool {
        !self.get("startedAt").is_null()
    }

    /// Returns whole milliseconds, or null if unknown, as for a sealed call that ran.
    pub(super) fn duration_ms(self) -> Value {
        match self.get("durationMs").as_f64() {
            Some(duration) => rounded(duration),
            None if self.state().is_terminal() && !self.was_started() => json!(0),
            None => Value::Null,
        }
    }
}

/// Rounds milliseconds to an integer.
pub(super) fn rounded(milliseconds: f64) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a duration is not negative, and `as` stops at the ends"
    )]
    let whole = milliseconds.round() as u64;
    json!(whole)
}

/// Builds an object of the members that are not null.
pub(super) fn object_without_nulls<'a>(
    members: impl IntoIterator<Item = (&'a str, Value)>,
) -> Value {
    let members: Map<String, Value> = members
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    Value::Object(members)
}

/// Escapes and truncates all texts of a prompt. They are not masked, because the user must see what is approved.
pub(super) fn escape_value(content: &Value) -> Value {
    match content {
        Value::Null | Value::Bool(_) | Value::Number(_) => content.clone(),
        Value::String(text) => Value::String(escape_text(text)),
        Value::Array(items) => items.iter().map(escape_value).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (text::escape_line(name, 128), escape_value(member)))
            .collect(),
    }
}

pub(super) fn escape_text(text: &str) -> String {
    text::escape_lines(text, MAX_PROMPT_TEXT_CHARS)
}

/// Returns a result without secrets, truncated.
pub(super) fn masked_result(result: &Value) -> Value {
    match result {
        Value::String(text) => json!(mask_text(text::head(text, MAX_RESULT_TEXT_BYTES))),
        other => mask_value(other),
    }
}

/// Returns the changes, if there are any, as text: a line and the diff of each, escaped and truncated.
pub(super) fn changes_text(changes: Option<&ChangeSet>) -> Option<String> {
    let changes = changes.filter(|changes| !changes.is_empty())?;
    let mut shown = String::new();
    for change in &changes.changes {
        if shown.len() > MAX_PROMPT_TEXT_CHARS * 4 {
            break;
        }
        shown.push_str(&change.describe());
        shown.push('\n');
        if let Some(diff) = &change.diff {
            shown.push_str(&diff.diff);
        }
    }
    Some(escape_text(&shown))
}

/// Returns the text of the first choice of a prompt with this scope that covers this.
pub(super) fn choice<'a>(content: &'a Value, scope: &str, covers: Option<&str>) -> Option<&'a str> {
    let mut choices = content["choices"].as_array()?.iter();
    let found = choices.find(|choice| {
        choice["scope"] == scope && covers.is_none_or(|covers| choice["covers"] == covers)
    })?;
    found["text"].as_str()
}

/// Returns the message of a logical failure, from its result: `error` in Kode, `message` in MCP and in native results.
pub(super) fn failure_message<'a>(result: Option<&'a Value>, summary: Option<&'a str>) -> &'a str {
    let message = result.and_then(|result| match result {
        Value::String(text) => Some(text.as_str()),
        other => other["error"]
            .as_str()
            .or_else(|| other["error"]["message"].as_str())
            .or_else(|| other["message"].as_str()),
    });
    message
        .or(summary)
        .unwrap_or("the tool reported a failure without a reason")
}
