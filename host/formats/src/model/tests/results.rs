//! Tests of results in each format: one per call, in call order.

use serde_json::{Value, json};

use super::fixture::{answer, failed, image, text_result, with};
use crate::model::Format;
use toolhost_contract::Part;

fn pdf() -> Part {
    Part::File {
        data: b"%PDF".to_vec(),
        media_type: "application/pdf".to_owned(),
        uri: None,
        name: Some("a.pdf".to_owned()),
    }
}

fn source() -> Part {
    Part::File {
        data: b"fn main".to_vec(),
        media_type: "text/rust".to_owned(),
        uri: Some("file:///a.rs".to_owned()),
        name: None,
    }
}

fn sound() -> Part {
    Part::Audio {
        data: vec![0],
        media_type: "audio/wav".to_owned(),
    }
}

// R-127, R-128
#[test]
fn r_127_anthropic_results_are_one_message() {
    let turn = json!([
        {"type": "tool_use", "id": "t1", "name": "a", "input": {}},
        {"type": "text", "text": "and"},
        {"type": "tool_use", "id": "t2", "name": "b", "input": {}},
        {"type": "tool_use", "id": "t2", "name": "c", "input": {}},
        {"type": "tool_use", "name": "d", "input": {}},
    ]);
    let results = [
        text_result("one"),
        failed("no such tool"),
        with(vec![
            Part::Text(String::new()),
            image(),
            pdf(),
            source(),
            sound(),
        ]),
        with(Vec::new()),
    ];
    assert_eq!(
        answer(Format::Anthropic, &turn, &results),
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "one"}], "is_error": false},
            {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "no such tool"}], "is_error": true},
            {"type": "tool_result", "tool_use_id": "t2", "is_error": false, "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AQID"}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}, "title": "a.pdf"},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "fn main"}, "title": "file:///a.rs"},
                {"type": "text", "text": "Binary content of type audio/wav"},
            ]},
            {"type": "tool_result", "tool_use_id": "call_4", "content": [{"type": "text", "text": "(no output)"}], "is_error": false},
        ]})
    );
}

#[test]
fn anthropic_error_results_are_text_followed_by_media() {
    let mut result = with(vec![Part::Text("no".to_owned()), image()]);
    result.is_error = true;
    let turn = json!([{"type": "tool_use", "id": "t", "name": "a", "input": {}}]);
    let answer = answer(Format::Anthropic, &turn, &[result]);
    assert_eq!(
        answer["content"][0]["content"],
        json!([{"type": "text", "text": "no"}])
    );
    assert_eq!(answer["content"][1]["type"], "image");
}

fn openai_turn() -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{}"}},
        {"id": "c2", "type": "function", "function": {"name": "b", "arguments": "{"}},
        {"id": "c3", "type": "function", "function": {"name": "c", "arguments": "{}"}},
        {"type": "function", "function": {"name": "d", "arguments": "{}"}},
    ]})
}

