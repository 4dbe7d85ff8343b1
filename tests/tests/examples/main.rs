//! The agents in `examples`, as a user starts them, against a model that plays a script.

mod model;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::test_env::TestEnv;
use e2e::{CommandResult, root, target};
use model::Model;
use serde_json::{Value, json};

/// The version that a program prints; `None` if it cannot be run.
fn version(program: &OsStr, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The Node that was installed for the tests, or the machine's own, when it reads TypeScript.
fn node() -> Option<OsString> {
    let installed = target().join("clients/node/program").into_os_string();
    [installed, "node".into()].into_iter().find(|program| {
        let version = version(program, "--version").unwrap_or_default();
        let major = version.trim().trim_start_matches('v').split('.').next();
        major.is_some_and(|major| major.parse().is_ok_and(|major: u32| major >= 22))
    })
}

/// Runs one of the examples in the workspace of `env`.
fn agent(
    env: &TestEnv,
    model: &Model,
    program: &OsStr,
    args: &[&str],
    base: &str,
) -> CommandResult {
    let working = env.command_with_plugins(&[]);
    let flags: Vec<OsString> = working.get_args().map(ToOwned::to_owned).collect();
    let mut command = Command::new(program);
    command
        .args(args)
        .arg("What is in old.txt?")
        .args(flags)
        .env("BASE_URL", format!("{}{base}", model.url()))
        .env("HOST_PROGRAM", working.get_program())
        .env("API_KEY", "key-of-a-test")
        .env("MODEL", "scripted")
        .env("NODE_NO_WARNINGS", "1")
        .stdin(Stdio::null())
        .current_dir(env.workspace());
    for (name, value) in working.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    CommandResult::of(&command.output().unwrap())
}

fn skipped(example: &str, needs: &str) {
    // Bypasses the output capture of the test harness, so that a skipped test is visible.
    use std::io::Write as _;
    let _ = writeln!(
        std::io::stderr(),
        "skipped: the {example} example needs {needs}, and there is none"
    );
}

fn names(tools: &Value, path: &str) -> Vec<String> {
    let tools = tools.as_array().unwrap().iter();
    tools
        .map(|tool| tool.pointer(path).unwrap().as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_python_agent_talks_in_anthropics_shape() {
    if version(OsStr::new("python3"), "--version").is_none() {
        return skipped("python-anthropic", "python3");
    }
    let reply = |content: Value, reason: &str| {
        json!({
            "id": "msg", "type": "message", "role": "assistant", "model": "scripted",
            "content": content, "stop_reason": reason,
        })
    };
    let first = json!([
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "old.txt"}},
        {"type": "tool_use", "id": "toolu_2", "name": "read_file", "input": {"path": "gone.txt"}},
    ]);
    let second = json!([
        {"type": "tool_use", "id": "toolu_3", "name": "write_file", "input": {"path": "new.txt", "content": "x"}},
        {"type": "tool_use", "id": "toolu_4", "name": "raed_file", "input": {}},
    ]);
    let model = Model::new(vec![
        reply(first.clone(), "tool_use"),
        reply(second.clone(), "tool_use"),
        reply(
            json!([{"type": "text", "text": "It says old."}]),
            "end_turn",
        ),
    ]);
    let env = TestEnv::new("");
    let script = root().join("examples/python-anthropic/agent.py");
    let script = script.to_string_lossy();
    let ended = agent(&env, &model, OsStr::new("python3"), &[&script], "");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "I look.\n\nIt says old.\n");
    // No user was available to approve.
    assert!(ended.stderr.contains("write_file: "), "{ended:?}");
    assert!(!env.workspace().join("new.txt").exists());

    let requests = model.requests();
    assert!(requests.iter().all(|one| one.path == "/v1/messages"));
    assert!(
        requests[0]
            .headers
            .contains(&"x-api-key: key-of-a-test".to_owned())
    );
    let listed = names(&requests[0].body["tools"], "/name");
    assert!(listed.contains(&"read_file".to_owned()), "{listed:?}");
    let messages = requests[2].body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 5);
    assert_eq!(
        messages[0],
        json!({"role": "user", "content": "What is in old.txt?"})
    );
    assert_eq!(messages[1], json!({"role": "assistant", "content": first}));
    assert_eq!(messages[3], json!({"role": "assistant", "content": second}));
    let tool_result = |message: usize, block: usize| {
        let result = &messages[message]["content"][block];
        assert_eq!(result["type"], "tool_result");
        let text = result["content"][0]["text"].as_str().unwrap();
        (
            result["tool_use_id"].as_str().unwrap(),
            result["is_error"].as_bool().unwrap(),
            text,
        )
    };
    for (message, block, id, is_error, says) in [
        (2, 0, "toolu_1", false, "old"),
        (2, 1, "toolu_2", true, "gone.txt"),
        (4, 0, "toolu_3", true, "no user is available"),
        (4, 1, "toolu_4", true, "Did you mean: read_file"),
    ] {
        let result = tool_result(message, block);
        assert_eq!((result.0, result.1), (id, is_error), "{messages:?}");
        assert!(result.2.contains(says), "{}", result.2);
    }
}

