//! R-140 to R-148, R-230 to R-247: complete runs in the event formats of other systems.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use toolhost_contract::{Answer, CallId, Principal};
use toolhost_formats::events::FrontEnd;

use super::test_world::{TestWorld, TestWorldBuilder, batch};

/// Returns the events in the format, one line each: the type and its main members.
fn converted(world: &TestWorld, system: FrontEnd) -> String {
    let mut view = system.format();
    let events = world.events();
    let lines: Vec<String> = events
        .iter()
        .flat_map(|event| view.convert(event))
        .map(|message| line(&message))
        .collect();
    lines.join("\n")
}

fn line(message: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&message["type"]);
    let mut parts = vec![text(&message["channel"]), kind];
    let call = &message["call"];
    if call.is_object() {
        let id = text(&call["id"]);
        parts.push(format!("{id} {} {}", text(&call["state"]), call["isError"]));
    }
    for call in message["calls"].as_array().into_iter().flatten() {
        let id = text(&call["request"]["callId"]);
        let mut shown = format!("{id}={}", text(&call["status"]));
        if let Some(kind) = call["confirmationDetails"]["type"].as_str() {
            shown = format!("{shown}({kind})");
        }
        parts.push(shown);
    }
    for member in [
        "decision",
        "decidedBy",
        "note",
        "eventType",
        "callIds",
        "output",
        "error",
    ] {
        if !message[member].is_null() {
            parts.push(format!("{member}={}", message[member]));
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// Runs one call and checks its events for Kode-SDK and Gemini CLI.
async fn check(
    setup: impl Fn() -> TestWorldBuilder,
    tool: &str,
    input: Value,
    kode: Expect,
    gemini: Expect,
) {
    for (system, expected) in [(FrontEnd::Kode, kode), (FrontEnd::Gemini, gemini)] {
        let world = setup().build();
        let _ = world.call("c", tool, input.clone()).await;
        expected.assert_eq(&converted(&world, system));
    }
}

#[tokio::test(start_paused = true)]
async fn r_233_r_236_r_243_a_run_with_output() {
    check(
        TestWorldBuilder::default,
        "look",
        json!({"do": "say"}),
        expect![[r#"
            progress tool:start c PENDING null
            monitor tool_custom_event eventType="output"
            monitor tool_custom_event eventType="counted"
            progress tool:end c COMPLETED false
            monitor tool_executed c COMPLETED false"#]],
        expect![[r#"
            onToolCallsUpdate c=validating
            onToolCallsUpdate c=scheduled
            onToolCallsUpdate c=executing
            outputUpdateHandler output="hello"
            onToolCallsUpdate c=success
            onAllToolCallsComplete c=success"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_235_r_241_a_logical_failure_a_timeout_and_a_wrong_name() {
    check(
        TestWorldBuilder::default,
        "look",
        json!({"do": "fail"}),
        expect![[r#"
            progress tool:start c PENDING null
            progress tool:end c COMPLETED true
            monitor tool_executed c COMPLETED true"#]],
        expect![[r#"
            onToolCallsUpdate c=validating
            onToolCallsUpdate c=scheduled
            onToolCallsUpdate c=executing
            onToolCallsUpdate c=error
            onAllToolCallsComplete c=error"#]],
    )
    .await;
    check(
        TestWorldBuilder::default,
        "look",
        json!({"do": "timeout"}),
        expect![[r#"
            progress tool:start c PENDING null
            progress tool:error c FAILED true error="Tool execution timed out after 30000ms"
            progress tool:end c FAILED true
            monitor tool_executed c FAILED true"#]],
        expect![[r#"
            onToolCallsUpdate c=validating
            onToolCallsUpdate c=scheduled
            onToolCallsUpdate c=executing
            onToolCallsUpdate c=error
            onAllToolCallsComplete c=error"#]],
    )
    .await;
    check(
        TestWorldBuilder::default,
        "lok",
        json!({}),
        expect![[r#"
            progress tool:start c PENDING null
            progress tool:error c FAILED true error="Tool not found: lok"
            progress tool:end c FAILED true"#]],
        expect![[r#"
            onToolCallsUpdate c=validating
            onToolCallsUpdate c=error
            onAllToolCallsComplete c=error"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_237_r_238_r_247_approve_deny_cancel_and_modify_in_each_format() {
    let answers = |answers: Vec<Answer>| move || TestWorldBuilder::answers(answers.clone());
    let no = Answer::Deny {
        note: Some("ask me later".to_owned()),
    };
    let other = Answer::Modify {
        input: json!({"n": 1}),
    };
    check(
        answers(vec![Answer::once()]),
        "write",
        json!({}),
        expect![[r#"
            progress tool:start c PENDING null
            control permission_required c APPROVAL_REQUIRED null
            control permission_decided decision="allow" decidedBy="user"
            progress tool:end c COMPLETED false
            monitor tool_executed c COMPLETED false"#]],
        expect![[r#"
            onToolCallsUpdate c=validating
            onToolCallsUpdate c=awaiting_approval
            onToolCallsUpdate c=awaiting_approval(info)
            onToolCallsUpdate c=scheduled
            onToolCallsUpdate c=executing
            onToolCallsUpdate c=success
            onAllToolCallsComplete c=success"#]],
    )
    .await;
    check(
        answers(vec![no]),
        "write",
        json!({}),
        expect![[r#"
            progress tool:start c PENDING null
            control permission_required c APPROVAL_REQUIRED null
            control permission_decided decision="deny" decidedBy="user" note="ask me later"
            progress tool:error c DENIED true error="Permission denied by user"
            progress tool:end c DENIED true"#]],
        expect![[r#"
            onToolCallsUpdate c=validating
            onToolCallsUpdate c=awaiting_approval
            onToolCallsUpdate c=awaiting_approval(info)
            onToolCallsUpdate c=cancelled
            onAllToolCallsComplete c=cancelled"#]],
    )
    .await;
    check(
        answers(vec![Answer::Cancel]),
        "write",
        json!({}),
        expect![[r#"
            progress tool:start c PENDING null
            control permission_required c APPROVAL_REQUIRED null
            control permission_decided decision="deny" decidedBy="user"
            progress tool:error c FAILED true error="Permission denied: the user cancelled the prompt for `write`"
            progress tool:end c FAILED true"#]],
        expect![[r#"
            onToolCallsUpdate c=validating
            onToolCallsUpdate c=awaiting_approval
            onToolCallsUpdate c=awaiting_approval(info)
            onToolCallsUpdate c=cancelled
            onAllToolCallsComplete c=cancelled"#]],
    )
    .await;
    let other = vec![other, Answer::once()];
    check(
        answers(other),
        "write",
        json!({}),
        expect![[r#"
            progress tool:start c PENDING null
            control permission_required c APPROVAL_REQUIRED null
            control permission_decided decision="modify" decidedBy="user"
            control permission_required c APPROVAL_REQUIRED null
            control permission_decided decision="allow" decidedBy="user"
            progress tool:end c COMPLETED false
            monitor tool_executed c COMPLETED false"#]],
        expect![[r#"
            onToolCallsUpdate c=validating
            onToolCallsUpdate c=awaiting_approval
            onToolCallsUpdate c=awaiting_approval(info)
            onToolCallsUpdate c=awaiting_approval
            onToolCallsUpdate c=validating
            onToolCallsUpdate c=awaiting_approval
            onToolCallsUpdate c=awaiting_approval(info)
            onToolCallsUpdate c=scheduled
            onToolCallsUpdate c=executing
            onToolCallsUpdate c=success
            onAllToolCallsComplete c=success"#]],
    )
    .await;
}

// R-244, R-245, R-175, R-176
#[tokio::test(start_paused = true)]
async fn r_244_r_245_a_turn_is_listed_complete_and_submitted() {
    let world = TestWorldBuilder::default().build();
    let turn = batch(
        "t",
        [
            ("a", "look", json!({})),
            ("b", "step", json!({"do": "fail"})),
        ],
    );
    world.start_batch(turn).await.unwrap();
    let ids = ["a", "b"].map(|id| CallId(id.to_owned()));
    world
        .kernel
        .mark_submitted(&Principal::default(), ids.to_vec());
    expect![[r#"
        onToolCallsUpdate a=validating
        onToolCallsUpdate a=scheduled
        onToolCallsUpdate a=executing
        onToolCallsUpdate a=success
        onToolCallsUpdate a=success b=validating
        onToolCallsUpdate a=success b=scheduled
        onToolCallsUpdate a=success b=executing
        onToolCallsUpdate a=success b=error
        onAllToolCallsComplete a=success b=error
        markToolsAsSubmitted callIds=["a","b"]
        onToolCallsUpdate a=success b=error"#]]
    .assert_eq(&converted(&world, FrontEnd::Gemini));
}

// R-230 to R-232, R-239 to R-241
#[tokio::test(start_paused = true)]
async fn r_230_r_239_every_event_format_reports_every_end() {
    for (system, expected) in [
        (
            FrontEnd::Sema,
            expect![[r#"
        tool:execution:complete
        tool:execution:error
        tool:permission:request, tool:permission:response, tool:execution:error"#]],
        ),
        (
            FrontEnd::Pegasus,
            expect![[r#"
        TOOL_CALL_REQUESTED, TOOL_CALL_COMPLETED
        TOOL_CALL_REQUESTED, TOOL_CALL_FAILED
        TOOL_CALL_REQUESTED, TOOL_CALL_FAILED"#]],
        ),
    ] {
        let mut lines = Vec::new();
        for (tool, input) in [
            ("look", json!({})),
            ("look", json!({"do": "trap"})),
            ("erase", json!({})),
        ] {
            let world = TestWorldBuilder::answers([Answer::Deny { note: None }]).build();
            let _ = world.call("c", tool, input).await;
            let mut view = system.format();
            let messages: Vec<Value> = world
                .events()
                .iter()
                .flat_map(|event| view.convert(event))
                .collect();
            let kinds: Vec<&str> = messages
                .iter()
                .map(|message| {
                    message["type"]
                        .as_str()
                        .or(message["event"].as_str())
                        .unwrap_or("?")
                })
                .collect();
            lines.push(kinds.join(", "));
        }
        expected.assert_eq(&lines.join("\n"));
    }
}

// R-246: the members that a front end needs for its display.
#[tokio::test(start_paused = true)]
async fn r_246_start_and_end_events_contain_what_a_display_needs() {
    let world = TestWorldBuilder::default().build();
    let _ = world
        .call("c", "look", json!({"sleep": 2, "password": "hush"}))
        .await;
    let mut kode = FrontEnd::Kode.format();
    let events: Vec<Value> = world
        .events()
        .iter()
        .flat_map(|event| kode.convert(event))
        .collect();
    let (start, end) = (&events[0]["call"], &events[1]["call"]);
    assert_eq!(
        (
            &start["id"],
            &start["name"],
            &start["state"],
            &start["inputPreview"]
        ),
        (
            &json!("c"),
            &json!("look"),
            &json!("PENDING"),
            &json!({"sleep": 2, "password": "***"})
        )
    );
    // R-149: the time of execution.
    assert_eq!(
        (
            &end["state"],
            &end["isError"],
            &end["result"],
            &end["durationMs"]
        ),
        (
            &json!("COMPLETED"),
            &json!(false),
            &json!("done"),
            &json!(2_000)
        )
    );
    assert!(end["completedAt"].is_number() && end["startedAt"].is_number());
    let states: Vec<&Value> = end["auditTrail"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| &line["state"])
        .collect();
    expect![[
        r#"[String("PENDING"), String("PENDING"), String("EXECUTING"), String("COMPLETED")]"#
    ]]
    .assert_eq(&format!("{states:?}"));
}
