//! `host turns --format`: turns of a model in its API's form, in one session.

use std::io::Write as _;
use std::process::Stdio;

use e2e::test_env::TestEnv;
use serde_json::{Value, json};

/// The output lines for these input lines.
fn lines(env: &TestEnv, flags: &[&str], turns: &[Value]) -> Vec<Value> {
    let turns: Vec<_> = turns.iter().map(Value::to_string).collect();
    answers(env, flags, (turns.join("\n") + "\n").as_bytes())
}

fn answers(env: &TestEnv, flags: &[&str], input: &[u8]) -> Vec<Value> {
    let mut command = env.command_with_plugins(&[&["turns"][..], flags].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut stdin = running.stdin.take().unwrap();
    stdin.write_all(input).unwrap();
    drop(stdin);
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn read(id: &str, path: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "read_file", "input": {"path": path}})
}

#[test]
fn turns_are_answered_in_their_form_and_the_session_goes_on_after_a_wrong_one() {
    let env = TestEnv::new("");
    let output = lines(
        &env,
        &["--format", "anthropic"],
        &[
            json!({"turn": {"role": "assistant", "content": [read("a", "old.txt"), read("b", "gone.txt")]}}),
            json!({"turn": {"role": "user", "content": []}}),
            json!({"turn": [read("c", "old.txt")], "strategy": "serial"}),
            json!({"turn": {"role": "assistant", "content": "Done."}}),
            json!({"calls": [{"id": "d", "name": "read_file", "input": {"path": "old.txt"}}]}),
        ],
    );
    let blocks = |line: usize| output[line]["results"]["content"].as_array().unwrap();
    let ids: Vec<_> = blocks(0)
        .iter()
        .map(|block| &block["tool_use_id"])
        .collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(blocks(0)[1]["is_error"], true);
    let error = output[1]["error"].as_str().unwrap();
    assert!(error.contains("its role is `user`"), "{error}");
    assert_eq!(blocks(2)[0]["tool_use_id"], "c");
    assert_eq!(blocks(3), &Vec::<Value>::new());
    assert_eq!(output[4]["results"][0]["id"], "d");
}

#[test]
fn a_turn_without_a_format_and_a_line_with_both_are_errors() {
    let env = TestEnv::new("");
    let output = lines(
        &env,
        &[],
        &[
            json!({"turn": []}),
            json!({"turn": [], "calls": []}),
            json!({"event": {}}),
        ],
    );
    let errors: Vec<_> = output
        .iter()
        .map(|line| line["error"].as_str().unwrap())
        .collect();
    assert_eq!(
        errors,
        [
            "a `turn` requires `host turns --format`",
            "expected `calls`, a `turn`, an `answer`, an `event`, `detach`, `stats` or `reflection`",
            "an `event` requires `host turns --events-as`",
        ]
    );
}

#[test]
fn what_an_editor_or_a_shell_puts_before_the_json_is_passed_over_or_named() {
    let env = TestEnv::new("");
    let call = r#"{"calls":[{"id":"a","name":"read_file","input":{"path":"old.txt"}}]}"#;
    let input = format!("\u{feff}{call}\r\n{call}\n");
    let marked = answers(&env, &[], input.as_bytes());
    assert!(
        marked.iter().all(|line| line["results"][0]["ok"] == true),
        "{marked:?}"
    );
    assert_eq!(marked.len(), 2);
    let wide = answers(&env, &[], b"\xff\xfe{\0\n\0");
    assert_eq!(
        wide[0]["error"],
        "invalid turn: encoded as UTF-16; use UTF-8"
    );
}