#[test]
fn the_typescript_agent_talks_in_openais_shape() {
    let Some(node) = node() else {
        return skipped("typescript-openai", "Node 22");
    };
    let reply = |message: &Value, reason: &str| json!({"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]});
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let first = json!({"role": "assistant", "content": null, "tool_calls": [
        // As strict mode makes a model write it: all that may be left out is null.
        call("call_1", "read_file", r#"{"path": "old.txt", "limit": null, "offset": null}"#),
        call("call_2", "read_file", r#"{"path": "#),
    ]});
    let last = json!({"role": "assistant", "content": "It says old."});
    let model = Model::new(vec![reply(&first, "tool_calls"), reply(&last, "stop")]);
    let env = TestEnv::new("");
    let script = root().join("examples/typescript-openai/agent.ts");
    let script = script.to_string_lossy();
    let args = ["--experimental-strip-types", &script];
    let ended = agent(&env, &model, &node, &args, "/v1");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "It says old.\n");

    let requests = model.requests();
    assert!(
        requests
            .iter()
            .all(|one| one.path == "/v1/chat/completions")
    );
    assert!(
        requests[0]
            .headers
            .contains(&"authorization: bearer key-of-a-test".to_owned())
    );
    let listed = names(&requests[0].body["tools"], "/function/name");
    assert!(listed.contains(&"read_file".to_owned()), "{listed:?}");
    let messages = requests[1].body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert_eq!(messages[1], first);
    assert_eq!(messages[2]["role"], "tool");
    assert_eq!(messages[2]["tool_call_id"], "call_1");
    assert!(messages[2]["content"].as_str().unwrap().contains("old"));
    assert_eq!(messages[3]["tool_call_id"], "call_2");
    let error_text = messages[3]["content"].as_str().unwrap();
    assert!(
        error_text.starts_with("Error: ") && error_text.contains("JSON"),
        "{error_text}"
    );
}

#[test]
fn the_rust_agent_talks_in_geminis_shape() {
    let reply = |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]});
    let call =
        |name: &str, path: &str| json!({"functionCall": {"name": name, "args": {"path": path}}});
    let first = json!([
        call("read_file", "old.txt"),
        call("read_file", "gone.txt"),
        call("write_file", "new.txt"),
    ]);
    let model = Model::new(vec![
        reply(first.clone()),
        reply(json!([{"text": "It says old."}])),
    ]);
    let env = TestEnv::new("");
    let working = env.command_with_plugins(&[]);
    let mut command = Command::new(Path::new(working.get_program()).with_file_name("agent-loop"));
    command
        .arg("What is in old.txt?")
        .args([root().join("plugins"), env.workspace()])
        .env("BASE_URL", model.url())
        .env("MODEL", "scripted")
        .env("API_KEY", "key-of-a-test")
        .env("TOOLHOST_CACHE_DIR", target().join("test-cache"))
        .stdin(Stdio::null());
    let ended = CommandResult::of(&command.output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "It says old.\n");

    let requests = model.requests();
    assert!(
        requests
            .iter()
            .all(|one| one.path == "/v1beta/models/scripted:generateContent")
    );
    let key = "x-goog-api-key: key-of-a-test".to_owned();
    assert!(requests[0].headers.contains(&key));
    let listed = names(
        &requests[0].body["tools"][0]["functionDeclarations"],
        "/name",
    );
    assert!(listed.contains(&"read_file".to_owned()), "{listed:?}");
    let contents = requests[1].body["contents"].as_array().unwrap();
    assert_eq!(contents.len(), 3);
    assert_eq!(contents[1], json!({"role": "model", "parts": first}));
    let answers = contents[2]["parts"].as_array().unwrap();
    let response = |at: usize| answers[at]["functionResponse"]["response"].to_string();
    assert_eq!(answers.len(), 3);
    for (at, says) in [(0, "old"), (1, "gone.txt"), (2, "content")] {
        assert_eq!(
            answers[at]["functionResponse"]["name"],
            first[at]["functionCall"]["name"]
        );
        assert!(response(at).contains(says), "{}", response(at));
    }
    assert!(!env.workspace().join("new.txt").exists());
}
