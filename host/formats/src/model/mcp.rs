//! `tools/list` and `tools/call` of the Model Context Protocol.
//!
//! Results are responses to the requests.

use serde_json::{Map, Value, json};
use toolhost_contract::{Part, text};

use super::api::{ListOptions, ModelApi};
use super::keywords::without_private_keywords;
use super::part_content::{PartContent, base64, part_content};
use super::turn::{CallForm, ModelCall, TurnParts, input_or_empty, invalid_turn};
use super::{AnsweredCall, Format, FormatError, ListedTool};

pub(super) struct Mcp;

impl ModelApi for Mcp {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn supports_dotted_names(&self) -> bool {
        true
    }

    fn is_response(&self) -> bool {
        false
    }

    fn list_tool(&self, name: &str, listed: &ListedTool, _: &mut ListOptions) -> Option<Value> {
        let object = |schema: &Value| {
            let mut schema = match without_private_keywords(schema) {
                Value::Object(schema) => schema,
                _ => Map::new(),
            };
            schema.insert("type".to_owned(), json!("object"));
            schema
        };
        let mut tool = json!({
            "name": name,
            "title": listed.tool.display_name,
            "description": listed.tool.description,
            "inputSchema": object(&listed.tool.input_schema),
        });
        let output = listed.tool.output_schema.as_ref();
        if let Some(output) = output.filter(|schema| schema["type"] == "object") {
            tool["outputSchema"] = Value::Object(object(output));
        }
        tool["annotations"] = json!({
            "readOnlyHint": listed.hints.read_only,
            "destructiveHint": listed.hints.destructive,
            "idempotentHint": listed.hints.idempotent,
            "openWorldHint": listed.hints.open_world,
        });
        Some(tool)
    }

    fn has_mark(&self, value: &Value) -> bool {
        let kind = value["type"].as_str().unwrap_or_default();
        !value["jsonrpc"].is_null() || kind.is_empty() && value["method"].is_string()
    }

    fn locate_calls<'a>(&self, turn: &'a Value) -> Result<TurnParts<'a>, FormatError> {
        Ok(TurnParts::new(match turn {
            Value::Array(requests) => requests,
            request => std::slice::from_ref(request),
        }))
    }

    fn read_call(&self, part: &Value) -> Result<Option<ModelCall>, FormatError> {
        read_call(part)
    }

    fn format_results(&self, answered: &[AnsweredCall]) -> Value {
        answered.iter().map(response).collect()
    }
}

/// JSON-RPC error codes.
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

fn read_call(request: &Value) -> Result<Option<ModelCall>, FormatError> {
    let format = Format::Mcp;
    let Some(method) = request["method"].as_str() else {
        return Err(invalid_turn(
            format,
            request,
            "a request must have a `method` and an `id`",
        ));
    };
    let id = match request.get("id") {
        Some(id) if id.is_string() || id.is_number() => id,
        // A notification, which has no response.
        None if method != "tools/call" => return Ok(None),
        _ => {
            let method = text::escape_line(method, 80);
            let reason = format!("the `{method}` request has no `id`; add a string or a number");
            return Err(invalid_turn(format, request, &reason));
        }
    };
    let refused = |code: i64, reason: String| ModelCall {
        id: Some(id.clone()),
        error: Some(reason),
        kind: CallForm::Invalid(code),
        ..ModelCall::new(None, None, input_or_empty(None))
    };
    let params = &request["params"];
    Ok(Some(if method != "tools/call" {
        let method = text::escape_line(method, 80);
        let reason = format!("the method `{method}` is not supported; use `tools/call`");
        refused(METHOD_NOT_FOUND, reason)
    } else if params["name"].as_str().is_none_or(str::is_empty) {
        let reason = "`params` names no tool; use {\"name\": …, \"arguments\": {…}}";
        refused(INVALID_PARAMS, reason.to_owned())
    } else {
        ModelCall {
            // An empty string is a valid identifier.
            id: Some(id.clone()),
            ..ModelCall::new(
                None,
                params.get("name"),
                input_or_empty(params.get("arguments")),
            )
        }
    }))
}

fn response(one: &AnsweredCall) -> Value {
    if let CallForm::Invalid(code) = one.call.kind {
        let error = json!({"code": code, "message": one.call.error});
        return json!({"jsonrpc": "2.0", "id": one.call.id, "error": error});
    }
    let mut content: Vec<Value> = one
        .result
        .parts
        .iter()
        .enumerate()
        .map(|(index, part)| block(index, part))
        .collect();
    if content.is_empty() {
        content.push(json!({"type": "text", "text": "(no output)"}));
    }
    let mut result = Map::new();
    result.insert("content".to_owned(), Value::Array(content));
    if let Some(structured) = one.result.structured.as_ref().filter(|one| one.is_object()) {
        result.insert("structuredContent".to_owned(), structured.clone());
    }
    result.insert("isError".to_owned(), json!(one.result.is_error));
    json!({"jsonrpc": "2.0", "id": one.call.id, "result": result})
}

fn block(index: usize, part: &Part) -> Value {
    match part {
        Part::Image { data, media_type } => {
            json!({"type": "image", "data": base64(data), "mimeType": media_type})
        }
        Part::Audio { data, media_type } => {
            json!({"type": "audio", "data": base64(data), "mimeType": media_type})
        }
        Part::File {
            data,
            media_type,
            uri,
            name,
        } => {
            let uri = uri.clone().unwrap_or_else(|| {
                format!("result:///{index}/{}", name.as_deref().unwrap_or("file"))
            });
            let resource = match part_content(part) {
                PartContent::Media {
                    text: Some(text), ..
                } => json!({"uri": uri, "mimeType": media_type, "text": text}),
                _ => json!({"uri": uri, "mimeType": media_type, "blob": base64(data)}),
            };
            json!({"type": "resource", "resource": resource})
        }
        Part::ResourceLink {
            uri,
            name,
            media_type,
        } => {
            let name = name.as_ref().unwrap_or(uri);
            let mut link = json!({"type": "resource_link", "uri": uri, "name": name});
            if let Some(media_type) = media_type {
                link["mimeType"] = json!(media_type);
            }
            link
        }
        Part::Text(_) | Part::Json(_) | Part::Other { .. } => {
            let text = match part_content(part) {
                PartContent::Text(text) => text,
                PartContent::Media { .. } => String::new(),
            };
            json!({"type": "text", "text": text})
        }
    }
}
