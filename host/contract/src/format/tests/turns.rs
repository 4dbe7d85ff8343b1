//! Turns of models, in the shapes in which they come.

use serde_json::{Value, json};

use crate::format::Format;

/// Each call as `id name input`, with what is wrong with it.
fn check(format: Format, turn: &Value, expected: &[&str]) {
    let calls = format
        .read_turn(turn)
        .unwrap_or_else(|error| panic!("{error}: {turn}"));
    let calls: Vec<String> = calls
        .iter()
        .map(|call| {
            let id = call.id.as_ref().map_or("-".to_owned(), Value::to_string);
            let wrong = call
                .wrong
                .as_ref()
                .map(|wrong| format!(" ({})", &wrong[..20]));
            format!(
                "{id} {} {}{}",
                call.name,
                call.input,
                wrong.unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(calls, expected, "{turn}");
}

fn refused(format: Format, turn: &Value, expected: &str) {
    let error = format.read_turn(turn).unwrap_err().to_string();
    assert_eq!(error, expected);
}

#[test]
fn anthropic_blocks_among_text_and_thinking() {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a"}},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "text", "text": "And"},
        {"type": "tool_use", "id": "toolu_2", "name": "ls", "input": {}},
    ]);
    let calls = [r#""toolu_1" read_file {"path":"a"}"#, r#""toolu_2" ls {}"#];
    check(Format::Anthropic, &content, &calls);
    check(
        Format::Anthropic,
        &json!({"role": "assistant", "content": content}),
        &calls,
    );
    check(
        Format::Anthropic,
        &json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
        }),
        &calls,
    );
    check(Format::Anthropic, &content[2], &calls[..1]);
}

