//! Location of the parts of a turn in a response body, a message or a list of parts.

mod gemini;

use serde_json::Value;

use super::detect::{check_format, invalid_turn, is_stream_event, non_null};
use super::{api_failed, not_a_turn};
use crate::model::{Format, FormatError};
use toolhost_contract::text;

#[derive(Default)]
pub(super) struct TurnParts<'a> {
    /// Blocks, items, calls or requests, depending on the format.
    pub parts: Vec<&'a Value>,
    /// A legacy call, which is a member of the message instead of a part.
    pub legacy_call: Option<&'a Value>,
    /// Whether the turn ended at its token limit.
    pub is_truncated: bool,
    /// The stop reason, if the turn did not end normally.
    pub abnormal_stop_reason: Option<String>,
}

impl<'a> TurnParts<'a> {
    fn new(parts: impl IntoIterator<Item = &'a Value>) -> Self {
        Self {
            parts: parts.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets the stop reason. `cut` is the one for the token limit.
    fn with_stop_reason(self, word: &Value, cut: &str, usual: &[&str]) -> Self {
        let word = word.as_str().unwrap_or_default();
        Self {
            is_truncated: self.is_truncated || word == cut,
            abnormal_stop_reason: (!word.is_empty() && !usual.contains(&word))
                .then(|| text::escape_line(word, 80)),
            ..self
        }
    }
}

pub(super) fn parts(format: Format, turn: &Value) -> Result<TurnParts<'_>, FormatError> {
    let pieces = match turn {
        Value::Array(pieces) => pieces.as_slice(),
        piece => std::slice::from_ref(piece),
    };
    if format != Format::Mcp {
        // An error response. Items of a list can have an `error` member of another meaning.
        let failed = pieces
            .iter()
            .filter(|piece| !turn.is_array() || piece.get("type").is_none())
            .find_map(|piece| non_null(piece, "error"));
        if let Some(error) = failed {
            return Err(api_failed(error));
        }
        if pieces.iter().any(is_stream_event) {
            let reason =
                "this is a stream event; request a complete response, or assemble the events";
            return Err(not_a_turn(format, reason));
        }
    }
    check_format(format, turn)?;
    match format {
        Format::Anthropic => anthropic(turn),
        Format::OpenAi => openai(turn),
        Format::OpenAiResponses => responses(turn),
        Format::Gemini => gemini::turn(turn),
        Format::Mcp => Ok(TurnParts::new(pieces)),
    }
}

fn anthropic(turn: &Value) -> Result<TurnParts<'_>, FormatError> {
    let format = Format::Anthropic;
    let refused = |reason: &str| Err(invalid_turn(format, turn, reason));
    let wanted = "expected a message with `content`, or its content";
    match turn {
        Value::Array(blocks) => {
            refuse_messages(format, blocks)?;
            Ok(TurnParts::new(blocks))
        }
        Value::Object(message) => {
            let kind = turn["type"].as_str().unwrap_or("message");
            if kind == "tool_use" {
                return Ok(TurnParts::new([turn]));
            }
            if kind != "message" && !message.contains_key("role") {
                return refused(wanted);
            }
            check_role(format, turn, "assistant")?;
            let found = match message.get("content") {
                Some(Value::Array(blocks)) => TurnParts::new(blocks),
                Some(Value::String(_)) => TurnParts::default(),
                Some(_) => return refused("`content` is neither a string nor a list"),
                None => return refused(wanted),
            };
            let usual = ["end_turn", "tool_use", "stop_sequence"];
            Ok(found.with_stop_reason(&turn["stop_reason"], "max_tokens", &usual))
        }
        _ => refused(wanted),
    }
}

