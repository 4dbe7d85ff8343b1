//! R-160, R-163, R-166, R-406, R-409: every call has one result, one end on the bus, and the same steps on the bus and
//! in the store.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::time::timeout;
use toolhost_contract::hook::{PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::lifecycle::CallState;
use toolhost_contract::{Answer, CallEvent, Outcome};

use std::sync::Arc;
use std::time::Duration;

use super::test_world::{TestWorldBuilder, batch, shown};
use crate::hooks::{CallbackHook, HookEntry, Stage};

/// Checks the result, and the event log of the call and its tail calls.
async fn check(setup: TestWorldBuilder, tool: &str, input: Value, expected: Expect) {
    let world = setup.build();
    let report = world.call("c", tool, input).await;
    let event_log = world.event_log().await;
    expected.assert_eq(&format!("{}\n{event_log}", shown(&report)));
}

fn says(decision: PreHookDecision) -> TestWorldBuilder {
    let hook = CallbackHook::before(move |_| {
        let decision = decision.clone();
        async move {
            Ok(PreHookResponse {
                decision,
                updated_input: None,
            })
        }
    });
    TestWorldBuilder::answers([Answer::once()]).hook("h", hook)
}

// R-161: find, validate, wait for a slot, run, wrap, report, record. R-160 adds hooks.
#[tokio::test(start_paused = true)]
async fn r_160_r_233_a_successful_call() {
    check(
        TestWorldBuilder::default(),
        "look",
        json!({}),
        expect![[r#"
            ok: done
            c: [created], validating, validating, scheduled, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, completed"#]],
    )
    .await;
    check(TestWorldBuilder::default(), "look", json!({"do": "say"}), expect![[r#"
        ok: said
        c: [created], validating, validating, scheduled, executing, [output], [custom], CALL.COMPLETED
          on disk: requested, validation_started, tool_resolved, scheduled, started, completed"#]]).await;
}

// R-406: the tool ran and reports a failure.
#[tokio::test(start_paused = true)]
async fn r_406_a_logical_failure_completes() {
    check(
        TestWorldBuilder::default(),
        "look",
        json!({"do": "fail"}),
        expect![[r#"
            no: no luck
            c: [created], validating, validating, scheduled, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, completed"#]],
    )
    .await;
}

// R-166, and R-400, R-401, R-402, R-403, R-404, R-405, R-409
#[tokio::test(start_paused = true)]
async fn r_409_every_kind_of_failure_is_a_result() {
    let default = TestWorldBuilder::default;
    check(default(), "look", json!({"n": "x"}), expect![[r#"
        InvalidInput [invalid_tool_params]: Parameter validation failed: n: expected integer, got "x"
        c: [created], validating, validating, CALL.FAILED
          on disk: requested, validation_started, tool_resolved, failed"#]]).await;
    check(
        default(),
        "lok",
        json!({}),
        expect![[r#"
            NotRegistered [tool_not_registered]: Tool "lok" not found. Did you mean: look?
            c: [created], validating, CALL.FAILED
              on disk: requested, validation_started, failed"#]],
    )
    .await;
    check(
        default(),
        "look",
        json!({"do": "timeout"}),
        expect![[r#"
            TimedOut [timeout]: Tool execution timed out after 30000ms
            c: [created], validating, validating, scheduled, executing, CALL.FAILED
              on disk: requested, validation_started, tool_resolved, scheduled, started, failed"#]],
    )
    .await;
    check(
        default(),
        "look",
        json!({"do": "trap"}),
        expect![[r#"
            Trapped [trap]: the guest trapped: unreachable
            c: [created], validating, validating, scheduled, executing, CALL.FAILED
              on disk: requested, validation_started, tool_resolved, scheduled, started, failed"#]],
    )
    .await;
    check(
        default(),
        "look",
        json!({"do": "panic"}),
        expect![[r#"
            Internal [internal]: internal host error: the backend of `look` panicked
            c: [created], validating, validating, scheduled, executing, CALL.FAILED
              on disk: requested, validation_started, tool_resolved, scheduled, started, failed"#]],
    )
    .await;
    check(
        default(),
        "look",
        json!({"do": "interrupted"}),
        expect![[r#"
            Failed [interrupted]: the guest was interrupted
            c: [created], validating, validating, scheduled, executing, CALL.FAILED
              on disk: requested, validation_started, tool_resolved, scheduled, started, failed"#]],
    )
    .await;
}

// R-178, R-179: the kernel's own deadline, for a backend that does not enforce its own.
#[tokio::test(start_paused = true)]
async fn r_178_a_backend_that_never_returns_times_out() {
    check(
        TestWorldBuilder::default(),
        "look",
        json!({"do": "hang"}),
        expect![[r#"
            TimedOut [timeout]: Tool execution timed out after 30000ms
            c: [created], validating, validating, scheduled, executing, CALL.FAILED
              on disk: requested, validation_started, tool_resolved, scheduled, started, failed"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_198_a_disabled_tool_and_a_denying_rule_end_it_before_anything_runs() {
    let mut disabled = TestWorldBuilder::default();
    disabled.settings.disabled_tools = ["look".to_owned()].into();
    check(
        disabled,
        "look",
        json!({}),
        expect![[r#"
            Denied [policy_violation]: Permission denied: `look` is disabled
            c: [created], validating, CALL.DENIED
              on disk: requested, validation_started, denied"#]],
    )
    .await;
    let denied = TestWorldBuilder::default().rules("deny look");
    check(
        denied,
        "look",
        json!({}),
        expect![[r#"
            Denied [policy_violation]: Permission denied: rule user:1 deny `look` forbids `look`
            c: [created], validating, validating, CALL.DENIED
              on disk: requested, validation_started, tool_resolved, denied"#]],
    )
    .await;
    // No user is available.
    check(TestWorldBuilder::default(), "write", json!({}), expect![[r#"
        Denied [policy_violation]: Permission denied: `write` requires approval (it may have side effects), and no terminal is available to ask for it
        c: [created], validating, validating, awaiting_approval, [permission_request], CALL.DENIED
          on disk: requested, validation_started, tool_resolved, approval_requested, denied"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn r_202_r_210_a_hook_denies_with_a_reason_or_its_own_result() {
    let deny = |reason: Option<&str>, outcome: Option<Outcome>| {
        says(PreHookDecision::Deny {
            reason: reason.map(ToOwned::to_owned),
            outcome: outcome.map(Box::new),
        })
    };
    check(
        deny(None, None),
        "look",
        json!({}),
        expect![[r#"
            Denied [hook_denied]: Permission denied: Denied by hook
            c: [created], validating, validating, CALL.DENIED
              on disk: requested, validation_started, tool_resolved, denied"#]],
    )
    .await;
    check(
        deny(Some("not today"), None),
        "look",
        json!({}),
        expect![[r#"
            Denied [hook_denied]: Permission denied: not today
            c: [created], validating, validating, CALL.DENIED
              on disk: requested, validation_started, tool_resolved, denied"#]],
    )
    .await;
    let own = Outcome {
        structured: Some(json!({"ok": false, "error": "that file is secret"})),
        ..Outcome::default()
    };
    check(
        deny(Some("secret"), Some(own)),
        "look",
        json!({}),
        expect![[r#"
            ok: {
              "ok": false,
              "error": "that file is secret"
            }
            c: [created], validating, validating, CALL.DENIED
              on disk: requested, validation_started, tool_resolved, denied"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_210_a_hook_supplies_the_result_or_asks_the_user() {
    let result = PreHookDecision::Result(Box::new(Outcome::text("from the cache")));
    check(
        says(result),
        "look",
        json!({}),
        expect![[r#"
            ok: from the cache
            c: [created], validating, validating, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, completed"#]],
    )
    .await;
    let ask = PreHookDecision::Ask {
        reason: Some("it looks odd".to_owned()),
        meta: Some(json!({"risk": "high"})),
    };
    check(says(ask), "look", json!({}), expect![[r#"
        ok: done
        c: [created], validating, validating, awaiting_approval, [permission_request], [decided allow], approved, scheduled, executing, CALL.COMPLETED
          on disk: requested, validation_started, tool_resolved, approval_requested, approved, scheduled, started, completed"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_supplies_the_result_of_an_approved_call() {
    let mut setup = TestWorldBuilder::answers([Answer::once()]).rules("ask look");
    let hook = CallbackHook::before(|_| async {
        Ok(PreHookResponse {
            decision: PreHookDecision::Result(Box::new(Outcome::text("from the cache"))),
            updated_input: None,
        })
    });
    setup.hooks.push(HookEntry {
        stage: Stage::Supply,
        ..HookEntry::new("cache", Arc::new(hook))
    });
    check(
        setup,
        "look",
        json!({}),
        expect![[r#"
            ok: from the cache
            c: [created], validating, validating, awaiting_approval, [permission_request], [decided allow], approved, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, approval_requested, approved, completed"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_194_r_201_each_answer_of_the_user_takes_effect() {
    let note = |text: &str| Some(text.to_owned());
    let deny = Answer::Deny {
        note: note("use trash instead"),
    };
    check(TestWorldBuilder::answers([deny]), "erase", json!({}), expect![[r#"
        Denied [user_denied]: Permission denied: the user rejected `erase`: use trash instead
        c: [created], validating, validating, awaiting_approval, [permission_request], [decided deny], CALL.DENIED
          on disk: requested, validation_started, tool_resolved, approval_requested, denied"#]]).await;
    check(TestWorldBuilder::answers([Answer::Cancel]), "erase", json!({}), expect![[r#"
        Cancelled [cancelled]: Permission denied: the user cancelled the prompt for `erase`
        c: [created], validating, validating, awaiting_approval, [permission_request], [decided deny], CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, approval_requested, cancelled"#]]).await;
    check(TestWorldBuilder::answers([Answer::TimedOut]), "erase", json!({}), expect![[r#"
        Denied [policy_violation]: Permission denied: the prompt for `erase` got no valid answer (it may destroy data)
        c: [created], validating, validating, awaiting_approval, [permission_request], [decided deny], CALL.DENIED
          on disk: requested, validation_started, tool_resolved, approval_requested, denied"#]]).await;
    let modify = |n: i64| Answer::Modify {
        input: json!({"n": n}),
    };
    let twice = [modify(1), modify(2), Answer::once()];
    check(TestWorldBuilder::answers(twice), "write", json!({}), expect![[r#"
        ok: done
        c: [created], validating, validating, awaiting_approval, [permission_request], [decided modify], awaiting_approval, validating, awaiting_approval, [permission_request], [decided modify], awaiting_approval, validating, awaiting_approval, [permission_request], [decided allow], approved, scheduled, executing, CALL.COMPLETED
          on disk: requested, validation_started, tool_resolved, approval_requested, modified, validation_started, approval_requested, modified, validation_started, approval_requested, approved, scheduled, started, completed"#]]).await;
    let wrong = Answer::Modify {
        input: json!({"n": "many"}),
    };
    check(TestWorldBuilder::answers([wrong]), "write", json!({}), expect![[r#"
        InvalidInput [invalid_tool_params]: Parameter validation failed: n: expected integer, got "many"
        c: [created], validating, validating, awaiting_approval, [permission_request], [decided modify], awaiting_approval, validating, CALL.FAILED
          on disk: requested, validation_started, tool_resolved, approval_requested, modified, validation_started, failed"#]]).await;
}

// An approval by the user does not override a hook or rule that denies the changed input.
#[tokio::test(start_paused = true)]
async fn r_198_changed_input_is_evaluated_like_the_first() {
    let modify = Answer::Modify {
        input: json!({"path": "/secret/x"}),
    };
    let setup =
        TestWorldBuilder::answers([modify, Answer::once()]).rules("deny write(//secret/**)");
    check(setup, "write", json!({}), expect![[r#"
        Denied [policy_violation]: Permission denied: rule user:1 deny `write(//secret/**)` forbids `write`
        c: [created], validating, validating, awaiting_approval, [permission_request], [decided modify], awaiting_approval, validating, CALL.DENIED
          on disk: requested, validation_started, tool_resolved, approval_requested, modified, validation_started, denied"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn a_panicking_prompter_counts_as_no_user() {
    check(TestWorldBuilder::says(|_, _, _| panic!("the terminal is gone")), "write", json!({}), expect![[r#"
        Denied [policy_violation]: Permission denied: `write` requires approval (it may have side effects), and no terminal is available to ask for it
        c: [created], validating, validating, awaiting_approval, [permission_request], CALL.DENIED
          on disk: requested, validation_started, tool_resolved, approval_requested, denied"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn a_tail_call_has_its_own_record_and_its_result_is_returned() {
    let tail = json!({"do": "tail", "tool": "step", "input": {}});
    check(
        TestWorldBuilder::default(),
        "look",
        tail,
        expect![[r#"
            ok: done
            c: [created], validating, validating, scheduled, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, completed
            c/tail-1: [created], validating, validating, scheduled, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, completed"#]],
    )
    .await;
    // A tail call cannot bypass the user.
    let tail = json!({"do": "tail", "tool": "erase", "input": {}});
    let report = {
        let world = TestWorldBuilder::answers([Answer::Cancel]).build();
        world.call("c", "look", tail).await
    };
    assert!(
        report.stopped,
        "the user stopped the turn at the tail's question"
    );
}

#[tokio::test(start_paused = true)]
async fn r_177_dropping_the_future_ends_the_call() {
    let world = TestWorldBuilder::default().build();
    let call = world.call("c", "look", json!({"sleep": 60}));
    assert!(timeout(Duration::from_secs(1), call).await.is_err());
    expect![[r#"
        c: [created], validating, validating, scheduled, executing, CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, scheduled, started, cancelled"#]]
    .assert_eq(&world.event_log().await);
    assert!(
        !world.kernel.cancel(&super::CallId("c".to_owned())),
        "nothing is left of it"
    );
}

// Two calls with one id would share a record: the second is refused and leaves no trace.
#[tokio::test(start_paused = true)]
async fn a_duplicate_id_is_refused_without_affecting_the_first_call() {
    let world = TestWorldBuilder::default().build();
    let first = world.start("c", "look", json!({"sleep": 5}));
    world.until("c", CallState::Executing).await;
    let second = world.call("c", "step", json!({})).await;
    expect!["InvalidInput [duplicate_call_id]: a call with the id c is already running"]
        .assert_eq(&shown(&second));
    assert_eq!(shown(&first.await.unwrap()), "ok: done");
    expect![[r#"
        c: [created], validating, validating, scheduled, executing, CALL.COMPLETED
          on disk: requested, validation_started, tool_resolved, scheduled, started, completed"#]]
    .assert_eq(&world.event_log().await);
}

// R-163, R-164: one result each, in call order, whatever the results and whichever is first.
#[tokio::test(start_paused = true)]
async fn r_163_results_of_a_turn_come_in_call_order() {
    let world = TestWorldBuilder::default().rules("deny erase").build();
    let calls = [
        ("a", "look", json!({"sleep": 3})),
        ("b", "look", json!({"sleep": 1, "do": "fail"})),
        ("c", "erase", json!({})),
        ("d", "nothing", json!({})),
        ("e", "look", json!({"do": "panic"})),
        ("f", "step", json!({"do": "interrupted"})),
        ("g", "look", json!({})),
    ];
    let reports = world.start_batch(batch("t", calls)).await.unwrap();
    let lines: Vec<String> = reports
        .iter()
        .map(|report| format!("{} {}", report.id, shown(report)))
        .collect();
    expect![[r#"
        a ok: done
        b no: no luck
        c Denied [policy_violation]: Permission denied: rule user:1 deny `erase` forbids `erase`
        d NotRegistered [tool_not_registered]: Tool "nothing" not found
        e Internal [internal]: internal host error: the backend of `look` panicked
        f Failed [interrupted]: the guest was interrupted
        g ok: done"#]]
    .assert_eq(&lines.join("\n"));
    world.event_log().await;
}

// R-162: cancelling a call cancels the calls that have not run, and each of them names it.
#[tokio::test]
async fn r_162_siblings_of_a_cancelled_call_name_it_in_their_errors() {
    let world = TestWorldBuilder::answers([Answer::Cancel]).build();
    let calls = [
        ("a", "look", json!({"sleep": 60})),
        ("b", "write", json!({})),
        ("c", "step", json!({})),
    ];
    let reports = world.start_batch(batch("t", calls)).await.unwrap();
    let lines: Vec<String> = reports
        .iter()
        .map(|report| format!("{} {}", report.id, shown(report)))
        .collect();
    let event_log = world.event_log().await;
    expect![[r#"
        a Cancelled [sibling_cancelled]: the call was stopped while it ran, because call b of the same turn was cancelled
        b Cancelled [cancelled]: Permission denied: the user cancelled the prompt for `write`
        c Cancelled [sibling_cancelled]: the call was not run, because call b of the same turn was cancelled
        a: [created], validating, validating, scheduled, executing, CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, scheduled, started, cancelled
        b: [created], validating, validating, awaiting_approval, [permission_request], [decided deny], CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, approval_requested, cancelled
        c: [created], CALL.CANCELLED
          on disk: requested, cancelled"#]].assert_eq(&format!("{}\n{event_log}", lines.join("\n")));
}

// R-211, R-215, R-216: post hooks determine the result; a hook that panics withholds it.
#[tokio::test(start_paused = true)]
async fn r_211_post_hooks_determine_the_final_result() {
    let after = |after: PostHookResponse| {
        let hook = CallbackHook::default().after(move |_, _| {
            let after = after.clone();
            async move { Ok(after) }
        });
        TestWorldBuilder::default().hook("mask", hook)
    };
    let masked = PostHookResponse::Replace(Box::new(Outcome::text("password=***")));
    check(
        after(masked),
        "look",
        json!({}),
        expect![[r#"
            ok: password=***
            c: [created], validating, validating, scheduled, executing, executing, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, post_processing, outcome_changed, completed"#]],
    )
    .await;
    let broken = CallbackHook::default().after(|_, _| async { panic!("the mask slipped") });
    check(
        TestWorldBuilder::default().hook("mask", broken),
        "look",
        json!({}),
        expect![[r#"
            no: hook `mask` failed: panicked
            c: [created], validating, validating, scheduled, executing, executing, executing, CALL.COMPLETED
              on disk: requested, validation_started, tool_resolved, scheduled, started, post_processing, outcome_changed, completed"#]],
    )
    .await;
}

// A backend may keep its sink, but events after the end of the call are dropped.
#[tokio::test(start_paused = true)]
async fn nothing_follows_the_end_of_a_call() {
    let world = TestWorldBuilder::default().build();
    world.call("c", "look", json!({})).await;
    let sink = world.stage.sinks.lock().unwrap().remove("c").unwrap();
    sink.event(CallEvent::Output {
        stream: "stdout".to_owned(),
        bytes: b"late".to_vec(),
    });
    world.event_log().await;
}
