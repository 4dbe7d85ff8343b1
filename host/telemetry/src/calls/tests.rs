mod house;

use house::{House, end_of};

use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use toolhost_contract::CallId;
use toolhost_contract::life::{Found, Millis, Step};

use super::*;

fn found() -> Step {
    Step::Found(Arc::new(Found {
        tool: "write_file".to_owned(),
        plugin: "files".to_owned(),
        version: "1.2.0".to_owned(),
        digest: None,
        effect: "writes",
        mode: "default".to_owned(),
    }))
}

fn scheduled() -> Step {
    Step::Scheduled {
        by: "rule 3".to_owned(),
        wave: None,
        command: None,
    }
}

fn completed(is_error: bool) -> Step {
    Step::Completed {
        is_error,
        supplied_by: None,
        duration: Duration::from_millis(1),
    }
}

fn straight() -> Vec<Step> {
    vec![
        Step::Picked,
        found(),
        scheduled(),
        Step::Started,
        completed(false),
    ]
}

fn secret() -> Value {
    json!({"path": "notes.txt", "text": "the input", "password": "hunter2"})
}

/// Checks what is exported for one call.
fn check(contents: bool, steps: impl IntoIterator<Item = Step>, spans: Expect, numbers: Expect) {
    let mut house = House::new(contents);
    let record = house.begin("c-1", "Write", secret());
    house.run(record, steps);
    spans.assert_eq(&house.shown(true));
    numbers.assert_eq(&house.numbers());
}