#[test]
fn openai_media_follows_the_last_tool_message() {
    let results = [
        with(vec![
            Part::Text("see".to_owned()),
            image(),
            sound(),
            source(),
        ]),
        failed("not JSON"),
        failed(r#"{"ok":false}"#),
        with(vec![pdf()]),
    ];
    assert_eq!(
        answer(Format::OpenAi, &openai_turn(), &results),
        json!([
            {"role": "tool", "tool_call_id": "c1", "content":
                "see\nBinary content of type image/png\nBinary content of type audio/wav\nfn main"},
            {"role": "tool", "tool_call_id": "c2", "content": "Error: not JSON"},
            {"role": "tool", "tool_call_id": "c3", "content": r#"{"ok":false}"#},
            {"role": "tool", "tool_call_id": "call_4", "content": "Binary content of type application/pdf (a.pdf)"},
            {"role": "user", "content": [
                {"type": "text", "text": "From the result of `a` (c1):"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                {"type": "text", "text": "From the result of `d` (call_4):"},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
            ]},
        ])
    );
    let older = json!({"role": "assistant", "content": null, "function_call": {"name": "look", "arguments": "{}"}});
    assert_eq!(
        answer(Format::OpenAi, &older, &[text_result("x")]),
        json!([{"role": "function", "name": "look", "content": "x"}])
    );
}

#[test]
fn responses_has_one_output_per_call() {
    let turn = json!({"output": [
        {"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "b", "arguments": "{}"},
        {"type": "function_call", "call_id": "c3", "name": "c", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c4", "name": "d", "input": "x"},
    ]});
    let results = [
        text_result("one"),
        failed("no"),
        with(vec![Part::Text("see".to_owned()), image(), pdf()]),
        failed("expected an object"),
    ];
    assert_eq!(
        answer(Format::OpenAiResponses, &turn, &results),
        json!([
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "function_call_output", "call_id": "c2", "output": "Error: no"},
            {"type": "function_call_output", "call_id": "c3", "output": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "data:image/png;base64,AQID"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            ]},
            {"type": "custom_tool_call_output", "call_id": "c4", "output": "Error: expected an object"},
        ])
    );
}

// R-129
#[test]
fn r_129_gemini_media_follows_the_function_response() {
    let turn = json!({"role": "model", "parts": [
        {"functionCall": {"name": "a", "args": {}}},
        {"functionCall": {"id": "f", "name": "b", "args": {}}},
        {"functionCall": {"name": "c", "args": {}}},
        {"functionCall": {"name": "d", "args": {}}},
    ]});
    let results = [
        text_result("one"),
        failed("no"),
        with(vec![image()]),
        with(vec![Part::Text("see".to_owned()), pdf(), source()]),
    ];
    assert_eq!(
        answer(Format::Gemini, &turn, &results),
        json!({"role": "user", "parts": [
            {"functionResponse": {"name": "a", "response": {"output": "one"}}},
            {"functionResponse": {"id": "f", "name": "b", "response": {"error": "no"}}},
            {"functionResponse": {"name": "c", "response": {"output": "Binary content of type image/png"}}},
            {"inlineData": {"mimeType": "image/png", "data": "AQID"}},
            {"functionResponse": {"name": "d", "response": {"output": "see\nfn main"}}},
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
        ]})
    );
}

#[test]
fn gemini_media_of_unsupported_types_is_named() {
    let turn = json!([{"functionCall": {"name": "a", "args": {}}}]);
    let archive = Part::File {
        data: vec![0],
        media_type: "application/zip".to_owned(),
        uri: None,
        name: Some("a.zip".to_owned()),
    };
    let picture = |media_type: &str| Part::Image {
        data: vec![1, 2, 3],
        media_type: media_type.to_owned(),
    };
    let parts = vec![
        archive,
        picture("image/gif"),
        picture("image/svg+xml"),
        picture("image/webp"),
        sound(),
    ];
    assert_eq!(
        answer(Format::Gemini, &turn, &[with(parts)]),
        json!({"role": "user", "parts": [
            {"functionResponse": {"name": "a", "response": {"output":
                "Binary content of type application/zip (a.zip)\nBinary content of type image/gif\n\
                 Binary content of type image/svg+xml"}}},
            {"inlineData": {"mimeType": "image/webp", "data": "AQID"}},
            {"inlineData": {"mimeType": "audio/wav", "data": "AA=="}},
        ]})
    );
    assert_eq!(
        answer(Format::Gemini, &turn, &[with(vec![picture("image/gif")])])["parts"],
        json!([{"functionResponse": {"name": "a", "response": {"output": "Binary content of type image/gif"}}}])
    );
}

#[test]
fn images_that_are_too_large_for_anthropic_are_replaced_by_text() {
    let turn = json!([{"type": "tool_use", "id": "t", "name": "a", "input": {}}]);
    for (size, kind) in [(3_932_160, "image"), (3_932_161, "text")] {
        let image = Part::Image {
            data: vec![0; size],
            media_type: "image/png".to_owned(),
        };
        let message = answer(Format::Anthropic, &turn, &[with(vec![image])]);
        let block = &message["content"][0]["content"][0];
        assert_eq!(block["type"], kind, "{size}");
        if kind == "text" {
            assert_eq!(
                block["text"],
                "Binary content of type image/png. It has 3932161 bytes and the API accepts 3932160; scale it down"
            );
        }
    }
}

#[test]
fn mcp_has_one_response_per_request() {
    let turn = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a"}},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "b"}},
    ]);
    let mut structured = with(vec![image(), source()]);
    structured.structured = Some(json!({"n": 1}));
    assert_eq!(
        answer(Format::Mcp, &turn, &[structured, failed("no")]),
        json!([
            {"jsonrpc": "2.0", "id": 1, "result": {
                "content": [
                    {"type": "image", "data": "AQID", "mimeType": "image/png"},
                    {"type": "resource", "resource": {"uri": "file:///a.rs", "mimeType": "text/rust", "text": "fn main"}},
                ],
                "structuredContent": {"n": 1},
                "isError": false,
            }},
            {"jsonrpc": "2.0", "id": "b", "result": {"content": [{"type": "text", "text": "no"}], "isError": true}},
        ])
    );
}

#[test]
fn mcp_rejects_unsupported_requests_and_ignores_notifications() {
    let turn = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": ["look"]},
        {"jsonrpc": "2.0", "id": "", "method": "tools/call", "params": {"name": "look"}},
    ]);
    let results = [failed("unseen"), failed("unseen"), text_result("x")];
    assert_eq!(
        answer(Format::Mcp, &turn, &results),
        json!([
            {"jsonrpc": "2.0", "id": 1, "error": {
                "code": -32601, "message": "the method `tools/list` is not supported; use `tools/call`",
            }},
            {"jsonrpc": "2.0", "id": "b", "error": {
                "code": -32602, "message": "`params` names no tool; use {\"name\": …, \"arguments\": {…}}",
            }},
            {"jsonrpc": "2.0", "id": "", "result": {"content": [{"type": "text", "text": "x"}], "isError": false}},
        ])
    );
}

#[test]
fn a_turn_without_calls_has_an_empty_response() {
    for (format, expected) in [
        (Format::Anthropic, json!({"role": "user", "content": []})),
        (Format::OpenAi, json!([])),
        (Format::OpenAiResponses, json!([])),
        (Format::Gemini, json!({"role": "user", "parts": []})),
        (Format::Mcp, json!([])),
    ] {
        assert_eq!(format.format_results(&[]), expected);
    }
}
