//! The Anthropic Messages API.
//!
//! Results are one user message with a `tool_result` per call.

use std::mem;

use serde_json::{Map, Value, json};
use toolhost_contract::{Part, text};

use super::api::{ListOptions, ModelApi};
use super::keywords::{for_model, strings};
use super::part_content::{
    PartContent, base64, is_supported_image, named_placeholder, part_content,
};
use super::turn::{
    ModelCall, TurnParts, check_format, check_role, input_or_empty, invalid_turn, non_null,
    refuse_messages,
};
use super::{AnsweredCall, Format, FormatError, ListedTool, root};

pub(super) struct Anthropic;

impl ModelApi for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn list_tool(
        &self,
        name: &str,
        listed: &ListedTool,
        options: &mut ListOptions,
    ) -> Option<Value> {
        let mut schema = for_model(root::object(&listed.tool.input_schema));
        remove_unsupported_properties(&mut schema, name, options)?;
        Some(json!({
            "name": name,
            "description": listed.tool.description,
            "input_schema": schema,
        }))
    }

    fn has_mark(&self, value: &Value) -> bool {
        let kind = value["type"].as_str().unwrap_or_default();
        matches!(kind, "tool_use" | "tool_result" | "server_tool_use")
            || non_null(value, "role").is_some() && non_null(value, "stop_reason").is_some()
    }

    fn locate_calls<'a>(&self, turn: &'a Value) -> Result<TurnParts<'a>, FormatError> {
        locate_calls(turn)
    }

    fn read_call(&self, part: &Value) -> Result<Option<ModelCall>, FormatError> {
        read_call(part)
    }

    fn format_results(&self, answered: &[AnsweredCall]) -> Value {
        message(answered)
    }
}

/// Removes optional properties whose names the API does not support, because it refuses a request that contains one.
/// Returns `None` if a required property has such a name.
fn remove_unsupported_properties(
    schema: &mut Map<String, Value>,
    tool: &str,
    options: &mut ListOptions,
) -> Option<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let is_supported = |name: &str| (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    let required: Vec<String> = strings(schema.get("required")).map(str::to_owned).collect();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return Some(());
    };
    let (supported, unsupported): (Map<_, _>, Map<_, _>) = mem::take(properties)
        .into_iter()
        .partition(|(name, _)| is_supported(name));
    *properties = supported;
    for property in unsupported.keys() {
        let is_required = required.contains(property);
        let state = if is_required {
            "not listed"
        } else {
            "listed without a property"
        };
        options.notes.push(format!(
            "`{tool}` is {state}: the format `anthropic` does not support the property name `{}`",
            text::escape_line(property, 80)
        ));
        if is_required {
            return None;
        }
    }
    Some(())
}

/// Stop reasons after which the last block can be incomplete.
const TRUNCATING_STOP_REASONS: [&str; 3] =
    ["max_tokens", "model_context_window_exceeded", "refusal"];

fn locate_calls(turn: &Value) -> Result<TurnParts<'_>, FormatError> {
    let format = Format::Anthropic;
    let refused = |reason: &str| Err(invalid_turn(format, turn, reason));
    let wanted = "expected a message with `content`, or its content";
    match turn {
        Value::Array(blocks) => {
            refuse_messages(format, blocks)?;
            Ok(TurnParts::new(blocks))
        }
        Value::Object(message) => {
            let kind = turn["type"].as_str().unwrap_or("message");
            if kind == "tool_use" {
                return Ok(TurnParts::new([turn]));
            }
            if kind != "message" && !message.contains_key("role") {
                return refused(wanted);
            }
            check_role(format, turn, "assistant")?;
            let found = match message.get("content") {
                Some(Value::Array(blocks)) => TurnParts::new(blocks),
                Some(Value::String(_)) => TurnParts::default(),
                Some(_) => return refused("`content` is neither a string nor a list"),
                None => return refused(wanted),
            };
            let usual = ["end_turn", "tool_use", "stop_sequence"];
            Ok(found.with_stop_reason(&turn["stop_reason"], &TRUNCATING_STOP_REASONS, &usual))
        }
        _ => refused(wanted),
    }
}

fn read_call(block: &Value) -> Result<Option<ModelCall>, FormatError> {
    let format = Format::Anthropic;
    match block["type"].as_str() {
        Some("tool_use") => {
            let input = input_or_empty(block.get("input"));
            Ok(Some(ModelCall::new(
                block.get("id"),
                block.get("name"),
                input,
            )))
        }
        Some("tool_result") => Err(invalid_turn(
            format,
            block,
            "these are tool results; pass the model's turn",
        )),
        // `server_tool_use` and `mcp_tool_use` run on other servers.
        Some(_) => check_format(format, block).map(|()| None),
        None => Err(invalid_turn(format, block, "a block must have a `type`")),
    }
}

fn message(answered: &[AnsweredCall]) -> Value {
    let mut blocks = Vec::new();
    let mut after = Vec::new();
    for one in answered {
        let mut content: Vec<Value> = one.result.parts.iter().filter_map(block).collect();
        if one.result.is_error {
            // Error results may contain only text; other content follows the results.
            let (texts, media) = content
                .into_iter()
                .partition(|block: &Value| block["type"] == "text");
            content = texts;
            after.extend::<Vec<Value>>(media);
        }
        if content.is_empty() {
            content.push(text_block("(no output)"));
        }
        blocks.push(json!({
            "type": "tool_result",
            "tool_use_id": one.call.label(),
            "content": content,
            "is_error": one.result.is_error,
        }));
    }
    blocks.extend(after);
    json!({"role": "user", "content": blocks})
}

/// Maximum size of an image. The API limits its base64 text to 5,242,880 bytes, and refuses the whole request otherwise.
const MAX_IMAGE_BYTES: usize = 5_242_880 / 4 * 3;

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns `None` for an empty text, which the API refuses.
fn block(part: &Part) -> Option<Value> {
    Some(match part_content(part) {
        PartContent::Text(content) if content.trim().is_empty() => return None,
        PartContent::Text(content) => text_block(&content),
        PartContent::Media {
            data,
            media_type,
            name,
            ..
        } if is_supported_image(media_type) && data.len() > MAX_IMAGE_BYTES => {
            let placeholder = named_placeholder(media_type, name);
            text_block(&format!(
                "{placeholder}. It has {} bytes and the API accepts {MAX_IMAGE_BYTES}; scale it down",
                data.len()
            ))
        }
        PartContent::Media {
            data, media_type, ..
        } if is_supported_image(media_type) => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": media_type, "data": base64(data)},
        }),
        PartContent::Media {
            data,
            media_type: "application/pdf",
            name,
            ..
        } => {
            let source =
                json!({"type": "base64", "media_type": "application/pdf", "data": base64(data)});
            document(&source, name)
        }
        PartContent::Media {
            text: Some(text),
            name,
            ..
        } if !text.trim().is_empty() => {
            let source = json!({"type": "text", "media_type": "text/plain", "data": text});
            document(&source, name)
        }
        PartContent::Media {
            media_type, name, ..
        } => text_block(&named_placeholder(media_type, name)),
    })
}

fn document(source: &Value, name: Option<&str>) -> Value {
    match name {
        Some(name) => json!({"type": "document", "source": source, "title": name}),
        None => json!({"type": "document", "source": source}),
    }
}