#[test]
fn openai_calls_with_arguments_as_text() {
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}});
    let message = json!({"role": "assistant", "content": "I look.", "refusal": null, "tool_calls": [
        call("call_a", r#"{"path": "a"}"#),
        call("call_b", ""),
        call("call_c", r#"{"path": "#),
        call("call_c", "null"),
        call("", "[1]"),
        {"type": "function", "function": {"arguments": {"path": "b"}}},
    ]});
    let calls = [
        r#""call_a" look {"path":"a"}"#,
        r#""call_b" look {}"#,
        r#""call_c" look "{\"path\": ""#,
        r#""call_c" look {}"#,
        r#"- look "[1]""#,
        r#"-  {"path":"b"} (the call names no to)"#,
    ];
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    let body = json!({"id": "c", "object": "chat.completion", "choices": [choice], "usage": {}});
    for turn in [&message, &message["tool_calls"], &choice, &body] {
        check(Format::OpenAi, turn, &calls);
    }
    check(
        Format::OpenAi,
        &json!({"role": "assistant", "content": null, "function_call": {"name": "look", "arguments": "{}"}}),
        &["- look {}"],
    );
}

#[test]
fn responses_items_by_their_call_id() {
    let items = json!([
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{\"a\":1}", "status": "completed"},
        {"type": "function_call", "id": "fc_2", "name": "look", "arguments": "{}", "status": "incomplete"},
    ]);
    let calls = [
        r#""call_1" look {"a":1}"#,
        r#""fc_2" look {} (this call was cut of)"#,
    ];
    check(Format::OpenAiResponses, &items, &calls);
    check(
        Format::OpenAiResponses,
        &json!({"id": "resp_1", "object": "response", "status": "completed", "error": null, "output": items}),
        &calls,
    );
    check(Format::OpenAiResponses, &items[2], &calls[..1]);
}

#[test]
fn gemini_parts_with_and_without_ids() {
    let parts = json!([
        {"text": "I look.", "thought": true},
        {"functionCall": {"name": "look", "args": {"a": 1}}, "thoughtSignature": "s"},
        {"functionCall": {"id": "f2", "name": "look"}},
        {"function_call": {"name": "look", "args": null}},
    ]);
    let calls = [r#"- look {"a":1}"#, r#""f2" look {}"#, "- look {}"];
    let content = json!({"role": "model", "parts": parts});
    let candidate = json!({"content": content, "finishReason": "STOP", "index": 0});
    let body = json!({"candidates": [candidate], "usageMetadata": {}});
    for turn in [&parts, &content, &candidate, &body] {
        check(Format::Gemini, turn, &calls);
    }
    check(
        Format::Gemini,
        &json!([body, {"candidates": [{"finishReason": "STOP"}]}]),
        &calls,
    );
}

#[test]
fn mcp_requests_with_ids_of_both_kinds() {
    check(
        Format::Mcp,
        &json!([
            {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "look", "arguments": {"a": 1}}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "look"}},
        ]),
        &[r#"7 look {"a":1}"#, r#""x" look {}"#],
    );
    check(
        Format::Mcp,
        &json!({"name": "look", "arguments": {}}),
        &["- look {}"],
    );
}

#[test]
fn a_turn_without_calls_has_none() {
    for (format, turn) in [
        (Format::Anthropic, json!([])),
        (
            Format::Anthropic,
            json!({"role": "assistant", "content": "Done."}),
        ),
        (
            Format::Anthropic,
            json!({"role": "assistant", "content": [{"type": "text", "text": "Done."}]}),
        ),
        (
            Format::OpenAi,
            json!({"role": "assistant", "content": "Done."}),
        ),
        (
            Format::OpenAi,
            json!({"role": "assistant", "content": null, "tool_calls": null}),
        ),
        (Format::OpenAi, json!({"choices": []})),
        (Format::OpenAiResponses, json!({"output": []})),
        (Format::Gemini, json!({"candidates": []})),
        (
            Format::Gemini,
            json!({"promptFeedback": {"blockReason": "SAFETY"}}),
        ),
        (
            Format::Gemini,
            json!({"candidates": [{"finishReason": "SAFETY"}]}),
        ),
        (
            Format::Gemini,
            json!({"role": "model", "parts": [{"text": "Done."}]}),
        ),
        (Format::Mcp, json!([])),
    ] {
        check(format, &turn, &[]);
    }
}

#[test]
fn the_last_call_of_a_turn_that_was_cut_off_does_not_run() {
    let block = |id: &str| json!({"type": "tool_use", "id": id, "name": "w", "input": {}});
    check(
        Format::Anthropic,
        &json!({"role": "assistant", "content": [block("1"), block("2")], "stop_reason": "max_tokens"}),
        &[r#""1" w {}"#, r#""2" w {} (the turn ended at it)"#],
    );
    let call = json!({"id": "1", "type": "function", "function": {"name": "w", "arguments": "{}"}});
    check(
        Format::OpenAi,
        &json!({"choices": [{"message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "length"}]}),
        &[r#""1" w {} (the turn ended at it)"#],
    );
    check(
        Format::Gemini,
        &json!({"candidates": [{
            "content": {"parts": [{"functionCall": {"name": "w", "args": {}}}]}, "finishReason": "MAX_TOKENS",
        }]}),
        &["- w {} (the turn ended at it)"],
    );
}

#[test]
fn what_is_no_turn_is_refused_with_the_reason() {
    let anthropic = "this is not a turn in the format `anthropic`: ";
    let openai = "this is not a turn in the format `openai`: ";
    for (format, turn, reason) in [
        (
            Format::Anthropic,
            json!([{"role": "user", "content": "hi"}]),
            format!(
                "{anthropic}this is a list of messages; hand in the last one, which has the calls"
            ),
        ),
        (
            Format::Anthropic,
            json!({"role": "user", "content": []}),
            format!("{anthropic}its role is `user`; a turn of the model has `assistant`"),
        ),
        (
            Format::Anthropic,
            json!("text"),
            format!("{anthropic}a message with `content` is wanted, or its content"),
        ),
        (
            Format::OpenAi,
            json!({"content": "x", "tool_calls": {}}),
            format!("{openai}`tool_calls` is not a list"),
        ),
        (
            Format::OpenAi,
            json!({"candidates": []}),
            format!("{openai}a message with `tool_calls` or `content` is wanted"),
        ),
        (
            Format::OpenAi,
            json!({"choices": [{}]}),
            format!("{openai}the choice has no `message`"),
        ),
        (
            Format::Anthropic,
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Over\u{7}loaded"}}),
            r"the API answered with an error instead of a turn: Over\u{7}loaded".to_owned(),
        ),
        (
            Format::Gemini,
            json!({"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}),
            "the API answered with an error instead of a turn: no".to_owned(),
        ),
    ] {
        refused(format, &turn, &reason);
    }
}
