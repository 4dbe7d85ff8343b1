//! What a model said: the calls in it, in the order in which they stand there.

mod calls;
mod find;
mod looks;

use std::collections::HashSet;

use serde_json::Value;

use super::{Format, FormatError};
use crate::text;

pub(super) use looks::looks_like;

/// A call as the model wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The API's name of the call; None when it gave none.
    pub id: Option<Value>,
    /// The tool by the name that the model used, which may be anything.
    pub name: String,
    /// An object when the model wrote one. A text that is no object stays a text, and whoever checks it says what is
    /// wrong with it.
    pub input: Value,
    /// Why it must not run: what stands there is not what the model wanted to say.
    pub wrong: Option<String>,
    pub(super) kind: Kind,
    label: String,
}

/// In which of a format's forms a call was written, and so is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Usual,
    /// The `function_call` of a message, which has no id.
    Older,
    /// A request that is answered with an error of JSON-RPC, by its code.
    Refused(i64),
}

impl Wanted {
    /// The name of the call. When the API gave none it is made up, and no other call of the turn has it.
    pub fn label(&self) -> String {
        self.label.clone()
    }

    fn new(id: Option<&Value>, name: Option<&Value>, input: Value) -> Self {
        let name = name.and_then(Value::as_str).unwrap_or_default();
        let plain = |id: &&Value| match id {
            Value::String(id) => !id.is_empty(),
            id => id.is_number(),
        };
        Self {
            id: id.filter(plain).cloned(),
            name: name.to_owned(),
            input,
            wrong: name
                .is_empty()
                .then(|| "the call names no tool; write the name of a listed tool".to_owned()),
            kind: Kind::Usual,
            label: String::new(),
        }
    }
}

pub(super) fn read(format: Format, turn: &Value) -> Result<Vec<Wanted>, FormatError> {
    let found = find::parts(format, turn)?;
    let mut wanted = Vec::new();
    for part in &found.parts {
        wanted.extend(calls::call(format, part)?);
    }
    wanted.extend(found.older.map(calls::older));
    // What comes last is what the limit cut.
    if found.cut
        && let Some(last) = wanted.last_mut()
        && last.wrong.is_none()
    {
        last.wrong = Some(
            "the turn ended at its limit of tokens, so this call may be cut off and was not run; \
             call again with a shorter input, or in several calls"
                .to_owned(),
        );
    }
    label(&mut wanted);
    Ok(wanted)
}

/// How the turn ended, when that is no usual end.
pub(super) fn ended(format: Format, turn: &Value) -> Option<String> {
    find::parts(format, turn).ok()?.ended
}

/// Names the calls: `call_3` is the third one, or the next number that is free.
fn label(wanted: &mut [Wanted]) {
    for call in wanted.iter_mut() {
        call.label = match &call.id {
            Some(Value::String(id)) => id.clone(),
            Some(id) => id.to_string(),
            None => String::new(),
        };
    }
    let given: HashSet<String> = wanted.iter().map(|call| call.label.clone()).collect();
    let mut last = 0;
    for (place, call) in wanted.iter_mut().enumerate() {
        if call.id.is_some() {
            continue;
        }
        // Never back to a lower number, so that many calls take one walk and no two take the same.
        last = (place + 1).max(last + 1);
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
        message: text::inline(&message, 400),
    }
}
