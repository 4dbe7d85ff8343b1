//! Conversion of call outcomes into MCP content.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, MetaObject, Resource, ResourceContents,
};
use serde_json::{Value, json};
use toolhost_contract::{CallError, Failure, Outcome, Part};
use toolhost_formats::profile::{RenderedResult, ToolFailure};

/// Key in the `_meta` of a result: class and code of the error, for clients that handle errors by kind.
const ERROR_KEY: &str = "dev.toolhost/error";

/// When structured content is sent in addition to the content blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StructuredContentPolicy {
    /// Always: the operator enabled it, or the tool lists an output schema, which clients validate against.
    Always,
    /// Only if it equals the text: some clients show their model the structured content instead of the text.
    IfEqualToText,
}

impl StructuredContentPolicy {
    fn apply(self, result: &mut CallToolResult, value: Option<Value>) {
        let says_the_same = |value: &Value| {
            let written = value.to_string();
            matches!(result.content.as_slice(), [ContentBlock::Text(only)] if only.text == written)
        };
        let send = |value: &Value| self == Self::Always || says_the_same(value);
        result.structured_content = value.filter(Value::is_object).filter(send);
    }
}

pub(crate) fn tool_result(outcome: Outcome, value: StructuredContentPolicy) -> CallToolResult {
    let error = outcome.error.as_ref().map(failure_details);
    let mut content: Vec<_> = outcome
        .llm
        .iter()
        .enumerate()
        .map(|(index, part)| content_block(index, part))
        .collect();
    if outcome.llm.iter().all(is_empty_text) {
        content = vec![ContentBlock::text(fallback_text(&outcome))];
    }
    let mut result = match error {
        Some(details) => CallToolResult::error(content).with_meta(Some(meta(details))),
        None => CallToolResult::success(content),
    };
    value.apply(&mut result, outcome.structured);
    result
}

/// A result in the format of a profile.
pub(crate) fn profile_result(
    shown: RenderedResult,
    value: StructuredContentPolicy,
) -> CallToolResult {
    let content: Vec<_> = shown
        .parts
        .iter()
        .enumerate()
        .map(|(index, part)| content_block(index, part))
        .collect();
    let mut result = if shown.is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    value.apply(&mut result, shown.structured);
    result
}

/// The result of a call that failed. It is a tool result, not a JSON-RPC error, so that the model sees it.
pub(crate) fn error_result(error: &CallError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.for_model())])
        .with_meta(Some(meta(error_details(error))))
}

pub(crate) fn error_details(error: &CallError) -> Value {
    let shown =
        json!({"class": error.class.as_str(), "code": error.code, "retryable": error.retryable});
    with_details(shown, error.details.as_ref())
}

fn failure_details(failure: &Failure) -> Value {
    let code = failure.code.as_deref().unwrap_or("failed");
    let shown = json!({"class": "failed", "code": code, "retryable": failure.retryable});
    with_details(shown, failure.details.as_ref())
}

/// Adds what the tool states for programs.
fn with_details(mut shown: Value, details: Option<&Value>) -> Value {
    if let Some(details) = details {
        shown["details"] = details.clone();
    }
    shown
}

/// Key in the `_meta` of a result: ids with which the file changes of the call can be undone.
const UNDO_KEY: &str = "dev.toolhost/undo";

/// Adds the undo ids of the call's commits.
pub(crate) fn with_undo_ids(mut result: CallToolResult, commits: &[String]) -> CallToolResult {
    if !commits.is_empty() {
        let meta = result.meta.get_or_insert_with(MetaObject::default);
        meta.0.insert(UNDO_KEY.to_owned(), json!({"ids": commits}));
    }
    result
}

/// Keys in the `_meta` of a result in the profile `pegasus`. The result itself is the content, because structured content
/// has to match the output schema of the tool.
const ENVELOPE_KEY: &str = "dev.toolhost/envelope";
const REFLECTION_KEY: &str = "dev.toolhost/reflection";

/// Adds the envelope of the result, and the failure for the reflector, if the profile has them.
pub(crate) fn with_envelope(
    mut result: CallToolResult,
    envelope: Option<Value>,
    failure: Option<&ToolFailure>,
) -> CallToolResult {
    let reflection = failure.map(ToolFailure::reflection);
    for (key, value) in [(ENVELOPE_KEY, envelope), (REFLECTION_KEY, reflection)] {
        if let Some(value) = value {
            let meta = result.meta.get_or_insert_with(MetaObject::default);
            meta.0.insert(key.to_owned(), value);
        }
    }
    result
}

