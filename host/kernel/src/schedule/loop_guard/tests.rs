//! Tests of the detection of repeated failing calls.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn tool(name: &str) -> ToolName {
    ToolName::parse(name).unwrap()
}

/// One line per call: its tool, its arguments and how it would end if it ran.
fn check(calls: &str, expected: Expect) {
    let guard = LoopGuard::default();
    let lines: Vec<_> = calls
        .lines()
        .map(|line| call(&guard, line.trim()))
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

fn call(guard: &LoopGuard, line: &str) -> String {
    let (name, rest) = line.split_once(' ').unwrap();
    let (input, fate) = rest.rsplit_once(' ').unwrap();
    let input = serde_json::from_str(input).unwrap();
    let fate = match fate {
        "completed" => CallStatus::Completed,
        "failed" => CallStatus::Failed,
        "denied" => CallStatus::Denied,
        "cancelled" => CallStatus::Cancelled,
        _ => panic!("{fate}"),
    };
    if guard.check(&tool(name), &input).is_err() {
        return "refused".to_owned();
    }
    match guard.record(&tool(name), &input, fate) {
        Some(_) => "runs, advice".to_owned(),
        None => "runs".to_owned(),
    }
}

#[test]
fn the_third_failure_gives_advice_and_the_fifth_call_is_refused() {
    check(
        r#"edit {"a":1} failed
           edit {"a":1} failed
           edit {"a":1} failed
           edit {"a":1} failed
           edit {"a":1} failed
           edit {"a":1} completed"#,
        expect![[r#"
            runs
            runs
            runs, advice
            runs, advice
            refused
            refused"#]],
    );
}

#[test]
fn other_tools_in_between_do_not_reset_the_count() {
    check(
        r#"edit {} failed
           read {} completed
           edit {} failed
           read {} failed
           edit {} failed"#,
        expect![[r#"
            runs
            runs
            runs
            runs
            runs, advice"#]],
    );
}

#[test]
fn a_success_or_other_arguments_reset_the_count() {
    check(
        r#"edit {} failed
           edit {} failed
           edit {} completed
           edit {} failed
           edit {} failed
           edit {"a":1} failed
           edit {} failed
           edit {} failed
           edit {"a":1} denied
           edit {} failed"#,
        expect![[r#"
            runs
            runs
            runs
            runs
            runs
            runs
            runs
            runs
            runs
            runs"#]],
    );
}

#[test]
fn calls_that_did_not_complete_do_not_count() {
    check(
        r#"edit {} failed
           edit {} failed
           edit {} denied
           edit {} cancelled
           edit {} failed"#,
        expect![[r#"
            runs
            runs
            runs
            runs
            runs, advice"#]],
    );
}

#[test]
fn equivalent_arguments_have_the_same_hash() {
    let same = [
        (json!({"a": 1, "b": [true]}), json!({"b": [true], "a": 1.0})),
        (
            json!({"a": {"x": 1, "y": 2}}),
            json!({"a": {"y": 2, "x": 1}}),
        ),
    ];
    for (one, other) in same {
        assert_eq!(hash(&one), hash(&other), "{one} {other}");
    }
    let different = [
        (json!(["a", "b"]), json!(["ab"])),
        (json!([["a"], "b"]), json!([["a", "b"]])),
        (json!({"a": "1"}), json!({"a": 1})),
        (json!({"a": null}), json!({})),
        (json!(1.5), json!(1)),
    ];
    for (one, other) in different {
        assert_ne!(hash(&one), hash(&other), "{one} {other}");
    }
}

#[test]
fn tracked_tools_are_limited_and_the_oldest_is_dropped() {
    let guard = LoopGuard::default();
    for number in 0..1000 {
        guard.record(&tool(&format!("t{number}")), &json!({}), CallStatus::Failed);
        assert!(guard.rows().of.len() <= MAX_TOOLS);
    }
    assert!(guard.rows().of.contains_key(&tool("t999")));
    assert!(!guard.rows().of.contains_key(&tool("t743")));
    guard.clear();
    assert!(guard.rows().of.is_empty());
}

#[test]
fn the_messages_state_the_problem_and_a_remedy() {
    let guard = LoopGuard::default();
    let fail = || guard.record(&tool("edit"), &json!({}), CallStatus::Failed);
    let advice = std::iter::repeat_with(fail).take(4).nth(2).flatten();
    fail();
    expect!["this call has failed 3 times in a row; do not repeat it: change the arguments or try another approach"]
        .assert_eq(&advice.unwrap());
    let refusal = guard.check(&tool("edit"), &json!({})).unwrap_err();
    expect!["`edit` failed 4 times in a row with the same arguments and was not run again; change the arguments or try another approach"]
        .assert_eq(&refusal.to_string());
}
