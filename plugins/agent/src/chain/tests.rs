//! Chains of calls: values of earlier steps, pipes, and errors.

use std::cell::RefCell;
use std::rc::Rc;

use expect_test::{Expect, expect};

use super::*;
use crate::testing::{check, run_examples, shown};

type Calls = Rc<RefCell<Vec<(String, Value)>>>;

/// A host with four tools: `find` finds two files, `large` returns more than a chain keeps, `no` returns an error outcome,
/// `broken` fails; others return their input.
fn host() -> (Context, Calls) {
    let calls = Calls::default();
    let recorded = Rc::clone(&calls);
    let cx = Context::test().with_service("tools.call", move |mut call| {
        let tool = call["tool"].as_str().unwrap().to_owned();
        let input = call["input"].take();
        recorded.borrow_mut().push((tool.clone(), input.clone()));
        match tool.as_str() {
            "find" => Ok(json!({"text": "a.rs\nb.rs", "structured": {"files": ["a.rs", "b.rs"]}})),
            "large" => Ok(json!({"text": "x".repeat((1 << 20) + 1)})),
            "no" => Ok(json!({"text": "looked", "error": "exit code 1"})),
            "broken" => {
                Err(Error::not_found("Tool \"broken\" not found").code("tool_not_registered"))
            }
            _ => Ok(json!({"text": format!("{tool} {input}"), "structured": input})),
        }
    });
    (cx, calls)
}

fn refused(input: Value, expected: Expect) {
    let (cx, calls) = host();
    expected.assert_eq(&shown::<tool_chain>(&cx, input));
    assert!(
        calls.borrow().is_empty(),
        "a chain that makes no sense runs nothing"
    );
}

#[test]
fn a_text_that_is_too_large_to_keep_fails_the_step_that_needs_it() {
    for step in [
        json!({"tool": "show", "with": "text"}),
        json!({"tool": "show", "args": {"text": "${steps.0.text}"}}),
    ] {
        let (cx, calls) = host();
        let shown = shown::<tool_chain>(&cx, json!({"steps": [{"tool": "large"}, step]}));
        let expected = "1. show: failed: the text of step 0 was too large to keep";
        assert!(shown.contains(expected), "{shown}");
        assert_eq!(calls.borrow().len(), 1);
    }
}

