//! Tests of the envelope of Pegasus.

use std::time::Duration;

use expect_test::expect;
use serde_json::json;

use super::fixture;
use crate::profile::{Profile, TaskFailures};
use toolhost_contract::lifecycle::{CallTimes, Timestamp};
use toolhost_contract::{CallError, ErrorClass, Outcome};

const TIMES: CallTimes = CallTimes {
    started_at: Some(Timestamp(1_000)),
    completed_at: Some(Timestamp(1_250)),
    duration: Duration::from_millis(250),
};
const REFUSED: CallTimes = CallTimes {
    started_at: None,
    completed_at: None,
    duration: Duration::ZERO,
};

// R-124, R-148, R-407, R-408
#[test]
fn r_124_results_have_the_envelope_of_pegasus() {
    let tools = fixture::tools();
    let profiled = fixture::lens(Profile::Pegasus, &tools);
    let read = Outcome {
        structured: Some(json!({"content": "x\n", "size": 2})),
        ..Outcome::text("our text")
    };
    let denied = CallError::new(
        ErrorClass::Denied,
        "Permission denied: the user rejected it",
    );
    let (mut shown, mut failures) = (Vec::new(), TaskFailures::default());
    assert_eq!(failures.reflection(), None);
    for (tool, result, times) in [
        ("read_file", Ok(read), TIMES),
        ("todo_write", Ok(Outcome::text("done")), TIMES),
        (
            "shell",
            Err(CallError::new(
                ErrorClass::TimedOut,
                "Tool execution timed out after 250ms",
            )),
            TIMES,
        ),
        ("delete_file", Err(denied.code("user_denied")), REFUSED),
    ] {
        let input = json!({});
        let rendered = profiled.render(tool, &input, &result);
        let envelope = profiled.envelope(tool, &input, &rendered, times);
        shown.push(envelope.unwrap().to_string());
        let failure = profiled.tool_failure(tool, &input, &rendered, &result);
        assert_eq!(failure.is_some(), result.is_err());
        if let Some(failure) = failure {
            shown.push(failure.reflection().to_string());
            failures.append(failure);
        }
    }
    shown.push(format!("the task: {}", failures.reflection().unwrap()));
    expect![[r#"
        {"toolName":"read_file","success":true,"result":{"content":"x\n","size":2},"startedAt":1000,"completedAt":1250,"durationMs":250.0}
        {"toolName":"todo_write","success":true,"result":"done","startedAt":1000,"completedAt":1250,"durationMs":250.0}
        {"toolName":"shell_exec","success":false,"error":"Tool execution timed out after 250ms","startedAt":1000,"completedAt":1250,"durationMs":250.0}
        {"verdict":"replan","toolFailures":[{"toolName":"shell_exec","error":"Tool execution timed out after 250ms","suggestion":"narrow the request, raise the timeout, or run it in the background"}]}
        {"toolName":"delete_file","success":false,"error":"Permission denied: the user rejected it","durationMs":0.0}
        {"verdict":"replan","toolFailures":[{"toolName":"delete_file","error":"Permission denied: the user rejected it","suggestion":"the user denied the call; find another way"}]}
        the task: {"verdict":"replan","toolFailures":[{"toolName":"shell_exec","error":"Tool execution timed out after 250ms","suggestion":"narrow the request, raise the timeout, or run it in the background"},{"toolName":"delete_file","error":"Permission denied: the user rejected it","suggestion":"the user denied the call; find another way"}]}"#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn r_408_the_newest_failures_of_a_task_are_kept() {
    let tools = fixture::tools();
    let profiled = fixture::lens(Profile::Pegasus, &tools);
    let mut failures = TaskFailures::default();
    for number in 0..300 {
        let message = format!("{number} {}", "ä".repeat(2000));
        let result = Err(CallError::new(ErrorClass::Failed, message));
        let rendered = profiled.render("shell", &json!({}), &result);
        let failure = profiled.tool_failure("shell", &json!({}), &rendered, &result);
        failures.append(failure.unwrap());
    }
    let reflection = failures.reflection().unwrap();
    let kept = reflection["toolFailures"].as_array().unwrap();
    assert_eq!(kept.len(), 256);
    let mut errors = kept
        .iter()
        .map(|failure| failure["error"].as_str().unwrap());
    let (first, last) = (errors.next().unwrap(), errors.next_back().unwrap());
    assert!(
        first.starts_with("44 ") && last.starts_with("299 "),
        "{first} {last}"
    );
    assert_eq!(last.len(), 2000);
}

#[test]
fn other_agents_have_no_envelope() {
    let tools = fixture::tools();
    for profile in Profile::ALL {
        let profiled = fixture::lens(profile, &tools);
        let result = Ok(Outcome::text("x"));
        let rendered = profiled.render("shell", &json!({}), &result);
        let envelope = profiled.envelope("shell", &json!({}), &rendered, TIMES);
        assert_eq!(envelope.is_some(), profile == Profile::Pegasus, "{profile}");
    }
}