fn openai(turn: &Value) -> Result<TurnParts<'_>, FormatError> {
    let format = Format::OpenAi;
    let is_call = |call: &Value| {
        let kind = &call["type"];
        ["function", "custom"]
            .into_iter()
            .any(|name| call.get(name).is_some() || kind == name)
    };
    let choice = match turn {
        Value::Array(calls) => {
            refuse_messages(format, calls)?;
            if let Some(other) = calls.iter().find(|call| !is_call(call)) {
                let reason = "expected the list of `tool_calls`, each with a `function`";
                return Err(invalid_turn(format, other, reason));
            }
            return Ok(TurnParts::new(calls));
        }
        Value::Object(body) => {
            if let Some(Value::Array(choices)) = body.get("choices") {
                // Use the first choice, like other clients; the others are alternative turns.
                match choices.first() {
                    Some(choice) => Some(choice),
                    None => return Ok(TurnParts::default()),
                }
            } else if body.contains_key("message") {
                Some(turn)
            } else if is_call(turn) {
                return Ok(TurnParts::new([turn]));
            } else {
                None
            }
        }
        _ => {
            return Err(invalid_turn(
                format,
                turn,
                "expected a message of the assistant",
            ));
        }
    };
    let found = openai_message(choice.map_or(turn, |choice| &choice["message"]))?;
    let usual = ["stop", "tool_calls", "function_call"];
    let end = choice.map_or(&Value::Null, |choice| &choice["finish_reason"]);
    Ok(found.with_stop_reason(end, "length", &usual))
}

fn openai_message(message: &Value) -> Result<TurnParts<'_>, FormatError> {
    let format = Format::OpenAi;
    let refused = |reason: &str| Err(invalid_turn(format, message, reason));
    let Some(members) = message.as_object() else {
        return refused("the choice has no `message`");
    };
    let known = ["role", "content", "tool_calls", "function_call", "refusal"];
    if !known.iter().any(|member| members.contains_key(*member)) {
        return refused("expected a message with `tool_calls` or `content`");
    }
    check_role(format, message, "assistant")?;
    check_format(format, message)?;
    match &message["content"] {
        Value::Null | Value::String(_) => {}
        Value::Array(content) => {
            for part in content {
                check_format(format, part)?;
            }
        }
        _ => return refused("`content` is neither a string nor a list"),
    }
    let mut found = match non_null(message, "tool_calls") {
        Some(Value::Array(calls)) => TurnParts::new(calls),
        None => TurnParts::default(),
        Some(_) => return refused("`tool_calls` is not a list"),
    };
    found.legacy_call = non_null(message, "function_call");
    if found.legacy_call.is_some_and(|call| !call.is_object()) {
        return refused("`function_call` is not an object");
    }
    Ok(found)
}

fn responses(turn: &Value) -> Result<TurnParts<'_>, FormatError> {
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
        (Value::Array(items), _) => Ok(TurnParts::new(items)),
        (_, Some(kind)) if alone.contains(&kind) => Ok(TurnParts::new([turn])),
        (_, None) if turn["output"].is_array() => {
            let found = TurnParts::new(turn["output"].as_array().into_iter().flatten());
            let mut found = found.with_stop_reason(&turn["status"], "incomplete", &["completed"]);
            if let Some(reason) = turn["incomplete_details"]["reason"].as_str() {
                found.abnormal_stop_reason = Some(text::escape_line(reason, 80));
            }
            Ok(found)
        }
        _ => {
            let reason = "expected a response with `output`, or its items";
            Err(invalid_turn(format, turn, reason))
        }
    }
}

/// Refuses a conversation, whose calls were already answered.
fn refuse_messages(format: Format, parts: &[Value]) -> Result<(), FormatError> {
    if parts.iter().any(|part| part.get("role").is_some()) {
        let reason = "this is a list of messages; pass only the last one, which contains the calls";
        return Err(not_a_turn(format, reason));
    }
    Ok(())
}

/// Checks the role, because only messages of the model contain calls.
fn check_role(format: Format, message: &Value, speaker: &str) -> Result<(), FormatError> {
    match non_null(message, "role") {
        Some(role) if role != speaker => {
            let role = text::escape_line(role.as_str().unwrap_or("no text"), 40);
            let reason = format!("its role is `{role}`, expected `{speaker}`");
            Err(invalid_turn(format, message, &reason))
        }
        _ => Ok(()),
    }
}