// R-491
#[test]
fn r_491_a_step_takes_what_an_earlier_one_found() {
    let (cx, calls) = host();
    let steps = json!([
        {"tool": "find"},
        {"tool": "read", "args": {"path": "${steps.0.structured.files.1}", "note": "one of ${steps.0.text}"}},
        {"tool": "show", "params": {"all": "${steps.0.structured.files}", "plain": "$HOME"}},
    ]);
    check::<tool_chain>(
        &cx,
        json!({"steps": steps}),
        expect![[r#"
            3 steps: 3 completed
            0. find: a.rs
            1. read: read {"note":"one of a.rs\nb.rs","path":"b.rs"}
            2. show: show {"all":["a.rs","b.rs"],"plain":"$HOME"}

            result of step 2:
            show {"all":["a.rs","b.rs"],"plain":"$HOME"}
            summary: 3 steps: 3 completed
            {"steps":[{"tool":"find","status":"completed","summary":"a.rs","text":"a.rs\nb.rs","structured":{"files":["a.rs","b.rs"]}},{"tool":"read","status":"completed","summary":"read {\"note\":\"one of a.rs\\nb.rs\",\"path\":\"b.rs\"}","text":"read {\"note\":\"one of a.rs\\nb.rs\",\"path\":\"b.rs\"}","structured":{"note":"one of a.rs\nb.rs","path":"b.rs"}},{"tool":"show","status":"completed","summary":"show {\"all\":[\"a.rs\",\"b.rs\"],\"plain\":\"$HOME\"}","text":"show {\"all\":[\"a.rs\",\"b.rs\"],\"plain\":\"$HOME\"}","structured":{"all":["a.rs","b.rs"],"plain":"$HOME"}}],"completed":3,"failed":0}"#]],
    );
    assert_eq!(
        calls.take(),
        [
            ("find".to_owned(), json!({})),
            (
                "read".to_owned(),
                json!({"path": "b.rs", "note": "one of a.rs\nb.rs"})
            ),
            (
                "show".to_owned(),
                json!({"all": ["a.rs", "b.rs"], "plain": "$HOME"})
            ),
        ]
    );
    assert_eq!(cx.recorded().progress[2], "step 2 of 3: show");
}

// R-491
#[test]
fn r_491_a_pipe_puts_a_text_into_a_parameter() {
    let (cx, calls) = host();
    let steps =
        json!([{"tool": "find"}, {"tool": "count", "args": {"unit": "lines"}, "with": "text"}]);
    shown::<tool_chain>(&cx, json!({"steps": steps}));
    assert_eq!(
        calls.borrow()[1],
        (
            "count".to_owned(),
            json!({"unit": "lines", "text": "a.rs\nb.rs"})
        )
    );
}

#[test]
fn a_failure_stops_the_chain() {
    let (cx, calls) = host();
    let steps = json!([{"tool": "find"}, {"tool": "no"}, {"tool": "read"}]);
    check::<tool_chain>(
        &cx,
        json!({"steps": steps}),
        expect![[r#"
            3 steps: 1 completed, 1 failed, 1 not run
            0. find: a.rs
            1. no: failed: exit code 1
            2. read: not run

            step 1 returned:
            looked

            result of step 0:
            a.rs
            b.rs
            summary: 3 steps: 1 completed, 1 failed, 1 not run
            {"steps":[{"tool":"find","status":"completed","summary":"a.rs","text":"a.rs\nb.rs","structured":{"files":["a.rs","b.rs"]}},{"tool":"no","status":"failed","summary":"failed: exit code 1","text":"looked","structured":null},{"tool":"read","status":"not_run","summary":"not run","structured":null}],"completed":1,"failed":1}
            error: Failed chain_step_failed: step 1 (no) failed: exit code 1"#]],
    );
    assert_eq!(calls.borrow().len(), 2);
    let (cx, _) = host();
    check::<tool_chain>(
        &cx,
        json!({"steps": [{"tool": "broken"}, {"tool": "read"}]}),
        expect![[r#"
            2 steps: 0 completed, 1 failed, 1 not run
            0. broken: failed: Tool "broken" not found (tool_not_registered)
            1. read: not run
            summary: 2 steps: 0 completed, 1 failed, 1 not run
            {"steps":[{"tool":"broken","status":"failed","summary":"failed: Tool \"broken\" not found (tool_not_registered)","structured":null},{"tool":"read","status":"not_run","summary":"not run","structured":null}],"completed":0,"failed":1}
            error: Failed chain_step_failed: step 0 (broken) failed: Tool "broken" not found (tool_not_registered)"#]],
    );
}

#[test]
fn a_chain_can_go_on_without_a_step() {
    let (cx, _) = host();
    let steps = json!([
        {"tool": "no"},
        {"tool": "read", "args": {"path": "${steps.0.text}"}},
        {"tool": "read", "with": "path"},
        {"tool": "find"},
        {"tool": "read", "args": {"path": "${steps.3.structured.names.0}"}},
        {"tool": "read", "args": {"path": "x"}},
    ]);
    check::<tool_chain>(
        &cx,
        json!({"steps": steps, "on_error": "continue"}),
        expect![[r#"
            6 steps: 2 completed, 2 failed, 2 not run
            0. no: failed: exit code 1
            1. read: skipped: it needs step 0
            2. read: skipped: it needs step 1
            3. find: a.rs
            4. read: failed: ${steps.3.structured.names.0}: no "names" in an object with files
            5. read: read {"path":"x"}

            step 0 returned:
            looked

            result of step 5:
            read {"path":"x"}
            summary: 6 steps: 2 completed, 2 failed, 2 not run
            {"steps":[{"tool":"no","status":"failed","summary":"failed: exit code 1","text":"looked","structured":null},{"tool":"read","status":"skipped","summary":"skipped: it needs step 0","structured":null},{"tool":"read","status":"skipped","summary":"skipped: it needs step 1","structured":null},{"tool":"find","status":"completed","summary":"a.rs","text":"a.rs\nb.rs","structured":{"files":["a.rs","b.rs"]}},{"tool":"read","status":"failed","summary":"failed: ${steps.3.structured.names.0}: no \"names\" in an object with files","structured":null},{"tool":"read","status":"completed","summary":"read {\"path\":\"x\"}","text":"read {\"path\":\"x\"}","structured":{"path":"x"}}],"completed":2,"failed":2}"#]],
    );
    let (cx, _) = host();
    check::<tool_chain>(
        &cx,
        json!({"steps": [{"tool": "no"}], "on_error": "continue"}),
        expect![[r#"
            1 step: 0 completed, 1 failed
            0. no: failed: exit code 1

            step 0 returned:
            looked
            summary: 1 step: 0 completed, 1 failed
            {"steps":[{"tool":"no","status":"failed","summary":"failed: exit code 1","text":"looked","structured":null}],"completed":0,"failed":1}
            error: Failed chain_step_failed: step 0 (no) failed: exit code 1"#]],
    );
}

#[test]
fn a_cancelled_chain_ends() {
    let (cx, calls) = host();
    let cx = cx.cancelled_after(1);
    check::<tool_chain>(
        &cx,
        json!({"steps": [{"tool": "find"}, {"tool": "find"}]}),
        expect!["Interrupted cancelled: the call was cancelled"],
    );
    assert_eq!(calls.borrow().len(), 1);
}

#[test]
fn large_results_are_cut() {
    let cx = Context::test().with_service("tools.call", |_| {
        Ok(json!({"text": "x".repeat(40_000), "structured": {"x": "x".repeat(40_000)}}))
    });
    let outcome =
        toolhost_sdk::testing::call::<tool_chain>(&cx, json!({"steps": [{"tool": "a"}]})).unwrap();
    let text = outcome.llm[0].text.clone().unwrap();
    assert!(
        text.ends_with("… [+10000 characters]"),
        "{}",
        &text[text.len() - 40..]
    );
    let step = &outcome.structured.unwrap()["steps"][0];
    assert_eq!(
        (
            step["text"].as_str().unwrap().len() < 4100,
            &step["structured"]
        ),
        (true, &Value::Null)
    );
}

#[test]
fn bad_chains() {
    refused(
        json!({"steps": []}),
        expect!["InvalidInput invalid_input: `steps`: a length of 0 is less than the minimum of 1"],
    );
    refused(
        json!({"steps": vec![json!({"tool": "a"}); 21]}),
        expect![
            "InvalidInput invalid_input: `steps`: a length of 21 is more than the maximum of 20"
        ],
    );
    refused(
        json!({"steps": [{"args": {}}]}),
        expect!["InvalidInput invalid_input: `steps`[0].`tool` is missing"],
    );
    refused(
        json!({"steps": [{"tool": "a", "args": [1]}]}),
        expect!["InvalidInput invalid_input: `steps`[0].`args`: [1] is not of type object"],
    );
    refused(
        json!({"steps": [{"tool": "a", "args": {"x": "${steps.0.text}"}}]}),
        expect![
            "InvalidInput invalid_step: steps[0] (a): it refers to step 0, which is not an earlier step; steps count from 0"
        ],
    );
    refused(
        json!({"steps": [{"tool": "a"}, {"tool": "b", "args": {"x": ["${steps.7.text}"]}}]}),
        expect![
            "InvalidInput invalid_step: steps[1] (b): it refers to step 7, which is not an earlier step; steps count from 0"
        ],
    );
    refused(
        json!({"steps": [{"tool": "a"}, {"tool": "b", "args": {"x": "${steps.0.txt}"}}]}),
        expect![[
            r#"InvalidInput invalid_step: steps[1] (b): ${steps.0.txt} asks for "txt"; use `text`, `structured` or `summary`"#
        ]],
    );
    refused(
        json!({"steps": [{"tool": "a", "with": "x"}]}),
        expect![
            "InvalidInput invalid_step: steps[0] (a): `with` needs a previous step; the first step has none"
        ],
    );
    refused(
        json!({"steps": [{"tool": "a"}, {"tool": "b", "args": {"x": 1}, "with": "x"}]}),
        expect![[
            r#"InvalidInput invalid_step: steps[1] (b): "x" is set by both `with` and `args`; omit one"#
        ]],
    );
    refused(
        json!({"steps": [{"tool": "a"}], "on_error": "retry"}),
        expect![[
            r#"InvalidInput invalid_input: `on_error`: "retry" is not one of ["stop","continue"]"#
        ]],
    );
}

#[test]
fn a_chain_is_no_step() {
    for name in [
        "tool_chain",
        "Tool_Chain",
        "toolchain",
        "agent__tool_chain",
        "agent/tool_chain",
        "tool_chain@0.1.0",
    ] {
        assert!(is_chain(name), "{name}");
    }
    assert!(!is_chain("chain"));
    refused(
        json!({"steps": [{"tool": "agent__tool_chain"}]}),
        expect![
            "InvalidInput invalid_step: steps[0] (agent__tool_chain): a chain cannot be a step of a chain; list its steps here"
        ],
    );
}

#[test]
fn examples_work() {
    run_examples::<tool_chain>(|| {
        host().0.with_service("tools.call", |_| {
            Ok(json!({"text": "{}", "structured": {"matches": ["a"]}}))
        })
    });
}
