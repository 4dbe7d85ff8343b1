//! Tests of `shell_kill` with scripted programs and calls.

use std::rc::Rc;

use expect_test::{Expect, expect};
use toolhost_sdk::serde_json;
use toolhost_sdk::testing;

use super::*;
use crate::testing::{ScriptedProgram, shown};

fn check(script: ScriptedProgram, input: Value, answer: &[&str], expected: Expect) {
    let notes = Rc::clone(&script.received);
    let cx = script
        .context(Context::test())
        .with_service("tools.stop", |input| {
            if input["id"] != "tool-1" {
                return Err(Error::failed("no background call").code("task_not_found"));
            }
            Ok(json!({"id": "tool-1", "tool": "grep", "state": "running", "started_ms": 1.0}))
        });
    expected.assert_eq(&shown(testing::call::<shell_kill>(&cx, input)));
    assert_eq!(*notes.borrow(), answer);
}

// R-348
#[test]
fn r_348_a_task_is_stopped_and_its_end_reported() {
    check(
        ScriptedProgram::running("abc"),
        json!({"task_id": "1"}),
        &["\"TERM\""],
        expect![[r#"
        Task 1 (npm run dev): was sent TERM and has ended (signal TERM)
        {"task_id":"1","pid":70,"status":"ended","signal":"TERM","ending":"signalled","bytes":3,"output_file":"/out/1"}"#]],
    );
    check(
        ScriptedProgram::running(""),
        json!({"pid": 70, "signal": "sigkill"}),
        &["\"KILL\""],
        expect![[r#"
        Task 1 (npm run dev): was sent KILL and has ended (signal KILL)
        {"task_id":"1","pid":70,"status":"ended","signal":"KILL","ending":"signalled","bytes":0,"output_file":"/out/1"}"#]],
    );
}

#[test]
fn surviving_tasks_are_reported() {
    check(
        ScriptedProgram::running(""),
        json!({"shell_id": "1", "signal": "10"}),
        &["\"USR1\""],
        expect![[r#"
        Task 1 (npm run dev): was sent USR1 and is still running
        To kill it: shell_kill {"task_id": "1", "signal": "KILL"}
        {"task_id":"1","pid":70,"status":"running","bytes":0,"output_file":"/out/1"}"#]],
    );
}

#[test]
fn stopping_what_has_ended_changes_nothing() {
    check(
        ScriptedProgram::running("").ended(0),
        json!({"task_id": "1"}),
        &[],
        expect![[r#"
        Task 1 (npm run dev): had already ended (exit code 0)
        {"task_id":"1","pid":70,"status":"ended","exitCode":0,"ending":"exited","bytes":0,"output_file":"/out/1"}"#]],
    );
}

#[test]
fn a_call_in_the_background_is_stopped_too() {
    check(
        ScriptedProgram::running(""),
        json!({"task_id": "tool-1"}),
        &[],
        expect![[r#"
        Task tool-1 (call of grep): stop requested
        {"task_id":"tool-1","status":"running","bytes":0}"#]],
    );
}

#[test]
fn invalid_calls() {
    for (input, expected) in [
        (
            json!({}),
            expect!["InvalidInput task_missing: `task_id` is missing; there are: 1 (npm run dev)"],
        ),
        (
            json!({"task_id": "x"}),
            expect![[r#"
            NotFound task_not_found: no task `x` in this session; there are: 1 (npm run dev)
              shell_list shows all tasks"#]],
        ),
        (
            json!({"task_id": "tool-2"}),
            expect![[r#"
            NotFound task_not_found: no task `tool-2` in this session
              shell_list shows all tasks"#]],
        ),
        (
            json!({"task_id": "1", "signal": "STOP\n"}),
            expect![
                "InvalidInput invalid_signal: `STOP\\n` is not a supported signal; use TERM, INT, HUP, QUIT, USR1, USR2, KILL"
            ],
        ),
        (
            json!({"task_id": "1", "signal": ""}),
            expect![
                "InvalidInput invalid_input: `signal`: a length of 0 is less than the minimum of 1"
            ],
        ),
    ] {
        check(ScriptedProgram::running(""), input, &[], expected);
    }
}

#[test]
fn its_example_runs() {
    testing::check_examples::<shell_kill>().unwrap();
    let mut script = ScriptedProgram::running("");
    "3".clone_into(&mut script.job.id);
    let example = &shell_kill::descriptor().examples[0];
    let input = serde_json::from_str(&example.input).unwrap();
    testing::call::<shell_kill>(&script.context(Context::test()), input).unwrap();
}
