//! Gemini response bodies, candidates, contents and stream chunks.

use serde_json::Value;

use super::{Found, no_messages, spoken_by};
use crate::format::turn::looks::{is_set, wrong};
use crate::format::{Format, FormatError};

/// Returns the first of these members that is present. Some libraries use snake case.
fn member<'a>(value: &'a Value, names: [&str; 2]) -> &'a Value {
    let found = names.into_iter().find_map(|name| is_set(value, name));
    found.unwrap_or(&Value::Null)
}

/// Members of a body without candidates: of a blocked prompt, or of the end of a stream.
const BODY: [&str; 4] = [
    "promptFeedback",
    "prompt_feedback",
    "usageMetadata",
    "usage_metadata",
];

fn is_body(value: &Value) -> bool {
    value["candidates"].is_array() || BODY.iter().any(|name| is_set(value, name).is_some())
}

pub(super) fn turn(turn: &Value) -> Result<Found<'_>, FormatError> {
    let format = Format::Gemini;
    let wanted = "expected a content with `parts`, or its parts";
    match turn {
        Value::Array(pieces) if pieces.iter().any(is_body) => {
            let mut all = Found::default();
            for piece in pieces {
                let piece = self::turn(piece)?;
                all.parts.extend(piece.parts);
                all.cut |= piece.cut;
                all.ended = piece.ended.or(all.ended);
            }
            Ok(all)
        }
        Value::Array(parts) => {
            no_messages(format, parts)?;
            Ok(Found::of(parts))
        }
        body if is_body(body) => {
            if let Some(first) = body["candidates"].get(0) {
                return candidate(first);
            }
            let feedback = member(body, ["promptFeedback", "prompt_feedback"]);
            let word = member(feedback, ["blockReason", "block_reason"]);
            Ok(Found::default().ended(word, "", &[]))
        }
        Value::Object(members) => {
            if members.contains_key("content") {
                return candidate(turn);
            }
            if members.contains_key("parts") || members.contains_key("role") {
                return content(turn);
            }
            match member(turn, ["functionCall", "function_call"]) {
                Value::Object(_) => Ok(Found::of([turn])),
                _ => Err(wrong(format, turn, wanted)),
            }
        }
        _ => Err(wrong(format, turn, wanted)),
    }
}

fn candidate(candidate: &Value) -> Result<Found<'_>, FormatError> {
    let end = member(candidate, ["finishReason", "finish_reason"]);
    let found = match is_set(candidate, "content") {
        // A stopped candidate has no content.
        None if candidate.is_object() && candidate.get("role").is_none() => Found::default(),
        Some(inner) if inner["parts"].is_array() || inner.is_object() && !end.is_null() => {
            content(inner)?
        }
        _ => {
            let reason = "the `content` of a candidate must have `parts`";
            return Err(wrong(Format::Gemini, candidate, reason));
        }
    };
    Ok(found.ended(end, "MAX_TOKENS", &["STOP", "FINISH_REASON_UNSPECIFIED"]))
}

fn content(content: &Value) -> Result<Found<'_>, FormatError> {
    spoken_by(Format::Gemini, content, "model")?;
    match is_set(content, "parts") {
        Some(Value::Array(parts)) => Ok(Found::of(parts)),
        None => Ok(Found::default()),
        Some(_) => Err(wrong(Format::Gemini, content, "`parts` is not a list")),
    }
}
