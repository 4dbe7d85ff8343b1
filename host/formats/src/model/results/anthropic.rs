//! One user message with a `tool_result` per call..

use serde_json::{Value, json};

use super::part_content::{PartContent, base64, is_supported_image, part_content, placeholder};
use crate::model::AnsweredCall;
use toolhost_contract::Part;

pub(super) fn message(answered: &[AnsweredCall]) -> Value {
    let mut blocks = Vec::new();
    let mut after = Vec::new();
    for one in answered {
        let mut content: Vec<Value> = one.result.parts.iter().filter_map(block).collect();
        if one.result.is_error {
            // Error results may contain only text; other content follows the results.
            let (words, media) = content
                .into_iter()
                .partition(|block: &Value| block["type"] == "text");
            content = words;
            after.extend::<Vec<Value>>(media);
        }
        if content.is_empty() {
            content.push(text("(no output)"));
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

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns `None` for an empty text, which the API refuses.
fn block(part: &Part) -> Option<Value> {
    Some(match part_content(part) {
        PartContent::Text(words) if words.trim().is_empty() => return None,
        PartContent::Text(words) => text(&words),
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
        } => match name {
            Some(name) => text(&format!("{} ({name})", placeholder(media_type))),
            None => text(&placeholder(media_type)),
        },
    })
}

fn document(source: &Value, name: Option<&str>) -> Value {
    match name {
        Some(name) => json!({"type": "document", "source": source, "title": name}),
        None => json!({"type": "document", "source": source}),
    }
}
