//! The agent and the task that a program states for its calls: in rules, records and turns.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use e2e::test_env::TestEnv;
use e2e::{CommandResult, root};
use serde_json::{Value, json};

/// A configuration that denies a tool to one agent, and allows it for one task.
fn test_env() -> TestEnv {
    let env = TestEnv::new("rules = [\"rules.toml\"]");
    fs::write(
        env.path("rules.toml"),
        "[[rule]]\ntool = \"current_time\"\ndecision = \"deny\"\nagent = \"review*\"\n\
         [[rule]]\ntool = \"write_file\"\ndecision = \"allow\"\ntask = \"t-1\"\n",
    )
    .unwrap();
    env
}

#[test]
fn rules_match_the_stated_agent_and_task() {
    let env = test_env();
    let code = |arguments: &[&str]| env.run_with_plugins(arguments).code;
    let time = ["call", "current_time"];
    assert_eq!(code(&time), Some(0));
    assert_eq!(
        code(&[&time[..], &["--agent", "builder"]].concat()),
        Some(0)
    );
    assert_eq!(
        code(&[&time[..], &["--agent", "reviewer-2"]].concat()),
        Some(5)
    );
    let write = ["call", "write_file", "path=new.txt", "content=x"];
    assert_eq!(code(&[&write[..], &["--task", "t-2"]].concat()), Some(5));
    assert_eq!(code(&[&write[..], &["--task", "t-1"]].concat()), Some(0));
    assert_eq!(code(&[&time[..], &["--agent", "a b"]].concat()), Some(2));
    let explain = ["policy", "explain", "current_time"];
    assert_eq!(code(&explain), Some(0));
    assert_eq!(
        code(&[&explain[..], &["--agent", "reviewer-2"]].concat()),
        Some(5)
    );
    let calls = env.run_json(&["calls", "--json"]);
    let found = calls.as_array().unwrap().iter().any(|call| {
        call["name"] == "write_file" && call["taskId"] == "t-1" && call["agentId"] == "main"
    });
    assert!(found, "{calls}");
}

#[test]
fn each_turn_can_state_its_agent() {
    let env = test_env();
    let mut command = env.command(&["turns", "--config", "host.toml", "--plugins"]);
    command.arg(root().join("plugins/system.wasm"));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let calls = json!([{"id": "1", "name": "current_time", "input": {}}]);
    for line in [
        json!({"calls": calls, "agent": "reviewer"}),
        json!({"calls": calls}),
        json!({"calls": calls, "agent": "a b"}),
    ] {
        writeln!(input, "{line}").unwrap();
    }
    drop(input);
    let ended = CommandResult::of(&child.wait_with_output().unwrap());
    let lines = ended.stdout.lines().map(serde_json::from_str::<Value>);
    let lines: Vec<Value> = lines.map(Result::unwrap).collect();
    let results: Vec<&Value> = lines
        .iter()
        .map(|line| &line["results"][0]["ok"])
        .filter(|ok| !ok.is_null())
        .collect();
    assert_eq!(results, [&json!(false), &json!(true)], "{ended:?}");
    let refused = lines.iter().filter_map(|line| line["error"].as_str());
    let refused: Vec<&str> = refused.collect();
    assert_eq!(refused.len(), 1, "{ended:?}");
    assert!(
        refused[0].contains("`a b` cannot name an agent"),
        "{refused:?}"
    );
}
