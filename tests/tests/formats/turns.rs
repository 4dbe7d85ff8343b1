//! One turn of each model family with successful and failing calls, and the complete answer.

use e2e::test_env::TestEnv;
use serde_json::{Value, json};

use super::{PNG, batch};

/// A test environment with an image in its workspace.
fn test_env() -> TestEnv {
    let env = TestEnv::new("deny = [\"write_file\"]");
    std::fs::write(env.workspace().join("dot.png"), PNG).unwrap();
    env
}

/// The calls of every turn: a success, an image, a denied call, an unknown tool and invalid input.
fn inputs() -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({"path": "old.txt"})),
        ("read_file", json!({"path": "dot.png"})),
        ("write_file", json!({"path": "x", "content": "x"})),
        ("raed_file", json!({"path": "old.txt"})),
        ("read_file", json!({"pth": 3})),
    ]
}

/// What each result must say, and whether it is an error.
const SAYS: [(&str, bool); 4] = [
    ("old", false),
    ("", false),
    ("write_file", true),
    ("Did you mean: read_file", true),
];

fn check(results: &[(String, bool)], last: &str) {
    assert_eq!(results.len(), SAYS.len() + 1, "{results:?}");
    let says = SAYS.into_iter().chain([(last, true)]);
    for ((text, is_error), (says, wrong)) in results.iter().zip(says) {
        assert!(text.contains(says), "{text} does not say {says}");
        assert_eq!(*is_error, wrong, "{text}");
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

// R-127, R-130
#[test]
fn r_127_a_turn_of_claude() {
    let env = test_env();
    let mut content = vec![json!({"type": "thinking", "thinking": "hm", "signature": "s"})];
    for (index, (name, input)) in inputs().into_iter().enumerate() {
        content.push(json!({"type": "text", "text": "And now:"}));
        content.push(json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": input}));
    }
    let turn = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use",
    });
    let (answer, ended) = batch(&env, "anthropic", &turn, &[]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(answer["role"], "user");
    let blocks = answer["content"].as_array().unwrap();
    let results: Vec<_> = blocks
        .iter()
        .enumerate()
        .map(|(index, block)| {
            assert_eq!(block["type"], "tool_result");
            assert_eq!(block["tool_use_id"], format!("toolu_{index}"));
            (
                text(&block["content"]),
                block["is_error"].as_bool().unwrap(),
            )
        })
        .collect();
    check(&results, "path");
    let picture = blocks[1]["content"].as_array().unwrap().iter();
    let source = picture
        .clone()
        .find(|block| block["type"] == "image")
        .unwrap();
    assert_eq!(
        source["source"],
        json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="})
    );
}

// R-130
#[test]
fn r_130_a_turn_of_gpt_with_ids_twice_and_arguments_that_are_no_json() {
    let env = test_env();
    let mut calls: Vec<Value> = inputs()
        .into_iter()
        .map(|(name, input)| {
            json!({"id": "call_1", "type": "function", "function": {"name": name, "arguments": input.to_string()}})
        })
        .collect();
    calls[4]["function"]["arguments"] = json!(r#"{"path": "old"#);
    let turn = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "I look.", "tool_calls": calls,
    }}]});
    let (answer, _) = batch(&env, "openai", &turn, &[]);
    let messages = answer.as_array().unwrap();
    let (tools, rest) = messages.split_at(5);
    let results: Vec<_> = tools
        .iter()
        .map(|message| {
            assert_eq!(
                (&message["role"], &message["tool_call_id"]),
                (&json!("tool"), &json!("call_1"))
            );
            let content = text(&message["content"]);
            let is_error = content.starts_with("Error: ");
            (content, is_error)
        })
        .collect();
    check(&results, "text that is not JSON");
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["role"], "user");
    assert_eq!(
        rest[0]["content"][1]["image_url"]["url"],
        "data:image/png;base64,iVBORw0KGgo="
    );
}

