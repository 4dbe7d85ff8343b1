//! `host batch`: the calls of one turn, from a file to a list of results; and the file of events.

use std::process::Stdio;

use e2e::CommandResult;
use e2e::test_env::{TestEnv, parse_json, wait_output};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn file(env: &TestEnv, calls: &Value) -> String {
    let file = env.path("calls.json");
    std::fs::write(&file, calls.to_string()).unwrap();
    file.to_string_lossy().into_owned()
}

fn run(env: &TestEnv, calls: &Value, flags: &[&str]) -> (Vec<Value>, CommandResult) {
    let file = file(env, calls);
    let ended = env.run_with_plugins(&[&["batch", &file][..], flags].concat());
    let Value::Array(results) = parse_json(&ended) else {
        panic!("not a list: {ended:?}")
    };
    (results, ended)
}

fn call(id: &str, name: &str, input: Value) -> Value {
    json!({"id": id, "name": name, "input": input})
}

fn result_codes(results: &[Value]) -> Vec<String> {
    results
        .iter()
        .map(|result| {
            let code = result["error"]["code"].as_str().unwrap_or("ok");
            format!("{} {code}", result["id"].as_str().unwrap())
        })
        .collect()
}

// results are in call order, whichever call ends first; a call that fails touches no other.
#[test]
fn r_163_results_come_back_in_call_order() {
    let env = TestEnv::new("");
    let calls = json!([
        call("slow", "sleep", json!({"duration": 0.3})),
        call("quick", "read_file", json!({"path": "old.txt"})),
        call("missing", "raed_file", json!({})),
        call("wrong", "read_file", json!({"pth": 1})),
        call("last", "current_time", json!({})),
    ]);
    for strategy in ["waves", "sema", "kode", "serial"] {
        let (results, ended) = run(&env, &calls, &["--strategy", strategy]);
        assert_eq!(
            result_codes(&results),
            [
                "slow ok",
                "quick ok",
                "missing tool_not_registered",
                "wrong invalid_tool_params",
                "last ok",
            ],
            "{strategy}"
        );
        assert_eq!(ended.code, Some(1));
        assert_eq!(results[1]["ok"], true);
        assert_eq!(results[1]["tool"], "read_file");
    }
    let (results, ended) = run(&env, &json!([calls[1], calls[4]]), &["--json"]);
    assert_eq!((results.len(), ended.code), (2, Some(0)));
    assert_eq!(run(&env, &json!([]), &[]).0, Vec::<Value>::new());
}

// one call that writes makes the whole turn serial, so what comes after it sees what it wrote.
#[test]
fn r_171_a_call_sees_what_the_one_before_it_wrote() {
    let env = TestEnv::new("allow = [\"write_file\"]");
    for strategy in ["sema", "waves", "kode"] {
        let path = format!("{strategy}.txt");
        let write = |id: &str, content: &str, mode: &str| {
            call(
                id,
                "write_file",
                json!({"path": path, "content": content, "mode": mode}),
            )
        };
        let calls = json!([
            write("1", "one\n", "create"),
            write("2", "two\n", "append"),
            call("3", "read_file", json!({"path": path})),
        ]);
        let (results, ended) = run(&env, &calls, &["--strategy", strategy]);
        assert_eq!(ended.code, Some(0), "{strategy}: {results:?}");
        let read = results[2]["outcome"].to_string();
        assert!(read.contains("one") && read.contains("two"), "{read}");
    }
}

// What is shown of a change is worth only so much of a call's time, inside the sandbox too.
#[test]
fn many_lines_that_are_all_alike_are_rewritten_within_a_calls_time() {
    let env = TestEnv::new("allow = [\"write_file\"]");
    // The bits of a fixed generator choose the lines, so that both texts are long walks through the same few.
    let text = |mut seed: u32, lines: [&str; 4]| -> String {
        let mut line = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            lines[(seed >> 28) as usize % 4].to_owned() + "\n"
        };
        (0..100_000).map(|_| line()).collect()
    };
    let write = |id: &str, content: String| {
        call(
            id,
            "write_file",
            json!({"path": "many.txt", "content": content}),
        )
    };
    let calls = json!([
        write("1", text(1, ["{", "}", "", "a"])),
        call("2", "read_file", json!({"path": "many.txt"})),
        write("3", text(2, ["{", "}", "b", "a"])),
    ]);
    let (results, _) = run(&env, &calls, &[]);
    assert_eq!(
        result_codes(&results),
        ["1 ok", "2 ok", "3 ok"],
        "{results:?}"
    );
}

#[test]
fn a_refused_call_does_not_stop_the_others() {
    let env = TestEnv::new("deny = [\"write_file\"]");
    let calls = json!([
        call("a", "write_file", json!({"path": "x", "content": "x"})),
        call("b", "read_file", json!({"path": "old.txt"})),
    ]);
    let (results, ended) = run(&env, &calls, &[]);
    assert_eq!(result_codes(&results), ["a policy_violation", "b ok"]);
    assert_eq!(ended.code, Some(1));
}

