//! One content with a `functionResponse` per call. R-129.

use serde_json::{Map, Value, json};

use super::part_content::{PartContent, base64, joined_text, part_content, placeholder};
use crate::model::AnsweredCall;
use toolhost_contract::Part;

pub(super) fn content(answered: &[AnsweredCall]) -> Value {
    let parts: Vec<Value> = answered.iter().flat_map(parts).collect();
    json!({"role": "user", "parts": parts})
}

/// Returns the function response, which contains only text, followed by the media parts.
fn parts(one: &AnsweredCall) -> Vec<Value> {
    let media: Vec<&Part> = one
        .result
        .parts
        .iter()
        .filter(|part| matches!(part_content(part), PartContent::Media { text: None, .. }))
        .collect();
    let alone = media.len() == one.result.parts.len();
    let said = match media.first().map(|part| part_content(part)) {
        Some(PartContent::Media { media_type, .. }) if alone => placeholder(media_type),
        _ => {
            // A profile may already have added a placeholder for the media.
            let rest = one.result.parts.iter().filter(|part| !media.contains(part));
            let rest: Vec<Part> = rest.cloned().collect();
            joined_text(&rest)
        }
    };
    let key = if one.result.is_error {
        "error"
    } else {
        "output"
    };
    let mut response = Map::new();
    if let Some(id) = &one.call.id {
        response.insert("id".to_owned(), id.clone());
    }
    response.insert("name".to_owned(), json!(one.call.name));
    response.insert("response".to_owned(), json!({key: said}));
    let mut parts = vec![json!({"functionResponse": response})];
    for part in media {
        if let PartContent::Media {
            data, media_type, ..
        } = part_content(part)
        {
            parts.push(json!({"inlineData": {"mimeType": media_type, "data": base64(data)}}));
        }
    }
    parts
}
