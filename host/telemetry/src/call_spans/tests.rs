//! Spans of calls, from the transitions that a kernel reports.

mod fixture;

use fixture::{SpanFixture, end_of};

use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use toolhost_contract::CallId;
use toolhost_contract::lifecycle::{ResolvedTool, Timestamp, Transition};

use super::*;

fn found() -> Transition {
    Transition::ToolResolved(Arc::new(ResolvedTool {
        tool: "write_file".to_owned(),
        plugin: "files".to_owned(),
        version: "1.2.0".to_owned(),
        digest: None,
        effect: "writes",
        mode: "default".to_owned(),
        sources: Vec::new(),
        destinations: Vec::new(),
    }))
}

fn scheduled() -> Transition {
    Transition::Scheduled {
        by: "rule 3".to_owned(),
        wave: None,
        command: None,
    }
}

fn completed(is_error: bool) -> Transition {
    Transition::Completed {
        is_error,
        supplied_by: None,
        duration: Duration::from_millis(1),
    }
}

fn straight() -> Vec<Transition> {
    vec![
        Transition::ValidationStarted,
        found(),
        scheduled(),
        Transition::Started,
        completed(false),
    ]
}

fn secret() -> Value {
    json!({"path": "notes.txt", "text": "the input", "password": "hunter2"})
}

/// Checks what is exported for one call.
fn check(
    contents: bool,
    steps: impl IntoIterator<Item = Transition>,
    spans: Expect,
    numbers: Expect,
) {
    let mut house = SpanFixture::new(contents);
    let record = house.begin("c-1", "Write", secret());
    house.run(record, steps);
    spans.assert_eq(&house.format_spans(true));
    numbers.assert_eq(&house.format_metrics());
}

