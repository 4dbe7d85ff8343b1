//! R-170 to R-176: repeated failures, busy sessions, strategies for a turn, and large numbers of calls.

use expect_test::expect;
use serde_json::json;
use toolhost_contract::lifecycle::CallState;
use toolhost_contract::{Answer, CallId, NoSink, SessionKey};

use std::sync::Arc;

use super::super::{BatchCall, RunningCall};
use super::test_world::{TestWorldBuilder, batch, request, shown};
use crate::schedule::Strategy;

#[tokio::test(start_paused = true)]
async fn the_third_failure_gives_advice_and_the_fifth_call_is_refused() {
    let world = TestWorldBuilder::default().build();
    let mut lines = Vec::new();
    for at in 1..=5 {
        let report = world
            .call(&format!("c{at}"), "look", json!({"do": "fail"}))
            .await;
        lines.push(shown(&report));
    }
    expect![[r#"
        no: no luck
        no: no luck
        no: no luck
        - this call has failed 3 times in a row; do not repeat it: change the arguments or try another approach
        no: no luck
        - this call has failed 4 times in a row; do not repeat it: change the arguments or try another approach
        Failed [repeated_failure]: `look` failed 4 times in a row with the same arguments and was not run again; change the arguments or try another approach"#]].assert_eq(&lines.join("\n"));
    assert_eq!(world.stage.started.lock().unwrap().len(), 4);
    // Calls with other arguments are not affected.
    let other = world.call("d", "look", json!({"do": "fail", "n": 1})).await;
    assert_eq!(shown(&other), "no: no luck");
    world.event_log().await;
}

// A failed test may be run again after each change.
#[tokio::test(start_paused = true)]
async fn a_failed_call_may_be_repeated_after_a_change() {
    let world = TestWorldBuilder::default().rules("allow write").build();
    for at in 0..8 {
        let failed = world
            .call(&format!("c{at}"), "look", json!({"do": "fail"}))
            .await;
        assert!(!shown(&failed).contains("repeated_failure"), "{at}");
        world.call(&format!("w{at}"), "write", json!({})).await;
    }
    assert_eq!(world.stage.started.lock().unwrap().len(), 16);
}

// A cancelled call is no evidence about its arguments.
#[tokio::test]
async fn a_call_that_was_cancelled_has_not_failed() {
    let world = TestWorldBuilder::says(|_, _, _| Some(Answer::once())).build();
    for at in 0..5 {
        let id = format!("c{at}");
        let call = world.start(&id, "look", json!({"do": "polite"}));
        world.until(&id, CallState::Executing).await;
        assert!(world.kernel.cancel(&CallId(id)));
        assert_eq!(call.await.unwrap().result.unwrap_err().code, "cancelled");
    }
    assert_eq!(world.stage.started.lock().unwrap().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn r_175_a_busy_session_refuses_with_the_stable_message() {
    let world = TestWorldBuilder::default().build();
    let first = world.start_batch(batch("t1", [("a", "look", json!({"sleep": 9}))]));
    world.until("a", CallState::Executing).await;
    assert!(
        world.kernel.is_running(&SessionKey::local("local"))
            && !world.kernel.is_running(&SessionKey::local("other"))
    );
    let turn = || batch("t2", [("b", "look", json!({}))]);
    let busy = world.kernel.try_schedule(turn(), Arc::new(NoSink)).await;
    expect!["Cannot schedule while tools are running"].assert_eq(&busy.unwrap_err().to_string());
    first.await.unwrap();
    let free = world.kernel.try_schedule(turn(), Arc::new(NoSink)).await;
    assert_eq!(shown(&free.unwrap()[0]), "ok: done");
    // The refused batch left no trace: the event log contains one start of `b`.
    world.event_log().await;
}

#[tokio::test(start_paused = true)]
async fn two_calls_of_a_turn_with_one_id_are_refused() {
    let world = TestWorldBuilder::default().build();
    let turn = batch("t", [("a", "look", json!({})), ("a", "look", json!({}))]);
    let error = world
        .kernel
        .schedule(turn, Arc::new(NoSink))
        .await
        .unwrap_err();
    expect!["two calls of the batch have the id `a`; ids must differ"]
        .assert_eq(&error.to_string());
    assert!(world.events().is_empty());
}

/// Returns the second at which each call of a turn ended.
async fn ends(strategy: Strategy, calls: [(&str, &str, serde_json::Value); 4]) -> Vec<u64> {
    let world = TestWorldBuilder::default()
        .rules("allow write")
        .stored(false)
        .build();
    let mut turn = batch("t", calls);
    turn.strategy = strategy;
    let born = tokio::time::Instant::now();
    let kernel = Arc::clone(&world.kernel);
    let watch = async {
        let mut received = kernel.subscribe(None, None);
        let mut ends = Vec::new();
        while ends.len() < 4 {
            let event = received.next().await.unwrap();
            if event.kind.is_terminal() {
                ends.push((event.call.clone().unwrap().0, born.elapsed().as_secs()));
            }
        }
        ends.sort();
        ends.into_iter().map(|(_, at)| at).collect()
    };
    let run = world.kernel.schedule(turn, Arc::new(NoSink));
    let (ends, reports) = tokio::join!(watch, run);
    assert_eq!(reports.unwrap().len(), 4);
    ends
}

#[tokio::test(start_paused = true)]
async fn r_170_r_171_r_172_each_strategy_splits_a_turn() {
    let second = || json!({"sleep": 1});
    let reads = || ["a", "b", "c", "d"].map(|id| (id, "look", second()));
    let mixed = || {
        let mut calls = reads();
        calls[1].1 = "write";
        calls
    };
    let last_alone = || {
        let mut calls = reads();
        calls[1].1 = "alone";
        calls[3].2 = json!({"sleep": 1, "wait_for_previous": true});
        calls
    };
    for (strategy, expected) in [
        // R-170, R-172: three at once by default.
        (Strategy::Waves, [[1, 1, 1, 2], [1, 1, 1, 2], [1, 2, 1, 3]]),
        (Strategy::Sema, [[1, 1, 1, 2], [1, 2, 3, 4], [1, 2, 3, 4]]),
        (Strategy::Kode, [[1, 1, 1, 2], [1, 1, 1, 2], [1, 2, 3, 4]]),
        (Strategy::Serial, [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]]),
    ] {
        let found = [
            ends(strategy, reads()).await,
            ends(strategy, mixed()).await,
            ends(strategy, last_alone()).await,
        ];
        assert_eq!(found, expected.map(|ends| ends.to_vec()), "{strategy}");
    }
}

#[tokio::test(start_paused = true)]
async fn r_492_a_call_waits_for_earlier_calls_of_the_tools_that_its_tool_depends_on() {
    let check = async |tools: [&'static str; 4], expected: [u64; 4]| {
        let mut ids = ["a", "b", "c", "d"].into_iter();
        let calls = tools.map(|tool| (ids.next().unwrap(), tool, json!({"sleep": 1})));
        for strategy in [Strategy::Waves, Strategy::Kode] {
            let found = ends(strategy, calls.clone()).await;
            assert_eq!(found, expected, "{strategy}: {tools:?}");
        }
    };
    check(["look", "report", "measure", "report"], [1, 2, 2, 3]).await;
    // Also through tools without a call.
    check(["look", "measure", "publish", "measure"], [1, 1, 2, 2]).await;
    // Calls are never moved: what a model requests later is not made earlier.
    check(["report", "measure", "look", "look"], [1, 1, 1, 2]).await;
    check(["publish", "report", "measure", "report"], [1, 1, 1, 2]).await;
}

// Memory: a waiting call takes its record, its input and little else.
#[tokio::test]
async fn ten_thousand_calls_wait_and_end() {
    let world = TestWorldBuilder {
        stored: false,
        subscribe: false,
        ..TestWorldBuilder::default()
    }
    .build();
    let mut turn = batch("t", []);
    turn.calls = (0..10_000)
        .map(|at| BatchCall {
            id: CallId(format!("c{at}")),
            tool: "look".to_owned(),
            only_paths: None,
            input: json!({"n": at}),
        })
        .collect();
    let reports = world.kernel.schedule(turn, Arc::new(NoSink)).await.unwrap();
    assert!(
        reports
            .iter()
            .enumerate()
            .all(|(at, report)| { report.id.0 == format!("c{at}") && report.result.is_ok() })
    );
    let size = std::mem::size_of::<RunningCall>();
    assert!(size <= 2_048, "a call that waits takes {size} bytes");
    let going = world
        .kernel
        .call(request("c", "look", json!({})), Arc::new(NoSink));
    let size = std::mem::size_of_val(&going);
    assert!(
        size <= 16 << 10,
        "a call that is under way takes {size} bytes"
    );
    drop(going);
    let mut more = batch("t", []);
    more.calls = (0..10_001)
        .map(|at| BatchCall {
            id: CallId(at.to_string()),
            tool: "look".to_owned(),
            only_paths: None,
            input: json!({}),
        })
        .collect();
    let full = world
        .kernel
        .schedule(more, Arc::new(NoSink))
        .await
        .unwrap_err();
    expect!["10001 more calls exceed the queue limit of 10000; wait until some have ended"]
        .assert_eq(&full.to_string());
}
