//! Location of the parts of a turn in a response body, a message or a list of parts.

mod gemini;

use serde_json::Value;

use super::looks::{is_set, is_stream_event, only, wrong};
use super::{api_failed, not_a_turn};
use crate::format::{Format, FormatError};
use crate::text;

#[derive(Default)]
pub(super) struct Found<'a> {
    /// Blocks, items, calls or requests, depending on the format.
    pub parts: Vec<&'a Value>,
    /// A legacy call, which is a member of the message instead of a part.
    pub older: Option<&'a Value>,
    /// Whether the turn ended at its token limit.
    pub cut: bool,
    /// The stop reason, if the turn did not end normally.
    pub ended: Option<String>,
}

impl<'a> Found<'a> {
    fn of(parts: impl IntoIterator<Item = &'a Value>) -> Self {
        Self {
            parts: parts.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets the stop reason. `cut` is the one for the token limit.
    fn ended(self, word: &Value, cut: &str, usual: &[&str]) -> Self {
        let word = word.as_str().unwrap_or_default();
        Self {
            cut: self.cut || word == cut,
            ended: (!word.is_empty() && !usual.contains(&word)).then(|| text::inline(word, 80)),
            ..self
        }
    }
}

pub(super) fn parts(format: Format, turn: &Value) -> Result<Found<'_>, FormatError> {
    let pieces = match turn {
        Value::Array(pieces) => pieces.as_slice(),
        piece => std::slice::from_ref(piece),
    };
    if format != Format::Mcp {
        // An error response. Items of a list can have an `error` member of another meaning.
        let failed = pieces
            .iter()
            .filter(|piece| !turn.is_array() || piece.get("type").is_none())
            .find_map(|piece| is_set(piece, "error"));
        if let Some(error) = failed {
            return Err(api_failed(error));
        }
        if pieces.iter().any(is_stream_event) {
            let reason =
                "this is a stream event; request a complete response, or assemble the events";
            return Err(not_a_turn(format, reason));
        }
    }
    only(format, turn)?;
    match format {
        Format::Anthropic => anthropic(turn),
        Format::OpenAi => openai(turn),
        Format::OpenAiResponses => responses(turn),
        Format::Gemini => gemini::turn(turn),
        Format::Mcp => Ok(Found::of(pieces)),
    }
}

fn anthropic(turn: &Value) -> Result<Found<'_>, FormatError> {
    let format = Format::Anthropic;
    let refused = |reason: &str| Err(wrong(format, turn, reason));
    let wanted = "expected a message with `content`, or its content";
    match turn {
        Value::Array(blocks) => {
            no_messages(format, blocks)?;
            Ok(Found::of(blocks))
        }
        Value::Object(message) => {
            let kind = turn["type"].as_str().unwrap_or("message");
            if kind == "tool_use" {
                return Ok(Found::of([turn]));
            }
            if kind != "message" && !message.contains_key("role") {
                return refused(wanted);
            }
            spoken_by(format, turn, "assistant")?;
            let found = match message.get("content") {
                Some(Value::Array(blocks)) => Found::of(blocks),
                Some(Value::String(_)) => Found::default(),
                Some(_) => return refused("`content` is neither a string nor a list"),
                None => return refused(wanted),
            };
            let usual = ["end_turn", "tool_use", "stop_sequence"];
            Ok(found.ended(&turn["stop_reason"], "max_tokens", &usual))
        }
        _ => refused(wanted),
    }
}

