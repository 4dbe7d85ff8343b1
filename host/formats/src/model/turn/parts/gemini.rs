//! Gemini response bodies, candidates, contents and stream chunks.

use serde_json::Value;

use super::{TurnParts, check_role, refuse_messages};
use crate::model::turn::detect::{invalid_turn, non_null};
use crate::model::{Format, FormatError};

/// Returns the first of these members that is present. Some libraries use snake case.
fn member<'a>(value: &'a Value, names: [&str; 2]) -> &'a Value {
    let found = names.into_iter().find_map(|name| non_null(value, name));
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
    value["candidates"].is_array() || BODY.iter().any(|name| non_null(value, name).is_some())
}

pub(super) fn turn(turn: &Value) -> Result<TurnParts<'_>, FormatError> {
    let format = Format::Gemini;
    let wanted = "expected a content with `parts`, or its parts";
    match turn {
        Value::Array(pieces) if pieces.iter().any(is_body) => {
            let mut all = TurnParts::default();
            for piece in pieces {
                let piece = self::turn(piece)?;
                all.parts.extend(piece.parts);
                all.is_truncated |= piece.is_truncated;
                all.abnormal_stop_reason = piece.abnormal_stop_reason.or(all.abnormal_stop_reason);
            }
            Ok(all)
        }
        Value::Array(parts) => {
            refuse_messages(format, parts)?;
            Ok(TurnParts::new(parts))
        }
        body if is_body(body) => {
            if let Some(first) = body["candidates"].get(0) {
                return candidate(first);
            }
            let feedback = member(body, ["promptFeedback", "prompt_feedback"]);
            let word = member(feedback, ["blockReason", "block_reason"]);
            Ok(TurnParts::default().with_stop_reason(word, "", &[]))
        }
        Value::Object(members) => {
            if members.contains_key("content") {
                return candidate(turn);
            }
            if members.contains_key("parts") || members.contains_key("role") {
                return content(turn);
            }
            match member(turn, ["functionCall", "function_call"]) {
                Value::Object(_) => Ok(TurnParts::new([turn])),
                _ => Err(invalid_turn(format, turn, wanted)),
            }
        }
        _ => Err(invalid_turn(format, turn, wanted)),
    }
}

fn candidate(candidate: &Value) -> Result<TurnParts<'_>, FormatError> {
    let end = member(candidate, ["finishReason", "finish_reason"]);
    let found = match non_null(candidate, "content") {
        // A stopped candidate has no content.
        None if candidate.is_object() && candidate.get("role").is_none() => TurnParts::default(),
        Some(inner) if inner["parts"].is_array() || inner.is_object() && !end.is_null() => {
            content(inner)?
        }
        _ => {
            let reason = "the `content` of a candidate must have `parts`";
            return Err(invalid_turn(Format::Gemini, candidate, reason));
        }
    };
    Ok(found.with_stop_reason(end, "MAX_TOKENS", &["STOP", "FINISH_REASON_UNSPECIFIED"]))
}

fn content(content: &Value) -> Result<TurnParts<'_>, FormatError> {
    check_role(Format::Gemini, content, "model")?;
    match non_null(content, "parts") {
        Some(Value::Array(parts)) => Ok(TurnParts::new(parts)),
        None => Ok(TurnParts::default()),
        Some(_) => Err(invalid_turn(
            Format::Gemini,
            content,
            "`parts` is not a list",
        )),
    }
}
