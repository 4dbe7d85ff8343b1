//! What a view reads off the snapshot that comes with an event.

use serde_json::{Map, Value, json};

use crate::bus::BusEvent;
use crate::life::CallState;
use crate::text;

/// Characters of one text that a person decides about. What is cut off says so.
const SPELLED: usize = 64 << 10;

/// A snapshot's members by name.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    record: &'a Value,
}

impl<'a> Shown<'a> {
    /// None for what is not about one call.
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
        // A snapshot is made by us and has a state; a listener is not worth a panic all the same.
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

    /// The kind of the last step that it took.
    pub(super) fn last_step(self) -> &'a str {
        let trail = self.get("auditTrail").as_array();
        let last = trail.and_then(|trail| trail.last());
        last.and_then(|line| line["kind"].as_str())
            .unwrap_or_default()
    }

    /// Did a guest run for it?
    pub(super) fn was_started(self) -> bool {
        !self.get("startedAt").is_null()
    }

    /// Whole milliseconds as these systems count them; nothing when nobody knows, as for a sealed call that ran.
    pub(super) fn duration_ms(self) -> Value {
        match self.get("durationMs").as_f64() {
            Some(duration) => whole(duration),
            None if self.state().is_terminal() && !self.was_started() => json!(0),
            None => Value::Null,
        }
    }
}

/// A number of milliseconds without a fraction.
pub(super) fn whole(milliseconds: f64) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a duration is not negative, and `as` stops at the ends"
    )]
    let whole = milliseconds.round() as u64;
    json!(whole)
}

/// An object of the members that have a value.
pub(super) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let members: Map<String, Value> = members
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    Value::Object(members)
}

/// What a person reads before they decide: every text in it escaped and cut, none masked, for they must see what they
/// say yes to.
pub(super) fn spelled(content: &Value) -> Value {
    match content {
        Value::Null | Value::Bool(_) | Value::Number(_) => content.clone(),
        Value::String(words) => Value::String(spelled_text(words)),
        Value::Array(items) => items.iter().map(spelled).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (text::inline(name, 128), spelled(member)))
            .collect(),
    }
}

pub(super) fn spelled_text(words: &str) -> String {
    text::block(words, SPELLED)
}

/// What a tool that ran and failed says about it, found in its result: Kode's `error`, MCP's and our `message`.
pub(super) fn failure_in<'a>(result: Option<&'a Value>, summary: Option<&'a str>) -> &'a str {
    let said = result.and_then(|result| match result {
        Value::String(text) => Some(text.as_str()),
        other => other["error"]
            .as_str()
            .or_else(|| other["error"]["message"].as_str())
            .or_else(|| other["message"].as_str()),
    });
    said.or(summary)
        .unwrap_or("the tool reported a failure and gave no reason")
}