#[test]
fn a_call_is_a_span_with_state_changes_and_without_contents() {
    check(
        false,
        straight(),
        expect![[r#"
            execute_tool write_file 0..5 of none, Unset
              gen_ai.agent.id=main
              gen_ai.conversation.id=local
              gen_ai.operation.name=execute_tool
              gen_ai.tool.call.id=c-1
              gen_ai.tool.name=write_file
              gen_ai.tool.type=function
              toolhost.decision.by=rule 3
              toolhost.decision=allow
              toolhost.effect=writes
              toolhost.execution.seconds=0.001
              toolhost.mode=default
              toolhost.origin=model
              toolhost.plugin.version=1.2.0
              toolhost.plugin=files
              toolhost.session=local
              toolhost.state=completed
              0: pending (requested)
              1: validating (validation_started)
              3: scheduled (scheduled)
              4: executing (started)
              5: completed (completed)
        "#]],
        expect![[r#"
        toolhost.call.duration gen_ai.tool.name=write_file toolhost.state=completed 1 in 0.001s
        toolhost.call.waiting gen_ai.tool.name=write_file toolhost.state=scheduled 1 in 0.001s
        toolhost.calls gen_ai.tool.name=write_file toolhost.state=completed 1
        toolhost.calls.active  0"#]],
    );
}

#[test]
fn enabled_contents_are_limited_to_the_masked_input_preview() {
    let mut house = SpanFixture::new(true);
    let record = house.begin("c-1", "Write", secret());
    house.run(record, straight());
    let spans = house.format_spans(true);
    let preview = spans.lines().find(|line| line.contains("arguments"));
    expect![[
        r#"  gen_ai.tool.call.arguments={"path":"notes.txt","text":"the input","password":"***"}"#
    ]]
    .assert_eq(preview.unwrap_or_default());
    for hidden in ["hunter2", "the result", "the summary", "the title"] {
        assert!(!spans.contains(hidden), "{spans}");
    }
}

#[test]
fn approval_time_is_measured_separately() {
    let request = Transition::ApprovalRequested {
        reason: "may it write `the input`?".to_owned(),
        rule: None,
        meta: None,
    };
    let modified = Transition::InputModified {
        input: json!({}).into(),
        by: "terminal".to_owned(),
    };
    let approved = Transition::Approved {
        by: "terminal".to_owned(),
        scope: "session".to_owned(),
        note: Some("the note".to_owned()),
    };
    let steps = [
        Transition::ValidationStarted,
        found(),
        request,
        modified,
        approved,
        scheduled(),
        Transition::Started,
        completed(true),
    ];
    check(
        false,
        steps,
        expect![[r#"
            execute_tool write_file 0..8 of none, Error { description: "failed" }
              error.type=failed
              gen_ai.agent.id=main
              gen_ai.conversation.id=local
              gen_ai.operation.name=execute_tool
              gen_ai.tool.call.id=c-1
              gen_ai.tool.name=write_file
              gen_ai.tool.type=function
              toolhost.decision.by=terminal
              toolhost.decision.scope=session
              toolhost.decision=allow
              toolhost.effect=writes
              toolhost.execution.seconds=0.001
              toolhost.input.modified=true
              toolhost.mode=default
              toolhost.origin=model
              toolhost.plugin.version=1.2.0
              toolhost.plugin=files
              toolhost.session=local
              toolhost.state=completed
              0: pending (requested)
              1: validating (validation_started)
              3: awaiting_approval (approval_requested)
              5: approved (approved)
              6: scheduled (scheduled)
              7: executing (started)
              8: completed (completed)
        "#]],
        expect![[r#"
        toolhost.call.duration error.type=failed gen_ai.tool.name=write_file toolhost.state=completed 1 in 0.001s
        toolhost.call.waiting gen_ai.tool.name=write_file toolhost.state=awaiting_approval 1 in 0.002s
        toolhost.call.waiting gen_ai.tool.name=write_file toolhost.state=scheduled 1 in 0.001s
        toolhost.calls error.type=failed gen_ai.tool.name=write_file toolhost.state=completed 1
        toolhost.calls.active  0"#]],
    );
}

#[test]
fn a_denial_is_an_error_with_a_code_and_no_reason() {
    let denied = Transition::Denied {
        code: "permission_denied".to_owned(),
        reason: "the input names /etc/passwd".to_owned(),
        by: Some("rule 7".to_owned()),
        note: None,
        remedy: None,
    };
    check(
        false,
        [Transition::ValidationStarted, found(), denied],
        expect![[r#"
            execute_tool write_file 0..3 of none, Error { description: "permission_denied" }
              error.type=permission_denied
              gen_ai.agent.id=main
              gen_ai.conversation.id=local
              gen_ai.operation.name=execute_tool
              gen_ai.tool.call.id=c-1
              gen_ai.tool.name=write_file
              gen_ai.tool.type=function
              toolhost.decision.by=rule 7
              toolhost.decision=deny
              toolhost.effect=writes
              toolhost.mode=default
              toolhost.origin=model
              toolhost.plugin.version=1.2.0
              toolhost.plugin=files
              toolhost.session=local
              toolhost.state=denied
              0: pending (requested)
              1: validating (validation_started)
              3: denied (denied)
        "#]],
        expect![[r#"
            toolhost.calls error.type=permission_denied gen_ai.tool.name=write_file toolhost.state=denied 1
            toolhost.calls.active  0"#]],
    );
}

#[test]
fn unknown_tool_names_are_not_exported() {
    let failed = Transition::Failed {
        code: "tool_not_registered".to_owned(),
        message: "no tool".to_owned(),
        duration: Duration::ZERO,
    };
    check(
        false,
        [Transition::ValidationStarted, failed],
        expect![[r#"
            execute_tool 0..2 of none, Error { description: "tool_not_registered" }
              error.type=tool_not_registered
              gen_ai.agent.id=main
              gen_ai.conversation.id=local
              gen_ai.operation.name=execute_tool
              gen_ai.tool.call.id=c-1
              gen_ai.tool.name=Write
              gen_ai.tool.type=function
              toolhost.origin=model
              toolhost.session=local
              toolhost.state=failed
              0: pending (requested)
              1: validating (validation_started)
              2: failed (failed)
        "#]],
        expect![[r#"
            toolhost.calls error.type=tool_not_registered gen_ai.tool.name=_OTHER toolhost.state=failed 1
            toolhost.calls.active  0"#]],
    );
}

#[test]
fn batches_and_calling_calls_are_parent_spans() {
    let mut house = SpanFixture::new(false);
    for id in ["c-1", "c-2"] {
        let mut record = house.begin(id, "Write", json!({}));
        record.batch = Some("b-1".to_owned());
        house.run(record, straight());
    }
    // Created after the call that caused it has ended.
    let mut tail = house.begin("c-2/tail-1", "Write", json!({}));
    tail.parent = Some(CallId("c-2".to_owned()));
    house.run(tail.clone(), [Transition::ValidationStarted]);
    house.clock += 1;
    let event_kind = EventKind::BatchCompleted {
        batch: "b-1".to_owned(),
        calls: vec![CallId("c-1".to_owned()), CallId("c-2".to_owned())],
    };
    house.send(&tail, event_kind);
    house.calls.finish();
    expect![[r#"
        execute_tool write_file 0..5 of toolhost.batch, Unset
        execute_tool write_file 5..10 of toolhost.batch, Unset
        toolhost.batch 0..12 of none, Unset
        execute_tool 10..11 of execute_tool write_file, Unset
    "#]]
    .assert_eq(&house.format_spans(false));
    let traces: std::collections::HashSet<_> = house
        .ended()
        .iter()
        .map(|span| span.span_context.trace_id())
        .collect();
    assert_eq!(traces.len(), 1, "all of it is one trace");
}

#[test]
fn calls_with_missed_events_have_complete_spans() {
    let mut house = SpanFixture::new(false);
    house.calls.on_missed(5);
    let mut late = house.begin("c-1", "Write", json!({}));
    for step in straight() {
        house.clock += 1;
        late.apply(step, Timestamp(house.clock)).unwrap();
    }
    let event_kind = end_of(late.state).unwrap();
    house.send(&late, event_kind);
    let endless = house.begin("c-2", "Write", json!({}));
    house.run(endless, [Transition::ValidationStarted, found()]);
    house.calls.finish();
    expect![[r#"
        execute_tool write_file 0..5 of none, Unset
        execute_tool write_file 5..7 of none, Unset
    "#]]
    .assert_eq(&house.format_spans(false));
    expect![[r#"
        toolhost.call.duration gen_ai.tool.name=write_file toolhost.state=completed 1 in 0.001s
        toolhost.call.waiting gen_ai.tool.name=write_file toolhost.state=scheduled 1 in 0.001s
        toolhost.calls gen_ai.tool.name=write_file toolhost.state=completed 1
        toolhost.calls.active  0
        toolhost.events.missed  5"#]]
    .assert_eq(&house.format_metrics());
}

#[test]
fn a_sealed_call_is_counted() {
    let mut house = SpanFixture::new(false);
    let gone = house.begin("c-1", "Write", json!({}));
    let mut event = house.event(&gone, EventKind::CallSealed);
    event.snapshot = None;
    house.calls.on_event(&event);
    expect![""].assert_eq(&house.format_spans(false));
    expect!["toolhost.calls error.type=sealed gen_ai.tool.name=_OTHER toolhost.state=sealed 1"]
        .assert_eq(&house.format_metrics());
}

#[test]
fn memory_is_bounded_for_calls_that_never_end() {
    let mut house = SpanFixture::new(false);
    for number in 0..MAX_OPEN_CALLS + 3 {
        let record = house.begin(&format!("c-{number}"), "Write", json!({}));
        house.send(&record, EventKind::CallCreated);
    }
    assert_eq!(house.ended().len(), 3);
    expect!["toolhost.calls.active  4096"].assert_eq(&house.format_metrics());
}

/// A call that failed with this code.
fn failed(code: &str) -> Vec<Transition> {
    vec![
        Transition::ValidationStarted,
        found(),
        scheduled(),
        Transition::Started,
        Transition::Failed {
            code: code.to_owned(),
            message: "no".to_owned(),
            duration: Duration::from_millis(1),
        },
    ]
}

#[test]
fn w_18_error_codes_are_limited_and_plain() {
    let mut house = SpanFixture::new(false);
    for code in 0..300 {
        let record = house.begin(&format!("c-{code}"), "Write", json!({}));
        house.run(record, failed(&format!("code_{code}")));
    }
    let series = house.format_metrics();
    let series = series
        .lines()
        .filter(|line| line.contains("toolhost.calls "));
    assert_eq!(series.count(), 101);
    for message in [
        "root:x:0:0:root",
        "a sentence",
        "ghp_0123456789012345678901",
        "A",
        "",
    ] {
        let mut house = SpanFixture::new(false);
        let record = house.begin("c-1", "Write", json!({}));
        house.run(record, failed(message));
        let shown = house.format_spans(true) + &house.format_metrics();
        assert!(shown.contains("error.type=_OTHER"), "{shown}");
        assert!(
            message.is_empty() || message == "A" || !shown.contains(message),
            "{shown}"
        );
    }
}

#[test]
fn w_19_attributes_contain_no_secrets_or_invisible_characters() {
    let mut house = SpanFixture::new(true);
    let record = house.begin("c-1", "write", json!({"a": "b\u{202e}\u{e0041}"}));
    let by = "Bash(curl -H 'Authorization: Bearer abcdef0123')".to_owned();
    let scheduled = Transition::Scheduled {
        by,
        wave: None,
        command: None,
    };
    house.run(
        record,
        [
            Transition::ValidationStarted,
            found(),
            scheduled,
            Transition::Started,
            completed(false),
        ],
    );
    // The name of an unknown tool.
    let record = house.begin("c-2", "ghp_0123456789012345678901", json!({}));
    let failed = Transition::Failed {
        code: "tool_not_registered".to_owned(),
        message: "no".to_owned(),
        duration: Duration::ZERO,
    };
    house.run(record, [Transition::ValidationStarted, failed]);
    let shown = house.format_spans(true) + &house.format_metrics();
    for secret in ["ghp_0", "abcdef0123", "\u{202e}", "\u{e0041}"] {
        assert!(!shown.contains(secret), "{secret:?} in {shown}");
    }
    assert!(shown.contains(r"b\u{202e}\u{e0041}"), "{shown}");
}
