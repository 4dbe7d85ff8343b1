//! Where in what was handed in the parts of the turn are: in the body of a response, in a message, in a list of parts.

use serde_json::{Value, json};

use super::{api_failed, not_a_turn};
use crate::format::{Format, FormatError};

pub(super) struct Found {
    /// Blocks, items, calls or requests, whatever the format has.
    pub parts: Vec<Value>,
    /// Did the turn end because it was too long?
    pub cut: bool,
}

fn found(parts: Vec<Value>, cut: bool) -> Found {
    Found { parts, cut }
}

pub(super) fn parts(format: Format, turn: &Value) -> Result<Found, FormatError> {
    // What an API says when it says no.
    let failed = turn.get("error").filter(|error| !error.is_null());
    if let Some(error) = failed
        && format != Format::Mcp
    {
        return Err(api_failed(error));
    }
    match format {
        Format::Anthropic => anthropic(turn),
        Format::OpenAi => openai(turn),
        Format::OpenAiResponses => responses(turn),
        Format::Gemini => gemini(turn),
        Format::Mcp => match turn {
            Value::Array(requests) => Ok(found(requests.clone(), false)),
            Value::Object(_) => Ok(found(vec![turn.clone()], false)),
            _ => Err(not_a_turn(format, "a request or a list of them is wanted")),
        },
    }
}

fn anthropic(turn: &Value) -> Result<Found, FormatError> {
    let wrong = |reason: &str| Err(not_a_turn(Format::Anthropic, reason));
    match turn {
        Value::Array(blocks) => {
            no_messages(Format::Anthropic, blocks)?;
            Ok(found(blocks.clone(), false))
        }
        Value::Object(message) => match message.get("content") {
            Some(Value::Array(blocks)) => {
                spoken_by(Format::Anthropic, turn, &["assistant"])?;
                let cut = message.get("stop_reason") == Some(&json!("max_tokens"));
                Ok(found(blocks.clone(), cut))
            }
            Some(Value::String(_)) => Ok(found(Vec::new(), false)),
            Some(_) => wrong("`content` is neither a text nor a list"),
            None if message.contains_key("type") => Ok(found(vec![turn.clone()], false)),
            None => wrong("a message with `content` is wanted, or its content"),
        },
        _ => wrong("a message with `content` is wanted, or its content"),
    }
}

fn openai(turn: &Value) -> Result<Found, FormatError> {
    let format = Format::OpenAi;
    let (message, cut) = match turn {
        Value::Array(calls) => {
            no_messages(format, calls)?;
            return Ok(found(calls.clone(), false));
        }
        Value::Object(body) => {
            if let Some(Value::Array(choices)) = body.get("choices") {
                // The first one, as everybody takes it; the others are other turns.
                let Some(choice) = choices.first() else {
                    return Ok(found(Vec::new(), false));
                };
                choice_of(choice)
            } else if body.contains_key("message") {
                choice_of(turn)
            } else if body.contains_key("function") {
                return Ok(found(vec![turn.clone()], false));
            } else {
                (turn, false)
            }
        }
        _ => return Err(not_a_turn(format, "a message of the assistant is wanted")),
    };
    let Some(members) = message.as_object() else {
        return Err(not_a_turn(format, "the choice has no `message`"));
    };
    let known = ["role", "content", "tool_calls", "function_call", "refusal"];
    if !known.iter().any(|member| members.contains_key(*member)) {
        return Err(not_a_turn(
            format,
            "a message with `tool_calls` or `content` is wanted",
        ));
    }
    spoken_by(format, message, &["assistant"])?;
    let mut parts = match members.get("tool_calls") {
        Some(Value::Array(calls)) => calls.clone(),
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return Err(not_a_turn(format, "`tool_calls` is not a list")),
    };
    if let Some(call) = members.get("function_call").filter(|call| call.is_object()) {
        parts.push(call.clone());
    }
    Ok(found(parts, cut))
}

fn choice_of(choice: &Value) -> (&Value, bool) {
    (&choice["message"], choice["finish_reason"] == "length")
}

fn responses(turn: &Value) -> Result<Found, FormatError> {
    let format = Format::OpenAiResponses;
    match turn {
        Value::Array(items) => Ok(found(items.clone(), false)),
        Value::Object(body) => match body.get("output") {
            Some(Value::Array(items)) => {
                let cut = body.get("status") == Some(&json!("incomplete"));
                Ok(found(items.clone(), cut))
            }
            _ if body.contains_key("type") => Ok(found(vec![turn.clone()], false)),
            _ => Err(not_a_turn(
                format,
                "a response with `output` is wanted, or its items",
            )),
        },
        _ => Err(not_a_turn(
            format,
            "a response with `output` is wanted, or its items",
        )),
    }
}

fn gemini(turn: &Value) -> Result<Found, FormatError> {
    let format = Format::Gemini;
    let wrong = || {
        Err(not_a_turn(
            format,
            "a content with `parts` is wanted, or its parts",
        ))
    };
    match turn {
        Value::Array(parts) => {
            // The pieces of a stream.
            if parts.iter().any(|part| part.get("candidates").is_some()) {
                let mut all = found(Vec::new(), false);
                for piece in parts {
                    let piece = gemini(piece)?;
                    all.parts.extend(piece.parts);
                    all.cut |= piece.cut;
                }
                return Ok(all);
            }
            no_messages(format, parts)?;
            Ok(found(parts.clone(), false))
        }
        Value::Object(body) => {
            if let Some(Value::Array(candidates)) = body.get("candidates") {
                return match candidates.first() {
                    Some(candidate) => Ok(candidate_of(candidate)),
                    None => Ok(found(Vec::new(), false)),
                };
            }
            if body.contains_key("content") {
                return Ok(candidate_of(turn));
            }
            match body.get("parts") {
                Some(Value::Array(parts)) => {
                    spoken_by(format, turn, &["model"])?;
                    Ok(found(parts.clone(), false))
                }
                _ if body.contains_key("functionCall") || body.contains_key("function_call") => {
                    Ok(found(vec![turn.clone()], false))
                }
                // A prompt that was refused, or the end of a stream.
                _ if ["promptFeedback", "usageMetadata", "role"]
                    .iter()
                    .any(|member| body.contains_key(*member)) =>
                {
                    Ok(found(Vec::new(), false))
                }
                _ => wrong(),
            }
        }
        _ => wrong(),
    }
}

fn candidate_of(candidate: &Value) -> Found {
    let parts = candidate["content"]["parts"].as_array();
    found(
        parts.cloned().unwrap_or_default(),
        candidate["finishReason"] == "MAX_TOKENS",
    )
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
fn spoken_by(format: Format, message: &Value, roles: &[&str]) -> Result<(), FormatError> {
    match message.get("role").and_then(Value::as_str) {
        Some(role) if !roles.contains(&role) => {
            let role = crate::text::inline(role, 40);
            let reason = format!(
                "its role is `{role}`; a turn of the model has `{}`",
                roles[0]
            );
            Err(not_a_turn(format, reason))
        }
        _ => Ok(()),
    }
}