fn openai(turn: &Value) -> Result<Found<'_>, FormatError> {
    let format = Format::OpenAi;
    let is_call = |call: &Value| {
        let kind = &call["type"];
        ["function", "custom"]
            .into_iter()
            .any(|name| call.get(name).is_some() || kind == name)
    };
    let choice = match turn {
        Value::Array(calls) => {
            no_messages(format, calls)?;
            if let Some(other) = calls.iter().find(|call| !is_call(call)) {
                let reason = "expected the list of `tool_calls`, each with a `function`";
                return Err(wrong(format, other, reason));
            }
            return Ok(Found::of(calls));
        }
        Value::Object(body) => {
            if let Some(Value::Array(choices)) = body.get("choices") {
                // Use the first choice, like other clients; the others are alternative turns.
                match choices.first() {
                    Some(choice) => Some(choice),
                    None => return Ok(Found::default()),
                }
            } else if body.contains_key("message") {
                Some(turn)
            } else if is_call(turn) {
                return Ok(Found::of([turn]));
            } else {
                None
            }
        }
        _ => {
            return Err(wrong(format, turn, "expected a message of the assistant"));
        }
    };
    let found = message_of_openai(choice.map_or(turn, |choice| &choice["message"]))?;
    let usual = ["stop", "tool_calls", "function_call"];
    let end = choice.map_or(&Value::Null, |choice| &choice["finish_reason"]);
    Ok(found.ended(end, "length", &usual))
}

fn message_of_openai(message: &Value) -> Result<Found<'_>, FormatError> {
    let format = Format::OpenAi;
    let refused = |reason: &str| Err(wrong(format, message, reason));
    let Some(members) = message.as_object() else {
        return refused("the choice has no `message`");
    };
    let known = ["role", "content", "tool_calls", "function_call", "refusal"];
    if !known.iter().any(|member| members.contains_key(*member)) {
        return refused("expected a message with `tool_calls` or `content`");
    }
    spoken_by(format, message, "assistant")?;
    only(format, message)?;
    match &message["content"] {
        Value::Null | Value::String(_) => {}
        Value::Array(content) => {
            for part in content {
                only(format, part)?;
            }
        }
        _ => return refused("`content` is neither a string nor a list"),
    }
    let mut found = match is_set(message, "tool_calls") {
        Some(Value::Array(calls)) => Found::of(calls),
        None => Found::default(),
        Some(_) => return refused("`tool_calls` is not a list"),
    };
    found.older = is_set(message, "function_call");
    if found.older.is_some_and(|call| !call.is_object()) {
        return refused("`function_call` is not an object");
    }
    Ok(found)
}

fn responses(turn: &Value) -> Result<Found<'_>, FormatError> {
    let format = Format::OpenAiResponses;
    let alone = [
        "function_call",
        "custom_tool_call",
        "function_call_output",
        "custom_tool_call_output",
        "message",
        "reasoning",
    ];
    match (turn, turn["type"].as_str()) {
        (Value::Array(items), _) => Ok(Found::of(items)),
        (_, Some(kind)) if alone.contains(&kind) => Ok(Found::of([turn])),
        (_, None) if turn["output"].is_array() => {
            let found = Found::of(turn["output"].as_array().into_iter().flatten());
            let mut found = found.ended(&turn["status"], "incomplete", &["completed"]);
            if let Some(reason) = turn["incomplete_details"]["reason"].as_str() {
                found.ended = Some(text::inline(reason, 80));
            }
            Ok(found)
        }
        _ => {
            let reason = "expected a response with `output`, or its items";
            Err(wrong(format, turn, reason))
        }
    }
}

/// Refuses a conversation, whose calls were already answered.
fn no_messages(format: Format, parts: &[Value]) -> Result<(), FormatError> {
    if parts.iter().any(|part| part.get("role").is_some()) {
        let reason = "this is a list of messages; pass only the last one, which contains the calls";
        return Err(not_a_turn(format, reason));
    }
    Ok(())
}

/// Checks the role, because only messages of the model contain calls.
fn spoken_by(format: Format, message: &Value, speaker: &str) -> Result<(), FormatError> {
    match is_set(message, "role") {
        Some(role) if role != speaker => {
            let role = text::inline(role.as_str().unwrap_or("no text"), 40);
            let reason = format!("its role is `{role}`, expected `{speaker}`");
            Err(wrong(format, message, &reason))
        }
        _ => Ok(()),
    }
}
