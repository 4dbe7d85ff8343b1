//! Directories to which a caller narrows its calls: for guests, for programs, and over MCP.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use e2e::{CommandResult, Guest, host, root};
use serde_json::{Value, json};

/// A workspace with `in/a`, `b`, and a program that reads and writes both directories.
fn guest() -> Guest {
    let guest = Guest::new("script", &["fs.read", "fs.write"], "");
    let workspace = guest.workspace();
    fs::create_dir(workspace.join("in")).unwrap();
    fs::write(workspace.join("in/a"), "of in").unwrap();
    fs::write(workspace.join("b"), "of all").unwrap();
    let program = "cat a; cat ../b; echo x > ../made; echo y > made; echo ended";
    fs::write(workspace.join("in/program"), program).unwrap();
    guest
}

fn run(guest: &Guest, command: &str, args: &[&str], input: &Value) -> CommandResult {
    let plugins = [guest.plugin(), root().join("plugins/shell.wasm")];
    let grant = format!("{}:rw", guest.workspace().display());
    let state = tempfile::tempdir().unwrap();
    let mut host = host(&[command, "--allow-path", &grant, "--allow-program", "bash"]);
    host.args(["--mode", "yolo"]).args(args);
    for plugin in plugins {
        host.arg("--plugins").arg(plugin);
    }
    host.env("TOOLHOST_STATE_DIR", state.path());
    host.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = host.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{input}").unwrap();
    let mut first = String::new();
    if command == "run" {
        // Calls end when the client closes the connection.
        let mut stdout = BufReader::new(child.stdout.as_mut().unwrap());
        stdout.read_line(&mut first).unwrap();
    }
    drop(stdin);
    let mut ended = CommandResult::of(&child.wait_with_output().unwrap());
    ended.stdout.insert_str(0, &first);
    ended
}

fn script(steps: &[&str]) -> Value {
    json!({"id": "1", "name": "script", "input": {"steps": steps}})
}

fn narrowed(mut call: Value, paths: &[&str]) -> Value {
    call["only_paths"] = json!(paths);
    call
}

/// Returns the text of each result of `host batch`, or its error code.
fn batch(guest: &Guest, args: &[&str], calls: &Value) -> Vec<String> {
    let args = [args, &["--json"]].concat();
    let ended = run(guest, "batch", &args, calls);
    let results: Vec<Value> =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let shown = results.iter().map(|result| match &result["error"]["code"] {
        Value::String(code) => code.clone(),
        _ => result["outcome"].to_string(),
    });
    shown.collect()
}

fn check(guest: &Guest, args: &[&str], call: Value, expected: &str) {
    let shown = batch(guest, args, &json!([call]));
    assert!(shown[0].contains(expected), "{args:?} {call}: {}", shown[0]);
}

#[test]
fn r_111_a_call_is_narrowed_to_the_directories_that_its_caller_names() {
    let guest = guest();
    let read = || script(&["read in/a", "read b", "write c c", "list ."]);
    let all = r#"["of in","of all","done","#;
    let only_in = r#"["of in","NotFound","NotFound","#;
    check(&guest, &[], narrowed(read(), &["in"]), only_in);
    check(&guest, &["--only-path", "in"], read(), only_in);
    assert!(!guest.workspace().join("c").exists());
    check(
        &guest,
        &["--only-path", "."],
        narrowed(read(), &["in"]),
        only_in,
    );
    check(&guest, &["--only-path", "/workspace"], read(), all);
    // A file must be in a directory of each list.
    let nothing = r#"["NotFound","NotFound","NotFound","#;
    fs::create_dir(guest.workspace().join("other")).unwrap();
    let call = narrowed(read(), &["other"]);
    check(&guest, &["--only-path", "in"], call, nothing);
    check(&guest, &[], narrowed(read(), &[]), nothing);
    // A path never adds access.
    for path in ["/etc", "none", "b", "/workspace2"] {
        let call = narrowed(read(), &["in", path]);
        check(&guest, &[], call, "invalid_only_path");
    }
}

#[test]
fn r_111_programs_reach_only_the_directories_of_their_call() {
    let guest = guest();
    let call = json!({"id": "1", "name": "shell", "only_paths": ["in"],
        "input": {"command": "bash program", "cwd": "/workspace/in"}});
    let output = &batch(&guest, &[], &json!([call]))[0];
    assert!(
        output.contains("of in") && output.contains("ended"),
        "{output}"
    );
    assert!(!output.contains("of all"), "{output}");
    assert!(guest.workspace().join("in/made").exists());
    assert!(!guest.workspace().join("made").exists());
}

#[test]
fn r_111_turns_and_mcp_clients_narrow_their_calls() {
    let guest = guest();
    let calls = json!([script(&["read in/a", "read b"])]);
    let ended = run(
        &guest,
        "turns",
        &[],
        &json!({"calls": calls, "only_paths": ["in"]}),
    );
    assert!(
        ended.stdout.contains(r#"["of in","NotFound"]"#),
        "{ended:?}"
    );
    let ended = run(
        &guest,
        "turns",
        &[],
        &json!({"calls": calls, "only_paths": [".."]}),
    );
    assert!(ended.stdout.contains("it contains `..`"), "{ended:?}");

    let call = |paths: Value| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "script", "arguments": {"steps": ["read in/a", "read b"]},
            "_meta": {"dev.toolhost/only-paths": paths}}});
        let input = e2e::http::modern(message);
        run(&guest, "run", &[], &input).stdout
    };
    let answer = call(json!(["in"]));
    assert!(
        answer.contains("NotFound") && !answer.contains("of all"),
        "{answer}"
    );
    let answer = call(json!(["/etc"]));
    assert!(answer.contains("not in a granted directory"), "{answer}");
    let answer = call(json!("in"));
    assert!(answer.contains("-32602"), "{answer}");
}

#[test]
fn r_111_the_record_of_a_call_shows_to_what_it_was_narrowed() {
    let guest = guest();
    let state = tempfile::tempdir().unwrap();
    let grant = format!("{}:rw", guest.workspace().display());
    let plugin = guest.plugin();
    let run = |args: &[&str]| {
        let mut host = host(args);
        host.env("TOOLHOST_STATE_DIR", state.path());
        let ended = CommandResult::of(&host.output().unwrap());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    };
    let input = json!({"steps": ["read in/a"]}).to_string();
    let mut call = vec!["call", "script", &input, "--allow-path", &grant];
    call.extend(["--plugins", plugin.to_str().unwrap(), "--mode", "yolo"]);
    call.extend(["--only-path", "in", "--only-path", "/workspace"]);
    run(&call);
    let calls: Value = serde_json::from_str(&run(&["calls", "--json"])).unwrap();
    assert_eq!(calls[0]["onlyPaths"], json!([["in", "/workspace"]]));
    let shown = run(&["calls", calls[0]["id"].as_str().unwrap()]);
    assert!(shown.contains("only in   in, /workspace\n"), "{shown}");
}
