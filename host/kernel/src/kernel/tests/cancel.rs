//! R-162, R-177: a call can be cancelled in every phase, ends once, and its siblings are notified.

use expect_test::expect;
use serde_json::json;
use toolhost_contract::hook::{PostHookResponse, PreHookResponse};
use toolhost_contract::lifecycle::CallState;
use toolhost_contract::{CallId, Outcome};

use super::test_world::{TestWorld, TestWorldBuilder, batch, shown};
use crate::hooks::CallbackHook;

/// Cancels the call when it is in the state. A second cancel has no effect.
async fn cancel(world: &TestWorld, id: &str, state: CallState) {
    world.until(id, state).await;
    let id = CallId(id.to_owned());
    assert!(world.kernel.cancel(&id));
    world.kernel.cancel(&id);
}

fn silent() -> TestWorldBuilder {
    TestWorldBuilder::says(|_, _, _| None)
}

#[tokio::test]
async fn r_177_a_call_is_cancelled_while_a_hook_runs() {
    let hook = CallbackHook::before(|_| async {
        std::future::pending::<()>().await;
        Ok(PreHookResponse::default())
    });
    let world = silent().hook("slow", hook).build();
    let call = world.start("c", "look", json!({}));
    cancel(&world, "c", CallState::Validating).await;
    assert!(call.await.unwrap().stopped);
    expect![[r#"
        c: [created], validating, validating, CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, cancelled"#]]
    .assert_eq(&world.event_log().await);
}

#[tokio::test]
async fn r_177_a_call_that_waits_for_the_user_is_cancelled() {
    let world = silent().build();
    let call = world.start("c", "write", json!({}));
    world.until_asked("c").await;
    cancel(&world, "c", CallState::AwaitingApproval).await;
    let report = call.await.unwrap();
    assert!(report.stopped);
    expect![[r#"
        Cancelled [cancelled]: the call was cancelled
        c: [created], validating, validating, awaiting_approval, [permission_request], CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, approval_requested, cancelled"#]]
    .assert_eq(&format!("{}\n{}", shown(&report), world.event_log().await));
    assert!(world.kernel.pending().is_empty());
    assert!(!world.kernel.cancel(&report.id), "it has ended");
}

#[tokio::test]
async fn r_177_a_call_that_waits_for_its_permit_is_cancelled() {
    let mut setup = silent();
    setup.settings.pools.all = 1;
    let world = setup.build();
    let first = world.start("first", "look", json!({"do": "hang"}));
    world.until("first", CallState::Executing).await;
    let call = world.start("c", "look", json!({}));
    cancel(&world, "c", CallState::Scheduled).await;
    expect!["Cancelled [cancelled]: the call was cancelled"]
        .assert_eq(&shown(&call.await.unwrap()));
    cancel(&world, "first", CallState::Executing).await;
    first.await.unwrap();
    expect![[r#"
        first: [created], validating, validating, scheduled, executing, CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, scheduled, started, cancelled
        c: [created], validating, validating, scheduled, CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, scheduled, cancelled"#]]
    .assert_eq(&world.event_log().await);
}

// The tool is notified and may stop cooperatively; otherwise it is dropped.
#[tokio::test]
async fn r_177_a_running_call_is_cancelled_cooperatively_or_dropped() {
    let mut lines = Vec::new();
    for kind in ["hang", "polite"] {
        let world = silent().build();
        let call = world.start("c", "look", json!({"do": kind}));
        cancel(&world, "c", CallState::Executing).await;
        let report = call.await.unwrap();
        let received = world.stage.sinks.lock().unwrap()["c"].is_cancelled();
        assert!(received && report.stopped, "{kind}");
        lines.push(format!("{}\n{}", shown(&report), world.event_log().await));
    }
    expect![[r#"
        Cancelled [cancelled]: the call was cancelled
        c: [created], validating, validating, scheduled, executing, CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, scheduled, started, cancelled
        Cancelled [cancelled]: the call was cancelled
        c: [created], validating, validating, scheduled, executing, CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, scheduled, started, cancelled"#]]
    .assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn a_call_is_cancelled_while_a_post_hook_runs() {
    let hook = CallbackHook::default().after(|_, _| async {
        std::future::pending::<()>().await;
        Ok(PostHookResponse::Keep)
    });
    let world = silent().hook("slow", hook).build();
    let call = world.start("c", "look", json!({}));
    // The second time in this state, the post hook is running.
    while world.kernel.registry().stats().calls.is_empty()
        && world.stage.started.lock().unwrap().is_empty()
    {
        tokio::task::yield_now().await;
    }
    cancel(&world, "c", CallState::Executing).await;
    assert_eq!(call.await.unwrap().result.unwrap_err().code, "cancelled");
    world.event_log().await;
}

// Post hooks have not seen the result that a tool returns after cancellation.
#[tokio::test]
async fn h_03_the_result_of_a_cancelled_call_does_not_bypass_the_hooks() {
    for kind in ["polite", "thorough"] {
        let hook = CallbackHook::default().after(|_, _| async {
            Ok(PostHookResponse::Replace(Box::new(Outcome::text("masked"))))
        });
        let world = silent().hook("mask", hook).build();
        let call = world.start("c", "look", json!({"do": kind}));
        cancel(&world, "c", CallState::Executing).await;
        let error = call.await.unwrap().result.unwrap_err();
        assert_eq!((error.code.as_str(), error.cause), ("cancelled", None));
        world.event_log().await;
    }
}

// R-176: calls of a waiting turn exist already and can be cancelled at once.
#[tokio::test]
async fn r_176_a_call_whose_turn_waits_in_the_queue_is_cancelled() {
    let world = silent().build();
    let first = world.start_batch(batch("t1", [("a", "look", json!({"do": "hang"}))]));
    world.until("a", CallState::Executing).await;
    let second = world.start_batch(batch(
        "t2",
        [("b", "look", json!({})), ("c", "step", json!({}))],
    ));
    cancel(&world, "c", CallState::Pending).await;
    let lines: Vec<String> = second.await.unwrap().iter().map(shown).collect();
    expect![[r#"
        Cancelled [sibling_cancelled]: the call was not run, because call c of the same turn was cancelled
        Cancelled [cancelled]: the call was cancelled"#]].assert_eq(&lines.join("\n"));
    assert!(!first.is_finished(), "the turn before it goes on");
    cancel(&world, "a", CallState::Executing).await;
    first.await.unwrap();
    expect![[r#"
        a: [created], validating, validating, scheduled, executing, CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, scheduled, started, cancelled
        b: [created], CALL.CANCELLED
          on disk: requested, cancelled
        c: [created], CALL.CANCELLED
          on disk: requested, cancelled"#]]
    .assert_eq(&world.event_log().await);
}

// A call in a later wave is pending too, and cancelling it ends the running ones.
#[tokio::test]
async fn r_162_cancelling_a_pending_call_stops_its_turn() {
    let world = silent().build();
    let turn = batch(
        "t",
        [
            ("a", "look", json!({"do": "polite"})),
            ("b", "step", json!({})),
        ],
    );
    let running = world.start_batch(turn);
    world.until("a", CallState::Executing).await;
    cancel(&world, "b", CallState::Pending).await;
    let lines: Vec<String> = running.await.unwrap().iter().map(shown).collect();
    expect![[r#"
        Cancelled [sibling_cancelled]: the call was stopped while it ran, because call b of the same turn was cancelled
        Cancelled [cancelled]: the call was cancelled
        a: [created], validating, validating, scheduled, executing, CALL.CANCELLED
          on disk: requested, validation_started, tool_resolved, scheduled, started, cancelled
        b: [created], CALL.CANCELLED
          on disk: requested, cancelled"#]].assert_eq(&format!("{}\n{}", lines.join("\n"), world.event_log().await));
}

// The call was not cancelled: it failed, which does not affect its siblings.
#[tokio::test]
async fn an_interrupted_guest_and_a_failed_call_do_not_cancel_other_calls() {
    let world = silent().rules("deny erase").build();
    let calls = [
        ("a", "step", json!({"do": "interrupted"})),
        ("b", "step", json!({"do": "trap"})),
        ("c", "erase", json!({})),
        ("d", "step", json!({})),
    ];
    let reports = world.start_batch(batch("t", calls)).await.unwrap();
    assert!(reports.iter().all(|report| !report.stopped));
    assert_eq!(shown(&reports[3]), "ok: done");
    world.event_log().await;
}

// The id of a call also refers to its tail calls.
#[tokio::test]
async fn r_177_a_tail_is_cancelled_by_the_id_of_its_call() {
    let world = silent().build();
    let tail = json!({"do": "tail", "tool": "look", "input": {"do": "hang"}});
    let call = world.start("c", "look", tail);
    world.until("c/tail-1", CallState::Executing).await;
    assert!(world.kernel.cancel(&CallId("c".to_owned())));
    assert!(call.await.unwrap().stopped);
    world.event_log().await;
}

// A call that is cancelled before it reaches the tool does not start it.
#[tokio::test]
async fn r_162_a_call_that_is_cancelled_before_it_runs_does_not_run() {
    let world = silent().build();
    let turn = batch("t", [("a", "look", json!({})), ("b", "look", json!({}))]);
    let kernel = std::sync::Arc::clone(&world.kernel);
    *world.stage.on_start.lock().unwrap() = Some(Box::new(move |_| {
        kernel.cancel(&CallId("b".to_owned()));
    }));
    let reports = world.start_batch(turn).await.unwrap();
    assert!(reports[1].stopped);
    assert_eq!(*world.stage.started.lock().unwrap(), ["a"]);
    world.event_log().await;
}
