//! Tests of `shell_output` with scripted programs and calls.

use std::time::Duration;

use expect_test::{Expect, expect};
use toolhost_sdk::serde_json;
use toolhost_sdk::testing;

use super::*;
use crate::testing::{ScriptedProgram, shown};

fn patient() -> Context {
    Context::test().with_remaining(Duration::from_mins(20))
}

fn ask(cx: &Context, input: Value) -> String {
    shown(testing::call::<shell_output>(cx, input))
}

fn check(script: ScriptedProgram, input: Value, expected: Expect) {
    expected.assert_eq(&ask(&script.context(patient()), input));
}

// R-347
#[test]
fn r_347_new_output_is_returned_once_and_before_the_end() {
    let cx = ScriptedProgram::running("one\ntwo\n")
        .then("three\n")
        .context(patient());
    let text = |input: Value| {
        let outcome = testing::call::<shell_output>(&cx, input).unwrap();
        outcome.structured.unwrap()["output"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(text(json!({"task_id": "1"})), "one\ntwo\n");
    assert_eq!(text(json!({"task_id": "1"})), "");
    assert_eq!(text(json!({"pid": 70, "delay_ms": 1000})), "three\n");
    assert_eq!(text(json!({"shell_id": "1"})), "");
    // Reading it again does not advance the read position.
    assert_eq!(text(json!({"task_id": "1", "offset": 4})), "two\nthree\n");
    assert_eq!(text(json!({"task_id": "1"})), "");
}

#[test]
fn a_running_task_and_nothing_new() {
    check(
        ScriptedProgram::running(""),
        json!({"task_id": "1"}),
        expect![[r#"
        Task 1 (npm run dev): running
        Output: (no new output)
        {"task_id":"1","pid":70,"status":"running","output":"","offset":0,"next_offset":0,"truncated":false,"output_file":"/out/1"}"#]],
    );
}

#[test]
fn r_347_an_ended_task_tells_its_exit_code_and_is_no_error() {
    check(
        ScriptedProgram::running("a\n").then("b\n").ended(3),
        json!({"task_id": "1", "block": true}),
        expect![[r#"
            Task 1 (npm run dev): ended, exit code 3
            Output:
            <stdout>
            a
            b
            </stdout>
            Exit Code: 3
            {"task_id":"1","pid":70,"status":"ended","output":"a\nb\n","exitCode":3,"ending":"exited","offset":0,"next_offset":4,"truncated":false,"output_file":"/out/1"}"#]],
    );
}

#[test]
fn of_many_lines_the_last_are_shown_and_the_others_can_be_had() {
    check(
        ScriptedProgram::running("a\nb\nc\nd\n"),
        json!({"task_id": "1", "lines": 2}),
        expect![[r#"
            Task 1 (npm run dev): running
            [… 4 earlier bytes omitted: shell_output {"task_id": "1", "offset": 0}]
            Output:
            <stdout>
            c
            d
            </stdout>
            {"task_id":"1","pid":70,"status":"running","output":"c\nd\n","offset":4,"next_offset":8,"truncated":true,"output_file":"/out/1"}"#]],
    );
    check(
        ScriptedProgram::running("a\nb\nc\nd\n"),
        json!({"task_id": "1", "lines": 2, "offset": 2}),
        expect![[r#"
            Task 1 (npm run dev): running
            Output:
            <stdout>
            b
            c
            </stdout>
            [… 2 bytes after these: shell_output {"task_id": "1", "offset": 6}]
            {"task_id":"1","pid":70,"status":"running","output":"b\nc\n","offset":2,"next_offset":6,"truncated":true,"output_file":"/out/1"}"#]],
    );
}

#[test]
fn a_filter_shows_what_matches() {
    check(
        ScriptedProgram::running("ok\nerror: a\nok\nerror: b\nerr").ended(1),
        json!({"task_id": "1", "filter": "^err"}),
        expect![[r#"
            Task 1 (npm run dev): ended, exit code 1
            3 of 5 lines match
            Output:
            <stdout>
            error: a
            error: b
            err
            </stdout>
            Exit Code: 1
            {"task_id":"1","pid":70,"status":"ended","output":"error: a\nerror: b\nerr","exitCode":1,"ending":"exited","offset":0,"next_offset":27,"truncated":false,"output_file":"/out/1"}"#]],
    );
    check(
        ScriptedProgram::running("ok\n"),
        json!({"task_id": "1", "filter": "nothing"}),
        expect![[r#"
            Task 1 (npm run dev): running
            0 of 1 lines match
            Output: (no new output)
            {"task_id":"1","pid":70,"status":"running","output":"","offset":0,"next_offset":3,"truncated":false,"output_file":"/out/1"}"#]],
    );
}

#[test]
fn all_pages_together_are_the_whole_output() {
    use std::fmt::Write as _;
    let all = (0..5000).fold(String::new(), |mut text, number| {
        _ = writeln!(text, "{number:x} é {:x}", number * 31);
        text
    });
    let cx = ScriptedProgram::running(&all).ended(0).context(patient());
    let (mut offset, mut text) = (0, String::new());
    while offset < all.len() as u64 {
        let input = json!({"task_id": "1", "offset": offset, "lines": 700});
        let outcome = testing::call::<shell_output>(&cx, input).unwrap();
        let page = outcome.structured.unwrap();
        text += page["output"].as_str().unwrap();
        offset = page["next_offset"].as_u64().unwrap();
    }
    assert_eq!(text, all);
}

fn check_call(end: Value, expected: Expect) {
    let cx = patient().with_service("tools.wait", move |input| {
        assert_eq!(input["id"], "tool-a1");
        Ok(end.clone())
    });
    expected.assert_eq(&ask(&cx, json!({"task_id": "tool-a1", "block": true})));
}

#[test]
fn a_call_in_the_background_tells_its_result() {
    check_call(
        Value::Null,
        expect![[r#"
        Task tool-a1: running
        No result yet. To wait for it: shell_output {"task_id": "tool-a1", "block": true}
        {"task_id":"tool-a1","status":"running","output":"","offset":0,"next_offset":0,"truncated":false}"#]],
    );
    check_call(
        json!({"text": "3 files", "structured": {"count": 3}}),
        expect![[r#"
            Task tool-a1: ended
            3 files
            {"task_id":"tool-a1","status":"ended","output":"3 files","ending":"ended","offset":0,"next_offset":0,"truncated":false,"result":{"count":3}}"#]],
    );
    check_call(
        json!({"structured": {"count": 3}}),
        expect![[r#"
        Task tool-a1: ended
        {"count":3}
        {"task_id":"tool-a1","status":"ended","output":"{\"count\":3}","ending":"ended","offset":0,"next_offset":0,"truncated":false,"result":{"count":3}}"#]],
    );
    check_call(
        json!({"error": "no such page"}),
        expect![[r#"
        Task tool-a1: failed
        no such page
        Failed -: no such page
        {"task_id":"tool-a1","status":"ended","output":"no such page","ending":"failed","offset":0,"next_offset":0,"truncated":false}"#]],
    );
}

#[test]
fn a_part_of_the_result_of_a_call_can_be_read() {
    let cx = patient().with_service("tools.wait", |_| Ok(json!({"text": "a1\nb\na2\na3\n"})));
    for (input, expected) in [
        (
            json!({"offset": 3, "lines": 2}),
            expect![[r#"
                Task tool-a1: ended
                b
                a2
                [… 3 bytes after these: shell_output {"task_id": "tool-a1", "offset": 8}]
                {"task_id":"tool-a1","status":"ended","output":"b\na2\n","ending":"ended","offset":3,"next_offset":8,"truncated":true}"#]],
        ),
        (
            json!({"filter": "a", "lines": 2}),
            expect![[r#"
                Task tool-a1: ended
                [… 5 earlier bytes omitted: shell_output {"task_id": "tool-a1", "offset": 0}]
                3 of 4 lines match
                a2
                a3
                {"task_id":"tool-a1","status":"ended","output":"a2\na3\n","ending":"ended","offset":5,"next_offset":11,"truncated":true}"#]],
        ),
        (
            json!({"offset": 12}),
            expect![[r#"
                InvalidInput offset_beyond_end: offset 12 is past the end: task tool-a1 has written 11 bytes
                  omit `offset` to read new output"#]],
        ),
    ] {
        let mut input = input;
        input["task_id"] = json!("tool-a1");
        expected.assert_eq(&ask(&cx, input));
    }
}

#[test]
fn the_note_in_a_long_part_names_the_offset_of_its_first_omitted_line() {
    let line = |letter: char| format!("{letter}{}\n", "x".repeat(4998));
    let letters = 'a'..='j';
    let all: String = letters.clone().map(line).collect();
    let program = ScriptedProgram::running(&all).ended(0).context(patient());
    let result = all.clone();
    let call = patient().with_service("tools.wait", move |_| Ok(json!({"text": result})));
    for (cx, id) in [(program, "1"), (call, "tool-a1")] {
        let read = |input: Value| {
            let outcome = testing::call::<shell_output>(&cx, input).unwrap();
            outcome.structured.unwrap()["output"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let text = read(json!({"task_id": id}));
        let note = format!("shell_output {{\"task_id\": \"{id}\", \"offset\": ");
        let (shown, rest) = text.split_once(&note).unwrap();
        let offset: usize = rest.split_once('}').unwrap().0.parse().unwrap();
        assert_eq!(shown.lines().next().unwrap().len(), 4999);
        assert!(
            offset.is_multiple_of(5000) && (5000..25_000).contains(&offset),
            "{offset}"
        );
        let next = read(json!({"task_id": id, "offset": offset, "lines": 1}));
        let first = letters.clone().nth(offset / 5000).unwrap();
        assert_eq!(next, line(first));
    }
}

#[test]
fn invalid_reads() {
    let cx = ScriptedProgram::running("abc")
        .context(patient())
        .with_service("tools.wait", |_| {
            Err(Error::failed("no background call").code("task_not_found"))
        });
    for (input, expected) in [
        (
            json!({}),
            expect!["InvalidInput task_missing: `task_id` is missing; there are: 1 (npm run dev)"],
        ),
        (
            json!({"task_id": "2"}),
            expect![[r#"
            NotFound task_not_found: no task `2` in this session; there are: 1 (npm run dev)
              shell_list shows all tasks"#]],
        ),
        (
            json!({"task_id": "tool-x"}),
            expect![[r#"
            NotFound task_not_found: no task `tool-x` in this session
              shell_list shows all tasks"#]],
        ),
        (
            json!({"pid": -1}),
            expect!["InvalidInput invalid_input: `pid`: -1 is less than the minimum of 0"],
        ),
        (
            json!({"task_id": "1", "lines": 0}),
            expect!["InvalidInput invalid_input: `lines`: 0 is less than the minimum of 1"],
        ),
        (
            json!({"task_id": "1", "offset": 9}),
            expect![[r#"
            InvalidInput offset_beyond_end: offset 9 is past the end: task 1 has written 3 bytes
              omit `offset` to read new output"#]],
        ),
        (
            json!({"task_id": "1", "filter": "a(b"}),
            expect![[r#"
            InvalidInput invalid_regex: `filter` "a(b" is not a regular expression: unclosed group
              escape literal characters, such as `\(` and `\[`; look-around and back-references are not supported"#]],
        ),
        (
            json!({"task_id": "1", "filter": "(?=a)"}),
            expect![[r#"
            InvalidInput invalid_regex: `filter` "(?=a)" is not a regular expression: look-around, including look-ahead and look-behind, is not supported
              escape literal characters, such as `\(` and `\[`; look-around and back-references are not supported"#]],
        ),
        (
            json!({"task_id": "1", "filter": "\\w{9999}{9999}"}),
            expect![[r#"
            InvalidInput invalid_regex: `filter` "\\w{9999}{9999}" is too large when compiled
              use smaller repetition counts"#]],
        ),
        (
            json!({"task_id": "1", "timeout_ms": 600_000}),
            expect![
                "InvalidInput invalid_input: `timeout_ms`: 600000 is more than the maximum of 590000"
            ],
        ),
    ] {
        expected.assert_eq(&ask(&cx, input));
    }
}

#[test]
fn its_examples_run_and_it_only_reads() {
    testing::check_examples::<shell_output>().unwrap();
    for example in shell_output::descriptor().examples {
        let mut script = ScriptedProgram::running("error\n").ended(0);
        "3".clone_into(&mut script.job.id);
        let input = serde_json::from_str(&example.input).unwrap();
        testing::call::<shell_output>(&script.context(patient()), input).unwrap();
    }
    let descriptor = shell_output::descriptor();
    assert_eq!(descriptor.annotations.read_only, Some(true));
    assert_eq!(descriptor.requires, ["process", "session", "tools"]);
}

#[test]
fn a_page_that_ends_within_a_line_says_where_to_go_on() {
    let line = "x".repeat(40_000);
    let cx = ScriptedProgram::running(&format!("{line}\n{line}\n"))
        .ended(0)
        .context(patient());
    let outcome = testing::call::<shell_output>(&cx, json!({"task_id": "1", "offset": 0})).unwrap();
    let text = outcome.llm[0].text.clone().unwrap();
    assert!(text.contains(
        r#"[… 40001 bytes after these: shell_output {"task_id": "1", "offset": 40001}]"#
    ));
    assert_eq!(outcome.structured.unwrap()["truncated"], true);
}

#[test]
fn dropped_output_is_reported() {
    let mut job = crate::testing::job_of("1", 70, "x");
    job.output_bytes = 1_000;
    let listed = json!([job]);
    let cx = patient()
        .with_service("process.jobs", move |_| Ok(listed.clone()))
        .with_service("process.read", move |_| {
            Ok(json!({"bytes": b"end\n", "next": 1_000, "dropped": 996, "job": job}))
        });
    expect![[r#"
        Task 1 (x): running
        [… 996 earlier bytes are no longer kept]
        Output:
        <stdout>
        end
        </stdout>
        {"task_id":"1","pid":70,"status":"running","output":"end\n","offset":996,"next_offset":1000,"truncated":true}"#]]
    .assert_eq(&ask(&cx, json!({"task_id": "1"})));
}