#[test]
fn a_turn_of_gpt_in_the_responses_api() {
    let env = test_env();
    let mut items = vec![json!({"type": "reasoning", "id": "rs", "summary": []})];
    for (index, (name, input)) in inputs().into_iter().enumerate() {
        items.push(json!({
            "type": "function_call", "id": format!("fc_{index}"), "call_id": format!("call_{index}"),
            "name": name, "arguments": input.to_string(), "status": "completed",
        }));
    }
    let turn = json!({"id": "resp", "object": "response", "status": "completed", "output": items});
    let (answer, _) = batch(&env, "openai-responses", &turn, &[]);
    let results: Vec<_> = answer
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(index, item)| {
            assert_eq!(item["type"], "function_call_output");
            assert_eq!(item["call_id"], format!("call_{index}"));
            let output = text(&item["output"]);
            let is_error = output.starts_with("Error: ");
            (output, is_error)
        })
        .collect();
    check(&results, "path");
    assert!(results[1].0.contains("input_image"), "{results:?}");
}

// R-129
#[test]
fn r_129_a_turn_of_gemini_without_ids() {
    let env = test_env();
    let calls = inputs().into_iter();
    let parts: Vec<Value> = calls
        .map(|(name, args)| json!({"functionCall": {"name": name, "args": args}}))
        .collect();
    let turn = json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]});
    let (answer, _) = batch(&env, "gemini", &turn, &["--profile", "native"]);
    assert_eq!(answer["role"], "user");
    let parts = answer["parts"].as_array().unwrap();
    let results: Vec<_> = parts
        .iter()
        .filter_map(|part| part.get("functionResponse"))
        .map(|response| {
            assert!(response.get("id").is_none());
            let result = &response["response"];
            let failed = result.get("error");
            (text(failed.unwrap_or(&result["output"])), failed.is_some())
        })
        .collect();
    check(&results, "path");
    assert_eq!(
        parts[2],
        json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}})
    );
    let names: Vec<_> = parts
        .iter()
        .filter_map(|part| part["functionResponse"]["name"].as_str())
        .collect();
    let expected: Vec<_> = inputs().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, expected);
}

#[test]
fn a_turn_with_the_names_of_a_profile_is_answered_with_them() {
    let env = test_env();
    let turn = json!([
        {"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "old.txt"}},
        {"type": "tool_use", "id": "2", "name": "Raed", "input": {}},
    ]);
    let (answer, _) = batch(&env, "anthropic", &turn, &["--profile", "claude"]);
    assert!(
        text(&answer["content"][0]["content"]).contains("old"),
        "{answer}"
    );
    assert!(
        text(&answer["content"][1]["content"]).contains("Did you mean: Read"),
        "{answer}"
    );
}

#[test]
fn a_turn_that_was_cut_off_runs_all_but_its_last_call() {
    let env = test_env();
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "read_file", "input": {"path": "old.txt"}});
    let turn = json!({"role": "assistant", "content": [call("1"), call("2")], "stop_reason": "max_tokens"});
    let (answer, ended) = batch(&env, "anthropic", &turn, &[]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(answer["content"][0]["is_error"], false);
    assert_eq!(answer["content"][1]["is_error"], true);
    assert!(text(&answer["content"][1]["content"]).contains("was not run"));
}

#[test]
fn requests_of_mcp_get_their_responses() {
    let env = test_env();
    let calls = inputs().into_iter().enumerate();
    let turn: Vec<Value> = calls
        .map(|(id, (name, input))| {
            let params = json!({"name": name, "arguments": input});
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
        })
        .collect();
    let (answer, _) = batch(&env, "mcp", &json!(turn), &[]);
    let results: Vec<_> = answer
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(id, response)| {
            assert_eq!(response["id"], id);
            let result = &response["result"];
            (
                text(&result["content"]),
                result["isError"].as_bool().unwrap(),
            )
        })
        .collect();
    check(&results, "path");
}
