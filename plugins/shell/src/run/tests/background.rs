//! Tests of `shell` with `run_in_background`.

use super::*;

fn start(script: ScriptedProgram, input: Value) -> (Context, Result<Outcome>) {
    let job = script.job.clone();
    let cx = script
        .context(patient())
        .with_service("process.start", move |command| {
            assert_eq!(command["timeout_ms"], Value::Null);
            assert_eq!(command["inactivity_timeout_ms"], Value::Null);
            Ok(json!(job))
        });
    let result = testing::call::<shell>(&cx, input);
    (cx, result)
}

// R-346, C-09
#[test]
fn r_346_in_the_background_there_is_a_handle_and_the_first_output() {
    let (cx, result) = start(
        ScriptedProgram::running("ready\n"),
        json!({"command": "npm run dev", "background": true, "timeout_ms": 1000}),
    );
    expect![[r#"
        Started in the background: task 1 (npm run dev)
        Output:
        <stdout>
        ready
        </stdout>
        Background PIDs: 70
        Process Group: 70
        To continue reading: shell_output {"task_id": "1"}. To stop it: shell_kill {"task_id": "1"}.
        {"stdout":"ready\n","stderr":"","timed_out":false,"background":true,"task_id":"1","pid":70,"pgid":70,"status":"running","duration_ms":0.0,"cwd":"/workspace","output_file":"/out/1","truncated":false}"#]]
    .assert_eq(&shown(result));
    assert_eq!(crate::cursor::get(&cx, "1").unwrap(), 6);
}

#[test]
fn ended_commands_are_not_running() {
    let (_, result) = start(
        ScriptedProgram::running("")
            .then("sh: nmp: not found\n")
            .ended(127),
        json!({"command": "nmp run dev", "run_in_background": true, "delay_ms": 5000}),
    );
    expect![[r#"
        Started in the background and already ended: task 1 (nmp run dev)
        Output:
        <stdout>
        sh: nmp: not found
        </stdout>
        Exit Code: 127
        Background PIDs: 70
        Process Group: 70
        Failed command_failed: the command ended with exit code 127
        {"stdout":"sh: nmp: not found\n","stderr":"","exitCode":127,"timed_out":false,"background":true,"task_id":"1","pid":70,"pgid":70,"status":"ended","duration_ms":1234.0,"cwd":"/workspace","output_file":"/out/1","truncated":false}"#]]
    .assert_eq(&shown(result));
}

#[test]
fn a_command_that_the_user_moves_to_the_background_becomes_a_task() {
    let script = ScriptedProgram::running("compiling\n");
    let moved = RunOutput {
        pid: script.job.pid,
        hints: vec!["background: the command continues as `1`".to_owned()],
        ..finished("compiling\n", "", ended("backgrounded", None))
    };
    let cx = script
        .context(patient())
        .with_service("process.run", move |_| Ok(serde_json::to_value(&moved)?));
    let result = testing::call::<shell>(&cx, json!({"command": "make"}));
    expect![[r#"
        The user moved this command to the background: task 1 (make)
        Output:
        <stdout>
        compiling
        </stdout>
        Background PIDs: 70
        Process Group: 70
        To continue reading: shell_output {"task_id": "1"}. To stop it: shell_kill {"task_id": "1"}.
        {"stdout":"compiling\n","stderr":"","timed_out":false,"background":true,"task_id":"1","pid":70,"pgid":70,"status":"running","duration_ms":0.0,"cwd":"/workspace","output_file":"/out/1","truncated":false}"#]].assert_eq(&shown(result));
    // The next read continues after what this result has shown.
    assert_eq!(crate::cursor::get(&cx, "1").unwrap(), 10);
}
