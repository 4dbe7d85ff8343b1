//! Google's `generateContent`.
//!
//! Results are one content with a `functionResponse` per call.

mod references;
pub(super) mod schema;

use serde_json::{Map, Value, json};
use toolhost_contract::Part;

use super::api::{ListOptions, ModelApi};
use super::part_content::{PartContent, base64, joined_text, part_content, placeholder};
use super::turn::{
    ModelCall, TurnParts, check_format, check_role, input_or_empty, invalid_turn, non_null,
    refuse_messages,
};
use super::{AnsweredCall, Format, FormatError, ListedTool};

pub(super) struct Gemini;

impl ModelApi for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn list_tool(&self, name: &str, listed: &ListedTool, _: &mut ListOptions) -> Option<Value> {
        let mut declaration = json!({"name": name, "description": listed.tool.description});
        if let Some(parameters) = schema::parameters(&listed.tool.input_schema) {
            declaration["parameters"] = parameters;
        }
        Some(declaration)
    }

    fn tool_list(&self, tools: Vec<Value>) -> Value {
        // The API refuses an empty list of functions.
        if tools.is_empty() {
            json!([])
        } else {
            json!([{"functionDeclarations": tools}])
        }
    }

    fn has_mark(&self, value: &Value) -> bool {
        value["functionCall"].is_object()
            || value["functionResponse"].is_object()
            || value["function_call"].get("args").is_some()
            || value["parts"].is_array()
            || value["candidates"].is_array()
            || value["content"]["parts"].is_array()
    }

    fn locate_calls<'a>(&self, turn: &'a Value) -> Result<TurnParts<'a>, FormatError> {
        locate_calls(turn)
    }

    fn read_call(&self, part: &Value) -> Result<Option<ModelCall>, FormatError> {
        read_call(part)
    }

    fn format_results(&self, answered: &[AnsweredCall]) -> Value {
        results(answered)
    }
}

/// Returns the first of these members that is present. Some libraries use snake case.
fn member<'a>(value: &'a Value, names: [&str; 2]) -> &'a Value {
    let found = names.into_iter().find_map(|name| non_null(value, name));
    found.unwrap_or(&Value::Null)
}

/// Members of a body without candidates: of a blocked prompt, or of the end of a stream.
const BODY: [&str; 4] = [
    "promptFeedback",
    "prompt_feedback",
    "usageMetadata",
    "usage_metadata",
];

fn is_body(value: &Value) -> bool {
    value["candidates"].is_array() || BODY.iter().any(|name| non_null(value, name).is_some())
}

fn locate_calls(turn: &Value) -> Result<TurnParts<'_>, FormatError> {
    let format = Format::Gemini;
    let wanted = "expected a content with `parts`, or its parts";
    match turn {
        Value::Array(pieces) if pieces.iter().any(is_body) => {
            let mut all = TurnParts::default();
            for piece in pieces {
                let piece = locate_calls(piece)?;
                all.parts.extend(piece.parts);
                all.is_truncated |= piece.is_truncated;
                all.abnormal_stop_reason = piece.abnormal_stop_reason.or(all.abnormal_stop_reason);
            }
            Ok(all)
        }
        Value::Array(parts) => {
            refuse_messages(format, parts)?;
            Ok(TurnParts::new(parts))
        }
        body if is_body(body) => {
            if let Some(first) = body["candidates"].get(0) {
                return candidate(first);
            }
            let feedback = member(body, ["promptFeedback", "prompt_feedback"]);
            let reason = member(feedback, ["blockReason", "block_reason"]);
            Ok(TurnParts::default().with_stop_reason(reason, &[], &[]))
        }
        Value::Object(members) => {
            if members.contains_key("content") {
                return candidate(turn);
            }
            if members.contains_key("parts") || members.contains_key("role") {
                return content(turn);
            }
            match member(turn, ["functionCall", "function_call"]) {
                Value::Object(_) => Ok(TurnParts::new([turn])),
                _ => Err(invalid_turn(format, turn, wanted)),
            }
        }
        _ => Err(invalid_turn(format, turn, wanted)),
    }
}

