//! The to-do list: replacing, merging and refusing.

use expect_test::{Expect, expect};

use super::*;
use crate::testing::{check, run_examples, shown, text};

fn refused(todos: Value, expected: Expect) {
    expected.assert_eq(&shown::<todo_write>(
        &Context::test(),
        json!({"todos": todos}),
    ));
}

// R-307, R-350
#[test]
fn r_350_a_list_is_kept_and_counted() {
    check::<todo_write>(
        &Context::test(),
        json!({"todos": [
            {"content": " Read the code ", "status": "completed", "priority": "high"},
            {"title": "Fix it", "status": "in_progress", "activeForm": "Fixing it", "dependsOn": ["1"]},
            {"description": "Wait for an answer", "status": "blocked", "id": "answer"},
            {"step": "Tell everybody", "status": "cancelled", "assignee": "ann", "notes": "not needed"},
            {"content": "Release", "status": "pending", "depends_on": ["2", "answer"]},
        ]}),
        expect![[r#"
            5 tasks: 1 completed, 1 in progress, 1 pending, 1 blocked, 1 cancelled
            [x] 1: Read the code
            [>] 2: Fix it (after 1)
            [!] answer: Wait for an answer
            [-] 3: Tell everybody
            [ ] 4: Release (after 2, answer)
            summary: 5 tasks: 1 completed, 1 in progress, 1 pending, 1 blocked, 1 cancelled
            {"todos":[{"id":"1","content":"Read the code","status":"completed","priority":"high"},{"id":"2","content":"Fix it","status":"in_progress","active_form":"Fixing it","depends_on":["1"]},{"id":"answer","content":"Wait for an answer","status":"blocked"},{"id":"3","content":"Tell everybody","status":"cancelled","assignee":"ann","notes":"not needed"},{"id":"4","content":"Release","status":"pending","depends_on":["2","answer"]}],"version":1,"counts":{"total":5,"pending":1,"in_progress":1,"completed":1,"cancelled":1,"blocked":1}}"#]],
    );
}

// R-349
#[test]
fn r_349_what_was_written_can_be_read() {
    let cx = Context::test();
    check::<todo_read>(
        &cx,
        json!({}),
        expect![[r#"
        the task list is empty
        summary: the task list is empty
        {"todos":[],"version":0,"counts":{"total":0,"pending":0,"in_progress":0,"completed":0,"cancelled":0,"blocked":0}}"#]],
    );
    text::<todo_write>(
        &cx,
        json!({"plan": [{"content": "a", "status": "pending"}]}),
    );
    check::<todo_read>(
        &cx,
        json!({}),
        expect![[r#"
        1 task: 1 pending
        [ ] 1: a
        summary: 1 task: 1 pending
        {"todos":[{"id":"1","content":"a","status":"pending"}],"version":1,"counts":{"total":1,"pending":1,"in_progress":0,"completed":0,"cancelled":0,"blocked":0}}"#]],
    );
    text::<todo_write>(&cx, json!({"todos": []}));
    check::<todo_read>(
        &cx,
        json!({}),
        expect![[r#"
        the task list is empty
        summary: the task list is empty
        {"todos":[],"version":2,"counts":{"total":0,"pending":0,"in_progress":0,"completed":0,"cancelled":0,"blocked":0}}"#]],
    );
}

#[test]
fn a_merge_changes_what_it_names() {
    let cx = Context::test();
    let todos = json!([
        {"id": "a", "content": "first", "status": "in_progress", "notes": "n"},
        {"id": "b", "content": "second", "status": "pending"},
    ]);
    text::<todo_write>(&cx, json!({"todos": todos}));
    let todos = json!([
        {"id": "a", "status": "completed"},
        {"content": "second", "status": "in_progress"},
        {"content": "third", "status": "pending", "depends_on": ["b"]},
    ]);
    check::<todo_write>(
        &cx,
        json!({"todos": todos, "merge": true}),
        expect![[r#"
        3 tasks: 1 completed, 1 in progress, 1 pending
        [x] a: first
        [>] b: second
        [ ] 1: third (after b)
        summary: 3 tasks: 1 completed, 1 in progress, 1 pending
        {"todos":[{"id":"a","content":"first","status":"completed","notes":"n"},{"id":"b","content":"second","status":"in_progress"},{"id":"1","content":"third","status":"pending","depends_on":["b"]}],"version":2,"counts":{"total":3,"pending":1,"in_progress":1,"completed":1,"cancelled":0,"blocked":0}}"#]],
    );
}

#[test]
fn an_event_and_a_display_tell_of_the_change() {
    let cx = Context::test();
    let outcome = toolhost_sdk::testing::call::<todo_write>(
        &cx,
        json!({"todos": [{"content": "a", "status": "pending"}]}),
    )
    .unwrap();
    let todos = json!([{"id": "1", "content": "a", "status": "pending"}]);
    let display = outcome.display.unwrap();
    assert_eq!(
        (display.kind.as_str(), display.data),
        ("todo-list", Some(json!({"todos": todos})))
    );
    assert_eq!(
        cx.recorded().events,
        [(
            "todos.updated".to_owned(),
            json!({"agent": "agent-1", "version": 1, "todos": todos})
        )]
    );
}

#[test]
fn refused_calls_change_nothing() {
    let cx = Context::test();
    text::<todo_write>(
        &cx,
        json!({"todos": [{"content": "a", "status": "pending"}]}),
    );
    text::<todo_write>(
        &cx,
        json!({"todos": [{"content": "", "status": "pending"}]}),
    );
    assert_eq!(
        text::<todo_read>(&cx, json!({})),
        "1 task: 1 pending\n[ ] 1: a"
    );
    assert_eq!(cx.recorded().events.len(), 1);
}

#[test]
fn bad_lists() {
    let todo = |id: &str, before: &[&str]| json!({"id": id, "content": id, "status": "pending", "depends_on": before});
    refused(
        json!([{"content": " ", "status": "pending"}]),
        expect!["InvalidInput invalid_todos: todos[0]: `content` is empty; describe the task"],
    );
    refused(
        json!([{"status": "pending"}]),
        expect!["InvalidInput invalid_todos: todos[0]: `content` is empty; describe the task"],
    );
    refused(
        json!([{"content": "a"}]),
        expect!["InvalidInput invalid_input: `todos`[0].`status` is missing"],
    );
    refused(
        json!([{"content": "a", "status": "done"}]),
        expect![[
            r#"InvalidInput invalid_input: `todos`[0].`status`: "done" is not one of ["pending","in_progress","completed","cancelled","blocked"]"#
        ]],
    );
    refused(
        json!([{"content": "a", "status": "pending", "colour": 1}]),
        expect!["InvalidInput invalid_input: `todos`[0].`colour` is not known"],
    );
    refused(
        json!([todo("a", &[]), todo(" a ", &[])]),
        expect![[
            r#"InvalidInput invalid_todos: todos[1]: the id "a" is used twice; ids are unique"#
        ]],
    );
    refused(
        json!([{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}]),
        expect![[r#"
            InvalidInput invalid_todos: 2 tasks are in_progress (1, 2); work on one at a time
            - set all but one of them to pending or completed"#]],
    );
    refused(
        json!([todo("a", &["c\u{1b}"])]),
        expect![[r#"
        InvalidInput invalid_todos: the task "a" depends on "c\\u{1b}", which does not exist
        - use one of the ids: a"#]],
    );
    refused(
        json!([todo("a", &["a"])]),
        expect![[r#"
        InvalidInput invalid_todos: tasks have a dependency cycle: a → a
        - remove one of these dependencies"#]],
    );
    refused(
        json!([
            todo("x", &["a"]),
            todo("a", &["b"]),
            todo("b", &["c"]),
            todo("c", &["a"])
        ]),
        expect![[r#"
            InvalidInput invalid_todos: tasks have a dependency cycle: a → b → c → a
            - remove one of these dependencies"#]],
    );
    refused(
        json!(vec![json!({"content": "a", "status": "pending"}); 201]),
        expect![
            "InvalidInput invalid_input: `todos`: a length of 201 is more than the maximum of 200"
        ],
    );
}

#[test]
fn m_03_an_id_is_one_line_of_visible_characters() {
    for id in ["1: done\n[x] 2", "a\u{202e}b", "a\u{1b}[31m", "\u{200b}"] {
        let message = text::<todo_write>(
            &Context::test(),
            json!({"todos": [{"id": id, "content": "x", "status": "pending"}]}),
        );
        assert!(
            message.contains("is not a single line of printable characters"),
            "{id:?}: {message}"
        );
        assert!(
            !message.contains(['\n', '\u{202e}', '\u{1b}', '\u{200b}']),
            "{message:?}"
        );
    }
}

#[test]
fn a_diamond_is_no_circle() {
    let todo = |id: &str, before: &[&str]| json!({"id": id, "content": id, "status": "pending", "depends_on": before});
    let todos = json!([
        todo("d", &["b", "c"]),
        todo("b", &["a"]),
        todo("c", &["a"]),
        todo("a", &[])
    ]);
    let text = text::<todo_write>(&Context::test(), json!({"todos": todos}));
    assert!(text.starts_with("4 tasks: 4 pending"), "{text}");
}

#[test]
fn merges_do_not_add_up_beyond_the_bound() {
    let cx = Context::test();
    let todos = |from: u32, to: u32| -> Vec<Value> {
        (from..to)
            .map(|n| json!({"content": format!("t{n}"), "status": "pending"}))
            .collect()
    };
    text::<todo_write>(&cx, json!({"todos": todos(0, 150)}));
    check::<todo_write>(
        &cx,
        json!({"todos": todos(150, 210), "merge": true}),
        expect![[r#"
            InvalidInput invalid_todos: 210 tasks are too many; the limit is 200
            - omit completed tasks"#]],
    );
}

#[test]
fn a_list_is_bounded_in_bytes() {
    let todo = json!({"content": "a", "status": "pending", "notes": "n".repeat(2000)});
    refused(
        json!(vec![todo; 150]),
        expect![[r#"
        InvalidInput invalid_todos: the tasks have 306901 bytes; at most 262144 can be kept
        - write shorter notes"#]],
    );
}

#[test]
fn examples_work() {
    run_examples::<todo_write>(Context::test);
    run_examples::<todo_read>(Context::test);
}
