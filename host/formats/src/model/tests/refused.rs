//! Tests of values that are not turns of a format. Reading them as a turn would yield no calls, or calls that were
//! already answered.

use serde_json::{Value, json};

use crate::model::Format;

/// `expected` is the message after the name of the format.
fn check(format: Format, turn: &Value, expected: &str) {
    let error = match format.read_turn(turn) {
        Ok(calls) => panic!("{format} reads {} calls in {turn}", calls.len()),
        Err(error) => error.to_string(),
    };
    let head = format!("this is not a turn in the format `{format}`: ");
    assert_eq!(error.strip_prefix(&head).unwrap_or(&error), expected);
}

/// A call in each form of each API.
fn turns() -> Vec<(Format, Value)> {
    let block = json!({"type": "tool_use", "id": "c", "name": "look", "input": {}});
    let text = json!({"type": "text", "text": "I look."});
    let claude = json!({"role": "assistant", "content": [text, block]});
    let mut body = claude.clone();
    body["type"] = json!("message");
    body["stop_reason"] = json!("tool_use");

    let call =
        json!({"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let chat = json!({"role": "assistant", "content": "I look.", "tool_calls": [call]});
    let empty = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let older = json!({"role": "assistant", "content": null, "function_call": {"name": "look", "arguments": "{}"}});
    let choice = json!({"index": 0, "message": chat, "finish_reason": "tool_calls"});

    let item = json!({"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"});
    let message = json!({
        "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}],
    });

    let part = json!({"functionCall": {"name": "look", "args": {}}});
    let content = json!({"role": "model", "parts": [{"text": "I look."}, part]});
    let candidate = json!({"content": content, "finishReason": "STOP"});
    let gemini = json!({"candidates": [candidate], "usageMetadata": {}});

    let request =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look"}});
    vec![
        (Format::Anthropic, block.clone()),
        (Format::Anthropic, json!([text, block])),
        (Format::Anthropic, claude),
        (Format::Anthropic, body),
        (Format::OpenAi, call.clone()),
        (Format::OpenAi, json!([call])),
        (Format::OpenAi, chat),
        (Format::OpenAi, empty),
        (Format::OpenAi, older),
        (Format::OpenAi, choice.clone()),
        (Format::OpenAi, json!({"choices": [choice]})),
        (Format::OpenAiResponses, item.clone()),
        (Format::OpenAiResponses, json!([message, item])),
        (
            Format::OpenAiResponses,
            json!({"object": "response", "status": "completed", "output": [message, item]}),
        ),
        (Format::Gemini, part.clone()),
        (Format::Gemini, json!([{"text": "I look."}, part])),
        (
            Format::Gemini,
            json!({"function_call": {"name": "look", "args": {}}}),
        ),
        (Format::Gemini, content),
        (Format::Gemini, candidate),
        (Format::Gemini, json!([gemini])),
        (Format::Gemini, gemini),
        (Format::Mcp, json!([request])),
        (Format::Mcp, request),
    ]
}

#[test]
fn a_turn_in_another_format_is_refused_with_the_detected_format() {
    for (own, turn) in turns() {
        assert_eq!(Format::detect(&turn), Some(own), "{turn}");
        for format in Format::ALL {
            let read = format.read_turn(&turn);
            if format == own {
                assert_eq!(read.map(|calls| calls.len()), Ok(1), "{format}: {turn}");
                continue;
            }
            let error = read.expect_err(&format!("{format}: {turn}")).to_string();
            let hint = format!("it looks like the format `{own}`");
            assert!(error.ends_with(&hint), "{error}: {turn}");
        }
    }
}

#[test]
fn conversations_are_refused() {
    let call =
        json!({"type": "function_call", "call_id": "c", "name": "write_file", "arguments": "{}"});
    let output =
        json!({"type": "function_call_output", "call_id": "c", "output": "Created log.txt"});
    let user = json!({"role": "user", "content": "log it"});
    let message = json!({
        "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}],
    });
    let reason = "this is a conversation; pass only the `output` of the last response";
    for list in [
        json!([user, call, output, message]),
        json!([call, output, message]),
        json!([call, {"role": "assistant", "content": "done"}]),
        json!([{"type": "message", "role": "user", "content": "log it"}, call]),
        json!([{"type": "item_reference", "id": "fc_1"}, call]),
        json!([call, {"type": "custom_tool_call_output", "call_id": "d", "output": "x"}]),
    ] {
        check(Format::OpenAiResponses, &list, reason);
        check(Format::OpenAiResponses, &json!({ "output": list }), reason);
    }
    check(Format::OpenAiResponses, &output, reason);
    let messages = "this is a list of messages; pass only the last one, which contains the calls";
    for format in [Format::Anthropic, Format::OpenAi, Format::Gemini] {
        check(format, &json!([user]), messages);
    }
    let results = "these are tool results; pass the model's turn";
    check(
        Format::Anthropic,
        &json!([{"type": "tool_result", "tool_use_id": "c", "content": []}]),
        results,
    );
    check(
        Format::Gemini,
        &json!({"parts": [{"functionResponse": {"name": "look", "response": {}}}]}),
        results,
    );
}

#[test]
fn values_that_are_not_turns_are_refused_with_a_reason() {
    let own = json!([{"id": "1", "name": "read_file", "input": {}}]);
    let is_own = "; it looks like `host batch` input without a format";
    for (format, turn, reason) in [
        (
            Format::Anthropic,
            own.clone(),
            format!("a block must have a `type`{is_own}"),
        ),
        (
            Format::OpenAi,
            own.clone(),
            format!("expected the list of `tool_calls`, each with a `function`{is_own}"),
        ),
        (
            Format::OpenAiResponses,
            own.clone(),
            format!("an item must have a `type`{is_own}"),
        ),
        (
            Format::Gemini,
            own.clone(),
            format!("a part must be an object, with a call in `functionCall`{is_own}"),
        ),
        (
            Format::Mcp,
            own,
            format!("a request must have a `method` and an `id`{is_own}"),
        ),
    ] {
        check(format, &turn, &reason);
    }
    for (format, turn, reason) in [
        (
            Format::Anthropic,
            json!({"role": "user", "content": []}),
            "its role is `user`, expected `assistant`",
        ),
        (
            Format::Anthropic,
            json!({"role": "user", "content": "hi"}),
            "its role is `user`, expected `assistant`",
        ),
        (
            Format::Anthropic,
            json!("text"),
            "expected a message with `content`, or its content",
        ),
        (
            Format::Anthropic,
            json!({"type": "text", "text": "Done."}),
            "expected a message with `content`, or its content",
        ),
        (
            Format::Anthropic,
            json!(["hi"]),
            "a block must have a `type`",
        ),
        (
            Format::OpenAi,
            json!({"content": "x", "tool_calls": {}}),
            "`tool_calls` is not a list",
        ),
        (
            Format::OpenAi,
            json!({"content": "x", "function_call": "auto"}),
            "`function_call` is not an object",
        ),
        (
            Format::OpenAi,
            json!({"content": {}}),
            "`content` is neither a string nor a list",
        ),
        (
            Format::OpenAi,
            json!({"tool_calls": [null]}),
            "a call must be an object",
        ),
        (
            Format::OpenAi,
            json!([{"name": "look", "arguments": "{}"}]),
            "expected the list of `tool_calls`, each with a `function`",
        ),
        (
            Format::OpenAi,
            json!({"candidates": []}),
            "it looks like the format `gemini`",
        ),
        (
            Format::OpenAi,
            json!({"choices": [{}]}),
            "the choice has no `message`",
        ),
        (
            Format::OpenAiResponses,
            json!({"type": "local", "name": "x"}),
            "expected a response with `output`, or its items",
        ),
        (
            Format::Gemini,
            json!({"role": "user"}),
            "its role is `user`, expected `model`",
        ),
        (
            Format::Gemini,
            json!({"content": "Done."}),
            "the `content` of a candidate must have `parts`",
        ),
        (
            Format::Gemini,
            json!({"parts": {}}),
            "`parts` is not a list",
        ),
        (
            Format::Gemini,
            json!([{"name": "look", "args": {}}]),
            "a part must be an object, with a call in `functionCall`",
        ),
        (
            Format::Mcp,
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
            "a request must have a `method` and an `id`",
        ),
        (
            Format::Mcp,
            json!({"method": "tools/call", "params": {"name": "write_file"}}),
            "the `tools/call` request has no `id`; add a string or a number",
        ),
        (
            Format::Mcp,
            json!([{"id": null, "method": "tools/call", "params": {"name": "write_file"}}]),
            "the `tools/call` request has no `id`; add a string or a number",
        ),
    ] {
        check(format, &turn, reason);
    }
}

#[test]
fn stream_events_are_refused() {
    let reason = "this is a stream event; request a complete response, or assemble the events";
    for (format, event) in [
        (
            Format::Anthropic,
            json!({"type": "message_start", "message": {}}),
        ),
        (
            Format::Anthropic,
            json!([{"type": "content_block_delta", "index": 0}]),
        ),
        (
            Format::OpenAi,
            json!({"choices": [{"index": 0, "delta": {"tool_calls": []}}]}),
        ),
        (
            Format::OpenAiResponses,
            json!({"type": "response.completed", "response": {"output": []}}),
        ),
    ] {
        check(format, &event, reason);
    }
}

#[test]
fn api_errors_are_reported() {
    for (format, body, message) in [
        (
            Format::Anthropic,
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Over\u{7}loaded"}}),
            r"Over\u{7}loaded",
        ),
        (
            Format::Gemini,
            json!({"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}),
            "no",
        ),
        (
            Format::Gemini,
            json!([{"error": {"code": 429, "message": "quota"}}]),
            "quota",
        ),
        (
            Format::Gemini,
            json!([{"candidates": []}, {"error": {"code": 503, "message": "gone"}}]),
            "gone",
        ),
    ] {
        let expected = format!("the API returned an error instead of a turn: {message}");
        check(format, &body, &expected);
    }
}

#[test]
fn partial_calls_are_refused() {
    let reason =
        "this is a partial call, which is not supported; disable `streamFunctionCallArguments`";
    for piece in [
        json!({"name": "look", "willContinue": true}),
        json!({"partialArgs": [{"jsonPath": "$.path", "stringValue": "e"}], "willContinue": true}),
    ] {
        let parts = json!([{ "functionCall": piece }]);
        let error = Format::Gemini.read_turn(&parts).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
