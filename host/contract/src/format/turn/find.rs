//! Where in what was handed in the parts of the turn are: in the body of a response, in a message, in a list of parts.

mod gemini;

use serde_json::Value;

use super::looks::{is_set, is_stream_event, only, wrong};
use super::{api_failed, not_a_turn};
use crate::format::{Format, FormatError};
use crate::text;

#[derive(Default)]
pub(super) struct Found<'a> {
    /// Blocks, items, calls or requests, whatever the format has.
    pub parts: Vec<&'a Value>,
    /// A call in the older form, which is no part but a member of the message.
    pub older: Option<&'a Value>,
    /// Did the turn end because it was too long?
    pub cut: bool,
    /// The API's word for the end, when it is no usual one.
    pub ended: Option<String>,
}

impl<'a> Found<'a> {
    fn of(parts: impl IntoIterator<Item = &'a Value>) -> Self {
        Self {
            parts: parts.into_iter().collect(),
            ..Self::default()
        }
    }

    /// `cut`: the word for an end at the limit of tokens.
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
        // What an API says when it says no. Items have an `error` as well, of their own.
        let failed = pieces
            .iter()
            .filter(|piece| !turn.is_array() || piece.get("type").is_none())
            .find_map(|piece| is_set(piece, "error"));
        if let Some(error) = failed {
            return Err(api_failed(error));
        }
        if pieces.iter().any(is_stream_event) {
            let reason = "this is an event of a stream; ask the API for a whole response, or put its pieces together";
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
    let wanted = "a message with `content` is wanted, or its content";
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
                Some(_) => return refused("`content` is neither a text nor a list"),
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
                let reason = "a list holds the calls of `tool_calls`, each with a `function`";
                return Err(wrong(format, other, reason));
            }
            return Ok(Found::of(calls));
        }
        Value::Object(body) => {
            if let Some(Value::Array(choices)) = body.get("choices") {
                // The first one, as everybody takes it; the others are other turns.
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
            return Err(wrong(format, turn, "a message of the assistant is wanted"));
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
        return refused("a message with `tool_calls` or `content` is wanted");
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
        _ => return refused("`content` is neither a text nor a list"),
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
            let reason = "a response with `output` is wanted, or its items";
            Err(wrong(format, turn, reason))
        }
    }
}

/// A whole conversation holds calls that were answered long ago.
fn no_messages(format: Format, parts: &[Value]) -> Result<(), FormatError> {
    if parts.iter().any(|part| part.get("role").is_some()) {
        let reason = "this is a list of messages; hand in the last one, which has the calls";
        return Err(not_a_turn(format, reason));
    }
    Ok(())
}

/// What a user said holds no calls of a model.
fn spoken_by(format: Format, message: &Value, speaker: &str) -> Result<(), FormatError> {
    match is_set(message, "role") {
        Some(role) if role != speaker => {
            let role = text::inline(role.as_str().unwrap_or("no text"), 40);
            let reason = format!("its role is `{role}`; a turn of the model has `{speaker}`");
            Err(wrong(format, message, &reason))
        }
        _ => Ok(()),
    }
}