#[test]
fn ctrl_c_cancels_what_has_not_ended_and_every_call_has_its_result() {
    let env = TestEnv::new("");
    let calls = json!([
        call("quick", "read_file", json!({"path": "old.txt"})),
        call("slow", "sleep", json!({"duration": 200})),
        call("later", "read_file", json!({"path": "old.txt"})),
    ]);
    let file = file(&env, &calls);
    let running = env.spawn(&["batch", &file, "--strategy", "serial"]);
    env.wait_for("executing");
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let ended = wait_output(running);
    let results = parse_json(&ended);
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        result_codes(results.as_array().unwrap()),
        ["quick ok", "slow cancelled", "later sibling_cancelled"]
    );
    let message = results[2]["error"]["message"].as_str().unwrap();
    assert!(message.contains("/slow of the same turn"), "{message}");
    let calls = env.run_json(&["calls", "--running", "--json"]);
    assert_eq!(calls, json!([]));
}

#[test]
fn calls_may_come_one_after_the_other_on_standard_input() {
    let env = TestEnv::new("");
    let lines = env.path("calls.jsonl");
    let text = "{\"id\": \"1\", \"name\": \"read_file\", \"input\": {\"path\": \"old.txt\"}}\n{\"id\": \"2\", \"name\": \"current_time\"}\n";
    std::fs::write(&lines, text).unwrap();
    let ended = CommandResult::of(
        &env.command_with_plugins(&["batch", "-"])
            .stdin(Stdio::from(std::fs::File::open(&lines).unwrap()))
            .output()
            .unwrap(),
    );
    assert_eq!(
        result_codes(parse_json(&ended).as_array().unwrap()),
        ["1 ok", "2 ok"]
    );
}

//
#[test]
fn the_file_of_events_tells_of_the_batch() {
    let env = TestEnv::new("");
    let events = env.path("events.jsonl");
    let calls = json!([
        call("1", "read_file", json!({"path": "old.txt"})),
        call("2", "read_file", json!({"path": "gone.txt"})),
    ]);
    let flags = ["--events", &*events.to_string_lossy()];
    run(&env, &calls, &flags);
    let text = std::fs::read_to_string(&events).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let types: Vec<&str> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert!(
        types.ends_with(&["batch.completed", "batch.submitted"]),
        "{types:?}"
    );
    let ends = types
        .iter()
        .filter(|kind| ["call.completed", "call.failed"].contains(kind));
    assert_eq!(ends.count(), 2);
    let seqs: Vec<u64> = lines
        .iter()
        .map(|line| line["seq"].as_u64().unwrap())
        .collect();
    assert!(
        seqs.iter().zip(1..).all(|(seq, expected)| *seq == expected),
        "{seqs:?}"
    );
}

// each event once, in order, until the end.
#[test]
fn every_event_is_in_the_file_before_the_program_ends() {
    let env = TestEnv::new("");
    let file = env.path("events.jsonl");
    let events = file.to_string_lossy().into_owned();
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let call = ["call", "read_file", "path=old.txt", "--events", &events];
    assert_eq!(env.run_with_plugins(&call).code, Some(0));
    let types: Vec<String> = lines()
        .iter()
        .enumerate()
        .map(|(index, event)| {
            assert_eq!(event["seq"], index + 1);
            let state = event["data"]["state"].as_str().unwrap_or_default();
            format!("{} {state}", event["type"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        types,
        [
            "registry.changed ",
            "call.created ",
            "call.state validating",
            "call.state validating",
            "call.state scheduled",
            "call.state executing",
            "call.completed ",
        ]
    );
    let as_kode = [&call[..], &["--events-as", "kode"]].concat();
    assert_eq!(env.run_with_plugins(&as_kode).code, Some(0));
    let types: Vec<Value> = lines().iter().map(|event| event["type"].clone()).collect();
    assert_eq!(types, ["tool:start", "tool:end", "tool_executed"]);
}

// docs/audits/2026-11-hooks-and-scheduling.md
#[test]
fn h_01_no_tool_changes_what_a_hook_runs() {
    let env = TestEnv::new(
        "allow = [\"write_file\", \"move_file\", \"delete_file\"]
[[hook]]
command = [\"./workspace/hooks/guard.sh\"]
[[hook]]
name = \"by a shell\"
command = [\"sh\", \"workspace/script.sh\"]",
    );
    let script = "#!/bin/sh\nexit 0\n";
    let path = |name: &str| env.workspace().join(name);
    std::fs::create_dir(path("hooks")).unwrap();
    for name in ["hooks/guard.sh", "script.sh"] {
        std::fs::write(path(name), script).unwrap();
        let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path(name), runs).unwrap();
    }
    let evil = "#!/bin/sh\ntouch workspace/evil\n";
    let write = |id: &str, path: &str| {
        call(
            id,
            "write_file",
            json!({"path": path, "content": evil, "mode": "overwrite"}),
        )
    };
    let calls = json!([
        write("program", "hooks/guard.sh"),
        write("script", "script.sh"),
        call("gone", "delete_file", json!({"path": "script.sh"})),
        call(
            "folder",
            "move_file",
            json!({"source": "hooks", "destination": "old"})
        ),
        write("other", "new.sh"),
    ]);
    let (results, _) = run(&env, &calls, &["--strategy", "serial"]);
    assert_eq!(
        result_codes(&results),
        [
            "program permission_denied",
            "script permission_denied",
            "gone permission_denied",
            "folder permission_denied",
            "other ok",
        ]
    );
    for name in ["hooks/guard.sh", "script.sh"] {
        assert_eq!(std::fs::read_to_string(path(name)).unwrap(), script);
    }
    assert!(!path("evil").exists());
}
