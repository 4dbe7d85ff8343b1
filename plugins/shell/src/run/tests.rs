//! Tests of `shell` with a scripted host.

mod background;
mod refusals;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use expect_test::{Expect, expect};
use toolhost_sdk::serde_json;
use toolhost_sdk::services::process::{ExitStatus, RunOutput};
use toolhost_sdk::testing;

use super::*;
use crate::testing::{ScriptedProgram, exited, shown};

fn finished(stdout: &str, stderr: &str, ending: ExitStatus) -> RunOutput {
    RunOutput {
        stdout: stdout.into(),
        stderr: stderr.into(),
        combined: format!("{stdout}{stderr}").into(),
        stdout_total: stdout.len() as u64,
        stderr_total: stderr.len() as u64,
        pid: 42,
        exit_status: ending,
        output_file: Some("/out/7".to_owned()),
        hints: Vec::new(),
    }
}

fn ended(kind: &str, signal: Option<&str>) -> ExitStatus {
    ExitStatus {
        kind: kind.to_owned(),
        code: Some(137),
        signal: signal.map(str::to_owned),
        duration_ms: 120_003.4,
    }
}

/// Long enough for the longest timeout.
fn patient() -> Context {
    Context::test()
        .with_root("/workspace", "rw")
        .with_remaining(Duration::from_mins(20))
}

fn answering(finished: RunOutput) -> Context {
    patient().with_service("process.run", move |_| Ok(serde_json::to_value(&finished)?))
}

fn check(finished: RunOutput, input: Value, expected: Expect) {
    expected.assert_eq(&shown(testing::call::<shell>(&answering(finished), input)));
}

