//! What a model said: the calls in it, in the order in which they stand there.

mod find;

use serde_json::{Map, Value, json};

use super::{Format, FormatError};
use crate::text;

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
    pub(super) place: usize,
    pub(super) legacy: bool,
}

impl Wanted {
    /// The name of the call, made up when there is none.
    pub fn label(&self) -> String {
        match &self.id {
            Some(Value::String(id)) => id.clone(),
            Some(id) => id.to_string(),
            None => format!("call_{}", self.place + 1),
        }
    }

    pub(super) fn new(
        place: usize,
        id: Option<&Value>,
        name: Option<&Value>,
        input: Value,
    ) -> Self {
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
            place,
            legacy: false,
        }
    }
}

pub(super) fn read(format: Format, turn: &Value) -> Result<Vec<Wanted>, FormatError> {
    let found = find::parts(format, turn)?;
    let mut wanted: Vec<Wanted> = Vec::new();
    for part in &found.parts {
        let place = wanted.len();
        match format {
            Format::Anthropic => wanted.extend(anthropic(place, part)),
            Format::OpenAi => wanted.extend(openai(place, part)),
            Format::OpenAiResponses => wanted.extend(responses(place, part)),
            Format::Gemini => wanted.extend(gemini(place, part)),
            Format::Mcp => wanted.extend(mcp(place, part)),
        }
    }
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
    Ok(wanted)
}

fn anthropic(place: usize, block: &Value) -> Option<Wanted> {
    // `server_tool_use` and `mcp_tool_use` run elsewhere.
    if block["type"] != "tool_use" {
        return None;
    }
    let input = given(block.get("input"));
    Some(Wanted::new(
        place,
        block.get("id"),
        block.get("name"),
        input,
    ))
}

fn openai(place: usize, call: &Value) -> Option<Wanted> {
    if let Some(custom) = call.get("custom").filter(|custom| custom.is_object()) {
        let input = custom.get("input").cloned().unwrap_or_default();
        return Some(Wanted::new(
            place,
            call.get("id"),
            custom.get("name"),
            input,
        ));
    }
    if let Some(function) = call.get("function") {
        let input = arguments(function.get("arguments"));
        return Some(Wanted::new(
            place,
            call.get("id"),
            function.get("name"),
            input,
        ));
    }
    // The older form, which stands in the message itself and has no id.
    let input = arguments(call.get("arguments"));
    Some(Wanted {
        legacy: true,
        ..Wanted::new(place, None, Some(call.get("name")?), input)
    })
}

fn responses(place: usize, item: &Value) -> Option<Wanted> {
    match item["type"].as_str()? {
        "function_call" => {}
        // A call of a tool that takes a text of any form; ours take objects.
        "custom_tool_call" => {
            let input = item.get("input").cloned().unwrap_or_default();
            return Some(Wanted::new(
                place,
                item.get("call_id"),
                item.get("name"),
                input,
            ));
        }
        _ => return None,
    }
    let id = item.get("call_id").or_else(|| item.get("id"));
    let input = arguments(item.get("arguments"));
    let mut wanted = Wanted::new(place, id, item.get("name"), input);
    if item["status"] == "incomplete" && wanted.wrong.is_none() {
        wanted.wrong = Some(
            "this call was cut off and was not run; call again with a shorter input".to_owned(),
        );
    }
    Some(wanted)
}

fn gemini(place: usize, part: &Value) -> Option<Wanted> {
    let call = part
        .get("functionCall")
        .or_else(|| part.get("function_call"))?;
    let input = given(call.get("args"));
    Some(Wanted::new(place, call.get("id"), call.get("name"), input))
}

fn mcp(place: usize, request: &Value) -> Option<Wanted> {
    if request
        .get("method")
        .is_some_and(|method| method != "tools/call")
    {
        return None;
    }
    let params = request.get("params").unwrap_or(request);
    let input = given(params.get("arguments"));
    Some(Wanted::new(
        place,
        request.get("id"),
        Some(params.get("name")?),
        input,
    ))
}

fn given(input: Option<&Value>) -> Value {
    match input {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(input) => input.clone(),
    }
}

/// A text that holds JSON, as the model wrote it. For a tool without parameters it is often empty.
fn arguments(arguments: Option<&Value>) -> Value {
    match arguments {
        Some(Value::String(text)) if text.trim().is_empty() => Value::Object(Map::new()),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Value::Object(members),
            Ok(Value::Null) => Value::Object(Map::new()),
            // Some models write the text of a text; whoever checks inputs reads that, and says what it cannot read.
            Ok(Value::String(inner)) => Value::String(inner),
            Ok(_) | Err(_) => json!(text),
        },
        other => given(other),
    }
}

pub(super) fn not_a_turn(format: Format, reason: impl Into<String>) -> FormatError {
    FormatError::NotATurn {
        format,
        reason: reason.into(),
    }
}

pub(super) fn api_failed(error: &Value) -> FormatError {
    let message = match (error.get("message"), error) {
        (Some(Value::String(message)), _) | (None, Value::String(message)) => message.clone(),
        (_, other) => other.to_string(),
    };
    FormatError::ApiFailed {
        message: text::inline(&message, 400),
    }
}
