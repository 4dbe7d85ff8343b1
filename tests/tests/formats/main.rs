//! `host tools --format` and `host batch --format`: what an agent loop of each model family hands over and gets back.

mod docs;
mod session;
mod turns;

use std::io::Write as _;
use std::process::Stdio;

use e2e::CommandResult;
use e2e::test_env::{TestEnv, parse_json};
use serde_json::{Value, json};

const FORMATS: [&str; 5] = ["anthropic", "openai", "openai-responses", "gemini", "mcp"];

/// Eight bytes that say that they are a picture, and no picture.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

pub fn batch(env: &TestEnv, format: &str, turn: &Value, flags: &[&str]) -> (Value, CommandResult) {
    let args = [&["batch", "--format", format][..], flags].concat();
    let mut command = env.command_with_plugins(&args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut stdin = running.stdin.take().unwrap();
    stdin.write_all(turn.to_string().as_bytes()).unwrap();
    drop(stdin);
    let ended = CommandResult::of(&running.wait_with_output().unwrap());
    let answer = serde_json::from_str(&ended.stdout).unwrap_or_default();
    (answer, ended)
}

fn tools(env: &TestEnv, args: &[&str]) -> (Value, CommandResult) {
    let ended = env.run_with_plugins(&[&["tools", "--format"][..], args].concat());
    (parse_json(&ended), ended)
}

/// Where the names and the schemas of a list are.
fn listed<'a>(tools: &'a Value, format: &str) -> Vec<(&'a str, &'a Value)> {
    let (list, name, schema) = match format {
        "anthropic" => ("", "/name", "/input_schema"),
        "openai" => ("", "/function/name", "/function/parameters"),
        "openai-responses" => ("", "/name", "/parameters"),
        "gemini" => ("/0/functionDeclarations", "/name", "/parameters"),
        _ => ("", "/name", "/inputSchema"),
    };
    let list = tools.pointer(list).unwrap().as_array().unwrap().iter();
    list.map(|tool| {
        let name = tool.pointer(name).unwrap().as_str().unwrap();
        (name, tool.pointer(schema).unwrap_or(&Value::Null))
    })
    .collect()
}

#[test]
fn each_format_lists_the_tools_of_the_profile() {
    let env = TestEnv::new("");
    for format in FORMATS {
        for (profile, name, parameter) in [
            ("native", "read_file", "path"),
            ("claude", "Read", "file_path"),
        ] {
            let (tools, ended) = tools(&env, &[format, "--profile", profile]);
            assert_eq!(ended.code, Some(0));
            let listed = listed(&tools, format);
            let (_, schema) = listed.iter().find(|(own, _)| *own == name).unwrap();
            let property = &schema["properties"][parameter];
            assert_eq!(property["type"], "string", "{format} {profile}: {schema}");
            let text = tools.to_string();
            assert!(!text.contains("x-aliases"), "{format}");
        }
    }
}

#[test]
fn a_strict_list_says_which_tools_cannot_be_strict() {
    let env = TestEnv::new("");
    for (format, strict) in [
        ("openai", "/function/strict"),
        ("openai-responses", "/strict"),
    ] {
        let (tools, ended) = tools(&env, &[format, "--strict"]);
        let tools = tools.as_array().unwrap();
        let loose = tools
            .iter()
            .filter(|tool| tool.pointer(strict) == Some(&json!(false)))
            .count();
        let notes = ended.stderr.matches(" cannot be strict: ").count();
        assert_eq!(loose, notes, "{}", ended.stderr);
        assert!(loose < tools.len() / 4, "{}", ended.stderr);
    }
    let ended = env.run_with_plugins(&["tools", "--format", "gemini", "--strict"]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.contains("--strict requires the format openai"),
        "{ended:?}"
    );
    let ended = env.run_with_plugins(&["tools", "--format", "openia"]);
    assert_eq!(ended.code, Some(2));
    let hint = "a similar value exists: 'openai'";
    assert!(ended.stderr.contains(hint), "{ended:?}");
}

#[test]
fn nothing_to_call_is_an_empty_answer_and_a_note() {
    let env = TestEnv::new("");
    for (format, turn, answer) in [
        (
            "anthropic",
            json!({"role": "assistant", "content": [{"type": "text", "text": "Done."}]}),
            json!({"role": "user", "content": []}),
        ),
        (
            "openai",
            json!({"role": "assistant", "content": "Done."}),
            json!([]),
        ),
        ("openai-responses", json!({"output": []}), json!([])),
        (
            "gemini",
            json!({"role": "model", "parts": [{"text": "Done."}]}),
            json!({"role": "user", "parts": []}),
        ),
    ] {
        let (output, ended) = batch(&env, format, &turn, &[]);
        assert_eq!((output, ended.code), (answer, Some(0)), "{format}");
        assert!(
            ended.stderr.contains("the turn contains no tool calls"),
            "{ended:?}"
        );
    }
}

#[test]
fn what_is_no_turn_is_wrong_usage_with_the_reason() {
    let env = TestEnv::new("");
    for (format, turn, reason) in [
        (
            "anthropic",
            json!([{"role": "user", "content": "hi"}]),
            "standard input: this is not a turn in the format `anthropic`: this is a list of messages",
        ),
        (
            "openai",
            json!({"error": {"message": "rate limit", "type": "rate_limit_error"}}),
            "the API returned an error instead of a turn: rate limit",
        ),
    ] {
        let (_, ended) = batch(&env, format, &turn, &[]);
        assert_eq!(ended.code, Some(2));
        assert!(ended.stderr.contains(reason), "{ended:?}");
        assert_eq!(ended.stdout, "");
    }
}
