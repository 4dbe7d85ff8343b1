//! Approvals with edits to the changes that a call proposed.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use toolhost_contract::policy::{Policy, PolicySpec};
use toolhost_contract::{Answer, FileDiff, Outcome, UserEdit};
use toolhost_store::AnswerRow;

use super::test_world::{TestWorld, TestWorldBuilder, rules, shown};

fn holding(setup: TestWorldBuilder) -> TestWorld {
    let world = TestWorldBuilder {
        holds: true,
        ..setup
    };
    world.build()
}

fn saves(edits: &[(&str, &str)]) -> Answer {
    let edit = |(path, text): &(&str, &str)| UserEdit {
        path: (*path).to_owned(),
        text: (*text).to_owned(),
    };
    Answer::Edit {
        edits: edits.iter().map(edit).collect(),
    }
}

fn input() -> Value {
    json!({"changes": ["a", "b"]})
}

/// Checks the result for the model, the event log, and the committed files.
async fn check(world: TestWorld, input: Value, expected: Expect) {
    let report = world.call("c", "write", input).await;
    let event_log = world.event_log().await;
    expected.assert_eq(&format!(
        "{} by {:?}\n{event_log}\nreal: {:?}, undo ids: {}",
        shown(&report),
        report.allowed_by,
        world.stage.real.lock().unwrap(),
        report.commits.len(),
    ));
}

