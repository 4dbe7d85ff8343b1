//! Detection of the format of a turn. Reading a turn in the wrong format would yield no calls, and an agent loop would
//! stop.

use serde_json::Value;

use super::not_a_turn;
use crate::model::{Format, FormatError};

/// Returns a member that is present and not null.
pub(in crate::model) fn non_null<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|value| !value.is_null())
}

/// Returns an error if the value is in another format.
pub(in crate::model) fn check_format(format: Format, value: &Value) -> Result<(), FormatError> {
    match detect_format(value) {
        Some(other) if other != format && !contains_mark(format, value) => {
            let reason = format!("it looks like the format `{other}`");
            Err(not_a_turn(format, reason))
        }
        _ => Ok(()),
    }
}

/// Returns an error with the expected form as `reason`.
pub(in crate::model) fn invalid_turn(format: Format, value: &Value, reason: &str) -> FormatError {
    let hint = if is_batch_call(value) {
        "; it looks like `host batch` input without a format"
    } else {
        ""
    };
    not_a_turn(format, format!("{reason}{hint}"))
}

/// Returns the format of a turn, message or part, by members that only this format has.
pub(in crate::model) fn detect_format(value: &Value) -> Option<Format> {
    let mut formats = Format::ALL.into_iter();
    formats.find(|format| contains_mark(*format, value))
}

fn contains_mark(format: Format, value: &Value) -> bool {
    let deep = |value: &Value| {
        let mut content = value["content"].as_array().into_iter().flatten();
        format.api().has_mark(value) || content.any(|part| format.api().has_mark(part))
    };
    match value {
        Value::Array(items) => items.iter().any(deep),
        value => deep(value),
    }
}

/// Returns whether the value is a call in the native form of `host batch`.
fn is_batch_call(value: &Value) -> bool {
    let own = |call: &Value| {
        call.get("type").is_none() && call["name"].is_string() && call.get("input").is_some()
    };
    match value {
        Value::Array(calls) => calls.iter().any(own),
        call => own(call),
    }
}

/// Returns whether the value is a stream event.
pub(in crate::model) fn is_stream_event(value: &Value) -> bool {
    let kind = value["type"].as_str().unwrap_or_default();
    matches!(kind, "message_start" | "message_delta" | "message_stop")
        || kind.starts_with("content_block_")
        || kind.starts_with("response.")
        || value["object"] == "chat.completion.chunk"
        || value["choices"][0]["delta"].is_object()
}
