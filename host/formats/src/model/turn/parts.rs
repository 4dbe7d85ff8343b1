//! Location of the parts of a turn in a response body, a message or a list of parts.

use serde_json::Value;

use super::detect::{check_format, invalid_turn, is_stream_event, non_null};
use super::{api_failed, not_a_turn};
use crate::model::{Format, FormatError};
use toolhost_contract::text;

#[derive(Default)]
pub(in crate::model) struct TurnParts<'a> {
    /// Blocks, items, calls or requests, depending on the format.
    pub parts: Vec<&'a Value>,
    /// A legacy call, which is a member of the message instead of a part.
    pub legacy_call: Option<&'a Value>,
    /// Whether the turn was truncated, so that its last call can be incomplete.
    pub is_truncated: bool,
    /// The stop reason, if the turn did not end normally.
    pub abnormal_stop_reason: Option<String>,
}

impl<'a> TurnParts<'a> {
    pub(in crate::model) fn new(parts: impl IntoIterator<Item = &'a Value>) -> Self {
        Self {
            parts: parts.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets the stop reason. `truncating`: the reasons after which the last call can be incomplete.
    pub(in crate::model) fn with_stop_reason(
        self,
        reason: &Value,
        truncating: &[&str],
        usual: &[&str],
    ) -> Self {
        let reason = reason.as_str().unwrap_or_default();
        Self {
            is_truncated: self.is_truncated || truncating.contains(&reason),
            abnormal_stop_reason: (!reason.is_empty() && !usual.contains(&reason))
                .then(|| text::escape_line(reason, 80)),
            ..self
        }
    }
}

pub(super) fn parts(format: Format, turn: &Value) -> Result<TurnParts<'_>, FormatError> {
    let pieces = match turn {
        Value::Array(pieces) => pieces.as_slice(),
        piece => std::slice::from_ref(piece),
    };
    if format.api().is_response() {
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
    format.api().locate_calls(turn)
}

/// Refuses a conversation, whose calls were already answered.
pub(in crate::model) fn refuse_messages(
    format: Format,
    parts: &[Value],
) -> Result<(), FormatError> {
    if parts.iter().any(|part| part.get("role").is_some()) {
        let reason = "this is a list of messages; pass only the last one, which contains the calls";
        return Err(not_a_turn(format, reason));
    }
    Ok(())
}

/// Checks the role, because only messages of the model contain calls.
pub(in crate::model) fn check_role(
    format: Format,
    message: &Value,
    speaker: &str,
) -> Result<(), FormatError> {
    match non_null(message, "role") {
        Some(role) if role != speaker => {
            let role = text::escape_line(role.as_str().unwrap_or("no text"), 40);
            let reason = format!("its role is `{role}`, expected `{speaker}`");
            Err(invalid_turn(format, message, &reason))
        }
        _ => Ok(()),
    }
}
