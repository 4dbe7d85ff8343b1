//! Tests of `shell_input` with a scripted program.

use std::rc::Rc;

use expect_test::expect;
use toolhost_sdk::serde_json;
use toolhost_sdk::testing;

use super::*;
use crate::testing::{ScriptedProgram, shown};

fn ask(cx: &Context, input: Value) -> String {
    shown(testing::call::<shell_input>(cx, input))
}

#[test]
fn input_reaches_the_program() {
    let script = ScriptedProgram::running("Continue? ")
        .then("yes\n")
        .ended(0);
    let answer = Rc::clone(&script.received);
    let cx = script.context(Context::test());
    crate::cursor::set(&cx, "1", 10).unwrap();
    expect![[r#"
        Task 1: ended, exit code 0
        Output:
        <stdout>
        yes
        </stdout>
        {"task_id":"1","pid":70,"written":2,"status":"ended","output":"yes\n","next_offset":14}"#]]
    .assert_eq(&ask(&cx, json!({"session_id": "1", "chars": "y\n"})));
    assert_eq!(*answer.borrow(), ["y\n"]);
    assert_eq!(crate::cursor::get(&cx, "1").unwrap(), 14);
}

#[test]
fn typing_nothing_is_a_look() {
    let script = ScriptedProgram::running("Continue? ");
    let answer = Rc::clone(&script.received);
    let cx = script.context(Context::test());
    expect![[r#"
        Task 1: running
        Output:
        <stdout>
        Continue? 
        </stdout>
        {"task_id":"1","pid":70,"written":0,"status":"running","output":"Continue? ","next_offset":10}"#]]
    .assert_eq(&ask(&cx, json!({"task_id": "1", "chars": "", "yield_ms": 0})));
    assert!(answer.borrow().is_empty());
}

#[test]
fn invalid_input() {
    let running = ScriptedProgram::running("").context(Context::test());
    let ended = ScriptedProgram::running("")
        .ended(1)
        .context(Context::test());
    for (cx, input, expected) in [
        (
            &running,
            json!({"task_id": "1"}),
            expect!["InvalidInput invalid_input: `chars` is missing"],
        ),
        (
            &running,
            json!({"chars": "x"}),
            expect!["InvalidInput invalid_input: `task_id` is missing"],
        ),
        (
            &running,
            json!({"task_id": "2", "chars": "x"}),
            expect![[r#"
            NotFound task_not_found: no task `2` in this session; there are: 1 (npm run dev)
              shell_list shows all tasks"#]],
        ),
        (
            &running,
            json!({"task_id": "tool-1", "chars": "x"}),
            expect![
                "InvalidInput task_takes_no_input: `tool-1` is a tool call, which has no input; use a task of shell"
            ],
        ),
        (
            &running,
            json!({"task_id": "1", "chars": "é".repeat(40_000)}),
            expect!["InvalidInput invalid_input: `chars` has 80000 bytes; the limit is 65536"],
        ),
        (
            &running,
            json!({"task_id": "1", "chars": "x", "yield_ms": 20_001}),
            expect![
                "InvalidInput invalid_input: `yield_ms`: 20001 is more than the maximum of 20000"
            ],
        ),
        (
            &ended,
            json!({"task_id": "1", "chars": "x"}),
            expect![[r#"
            InvalidInput task_ended: task 1 has ended (exit code 1) and accepts no input
              start it again with shell"#]],
        ),
    ] {
        expected.assert_eq(&ask(cx, input));
    }
}

#[test]
fn its_example_runs() {
    testing::check_examples::<shell_input>().unwrap();
    let mut script = ScriptedProgram::running("");
    "3".clone_into(&mut script.job.id);
    let example = &shell_input::descriptor().examples[0];
    let input = serde_json::from_str(&example.input).unwrap();
    testing::call::<shell_input>(&script.context(Context::test()), input).unwrap();
    assert_eq!(shell_input::descriptor().requires, ["process", "session"]);
}
