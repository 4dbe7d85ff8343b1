//! The host as an MCP server of third-party agents, each with a scripted model.
//!
//! A run executes a script in `mcp_agents/`: `SCRIPT [CLAUDE] COMMAND ARGS…`. Its model makes the calls in `CALLS`,
//! forms are answered with `ANSWER`, and after `CANCEL_AFTER` seconds the agent cancels. It prints
//! `{tools, results: [{text, isError}], asked, cancelled}`, where `text` is what the model received.

use std::process::Command;

use e2e::client_kits::{kit, stdio_args, with_env_of};
use e2e::test_env::TestEnv;
use e2e::{CommandResult, host, root};
use serde_json::{Value, json};

/// Returns the command for the agent, or `None` if it is not installed.
fn agent(script: &str) -> Option<Command> {
    let file = root().join("tests/tests/mcp_agents").join(script);
    let mut command = if script == "claude_code.py" {
        let packages = kit("claude-code")?.join("node_modules/@anthropic-ai");
        let name = format!("claude-code-linux-{}/claude", node_architecture());
        let mut command = with_env_of(&host(&[]), "python3".into());
        command.arg(file).arg(packages.join(name));
        command
    } else {
        let mut command = with_env_of(&host(&[]), kit("agents")?.join("bin/python"));
        command.arg(file);
        command
    };
    command.env_remove("CANCEL_AFTER");
    Some(command)
}

/// Architecture name of npm.
fn node_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn run(mut agent: Command, env: &TestEnv, calls: &Value, answer: &Value) -> Value {
    let arguments = stdio_args(&env.command_with_plugins(&["run", "--ask-client"]));
    agent
        .args(&arguments[1..])
        .env("TOOLHOST_STATE_DIR", env.path("state"))
        .env("CALLS", calls.to_string())
        .env("ANSWER", answer.to_string());
    let ended = CommandResult::of(&agent.output().expect("the agent starts"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let last = ended.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|_| panic!("{ended:?}"))
}

fn text(report: &Value, index: usize) -> &str {
    report["results"][index]["text"]
        .as_str()
        .unwrap_or_default()
}

/// Checks that the model receives file contents and errors. Returns false if the agent is not installed.
fn check_reading(script: &str) -> bool {
    let Some(agent) = agent(script) else {
        return false;
    };
    let env = TestEnv::new("");
    // Compiled in advance, because a non-interactive agent waits only a few seconds for tools.
    assert_eq!(env.run_with_plugins(&["tools"]).code, Some(0));
    let calls = json!([
        ["read_many_files", {"include": ["*.txt"]}],
        ["read_file", {"path": "odl.txt"}],
        ["read_file", {"path": "old.txt"}],
    ]);
    let report = run(agent, &env, &calls, &json!({"action": "cancel"}));
    let tools = report["tools"].as_array().expect("a list");
    assert!(tools.contains(&json!("read_file")), "{script}: {tools:?}");
    assert!(
        text(&report, 0).contains("--- old.txt ---\nold\n"),
        "{script}: {report}"
    );
    assert!(
        text(&report, 1).contains("Did you mean: old.txt?"),
        "{script}: {report}"
    );
    assert!(
        text(&report, 2).contains("     1→old"),
        "{script}: {report}"
    );
    true
}

/// Checks an approval, a denial, and a call that the agent cancels.
fn check_asking(script: &str) {
    let env = TestEnv::new("");
    let calls = json!([["write_file", {"path": "new.txt", "content": "new"}]]);
    let accept = json!({"action": "accept", "content": {"answer": "once"}});
    for (answer, is_written) in [(json!({"action": "decline"}), false), (accept, true)] {
        let agent = agent(script).expect("it was installed before");
        let report = run(agent, &env, &calls, &answer);
        assert_eq!(
            report["asked"].as_array().map(Vec::len),
            Some(1),
            "{script}: {report}"
        );
        assert_eq!(
            env.workspace().join("new.txt").exists(),
            is_written,
            "{script}: {report}"
        );
        assert_eq!(
            text(&report, 0).contains("Created new.txt"),
            is_written,
            "{script}: {report}"
        );
    }

    let mut agent = agent(script).expect("it was installed before");
    agent.env("CANCEL_AFTER", "2");
    let sleep = json!([["sleep", {"duration": 300}]]);
    let report = run(agent, &env, &sleep, &json!({"action": "cancel"}));
    assert_eq!(report["cancelled"], json!(true), "{script}: {report}");
    assert!(
        text(&report, 0).contains("UTC"),
        "the session continues: {script}: {report}"
    );
}

#[test]
fn c_01_pydantic_ai_passes_the_complete_result_to_its_model() {
    if check_reading("pydantic_ai_agent.py") {
        check_asking("pydantic_ai_agent.py");
    }
}

#[test]
fn c_01_langchain_passes_the_complete_result_to_its_model() {
    if check_reading("langchain_agent.py") {
        check_asking("langchain_agent.py");
    }
}

#[test]
fn c_01_claude_code_passes_the_complete_result_to_its_model() {
    if check_reading("claude_code.py") {
        check_asking("claude_code.py");
    }
}