#[test]
fn a_call_is_a_span_with_its_turns_and_without_its_contents() {
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
              1: validating (picked)
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
fn contents_when_they_are_asked_for_are_the_masked_preview_of_the_input_only() {
    let mut house = House::new(true);
    let record = house.begin("c-1", "Write", secret());
    house.run(record, straight());
    let spans = house.shown(true);
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
fn the_time_a_person_takes_is_told_apart() {
    let asked = Step::Asked {
        reason: "may it write `the input`?".to_owned(),
        rule: None,
        meta: None,
    };
    let modified = Step::Modified {
        input: json!({}).into(),
        by: "terminal".to_owned(),
    };
    let approved = Step::Approved {
        by: "terminal".to_owned(),
        scope: "session".to_owned(),
        note: Some("the note".to_owned()),
    };
    let steps = [
        Step::Picked,
        found(),
        asked,
        modified,
        approved,
        scheduled(),
        Step::Started,
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
              1: validating (picked)
              3: awaiting_approval (asked)
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
fn a_denial_is_an_error_with_its_code_and_no_reason() {
    let denied = Step::Denied {
        code: "permission_denied".to_owned(),
        reason: "the input names /etc/passwd".to_owned(),
        by: Some("rule 7".to_owned()),
        note: None,
    };
    check(
        false,
        [Step::Picked, found(), denied],
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
              1: validating (picked)
              3: denied (denied)
        "#]],
        expect![[r#"
            toolhost.calls error.type=permission_denied gen_ai.tool.name=write_file toolhost.state=denied 1
            toolhost.calls.active  0"#]],
    );
}

#[test]
fn a_name_that_a_model_made_up_names_no_span_and_no_series() {
    let failed = Step::Failed {
        code: "tool_not_registered".to_owned(),
        message: "no tool".to_owned(),
        duration: Duration::ZERO,
    };
    check(
        false,
        [Step::Picked, failed],
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
              1: validating (picked)
              2: failed (failed)
        "#]],
        expect![[r#"
            toolhost.calls error.type=tool_not_registered gen_ai.tool.name=_OTHER toolhost.state=failed 1
            toolhost.calls.active  0"#]],
    );
}

#[test]
fn a_batch_is_the_parent_of_its_calls_and_a_call_of_those_it_caused() {
    let mut house = House::new(false);
    for id in ["c-1", "c-2"] {
        let mut record = house.begin(id, "Write", json!({}));
        record.batch = Some("b-1".to_owned());
        house.run(record, straight());
    }
    // Created after the call that caused it has ended.
    let mut tail = house.begin("c-2/tail-1", "Write", json!({}));
    tail.parent = Some(CallId("c-2".to_owned()));
    house.run(tail.clone(), [Step::Picked]);
    house.clock += 1;
    let happening = Happening::BatchCompleted {
        batch: "b-1".to_owned(),
        calls: vec![CallId("c-1".to_owned()), CallId("c-2".to_owned())],
    };
    house.hear(&tail, happening);
    house.calls.finish();
    expect![[r#"
        execute_tool write_file 0..5 of toolhost.batch, Unset
        execute_tool write_file 5..10 of toolhost.batch, Unset
        toolhost.batch 0..12 of none, Unset
        execute_tool 10..11 of execute_tool write_file, Unset
    "#]]
    .assert_eq(&house.shown(false));
    let traces: std::collections::HashSet<_> = house
        .ended()
        .iter()
        .map(|span| span.span_context.trace_id())
        .collect();
    assert_eq!(traces.len(), 1, "all of it is one trace");
}

#[test]
fn a_call_whose_beginning_was_missed_has_a_whole_span_and_one_whose_end_was_missed_has_one_too() {
    let mut house = House::new(false);
    house.calls.missed(5);
    let mut late = house.begin("c-1", "Write", json!({}));
    for step in straight() {
        house.clock += 1;
        late.take(step, Millis(house.clock)).unwrap();
    }
    let happening = end_of(late.state).unwrap();
    house.hear(&late, happening);
    let endless = house.begin("c-2", "Write", json!({}));
    house.run(endless, [Step::Picked, found()]);
    house.calls.finish();
    expect![[r#"
        execute_tool write_file 0..5 of none, Unset
        execute_tool write_file 5..7 of none, Unset
    "#]]
    .assert_eq(&house.shown(false));
    expect![[r#"
        toolhost.call.duration gen_ai.tool.name=write_file toolhost.state=completed 1 in 0.001s
        toolhost.call.waiting gen_ai.tool.name=write_file toolhost.state=scheduled 1 in 0.001s
        toolhost.calls gen_ai.tool.name=write_file toolhost.state=completed 1
        toolhost.calls.active  0
        toolhost.events.missed  5"#]]
    .assert_eq(&house.numbers());
}

#[test]
fn a_call_of_a_host_that_died_is_counted_though_nothing_else_is_known_of_it() {
    let mut house = House::new(false);
    let gone = house.begin("c-1", "Write", json!({}));
    let mut event = house.event(&gone, Happening::CallSealed);
    event.snapshot = None;
    house.calls.hear(&event);
    expect![""].assert_eq(&house.shown(false));
    expect!["toolhost.calls error.type=sealed gen_ai.tool.name=_OTHER toolhost.state=sealed 1"]
        .assert_eq(&house.numbers());
}

#[test]
fn however_many_calls_never_end_memory_stays_bounded() {
    let mut house = House::new(false);
    for number in 0..CALLS + 3 {
        let record = house.begin(&format!("c-{number}"), "Write", json!({}));
        house.hear(&record, Happening::CallCreated);
    }
    assert_eq!(house.ended().len(), 3);
    expect!["toolhost.calls.active  4096"].assert_eq(&house.numbers());
}

/// A call that failed with this code.
fn failed(code: &str) -> Vec<Step> {
    vec![
        Step::Picked,
        found(),
        scheduled(),
        Step::Started,
        Step::Failed {
            code: code.to_owned(),
            message: "no".to_owned(),
            duration: Duration::from_millis(1),
        },
    ]
}

#[test]
fn w_18_codes_of_tools_are_few_and_are_codes() {
    let mut house = House::new(false);
    for code in 0..300 {
        let record = house.begin(&format!("c-{code}"), "Write", json!({}));
        house.run(record, failed(&format!("code_{code}")));
    }
    let series = house.numbers();
    let series = series
        .lines()
        .filter(|line| line.contains("toolhost.calls "));
    assert_eq!(series.count(), 101);
    for said in [
        "root:x:0:0:root",
        "a sentence",
        "ghp_0123456789012345678901",
        "A",
        "",
    ] {
        let mut house = House::new(false);
        let record = house.begin("c-1", "Write", json!({}));
        house.run(record, failed(said));
        let shown = house.shown(true) + &house.numbers();
        assert!(shown.contains("error.type=_OTHER"), "{shown}");
        assert!(
            said.is_empty() || said == "A" || !shown.contains(said),
            "{shown}"
        );
    }
}

#[test]
fn w_19_names_and_rules_hold_no_secrets_and_nothing_invisible() {
    let mut house = House::new(true);
    let record = house.begin("c-1", "write", json!({"a": "b\u{202e}\u{e0041}"}));
    let by = "Bash(curl -H 'Authorization: Bearer abcdef0123')".to_owned();
    let scheduled = Step::Scheduled {
        by,
        wave: None,
        command: None,
    };
    house.run(
        record,
        [
            Step::Picked,
            found(),
            scheduled,
            Step::Started,
            completed(false),
        ],
    );
    // The name of an unknown tool.
    let record = house.begin("c-2", "ghp_0123456789012345678901", json!({}));
    let failed = Step::Failed {
        code: "tool_not_registered".to_owned(),
        message: "no".to_owned(),
        duration: Duration::ZERO,
    };
    house.run(record, [Step::Picked, failed]);
    let shown = house.shown(true) + &house.numbers();
    for secret in ["ghp_0", "abcdef0123", "\u{202e}", "\u{e0041}"] {
        assert!(!shown.contains(secret), "{secret:?} in {shown}");
    }
    assert!(shown.contains(r"b\u{202e}\u{e0041}"), "{shown}");
}