/// Finish reasons after which the last part can be incomplete.
const TRUNCATING_FINISH_REASONS: [&str; 10] = [
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "OTHER",
];

fn candidate(candidate: &Value) -> Result<TurnParts<'_>, FormatError> {
    let end = member(candidate, ["finishReason", "finish_reason"]);
    let found = match non_null(candidate, "content") {
        // A stopped candidate has no content.
        None if candidate.is_object() && candidate.get("role").is_none() => TurnParts::default(),
        Some(inner) if inner["parts"].is_array() || inner.is_object() && !end.is_null() => {
            content(inner)?
        }
        _ => {
            let reason = "the `content` of a candidate must have `parts`";
            return Err(invalid_turn(Format::Gemini, candidate, reason));
        }
    };
    let usual = ["STOP", "FINISH_REASON_UNSPECIFIED"];
    Ok(found.with_stop_reason(end, &TRUNCATING_FINISH_REASONS, &usual))
}

fn content(content: &Value) -> Result<TurnParts<'_>, FormatError> {
    check_role(Format::Gemini, content, "model")?;
    match non_null(content, "parts") {
        Some(Value::Array(parts)) => Ok(TurnParts::new(parts)),
        None => Ok(TurnParts::default()),
        Some(_) => Err(invalid_turn(
            Format::Gemini,
            content,
            "`parts` is not a list",
        )),
    }
}

fn read_call(part: &Value) -> Result<Option<ModelCall>, FormatError> {
    let format = Format::Gemini;
    let call = member(part, ["functionCall", "function_call"]);
    if !call.is_null() {
        // Missing members of a partial call must not be replaced by defaults.
        if [
            "partialArgs",
            "partial_args",
            "willContinue",
            "will_continue",
        ]
        .iter()
        .any(|key| call.get(key).is_some_and(|value| *value != json!(false)))
        {
            let reason = "this is a partial call, which is not supported; disable `streamFunctionCallArguments`";
            return Err(invalid_turn(format, part, reason));
        }
        let input = input_or_empty(call.get("args"));
        return Ok(Some(ModelCall::new(
            call.get("id"),
            call.get("name"),
            input,
        )));
    }
    if !member(part, ["functionResponse", "function_response"]).is_null() {
        let reason = "these are tool results; pass the model's turn";
        return Err(invalid_turn(format, part, reason));
    }
    if !part.is_object() || part.get("name").is_some() {
        let reason = "a part must be an object, with a call in `functionCall`";
        return Err(invalid_turn(format, part, reason));
    }
    check_format(format, part).map(|()| None)
}

fn results(answered: &[AnsweredCall]) -> Value {
    let parts: Vec<Value> = answered.iter().flat_map(parts).collect();
    json!({"role": "user", "parts": parts})
}

/// Returns whether the API accepts the type as inline data. It refuses a request that contains another one, and all later
/// requests of the conversation.
fn is_supported_media(media_type: &str) -> bool {
    match media_type.split_once('/') {
        Some(("text", _) | ("application", "pdf")) => true,
        Some(("image", kind)) => matches!(kind, "png" | "jpeg" | "webp" | "heic" | "heif"),
        Some(("audio", kind)) => {
            matches!(
                kind,
                "wav" | "mp3" | "mpeg" | "aiff" | "aac" | "ogg" | "flac"
            )
        }
        Some(("video", kind)) => matches!(
            kind,
            "mp4"
                | "mpeg"
                | "mov"
                | "quicktime"
                | "avi"
                | "x-flv"
                | "mpg"
                | "webm"
                | "wmv"
                | "3gpp"
        ),
        _ => false,
    }
}

/// Returns the function response, which contains only text, followed by the media parts.
fn parts(one: &AnsweredCall) -> Vec<Value> {
    let media: Vec<&Part> = one
        .result
        .parts
        .iter()
        .filter(|part| match part_content(part) {
            PartContent::Media {
                text: None,
                media_type,
                ..
            } => is_supported_media(media_type),
            PartContent::Text(_) | PartContent::Media { .. } => false,
        })
        .collect();
    let alone = media.len() == one.result.parts.len();
    let text = match media.first().map(|part| part_content(part)) {
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
    response.insert("response".to_owned(), json!({key: text}));
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
