//! R-491: a result may request a tail call, which runs through the whole pipeline.

use std::future::ready;

use expect_test::expect;
use serde_json::{Value, json};
use toolhost_contract::hook::{PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::{Answer, Outcome, TailCall};

use super::test_world::{TestWorldBuilder, shown};
use crate::hooks::CallbackHook;

/// A tail call that requests a tail call, and so on.
fn tails(depth: usize) -> Value {
    (0..depth).fold(
        json!({}),
        |input, _| json!({"do": "tail", "tool": "look", "input": input}),
    )
}

// R-491
#[tokio::test(start_paused = true)]
async fn r_491_at_most_eight_tail_calls_follow_each_other() {
    let world = TestWorldBuilder::default().build();
    let report = world.call("c", "look", tails(8)).await;
    assert_eq!(shown(&report), "ok: done");
    let report = world.call("d", "look", tails(9)).await;
    expect!["Failed [too_many_tails]: too many tail calls: the limit for one call is 8"]
        .assert_eq(&shown(&report));
    let started = world.stage.started.lock().unwrap().clone();
    assert_eq!(started.len(), 18);
    assert_eq!(started.last().map(String::as_str), Some("d/tail-8"));
    world.event_log().await;
    let row = world.store().call("d/tail-8").unwrap().unwrap();
    assert_eq!(row.parent.as_deref(), Some("d"));
}

// R-491
#[tokio::test(start_paused = true)]
async fn r_491_a_tail_call_is_resolved_and_evaluated_like_any_call() {
    for (tail, expected) in [
        (
            json!({"do": "tail", "tool": "lok", "input": {}}),
            expect![[
                r#"NotRegistered [tool_not_registered]: Tool "lok" not found. Did you mean: look?"#
            ]],
        ),
        (
            json!({"do": "tail", "tool": "look", "input": {"n": "x"}}),
            expect![[
                r#"InvalidInput [invalid_tool_params]: Parameter validation failed: n: expected integer, got "x""#
            ]],
        ),
        (
            json!({"do": "tail", "tool": "erase", "input": {}}),
            expect![
                "Denied [policy_violation]: Permission denied: rule user:1 deny `erase` forbids `erase`"
            ],
        ),
    ] {
        let world = TestWorldBuilder::default().rules("deny erase").build();
        let report = world.call("c", "look", tail).await;
        expected.assert_eq(&shown(&report));
        world.event_log().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_report_says_who_allowed_the_tail_call() {
    let world = TestWorldBuilder::answers([Answer::once()])
        .rules("ask step")
        .build();
    let tail = json!({"do": "tail", "tool": "step", "input": {}});
    let report = world.call("c", "look", tail).await;
    assert_eq!(report.allowed_by.as_deref(), Some("the user, once"));
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_hook_cannot_request_a_tail_call() {
    let outcome = || {
        Box::new(Outcome {
            tail: Some(TailCall {
                tool: "step".to_owned(),
                input: json!({}),
            }),
            ..Outcome::text("of the hook")
        })
    };
    let says = |decision: PreHookDecision| {
        CallbackHook::before(move |_| {
            ready(Ok(PreHookResponse {
                decision: decision.clone(),
                updated_input: None,
            }))
        })
    };
    let denies = says(PreHookDecision::Deny {
        reason: None,
        outcome: Some(outcome()),
    });
    let answers = says(PreHookDecision::Result(outcome()));
    let replaces =
        CallbackHook::default().after(move |_, _| ready(Ok(PostHookResponse::Replace(outcome()))));
    for (hook, started) in [(denies, &[][..]), (answers, &[]), (replaces, &["c"])] {
        let world = TestWorldBuilder::default().hook("h", hook).build();
        let report = world.call("c", "look", json!({})).await;
        assert_eq!(shown(&report), "ok: of the hook");
        assert_eq!(*world.stage.started.lock().unwrap(), started);
        assert_eq!(world.store().call("c/tail-1").unwrap(), None);
    }
}
