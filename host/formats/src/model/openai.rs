//! The OpenAI Chat Completions API, which many other vendors implement.
//!
//! Results are messages of the role `tool`.

use serde_json::{Map, Value, json};
use toolhost_contract::{Descriptor, Part};

use super::api::{ListOptions, ModelApi};
use super::keywords::{add_missing_items, for_model};
use super::part_content::{
    PartContent, base64, data_url, is_supported_image, joined_text, part_content,
};
use super::turn::{
    CallForm, ModelCall, TurnParts, arguments, check_format, check_role, invalid_turn, non_null,
    refuse_messages,
};
use super::{AnsweredCall, Format, FormatError, ListedTool, root, strict};
use crate::profile::RenderedResult;

pub(super) struct OpenAi;

impl ModelApi for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn supports_strict(&self) -> bool {
        true
    }

    fn list_tool(
        &self,
        name: &str,
        listed: &ListedTool,
        options: &mut ListOptions,
    ) -> Option<Value> {
        let function = function(name, listed.tool, options);
        Some(json!({"type": "function", "function": function}))
    }

    fn has_mark(&self, value: &Value) -> bool {
        let kind = value["type"].as_str().unwrap_or_default();
        value["function"].is_object()
            || value["custom"].is_object()
            || kind == "function"
            || non_null(value, "tool_call_id").is_some()
            || value["choices"].is_array()
            || value["message"].is_object() && non_null(value, "finish_reason").is_some()
            || value["tool_calls"].is_array()
            || value["function_call"].get("arguments").is_some()
    }

    fn locate_calls<'a>(&self, turn: &'a Value) -> Result<TurnParts<'a>, FormatError> {
        locate_calls(turn)
    }

    fn read_call(&self, part: &Value) -> Result<Option<ModelCall>, FormatError> {
        read_call(part).map(Some)
    }

    fn format_results(&self, answered: &[AnsweredCall]) -> Value {
        messages(answered)
    }
}

/// Returns the definition of a function, which is the same in both APIs of OpenAI.
pub(super) fn function(
    name: &str,
    tool: &Descriptor,
    options: &mut ListOptions,
) -> Map<String, Value> {
    let bound = options.strict.then(|| strict::schema(&tool.input_schema));
    let (schema, strict) = match bound {
        Some(Ok(schema)) => (schema, true),
        Some(Err(reason)) => {
            options
                .notes
                .push(format!("`{name}` cannot be strict: {reason}"));
            (for_model(root::object(&tool.input_schema)), false)
        }
        None => (for_model(root::object(&tool.input_schema)), false),
    };
    let mut parameters = Value::Object(schema);
    // The API refuses the whole request otherwise.
    add_missing_items(&mut parameters);
    if parameters.get("properties").is_none() {
        parameters["properties"] = json!({});
    }
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(name));
    function.insert("description".to_owned(), json!(tool.description));
    function.insert("parameters".to_owned(), parameters);
    // Always included, because one of the two APIs defaults to true.
    function.insert("strict".to_owned(), json!(strict));
    function
}

fn locate_calls(turn: &Value) -> Result<TurnParts<'_>, FormatError> {
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
    Ok(found.with_stop_reason(end, &["length", "content_filter"], &usual))
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

fn read_call(call: &Value) -> Result<ModelCall, FormatError> {
    check_format(Format::OpenAi, call)?;
    if !call.is_object() {
        return Err(invalid_turn(
            Format::OpenAi,
            call,
            "a call must be an object",
        ));
    }
    // A call of a custom tool, whose input is free text. The host's tools take objects.
    if let Some(custom) = call.get("custom").filter(|custom| custom.is_object()) {
        let input = custom.get("input").cloned().unwrap_or_default();
        return Ok(ModelCall::new(call.get("id"), custom.get("name"), input));
    }
    // Returned also without `function`, because the API requires a response to each identifier.
    let function = &call["function"];
    let input = arguments(function.get("arguments"));
    Ok(ModelCall::new(call.get("id"), function.get("name"), input))
}

/// Returns messages for Chat Completions. Tool messages contain only text, so media follows in a user message after the
/// last result, because the API requires the results to be contiguous.
fn messages(answered: &[AnsweredCall]) -> Value {
    let mut messages = Vec::new();
    let mut after = Vec::new();
    for one in answered {
        let content = result_text(one.result);
        messages.push(if one.call.kind == CallForm::Legacy {
            json!({"role": "function", "name": one.call.name, "content": content})
        } else {
            json!({"role": "tool", "tool_call_id": one.call.label(), "content": content})
        });
        let media: Vec<Value> = one.result.parts.iter().filter_map(chat_media).collect();
        if !media.is_empty() {
            let label = one.call.label();
            let from = format!("From the result of `{}` ({label}):", one.call.name);
            after.push(json!({"type": "text", "text": from}));
            after.extend(media);
        }
    }
    if !after.is_empty() {
        messages.push(json!({"role": "user", "content": after}));
    }
    Value::Array(messages)
}

fn chat_media(part: &Part) -> Option<Value> {
    let PartContent::Media {
        data,
        media_type,
        name,
        ..
    } = part_content(part)
    else {
        return None;
    };
    let url = || data_url(data, media_type);
    Some(match media_type {
        picture if is_supported_image(picture) => {
            json!({"type": "image_url", "image_url": {"url": url()}})
        }
        "audio/wav" | "audio/x-wav" | "audio/wave" => audio_part(data, "wav"),
        "audio/mpeg" | "audio/mp3" => audio_part(data, "mp3"),
        "application/pdf" => json!({
            "type": "file",
            "file": {"filename": name.unwrap_or("file.pdf"), "file_data": url()},
        }),
        // Mentioned in the text; the API does not support the type.
        _ => return None,
    })
}

fn audio_part(data: &[u8], format: &str) -> Value {
    json!({"type": "input_audio", "input_audio": {"data": base64(data), "format": format}})
}

/// Marks errors in the text, because these APIs have no error flag. JSON is left unchanged.
pub(super) fn result_text(result: &RenderedResult) -> String {
    let text = joined_text(&result.parts);
    let is_value = text.starts_with('{') && text.ends_with('}');
    if result.is_error && !is_value {
        format!("Error: {text}")
    } else {
        text
    }
}
