//! Responses to MCP `tools/call` requests.

use serde_json::{Map, Value, json};

use super::part_content::{PartContent, base64, part_content};
use crate::model::AnsweredCall;
use crate::model::turn::CallForm;
use toolhost_contract::Part;

pub(super) fn responses(answered: &[AnsweredCall]) -> Value {
    answered.iter().map(response).collect()
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
            let words = match part_content(part) {
                PartContent::Text(words) => words,
                PartContent::Media { .. } => String::new(),
            };
            json!({"type": "text", "text": words})
        }
    }
}
