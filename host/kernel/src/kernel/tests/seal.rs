//! R-143: unfinished calls of a crashed host get one end, with advice.

use std::sync::Arc;

use expect_test::expect;
use serde_json::json;
use tempfile::TempDir;
use toolhost_contract::lifecycle::CallState;
use toolhost_store::{CallRow, Store, TransitionRow, Verification, Write};

use super::test_world::{TestWorld, TestWorldBuilder, transitions};

fn row(state: CallState, deferred: bool) -> Write {
    let id = if deferred { "deferred" } else { state.as_str() };
    Write::Call {
        row: Box::new(CallRow {
            id: id.to_owned(),
            session: "s".to_owned(),
            batch: None,
            parent: None,
            tool: Some("write".to_owned()),
            plugin: Some("p".to_owned()),
            state: state.as_str().to_owned(),
            finished: state.is_terminal(),
            deferred,
            effectful: true,
            created_ms: 1,
            updated_ms: 2,
            record: json!({"id": id, "state": state.as_str(), "input": {"n": 1}}),
        }),
        transitions: vec![TransitionRow {
            call: id.to_owned(),
            session: "s".to_owned(),
            at_ms: 2,
            state: state.as_str().to_owned(),
            kind: "by hand".to_owned(),
            note: None,
            detail: json!(null),
        }],
    }
}

/// The state directory of a host that crashed with a call in every state.
async fn dead() -> Arc<TempDir> {
    let dir = Arc::new(TempDir::new().unwrap());
    let store = Store::open(&dir.path().join("state")).unwrap();
    for state in CallState::ALL {
        store.commit(row(state, false)).await.unwrap();
    }
    store
        .commit(row(CallState::AwaitingApproval, true))
        .await
        .unwrap();
    dir
}

fn next(dir: &Arc<TempDir>) -> TestWorld {
    TestWorldBuilder {
        dir: Some(Arc::clone(dir)),
        ..TestWorldBuilder::default()
    }
    .build()
}

#[tokio::test]
async fn r_143_every_unfinished_call_of_a_crashed_host_is_sealed_with_advice() {
    let dir = dead().await;
    let world = next(&dir);
    let sealed = world.kernel.seal_interrupted_calls().await.unwrap();
    let lines: Vec<String> = sealed
        .iter()
        .map(|seal| format!("{}: {}", seal.previous_state, seal.advice))
        .collect();
    expect![[r#"
        pending: it had not started; it is safe to call again
        validating: it had not started; it is safe to call again
        awaiting_approval: it was waiting for approval and did not run; call again to ask again
        approved: it was approved and had not started; it is safe to call again
        scheduled: it had not started; it is safe to call again
        executing: it was interrupted while it ran; verify its side effects before calling again"#]]
    .assert_eq(&lines.join("\n"));
    for seal in &sealed {
        let row = world.store().call(&seal.id.0).unwrap().unwrap();
        assert!(row.finished && row.state == "sealed" && row.record.get("input").is_none());
        assert_eq!(row.record["error"]["message"], seal.advice);
        let last = transitions(world.store(), &seal.id.0).pop().unwrap();
        assert_eq!(last, ("sealed".to_owned(), "sealed".to_owned()));
    }
    let deferred = world.store().call("deferred").unwrap().unwrap();
    assert!(!deferred.finished);
    let events = world.events();
    // R-141, R-234: the event of Kode-SDK for it, on the channel that its front ends read.
    let mut kode = toolhost_formats::events::FrontEnd::Kode.format();
    let converted = kode.convert(&events[0]);
    assert_eq!(
        (&converted[1]["type"], &converted[1]["call"]["state"]),
        (&json!("tool:end"), &json!("SEALED"))
    );
    let ends: Vec<_> = events.iter().map(|event| event.kind.name()).collect();
    assert_eq!(ends, ["call.sealed"; 6]);
    let verified = world.store().verify().unwrap();
    assert!(matches!(verified, Verification::Verified { .. }));
}

#[tokio::test]
async fn r_143_only_one_of_two_starting_hosts_seals() {
    let dir = dead().await;
    let (one, two) = (next(&dir), next(&dir));
    let (a, b) = tokio::join!(
        one.kernel.seal_interrupted_calls(),
        two.kernel.seal_interrupted_calls()
    );
    assert_eq!(a.unwrap().len() + b.unwrap().len(), 6);
    assert_eq!(one.kernel.seal_interrupted_calls().await.unwrap(), []);
    assert_eq!(transitions(one.store(), "executing").len(), 2);
}

// A running host keeps its calls.
#[tokio::test]
async fn a_call_of_a_running_host_is_not_sealed() {
    let world = TestWorldBuilder::says(|_, _, _| None).build();
    let call = world.start("c", "write", json!({}));
    world.until("c", CallState::AwaitingApproval).await;
    while world.kernel.pending().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        next(&world.dir)
            .kernel
            .seal_interrupted_calls()
            .await
            .unwrap(),
        []
    );
    call.abort();
    assert!(call.await.is_err());
    world.event_log().await;
}

#[tokio::test]
async fn c_11_an_interrupted_read_is_safe_to_repeat() {
    let dir = Arc::new(TempDir::new().unwrap());
    let store = Store::open(&dir.path().join("state")).unwrap();
    let Write::Call {
        mut row,
        transitions,
    } = row(CallState::Executing, false)
    else {
        panic!("a call")
    };
    row.effectful = false;
    store
        .commit(Write::Call { row, transitions })
        .await
        .unwrap();
    drop(store);
    let sealed = next(&dir).kernel.seal_interrupted_calls().await.unwrap();
    assert!(!sealed[0].effectful);
    assert_eq!(
        sealed[0].advice,
        "it was interrupted while reading; it is safe to call again"
    );
}
