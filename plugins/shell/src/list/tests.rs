//! Tests of `shell_list` with scripted tasks.

use expect_test::expect;
use toolhost_sdk::testing;

use super::*;
use crate::testing::{ScriptedProgram, exited, job_of, shown};

#[test]
fn programs_and_calls_are_listed_as_they_began() {
    let ended = Job {
        state: "ended".to_owned(),
        exit_status: Some(exited(1)),
        output_bytes: 12,
        ..job_of("1", 70, "make\nall")
    };
    let running = Job {
        started_ms: 61_000.0,
        ..job_of("2", 71, "npm run dev")
    };
    let call = BackgroundCall {
        id: "tool-a".to_owned(),
        tool: "grep".to_owned(),
        state: "running".to_owned(),
        started_ms: 30_000.0,
    };
    expect![[r#"
        3 background tasks, 2 running:
        1  pid 70  ended, exit code 1, after 1 s, 12 bytes  make\nall
        tool-a  call of grep  running since 1 min 35 s
        2  pid 71  running since 1 min 4 s, 0 bytes  npm run dev
        {"tasks":[{"task_id":"1","kind":"program","pid":70,"command":"make\nall","status":"ended","started_ms":1000.0,"exitCode":1,"bytes":12},{"task_id":"tool-a","kind":"call","command":"grep","status":"running","started_ms":30000.0},{"task_id":"2","kind":"program","pid":71,"command":"npm run dev","status":"running","started_ms":61000.0,"bytes":0}],"running":2}"#]]
    .assert_eq(&shown(Ok(listed(&[ended, running], &[call], 125_000.0))));
}

#[test]
fn an_empty_list_is_stated() {
    expect![[r#"
        No background tasks in this session.
        {"tasks":[],"running":0}"#]]
    .assert_eq(&shown(Ok(listed(&[], &[], 0.0))));
}

#[test]
fn spans_are_short() {
    for (milliseconds, expected) in [
        (0.0, "0 ms"),
        (850.4, "850 ms"),
        (12_000.0, "12 s"),
        (200_000.0, "3 min 20 s"),
        (7_500_000.0, "2 h 5 min"),
    ] {
        assert_eq!(span(milliseconds), expected);
    }
}

/// A host without access to other tools still lists its programs.
#[test]
fn its_example_runs_where_calls_cannot_be_seen() {
    testing::check_examples::<shell_list>().unwrap();
    let cx = ScriptedProgram::running("").context(Context::test());
    let outcome = testing::call::<shell_list>(&cx, json!({})).unwrap();
    assert_eq!(outcome.structured.unwrap()["running"], 1);
    let error = testing::call::<shell_list>(&Context::test(), json!({})).unwrap_err();
    assert_eq!(error.code.as_deref(), Some("service_not_granted"));
    assert_eq!(shell_list::descriptor().annotations.read_only, Some(true));
}
