//! The OpenAI Responses API.
//!
//! Results are items, which can contain images and files.

use serde_json::{Map, Value, json};
use toolhost_contract::{Part, text};

use super::api::{ListOptions, ModelApi};
use super::openai::{function, result_text};
use super::part_content::{PartContent, data_url, is_supported_image, joined_text, part_content};
use super::turn::{
    CallForm, ModelCall, TurnParts, arguments, check_format, invalid_turn, non_null,
};
use super::{AnsweredCall, Format, FormatError, ListedTool};

pub(super) struct OpenAiResponses;

impl ModelApi for OpenAiResponses {
    fn name(&self) -> &'static str {
        "openai-responses"
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
        let mut tool = Map::new();
        tool.insert("type".to_owned(), json!("function"));
        tool.extend(function(name, listed.tool, options));
        Some(Value::Object(tool))
    }

    fn has_mark(&self, value: &Value) -> bool {
        let kind = value["type"].as_str().unwrap_or_default();
        kind.starts_with("function_call")
            || kind.starts_with("custom_tool_call")
            || kind == "output_text"
            || value["output"].is_array()
    }

    fn locate_calls<'a>(&self, turn: &'a Value) -> Result<TurnParts<'a>, FormatError> {
        locate_calls(turn)
    }

    fn read_call(&self, part: &Value) -> Result<Option<ModelCall>, FormatError> {
        read_call(part)
    }

    fn format_results(&self, answered: &[AnsweredCall]) -> Value {
        items(answered)
    }
}

fn locate_calls(turn: &Value) -> Result<TurnParts<'_>, FormatError> {
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
        (Value::Array(items), _) => Ok(TurnParts::new(items)),
        (_, Some(kind)) if alone.contains(&kind) => Ok(TurnParts::new([turn])),
        (_, None) if turn["output"].is_array() => {
            let found = TurnParts::new(turn["output"].as_array().into_iter().flatten());
            let truncating = ["incomplete", "failed", "cancelled", "in_progress"];
            let mut found = found.with_stop_reason(&turn["status"], &truncating, &["completed"]);
            if let Some(reason) = turn["incomplete_details"]["reason"].as_str() {
                found.abnormal_stop_reason = Some(text::escape_line(reason, 80));
            }
            Ok(found)
        }
        _ => {
            let reason = "expected a response with `output`, or its items";
            Err(invalid_turn(format, turn, reason))
        }
    }
}

/// Item types that occur in conversations but not in responses.
const CONVERSATION_ITEMS: [&str; 3] = [
    "function_call_output",
    "custom_tool_call_output",
    "item_reference",
];

fn read_call(item: &Value) -> Result<Option<ModelCall>, FormatError> {
    let format = Format::OpenAiResponses;
    let kind = item["type"].as_str();
    let is_answered = kind.is_some_and(|kind| CONVERSATION_ITEMS.contains(&kind));
    // Model output has a role and a type.
    let is_model_output =
        non_null(item, "role").is_none_or(|role| role == "assistant" && kind.is_some());
    if is_answered || !is_model_output {
        // Calls in a conversation were already answered and must not run again.
        let reason = "this is a conversation; pass only the `output` of the last response";
        return Err(invalid_turn(format, item, reason));
    }
    let Some(kind) = kind else {
        return Err(invalid_turn(format, item, "an item must have a `type`"));
    };
    match kind {
        "function_call" => {}
        "custom_tool_call" => {
            let input = item.get("input").cloned().unwrap_or_default();
            return Ok(Some(ModelCall {
                kind: CallForm::Custom,
                ..ModelCall::new(item.get("call_id"), item.get("name"), input)
            }));
        }
        _ => {
            return check_format(format, item).map(|()| None);
        }
    }
    let id = item.get("call_id").or_else(|| item.get("id"));
    let input = arguments(item.get("arguments"));
    let mut wanted = ModelCall::new(id, item.get("name"), input);
    if item["status"] == "incomplete" && wanted.error.is_none() {
        wanted.error = Some(
            "this call was truncated and was not run; call again with a shorter input".to_owned(),
        );
    }
    Ok(Some(wanted))
}

/// Returns items for the Responses API, whose results can contain images and files.
fn items(answered: &[AnsweredCall]) -> Value {
    let item = |one: &AnsweredCall| {
        let output = if one
            .result
            .parts
            .iter()
            .any(|part| item_media(part).is_some())
        {
            let part = |part: &Part| {
                item_media(part).or_else(|| {
                    let text = joined_text(std::slice::from_ref(part));
                    Some(json!({"type": "input_text", "text": text}))
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
        let kind = if one.call.kind == CallForm::Custom {
            "custom_tool_call_output"
        } else {
            "function_call_output"
        };
        json!({"type": kind, "call_id": one.call.label(), "output": output})
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