fn meta(details: Value) -> MetaObject {
    MetaObject(JsonObject::from_iter([(ERROR_KEY.to_owned(), details)]))
}

fn is_empty_text(part: &Part) -> bool {
    matches!(part, Part::Text(text) if text.is_empty())
}

/// The text of an outcome without content. Compact JSON, because it is for a model.
fn fallback_text(outcome: &Outcome) -> String {
    match (&outcome.error, &outcome.structured) {
        (Some(error), _) => error.for_model(),
        (None, Some(Value::String(text))) => text.clone(),
        (None, Some(value)) => value.to_string(),
        (None, None) => "(no output)".to_owned(),
    }
}

fn content_block(index: usize, part: &Part) -> ContentBlock {
    match part {
        Part::Text(text) => ContentBlock::text(text.as_str()),
        Part::Json(value) => ContentBlock::text(value.to_string()),
        Part::Image { data, media_type } => {
            ContentBlock::image(STANDARD.encode(data), media_type.as_str())
        }
        Part::Audio { data, media_type } => {
            ContentBlock::audio(STANDARD.encode(data), media_type.as_str())
        }
        Part::File {
            data,
            media_type,
            uri,
            name,
        } => {
            let uri = uri
                .clone()
                .unwrap_or_else(|| placeholder_uri(index, name.as_deref()));
            ContentBlock::resource(embedded_resource(data, media_type, uri))
        }
        Part::ResourceLink {
            uri,
            name,
            media_type,
        } => {
            let mut link = Resource::new(uri.as_str(), name.as_ref().unwrap_or(uri).as_str());
            link.mime_type.clone_from(media_type);
            ContentBlock::resource_link(link)
        }
        Part::Other { kind, text } => ContentBlock::text(
            text.clone()
                .unwrap_or_else(|| format!("content of kind {kind}")),
        ),
    }
}

fn embedded_resource(data: &[u8], media_type: &str, uri: String) -> ResourceContents {
    let mime_type = Some(media_type.to_owned());
    let readable = media_type.starts_with("text/")
        || media_type.ends_with("json")
        || media_type.ends_with("xml");
    match std::str::from_utf8(data) {
        Ok(text) if readable => ResourceContents::TextResourceContents {
            uri,
            mime_type,
            text: text.to_owned(),
            meta: None,
        },
        _ => ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob: STANDARD.encode(data),
            meta: None,
        },
    }
}

