//! Calls of a model turn, in order.

mod detect;
mod parts;

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use toolhost_contract::exact_integers::check_integers;
use toolhost_contract::text;

use super::{Format, FormatError};

pub(super) use detect::{check_format, detect_format, invalid_turn, non_null};
pub(super) use parts::{TurnParts, check_role, refuse_messages};

/// A call as the model wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// The identifier that the API assigned, if any.
    pub id: Option<Value>,
    /// The tool name that the model used; can be any string.
    pub name: String,
    /// The input. A string if the model wrote text that is not a JSON object; input validation reports the error.
    pub input: Value,
    /// The reason why the call must not run: it is malformed or truncated.
    pub error: Option<String>,
    pub(super) kind: CallForm,
    pub(super) label: String,
}

/// The form of a call, which determines the form of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallForm {
    Standard,
    /// The legacy `function_call` of a message, which has no identifier.
    Legacy,
    /// A call of a custom tool, whose input is free text.
    Custom,
    /// A request that is answered with this JSON-RPC error code.
    Invalid(i64),
}

impl ModelCall {
    /// Returns the identifier of the call. If the API assigned none, an identifier that is unique within the turn is
    /// generated.
    pub fn label(&self) -> String {
        self.label.clone()
    }

    pub(super) fn new(id: Option<&Value>, name: Option<&Value>, input: Value) -> Self {
        let name = name.and_then(Value::as_str).unwrap_or_default();
        let plain = |id: &&Value| match id {
            Value::String(id) => !id.is_empty(),
            id => id.is_number(),
        };
        Self {
            id: id.filter(plain).cloned(),
            name: name.to_owned(),
            input,
            error: name
                .is_empty()
                .then(|| "the call names no tool; use the name of a listed tool".to_owned()),
            kind: CallForm::Standard,
            label: String::new(),
        }
    }
}

pub(super) fn read(format: Format, turn: &Value) -> Result<Vec<ModelCall>, FormatError> {
    let found = parts::parts(format, turn)?;
    let mut wanted = Vec::new();
    for part in &found.parts {
        wanted.extend(format.api().read_call(part)?);
    }
    wanted.extend(found.legacy_call.map(legacy));
    if found.is_truncated
        && let Some(last) = wanted.last_mut()
        && last.error.is_none()
    {
        let reason = found.abnormal_stop_reason.unwrap_or_default();
        last.error = Some(format!(
            "the turn ended with `{reason}`, so this call may be truncated and was not run; \
             call again, with a shorter input or in several calls if it was too long"
        ));
    }
    assign_labels(&mut wanted);
    Ok(wanted)
}

/// Returns the stop reason if the turn did not end normally.
pub(super) fn abnormal_stop_reason(format: Format, turn: &Value) -> Option<String> {
    parts::parts(format, turn).ok()?.abnormal_stop_reason
}

/// Generates missing identifiers: `call_3` for the third call, or the next unused number.
fn assign_labels(wanted: &mut [ModelCall]) {
    for call in wanted.iter_mut() {
        call.label = match &call.id {
            Some(Value::String(id)) => id.clone(),
            Some(id) => id.to_string(),
            None => String::new(),
        };
    }
    let given: HashSet<String> = wanted.iter().map(|call| call.label.clone()).collect();
    let mut last = 0;
    for (index, call) in wanted.iter_mut().enumerate() {
        if call.id.is_some() {
            continue;
        }
        // Numbers only increase, so the loop is linear and identifiers are unique.
        last = (index + 1).max(last + 1);
        while given.contains(&format!("call_{last}")) {
            last += 1;
        }
        call.label = format!("call_{last}");
    }
}

fn not_a_turn(format: Format, reason: impl Into<String>) -> FormatError {
    FormatError::NotATurn {
        format,
        reason: reason.into(),
    }
}

fn api_failed(error: &Value) -> FormatError {
    let message = match (error.get("message"), error) {
        (Some(Value::String(message)), _) | (None, Value::String(message)) => message.clone(),
        (_, other) => other.to_string(),
    };
    FormatError::ApiFailed {
        message: text::escape_line(&message, 400),
    }
}

/// Reads the legacy form, which is a member of the message and has no identifier.
fn legacy(call: &Value) -> ModelCall {
    let input = arguments(call.get("arguments"));
    ModelCall {
        kind: CallForm::Legacy,
        ..ModelCall::new(None, call.get("name"), input)
    }
}

pub(super) fn input_or_empty(input: Option<&Value>) -> Value {
    match input {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(input) => input.clone(),
    }
}

/// Parses arguments that the model wrote as JSON text. For tools without parameters the text is often empty.
pub(super) fn arguments(arguments: Option<&Value>) -> Value {
    match arguments {
        Some(Value::String(text)) if text.trim().is_empty() => Value::Object(Map::new()),
        // Text with an integer that would lose precision stays text; input validation reports the error.
        Some(Value::String(text)) if check_integers(text.as_bytes()).is_err() => json!(text),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Value::Object(members),
            Ok(Value::Null) => Value::Object(Map::new()),
            // Some models encode the arguments twice; input validation decodes the inner text or reports the error.
            Ok(Value::String(inner)) => Value::String(inner),
            Ok(_) | Err(_) => json!(text),
        },
        other => input_or_empty(other),
    }
}
