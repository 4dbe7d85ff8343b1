//! Messages of the role `tool`, and items of the Responses API.

use serde_json::{Value, json};

use super::part_content::{
    PartContent, base64, data_url, is_supported_image, joined_text, part_content,
};
use crate::model::AnsweredCall;
use crate::model::turn::CallForm;
use crate::profile::RenderedResult;
use toolhost_contract::Part;

/// Returns messages for Chat Completions. Tool messages contain only text, so media follows in a user message after the
/// last result, because the API requires the results to be contiguous.
pub(super) fn messages(answered: &[AnsweredCall]) -> Value {
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

/// Returns items for the Responses API, whose results can contain images and files.
pub(super) fn items(answered: &[AnsweredCall]) -> Value {
    let item = |one: &AnsweredCall| {
        let output = if one
            .result
            .parts
            .iter()
            .any(|part| item_media(part).is_some())
        {
            let part = |part: &Part| {
                item_media(part).or_else(|| {
                    let words = joined_text(std::slice::from_ref(part));
                    Some(json!({"type": "input_text", "text": words}))
                })
            };
            let mut parts: Vec<Value> = one.result.parts.iter().filter_map(part).collect();
            if one.result.is_error {
                parts.insert(0, json!({"type": "input_text", "text": "Error:"}));
            }
            Value::Array(parts)
        } else {
            json!(result_text(one.result))
        };
        json!({"type": "function_call_output", "call_id": one.call.label(), "output": output})
    };
    answered.iter().map(item).collect()
}

fn item_media(part: &Part) -> Option<Value> {
    let PartContent::Media {
        data,
        media_type,
        name,
        ..
    } = part_content(part)
    else {
        return None;
    };
    let url = data_url(data, media_type);
    match media_type {
        picture if is_supported_image(picture) => {
            Some(json!({"type": "input_image", "image_url": url}))
        }
        "application/pdf" => {
            let name = name.unwrap_or("file.pdf");
            Some(json!({"type": "input_file", "filename": name, "file_data": url}))
        }
        _ => None,
    }
}

/// Marks errors in the text, because these APIs have no error flag. JSON is left unchanged.
fn result_text(result: &RenderedResult) -> String {
    let words = joined_text(&result.parts);
    let is_value = words.starts_with('{') && words.ends_with('}');
    if result.is_error && !is_value {
        format!("Error: {words}")
    } else {
        words
    }
}