/// Returns a placeholder URI that contains the file's name. The protocol requires a URI for every file.
fn placeholder_uri(index: usize, name: Option<&str>) -> String {
    use std::fmt::Write as _;

    let mut uri = format!("toolhost:/part/{index}");
    if let Some(name) = name {
        uri.push('/');
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                uri.push(char::from(byte));
            } else {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use toolhost_contract::ErrorClass;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tables read better")]
    fn check(outcome: Outcome, value: StructuredContentPolicy, expected: Value) {
        let mut result = serde_json::to_value(tool_result(outcome, value)).unwrap();
        assert_eq!(
            result.as_object_mut().unwrap().remove("resultType"),
            Some(json!("complete"))
        );
        assert_eq!(result, expected);
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn each_part_becomes_a_content_block() {
        let name = |name: &str| Some(name.to_owned());
        let bytes = b"ab".to_vec();
        for (part, block) in [
            (Part::Text("hi".to_owned()), text("hi")),
            (Part::Json(json!({"a": 1})), text(r#"{"a":1}"#)),
            (
                Part::Image {
                    data: bytes.clone(),
                    media_type: "image/png".to_owned(),
                },
                json!({"type": "image", "data": "YWI=", "mimeType": "image/png"}),
            ),
            (
                Part::Audio {
                    data: bytes.clone(),
                    media_type: "audio/wav".to_owned(),
                },
                json!({"type": "audio", "data": "YWI=", "mimeType": "audio/wav"}),
            ),
            (
                Part::File {
                    data: bytes.clone(),
                    media_type: "text/csv".to_owned(),
                    uri: None,
                    name: name("a b/ü"),
                },
                json!({"type": "resource", "resource":
                    {"uri": "toolhost:/part/0/a%20b%2F%C3%BC", "mimeType": "text/csv", "text": "ab"}}),
            ),
            (
                Part::File {
                    data: vec![0xff],
                    media_type: "text/plain".to_owned(),
                    uri: name("file:///workspace/x"),
                    name: None,
                },
                json!({"type": "resource", "resource":
                    {"uri": "file:///workspace/x", "mimeType": "text/plain", "blob": "/w=="}}),
            ),
            (
                Part::ResourceLink {
                    uri: "file:///a".to_owned(),
                    name: None,
                    media_type: name("text/plain"),
                },
                json!({"type": "resource_link", "uri": "file:///a", "name": "file:///a", "mimeType": "text/plain"}),
            ),
            (
                Part::Other {
                    kind: "smell".to_owned(),
                    text: None,
                },
                text("content of kind smell"),
            ),
        ] {
            let outcome = Outcome {
                llm: vec![part],
                ..Outcome::default()
            };
            check(
                outcome,
                StructuredContentPolicy::IfEqualToText,
                json!({"content": [block], "isError": false}),
            );
        }
    }

    #[test]
    fn c_01_structured_content_is_sent_if_equal_to_the_text_or_enabled() {
        use StructuredContentPolicy::{Always, IfEqualToText};
        let value = json!({"n": 1});
        let of = |structured: &Value, llm: &[Part]| Outcome {
            llm: llm.to_vec(),
            structured: Some(structured.clone()),
            ..Outcome::default()
        };
        let spoken = [Part::Text("one".to_owned())];
        let same = [Part::Json(value.clone())];
        let more = [same[0].clone(), spoken[0].clone()];
        let json = text(r#"{"n":1}"#);
        let shown = |content: Value| json!({"content": content, "isError": false});
        let both = |content: Value| json!({"content": content, "isError": false, "structuredContent": value});
        for (llm, when, expected) in [
            (&[][..], IfEqualToText, both(json!([json]))),
            (&same, IfEqualToText, both(json!([json]))),
            (&spoken, IfEqualToText, shown(json!([text("one")]))),
            (&more, IfEqualToText, shown(json!([json, text("one")]))),
            (&spoken, Always, both(json!([text("one")]))),
        ] {
            check(of(&value, llm), when, expected);
        }
        let list = json!([1]);
        check(of(&list, &spoken), Always, shown(json!([text("one")])));
        check(
            Outcome::default(),
            Always,
            shown(json!([text("(no output)")])),
        );
    }

    #[test]
    fn a_tool_failure_is_an_error_result_with_its_code() {
        let mut failure = Failure::new("exit_status", "the command ended with 1");
        failure.recommendations.push("read its output".to_owned());
        let meta =
            json!({ERROR_KEY: {"class": "failed", "code": "exit_status", "retryable": false}});
        let message = text("the command ended with 1\n- read its output");
        let outcome = Outcome {
            error: Some(failure),
            ..Outcome::default()
        };
        check(
            outcome.clone(),
            StructuredContentPolicy::IfEqualToText,
            json!({"content": [message], "isError": true, "_meta": meta}),
        );
        let without_text = Outcome {
            llm: vec![Part::Text(String::new())],
            ..outcome.clone()
        };
        check(
            without_text,
            StructuredContentPolicy::IfEqualToText,
            json!({"content": [message], "isError": true, "_meta": meta}),
        );
        let outcome = Outcome {
            llm: vec![Part::Text("oops".to_owned())],
            ..outcome
        };
        check(
            outcome,
            StructuredContentPolicy::IfEqualToText,
            json!({"content": [text("oops")], "isError": true, "_meta": meta}),
        );
    }

    #[test]
    fn a_failed_call_contains_recommendations() {
        let error = CallError::new(ErrorClass::Denied, "Permission denied: no")
            .code("user_denied")
            .recommend("ask");
        let result = serde_json::to_value(error_result(&error)).unwrap();
        assert_eq!(
            result["content"],
            json!([text("Permission denied: no\n- ask")])
        );
        assert_eq!(result["isError"], json!(true));
        let details =
            json!({"class": "permission_denied", "code": "user_denied", "retryable": false});
        assert_eq!(result["_meta"], json!({ERROR_KEY: details}));
    }
}
