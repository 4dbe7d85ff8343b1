//! Misbehaving hooks and batches, as found in `docs/audits/2026-11-hooks-and-scheduling.md`.

use expect_test::expect;
use serde_json::json;
use toolhost_contract::Outcome;
use toolhost_contract::hook::{PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_store::TransitionFilter;

use super::test_world::{TestWorldBuilder, batch, shown};
use crate::hooks::CallbackHook;

const HIDDEN: &str = "a\u{e0041}\u{e0042}";

#[tokio::test]
async fn h_02_hidden_text_is_removed_from_hook_results_and_errors() {
    let note =
        "[the host removed 2 invisible characters (Unicode tags) that can hide instructions]";
    let says = |decision: PreHookDecision| {
        CallbackHook::before(move |_| {
            let decision = decision.clone();
            async move {
                Ok(PreHookResponse {
                    decision,
                    updated_input: None,
                })
            }
        })
    };
    let denies = says(PreHookDecision::Deny {
        reason: None,
        outcome: Some(Box::new(Outcome::text(HIDDEN))),
    });
    let answers = says(PreHookDecision::Result(Box::new(Outcome::text(HIDDEN))));
    for hook in [denies, answers] {
        let world = TestWorldBuilder::default().hook("h", hook).build();
        let report = world.call("c", "look", json!({})).await;
        assert_eq!(shown(&report), format!("ok: a\n{note}"));
    }
    let world = TestWorldBuilder::default().build();
    let input = json!({"do": "complain", "words": HIDDEN});
    let error = world.call("c", "look", input).await.result.unwrap_err();
    assert_eq!(
        error.for_model(),
        format!(
            "a\n- a\n- [the host removed 4 invisible characters (Unicode tags) that can hide instructions]"
        )
    );
}

#[tokio::test]
async fn h_06_the_record_names_the_hooks_that_changed_a_result() {
    let changes = || {
        CallbackHook::default()
            .after(|_, _| async { Ok(PostHookResponse::Replace(Box::new(Outcome::text("other")))) })
    };
    let keeps = CallbackHook::default().after(|_, _| async { Ok(PostHookResponse::Keep) });
    let setup = TestWorldBuilder::default().hook("one", changes());
    let world = setup.hook("two", keeps).hook("three", changes()).build();
    world.call("c", "look", json!({})).await;
    world.store().flush().await.unwrap();
    let filter = TransitionFilter {
        call: Some("c".to_owned()),
        ..TransitionFilter::default()
    };
    let steps = world.store().transitions(&filter).unwrap();
    let changed = steps.iter().find(|step| step.row.kind == "outcome_changed");
    let note = changed.unwrap().row.note.as_deref();
    assert_eq!(note, Some("hook:one, hook:three"));
}

#[tokio::test]
async fn h_10_a_call_starts_only_while_there_is_space_for_its_result() {
    let mut setup = TestWorldBuilder::default().stored(false);
    setup.settings.pools.all = 1;
    let world = setup.build();
    // Two run concurrently, and one waits for a permit.
    let calls = [
        ("a", "look", json!({"do": "flood"})),
        ("b", "look", json!({})),
        ("c", "step", json!({})),
    ];
    let reports = world.start_batch(batch("t", calls)).await.unwrap();
    assert!(reports[0].result.is_ok());
    let lines: Vec<String> = reports[1..].iter().map(shown).collect();
    expect![[r"
        OutputLimit [batch_output_limit]: the call was not run because the results of this batch already exceed 64 MiB
        OutputLimit [batch_output_limit]: the call was not run because the results of this batch already exceed 64 MiB"]]
    .assert_eq(&lines.join("\n"));
    assert_eq!(*world.stage.started.lock().unwrap(), ["a"]);
    // The next batch has its own limit.
    let next = batch("u", [("d", "look", json!({}))]);
    let reports = world.start_batch(next).await.unwrap();
    assert_eq!(shown(&reports[0]), "ok: done");
}

#[tokio::test]
async fn h_02_structured_data_from_a_hook_is_checked_against_the_schema() {
    let hook = CallbackHook::before(|_| async {
        Ok(PreHookResponse {
            decision: PreHookDecision::Result(Box::new(Outcome {
                structured: Some(json!({"n": "no number"})),
                ..Outcome::text("x")
            })),
            updated_input: None,
        })
    });
    let world = TestWorldBuilder::default().hook("h", hook).build();
    let report = world.call("c", "measure", json!({})).await;
    expect!["Failed [invalid_output]: the structured result of `measure` does not fit its output schema: n: expected integer, got \"no number\""].assert_eq(&shown(&report));
}

// Validation adds defaults that the hook omits, so the input is never exactly what the hook returned.
#[tokio::test]
async fn h_13_a_hook_that_returns_the_same_input_again_changes_nothing() {
    let says = |input: serde_json::Value| {
        CallbackHook::before(move |_| {
            let input = input.clone();
            async move {
                Ok(PreHookResponse {
                    decision: PreHookDecision::Continue,
                    updated_input: Some(input),
                })
            }
        })
    };
    let one = || says(json!({"words": "one"}));
    let world = TestWorldBuilder::default().hook("one", one()).build();
    let report = world.call("c", "preset", json!({"words": "x"})).await;
    assert_eq!(shown(&report), "ok: done");
    let setup = TestWorldBuilder::default().hook("one", one());
    let world = setup.hook("two", says(json!({"words": "two"}))).build();
    let report = world.call("c", "preset", json!({"words": "x"})).await;
    assert_eq!(report.result.unwrap_err().code, "hook_denied");
}