// R-300, R-326, R-346
#[test]
fn r_300_a_command_gives_its_output() {
    check(
        finished("hello\n", "", exited(0)),
        json!({"command": "echo hello"}),
        expect![[r#"
            Output:
            <stdout>
            hello
            </stdout>
            Process Group: 42
            {"stdout":"hello\n","stderr":"","exitCode":0,"timed_out":false,"background":false,"pid":42,"pgid":42,"status":"ended","duration_ms":1234.0,"cwd":"/workspace","output_file":"/out/7","truncated":false}"#]],
    );
    check(
        finished("", "", exited(0)),
        json!({"cmd": "true", "dir_path": "src"}),
        expect![[r#"
            Output: (empty)
            Process Group: 42
            {"stdout":"","stderr":"","exitCode":0,"timed_out":false,"background":false,"pid":42,"pgid":42,"status":"ended","duration_ms":1234.0,"cwd":"src","output_file":"/out/7","truncated":false}"#]],
    );
}

#[test]
fn r_346_another_exit_code_is_an_error_beside_the_output() {
    check(
        finished("a\n", "\x1b[31mno\x1b[0m such file\n", exited(2)),
        json!({"command": "ls x"}),
        expect![[r#"
            Output:
            <stdout>
            a
            </stdout>
            Error:
            <stderr>
            no such file
            </stderr>
            Exit Code: 2
            Process Group: 42
            Failed command_failed: the command ended with exit code 2
            {"stdout":"a\n","stderr":"no such file\n","exitCode":2,"timed_out":false,"background":false,"pid":42,"pgid":42,"status":"ended","duration_ms":1234.0,"cwd":"/workspace","output_file":"/out/7","truncated":false}"#]],
    );
}

// C-19
#[test]
fn a_killed_command_reports_its_signal_and_no_exit_code() {
    check(
        finished("half\n", "", ended("timed-out", Some("KILL"))),
        json!({"command": "sleep 200"}),
        expect![[r#"
            Output:
            <stdout>
            half
            </stdout>
            Ended: timed out after 120000 ms; process killed
            Signal: KILL
            Process Group: 42
            Interrupted timeout: timed out after 120000 ms; process killed
            {"stdout":"half\n","stderr":"","signal":"KILL","timed_out":true,"background":false,"pid":42,"pgid":42,"status":"ended","duration_ms":120003.0,"cwd":"/workspace","output_file":"/out/7","truncated":false}"#]],
    );
    check(
        finished("", "", ended("idle-timeout", Some("TERM"))),
        json!({"command": "read x", "inactivity_timeout_ms": 5000}),
        expect![[r#"
            Output: (empty)
            Ended: no output for 5000 ms; process killed
            Signal: TERM
            Process Group: 42
            Interrupted inactivity_timeout: no output for 5000 ms; process killed
            {"stdout":"","stderr":"","signal":"TERM","timed_out":true,"background":false,"pid":42,"pgid":42,"status":"ended","duration_ms":120003.0,"cwd":"/workspace","output_file":"/out/7","truncated":false}"#]],
    );
    for (kind, signal, code, message) in [
        (
            "signalled",
            Some("SEGV"),
            "command_killed",
            "the command did not exit: signal SEGV",
        ),
        (
            "cancelled",
            None,
            "cancelled",
            "the call was cancelled; process killed",
        ),
        (
            "killed",
            None,
            "command_killed",
            "the command did not exit: killed",
        ),
        (
            "output-limit",
            None,
            "output_limit",
            "output exceeded the host's limit; process killed",
        ),
    ] {
        let cx = answering(finished("", "", ended(kind, signal)));
        let outcome = testing::call::<shell>(&cx, json!({"command": "x"})).unwrap();
        let error = outcome.error.unwrap();
        assert_eq!(
            (error.code.as_deref(), &*error.message),
            (Some(code), message)
        );
        assert_eq!(outcome.structured.unwrap().get("exitCode"), None, "{kind}");
    }
}

#[test]
fn the_sandbox_is_named_where_it_may_have_been_the_cause() {
    let hinted = RunOutput {
        hints: vec!["the sandbox gives this command no network".to_owned()],
        ..finished("", "could not resolve host\n", exited(6))
    };
    let cx = answering(hinted);
    let outcome = testing::call::<shell>(&cx, json!({"command": "curl x"})).unwrap();
    expect![[r#"
        Output: (empty)
        Error:
        <stderr>
        could not resolve host
        </stderr>
        Exit Code: 6
        Process Group: 42
        Sandbox: may have blocked this command. the sandbox gives this command no network
        To allow more: use request_permissions, or ask the user to configure the host.
    "#]]
    .assert_eq(outcome.llm[0].text.as_deref().unwrap());
}

#[test]
fn long_output_is_cut_in_the_middle_and_names_its_file() {
    use std::fmt::Write as _;
    let long = (0..4000).fold(String::new(), |mut text, number| {
        _ = writeln!(text, "{number:x} {:x}", number * 7919);
        text
    });
    let cx = answering(finished(&long, "", exited(0)));
    let input = json!({"command": "x", "max_output_chars": 1000});
    let outcome = testing::call::<shell>(&cx, input).unwrap();
    let structured = outcome.structured.unwrap();
    let stdout = structured["stdout"].as_str().unwrap();
    assert!(stdout.chars().count() <= 1000);
    let remark = stdout.lines().find(|line| line.starts_with('[')).unwrap();
    expect![[r#"[… 44871 characters omitted here (3941 lines). All of it: read_file {"path": "/out/7", "offset": 30}]"#]]
        .assert_eq(remark);
    let truncated = outcome.truncated.unwrap();
    assert_eq!(truncated.original_bytes, long.len() as u64);
    assert_eq!(truncated.saved_to.as_deref(), Some("/out/7"));
    assert_eq!(structured["truncated"], true);
}

/// The host is asked to run exactly what was approved.
#[test]
fn the_command_its_directory_and_its_variables_arrive_unchanged() {
    let request = Rc::new(RefCell::new(Value::Null));
    let recorded = Rc::clone(&request);
    let cx = patient().with_service("process.run", move |input| {
        *recorded.borrow_mut() = input;
        Ok(serde_json::to_value(finished("", "", exited(0)))?)
    });
    let input = json!({
        "command": " ls \"a b\" && echo 'x\ny' ", "cwd": "./src ", "env": {"B": "call", "C": "1"}, "login": true,
        "timeout_ms": 5000, "description": "List",
    });
    testing::call::<shell>(&cx, input).unwrap();
    expect![[r#"{"program":"bash","arguments":["-lc"," ls \"a b\" && echo 'x\ny' "],"cwd":"./src ","environment":[["B","call"],["C","1"]],"stdin":null,"timeout_ms":5000,"inactivity_timeout_ms":300000,"tty":false,"label":"ls \"a b\" && echo 'x\\ny'"}"#]]
        .assert_eq(&request.borrow().to_string());
}

#[test]
fn the_command_ends_before_the_hosts_clock_does() {
    let cx = Context::test()
        .with_remaining(Duration::from_secs(30))
        .with_service("process.run", |input| {
            assert_eq!(input["timeout_ms"], 28_000);
            Ok(serde_json::to_value(finished(
                "",
                "",
                ended("timed-out", None),
            ))?)
        });
    let outcome = testing::call::<shell>(&cx, json!({"command": "x"})).unwrap();
    assert_eq!(
        outcome.error.unwrap().message,
        "timed out after 28000 ms; process killed"
    );
}

// R-490
#[test]
fn r_490_it_streams_and_can_go_on_in_the_background() {
    let descriptor = shell::descriptor();
    assert!(descriptor.can_stream && descriptor.can_background);
    assert_eq!(descriptor.annotations.destructive, Some(true));
    assert_eq!(descriptor.timeout_ms, Some(600_000));
    assert_eq!(
        descriptor.requires,
        ["process", "fs.read", "fs.write", "session"]
    );
    assert!(
        descriptor
            .description
            .contains("Long output is cut in the middle")
    );
}

#[test]
fn its_examples_run() {
    testing::check_examples::<shell>().unwrap();
    for example in shell::descriptor().examples {
        let job = ScriptedProgram::running("").ended(0).job;
        let cx = ScriptedProgram::running("")
            .context(answering(finished("ok\n", "", exited(0))))
            .with_service("process.start", move |_| Ok(json!(job)));
        let input = serde_json::from_str(&example.input).unwrap();
        let outcome = testing::call::<shell>(&cx, input).unwrap();
        assert_eq!(outcome.error, None, "{}", example.description);
    }
}
