//! Tests of reading model turns.

use serde_json::{Value, json};

use crate::model::Format;

/// Checks calls in the form `id name input`, with the first 20 bytes of the error.
fn check(format: Format, turn: &Value, expected: &[&str]) {
    let calls = format
        .read_turn(turn)
        .unwrap_or_else(|error| panic!("{error}: {turn}"));
    let calls: Vec<String> = calls
        .iter()
        .map(|call| {
            let id = call.id.as_ref().map_or("-".to_owned(), Value::to_string);
            let wrong = call
                .error
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
        r#""fc_2" look {} (this call was trunca)"#,
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
            {"jsonrpc": "2.0", "id": "", "method": "tools/call", "params": {"name": "look"}},
        ]),
        &[r#"7 look {"a":1}"#, r#""x" look {}"#, r#""" look {}"#],
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
fn the_last_call_of_a_truncated_turn_does_not_run() {
    let block = |id: &str| json!({"type": "tool_use", "id": id, "name": "w", "input": {}});
    let message = json!({"role": "assistant", "content": [block("1"), block("2")], "stop_reason": "max_tokens"});
    check(
        Format::Anthropic,
        &message,
        &[r#""1" w {}"#, r#""2" w {} (the turn ended with )"#],
    );
    let chat = json!({"id": "1", "type": "function", "function": {"name": "w", "arguments": "{}"}});
    let item = json!({"type": "function_call", "call_id": "1", "name": "w", "arguments": "{}"});
    let part = json!({"functionCall": {"name": "w", "args": {}}});
    let turn = |format: Format, reason: &str| match format {
        Format::Anthropic => {
            json!({"role": "assistant", "content": [block("1")], "stop_reason": reason})
        }
        Format::OpenAi => json!({"choices": [{
            "message": {"role": "assistant", "tool_calls": [chat]}, "finish_reason": reason,
        }]}),
        Format::OpenAiResponses => json!({
            "status": "incomplete", "incomplete_details": {"reason": reason}, "output": [item],
        }),
        Format::Gemini | Format::Mcp => {
            json!({"candidates": [{"content": {"parts": [part]}, "finishReason": reason}]})
        }
    };
    for (format, reason, cut) in [
        (Format::Anthropic, "model_context_window_exceeded", true),
        (Format::Anthropic, "refusal", true),
        (Format::Anthropic, "tool_use", false),
        (Format::Anthropic, "pause_turn", false),
        (Format::OpenAi, "length", true),
        (Format::OpenAi, "content_filter", true),
        (Format::OpenAi, "tool_calls", false),
        (Format::OpenAiResponses, "max_output_tokens", true),
        (Format::OpenAiResponses, "content_filter", true),
        (Format::Gemini, "MAX_TOKENS", true),
        (Format::Gemini, "SAFETY", true),
        (Format::Gemini, "MALFORMED_FUNCTION_CALL", true),
        (Format::Gemini, "STOP", false),
    ] {
        let calls = format.read_turn(&turn(format, reason)).unwrap();
        let error = calls[0].error.as_deref();
        let named = error.is_some_and(|error| error.contains(&format!("ended with `{reason}`")));
        assert_eq!((error.is_some(), named), (cut, cut), "{format} {reason}");
    }
    let cancelled = json!({"status": "cancelled", "output": [item]});
    check(
        Format::OpenAiResponses,
        &cancelled,
        &[r#""1" w {} (the turn ended with )"#],
    );
    // The last piece of a stream can contain only the usage.
    let stream = json!([turn(Format::Gemini, "STOP"), {"usageMetadata": {}}]);
    check(Format::Gemini, &stream, &["- w {}"]);
}

#[test]
fn incomplete_calls_are_returned_with_an_error() {
    check(
        Format::OpenAi,
        &json!({"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function"},
            {"id": "d", "type": "function", "function": null},
            {"id": "e"},
            {"id": "f", "type": "custom", "custom": {"name": "look", "input": "x"}},
        ], "function_call": {"arguments": "{}"}}),
        &[
            r#""c"  {} (the call names no to)"#,
            r#""d"  {} (the call names no to)"#,
            r#""e"  {} (the call names no to)"#,
            r#""f" look "x""#,
            "-  {} (the call names no to)",
        ],
    );
    check(
        Format::Gemini,
        &json!([
            {"text": "hm", "functionCall": null},
            {"functionCall": {"args": {}}},
            {"functionCall": null, "function_call": {"name": "look"}},
        ]),
        &["-  {} (the call names no to)", "- look {}"],
    );
    check(
        Format::OpenAiResponses,
        &json!([{"type": "function_call", "call_id": "c"}]),
        &[r#""c"  {} (the call names no to)"#],
    );
    check(
        Format::Mcp,
        &json!([
            {"id": 1, "method": "tools/list"},
            {"id": 2, "method": "tools/call", "params": []},
            {"id": 3, "method": "tools/call", "params": {"name": ""}},
        ]),
        &[
            "1  {} (the method `tools/li)",
            "2  {} (`params` names no to)",
            "3  {} (`params` names no to)",
        ],
    );
}

#[test]
fn generated_call_ids_are_unique() {
    fn labels(ids: &[Option<&str>]) -> Vec<String> {
        let block = |id: Option<&str>| json!({"type": "tool_use", "id": id, "name": "look"});
        let turn: Vec<Value> = ids.iter().copied().map(block).collect();
        let calls = Format::Anthropic.read_turn(&json!(turn)).unwrap();
        calls.iter().map(crate::model::ModelCall::label).collect()
    }
    for (ids, expected) in [
        (&[None, Some("call_1")][..], &["call_2", "call_1"][..]),
        (&[Some("a"), None, None], &["a", "call_2", "call_3"]),
        (
            &[None, None, Some("call_2"), Some("call_3"), None],
            &["call_1", "call_4", "call_2", "call_3", "call_5"],
        ),
        (&[Some("x"), Some("x"), Some("")], &["x", "x", "call_3"]),
    ] {
        assert_eq!(labels(ids), expected);
    }
}

#[test]
fn abnormal_stop_reasons_are_reported() {
    let gemini = |reason: &str| json!({"candidates": [{"finishReason": reason}]});
    let openai = |reason: &str| json!({"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": reason}]});
    let anthropic =
        |reason: Value| json!({"role": "assistant", "content": [], "stop_reason": reason});
    for (format, turn, expected) in [
        (Format::Gemini, gemini("STOP"), None),
        (
            Format::Gemini,
            gemini("MALFORMED_FUNCTION_CALL"),
            Some("MALFORMED_FUNCTION_CALL"),
        ),
        (Format::Gemini, gemini("MAX_TOKENS"), Some("MAX_TOKENS")),
        (
            Format::Gemini,
            json!({"candidates": [{"content": {"role": "model"}, "finishReason": "\u{7}"}]}),
            Some(r"\u{7}"),
        ),
        (
            Format::Gemini,
            json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}),
            Some("SAFETY"),
        ),
        (
            Format::Gemini,
            json!([gemini("SAFETY"), {"usageMetadata": {}}]),
            Some("SAFETY"),
        ),
        (Format::OpenAi, openai("stop"), None),
        (
            Format::OpenAi,
            openai("content_filter"),
            Some("content_filter"),
        ),
        (Format::Anthropic, anthropic(Value::Null), None),
        (Format::Anthropic, anthropic(json!("end_turn")), None),
        (
            Format::Anthropic,
            anthropic(json!("refusal")),
            Some("refusal"),
        ),
        (
            Format::OpenAiResponses,
            json!({"status": "completed", "incomplete_details": null, "output": []}),
            None,
        ),
        (
            Format::OpenAiResponses,
            json!({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []}),
            Some("content_filter"),
        ),
        (Format::Mcp, json!([]), None),
    ] {
        assert_eq!(
            format.abnormal_stop_reason(&turn).as_deref(),
            expected,
            "{turn}"
        );
        check(format, &turn, &[]);
    }
}