#[tokio::test(start_paused = true)]
async fn r_047_edits_of_the_user_are_committed_and_reported_to_the_model() {
    check(
        holding(TestWorldBuilder::answers([saves(&[("b", "mine\u{1b}\n")])])),
        input(),
        expect![[r#"
            ok: done
            The user who approved this call edited the proposed changes. The edited contents were written. Differences from the proposal:

            b
            @@ -1 +1 @@
            -proposed
            +mine\u{1b} by Some("the user, once, with changes")
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, approved, commit_authorized, commit_authorized, completed
            real: ["a", "b: mine\u{1b}\n"], undo ids: 1"#]],
    )
    .await;
    // A file that is edited back to its original is no longer a change.
    check(
        holding(TestWorldBuilder::answers([saves(&[("b", "o")])])),
        input(),
        expect![[r#"
            ok: done
            The user who approved this call edited the proposed changes. The edited contents were written. Differences from the proposal:

            b
            @@ -1 +1 @@
            -proposed
            +o by Some("the user, once, with changes")
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, approved, commit_authorized, commit_authorized, completed
            real: ["a"], undo ids: 1"#]],
    )
    .await;
    check(
        holding(TestWorldBuilder::answers([saves(&[("a", "o"), ("b", "o")])])),
        input(),
        expect![[r#"
            ok: done
            The user who approved this call edited the proposed changes. The edited contents were written. Differences from the proposal:

            a
            @@ -1 +1 @@
            -proposed
            +o

            b
            @@ -1 +1 @@
            -proposed
            +o by Some("the user, once, with changes")
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, approved, commit_authorized, commit_authorized, completed
            real: [], undo ids: 0"#]],
    )
    .await;
    // Equivalent to an approval without edits.
    check(
        holding(TestWorldBuilder::answers([saves(&[("a", "proposed\n")])])),
        input(),
        expect![[r#"
            ok: done by Some("the user, once")
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, approved, commit_authorized, completed
            real: ["a", "b"], undo ids: 1"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_195_files_outside_the_question_cannot_be_edited() {
    check(
        holding(TestWorldBuilder::answers([saves(&[("a", "mine"), ("c", "mine")])])),
        input(),
        expect![[r#"
            Denied [policy_violation]: Permission denied: the edited changes of `write` cannot be applied: `c` is not one of the changes; use a path from the prompt by None
            c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided deny], CALL.DENIED
              on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, denied
            real: [], undo ids: 0"#]],
    )
    .await;
    // A call that has not run proposes nothing.
    check(
        TestWorldBuilder::answers([saves(&[("a", "mine")])]).build(),
        input(),
        expect![[r#"
            Denied [policy_violation]: Permission denied: the edited changes of `write` cannot be applied: the call has not run, so it has no changes to edit by None
            c: [created], validating, validating, awaiting_approval, [permission_request], [decided deny], CALL.DENIED
              on disk: requested, validation_started, tool_resolved, approval_requested, denied
            real: [], undo ids: 0"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_makes_a_call_with_edits_run_again() {
    let says = |at: usize, _: &_, _: &_| {
        Some(match at {
            0 => saves(&[("a", "conflict")]),
            1 => saves(&[("a", "mine")]),
            _ => Answer::once(),
        })
    };
    let world = holding(TestWorldBuilder::says(says));
    world
        .stage
        .conflicts
        .store(1, std::sync::atomic::Ordering::Relaxed);
    check(world, input(), expect![[r#"
        ok: done by Some("the user, once")
        c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, executing, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, executing, CALL.COMPLETED
          on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, approved, commit_authorized, validation_started, scheduled, started, approval_requested, approved, commit_authorized, commit_authorized, validation_started, scheduled, started, approval_requested, approved, commit_authorized, completed
        real: ["a", "b"], undo ids: 1"#]]).await;
}

/// Rules may change while the user decides.
#[tokio::test(start_paused = true)]
async fn a_deny_rule_takes_precedence_over_edits_of_the_user() {
    let world = Arc::new(holding(TestWorldBuilder::says(|_, _, _| None)));
    let running = world.start("c", "write", input());
    while world.kernel.pending().is_empty() {
        tokio::task::yield_now().await;
    }
    let spec = PolicySpec {
        rules: rules("deny Edit(b)"),
        ..PolicySpec::default()
    };
    let policy = Arc::new(Policy::new(spec).unwrap());
    *world.kernel.policy.write().unwrap() = policy;
    let answered = crate::AttributedAnswer {
        answer: saves(&[("a", "mine")]),
        by: "web".to_owned(),
    };
    let id = toolhost_contract::CallId("c".to_owned());
    world.kernel.answer(&id, answered).unwrap();
    let report = running.await.unwrap();
    expect![[r#"
        Denied [policy_violation]: Permission denied: rule user:1 deny `Edit(b)` forbids `write`
        c: [created], validating, validating, scheduled, executing, awaiting_approval, [permission_request], [decided allow], approved, CALL.DENIED
          on disk: requested, validation_started, tool_resolved, scheduled, started, approval_requested, approved, denied"#]].assert_eq(&format!("{}\n{}", shown(&report), world.event_log().await));
    assert!(world.stage.real.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_another_process_may_contain_edits() {
    let world = holding(TestWorldBuilder::says(|_, _, _| None));
    let running = world.start("c", "write", input());
    while world.kernel.pending().is_empty() {
        tokio::task::yield_now().await;
    }
    let row = world.store().call("c").unwrap().unwrap();
    let answer = AnswerRow {
        asked_ms: Some(row.updated_ms),
        call: "c".to_owned(),
        decision: "edit".to_owned(),
        note: None,
        payload: Some(json!({"edits": [{"path": "a", "text": "mine"}]})),
        by: "another".to_owned(),
        at_ms: 0,
    };
    world.store().answer(answer).await.unwrap();
    let report = running.await.unwrap();
    assert!(report.result.is_ok(), "{}", shown(&report));
    assert_eq!(*world.stage.real.lock().unwrap(), ["a: mine", "b"]);
}

#[tokio::test(start_paused = true)]
async fn the_note_to_the_model_is_bounded() {
    let names: Vec<String> = (0..60).map(|n| format!("f{n:02}")).collect();
    let long = "\u{202e}".repeat(10_000);
    let edits: Vec<(&str, &str)> = names.iter().map(|name| (&**name, &*long)).collect();
    let world = holding(TestWorldBuilder::answers([saves(&edits)]));
    let report = world.call("c", "write", json!({"changes": names})).await;
    let text = shown(&report);
    assert!(text.len() < 12_000, "{}", text.len());
    assert!(text.contains("f49") && text.ends_with("and 10 more files"));
    assert!(!text.contains('\u{202e}'));
}

/// If there is only a structured value, the model still gets it.
#[test]
fn the_note_does_not_hide_a_structured_value() {
    let mut outcome = Outcome {
        structured: Some(json!({"changed": 1})),
        ..Outcome::default()
    };
    super::super::user_edits::append_note(&mut outcome, &[]);
    assert!(outcome.llm.is_empty());
    let diff = FileDiff {
        file_name: "a".to_owned(),
        diff: "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n".to_owned(),
        original: Some("x\n".to_owned()),
        new: "y\n".to_owned(),
    };
    super::super::user_edits::append_note(&mut outcome, &[diff]);
    expect![[r#"
        {
          "changed": 1
        }
        The user who approved this call edited the proposed changes. The edited contents were written. Differences from the proposal:

        a
        @@ -1 +1 @@
        -x
        +y"#]]
    .assert_eq(&outcome.model_text());
}
