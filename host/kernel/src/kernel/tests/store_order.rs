//! R-144, R-201: what is on disk when: the question before the user sees it, the intent before the tool runs. Nothing
//! runs while the disk cannot be written.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use expect_test::expect;
use serde_json::json;
use tempfile::TempDir;
use toolhost_contract::lifecycle::Timestamp;
use toolhost_contract::{Answer, CallId};
use toolhost_store::Store;

use super::test_world::{TestWorld, TestWorldBuilder, batch, shown, transitions};
use crate::{Clock, Durability};

/// Returns the steps that a second host reads from disk at this moment.
fn stored_transitions(dir: &TempDir, id: &str) -> String {
    let store = Store::open(&dir.path().join("state")).unwrap();
    let steps = transitions(&store, id);
    let kinds: Vec<&str> = steps.iter().map(|(_, kind)| kind.as_str()).collect();
    let row = store.call(id).unwrap().map(|row| row.state);
    format!("{} ({})", kinds.join(", "), row.unwrap_or_default())
}

/// Reads the store of the world when the user is asked and when the tool starts.
async fn snapshots(durability: Durability, tool: &str) -> String {
    let dir = Arc::new(TempDir::new().unwrap());
    let looks = Arc::new(Mutex::new(Vec::new()));
    let (at_question, folder) = (Arc::clone(&looks), Arc::clone(&dir));
    let setup = TestWorldBuilder {
        durability,
        dir: Some(Arc::clone(&dir)),
        ..TestWorldBuilder::says(move |_, _, call| {
            let line = format!("asked: {}", stored_transitions(&folder, &call.id.0));
            at_question.lock().unwrap().push(line);
            Some(Answer::once())
        })
    };
    let world = setup.build();
    let (at_start, folder) = (Arc::clone(&looks), Arc::clone(&dir));
    *world.stage.on_start.lock().unwrap() = Some(Box::new(move |call| {
        let line = format!("runs: {}", stored_transitions(&folder, &call.id.0));
        at_start.lock().unwrap().push(line);
    }));
    assert_eq!(shown(&world.call("c", tool, json!({})).await), "ok: done");
    world.event_log().await;
    let looks = looks.lock().unwrap();
    looks.join("\n")
}

#[tokio::test]
async fn r_201_questions_and_intents_are_on_disk_before_they_take_effect() {
    expect![[r#"
        asked: requested, validation_started, tool_resolved, approval_requested (awaiting_approval)
        runs: requested, validation_started, tool_resolved, approval_requested, approved, scheduled, started (executing)"#]]
    .assert_eq(&snapshots(Durability::Effects, "write").await);
}

#[tokio::test]
async fn with_every_step_durability_all_earlier_steps_are_on_disk() {
    expect![[r#"
        asked: requested, validation_started, tool_resolved, approval_requested (awaiting_approval)
        runs: requested, validation_started, tool_resolved, approval_requested, approved, scheduled, started (executing)"#]]
    .assert_eq(&snapshots(Durability::EveryStep, "write").await);
    expect!["runs: requested, validation_started, tool_resolved, scheduled, started (executing)"]
        .assert_eq(&snapshots(Durability::EveryStep, "look").await);
}

#[tokio::test]
async fn events_of_a_call_that_are_stored_have_a_limit_of_bytes() {
    let world = TestWorldBuilder::default().build();
    let input = json!({"do": "say", "times": 20, "words": "x".repeat(50_000)});
    assert_eq!(shown(&world.call("c", "look", input).await), "ok: said");
    world.store().flush().await.unwrap();
    let stored = world.store().events(None, 0, 100).unwrap();
    assert_eq!(stored.len(), 5, "256 KiB have 5 events of 50 kB");
}

/// Damages the database file in place, because it is mapped, so that writes fail.
async fn break_store(world: &TestWorld) {
    world.store().flush().await.unwrap();
    damage_store(&world.dir);
}

fn damage_store(dir: &TempDir) {
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let path = dir.path().join("state").join(name);
        let length = fs::metadata(&path).unwrap().len();
        let mut file = OpenOptions::new().write(true).open(&path).unwrap();
        let rubbish = vec![b'x'; usize::try_from(length).unwrap()];
        file.write_all(&rubbish).unwrap();
    }
}

#[tokio::test]
async fn a_failing_store_refuses_calls() {
    let world = TestWorldBuilder::answers([Answer::once()])
        .rules("allow write")
        .build();
    world.call("before", "write", json!({})).await;
    break_store(&world).await;
    let mut lines = Vec::new();
    for (id, tool) in [
        ("w1", "write"),
        ("r1", "look"),
        ("e1", "erase"),
        ("w2", "write"),
    ] {
        let report = world.call(id, tool, json!({})).await;
        lines.push(format!("{id} {}", shown(&report)));
    }
    expect![[r#"
        w1 Unavailable [store_unavailable]: the host cannot write its records, so calls are refused
        r1 Unavailable [store_unavailable]: the host cannot write its records, so calls are refused
        e1 Unavailable [store_unavailable]: the host cannot write its records, so calls are refused
        w2 Unavailable [store_unavailable]: the host cannot write its records, so calls are refused"#]]
    .assert_eq(&lines.join("\n"));
    assert_eq!(*world.stage.started.lock().unwrap(), ["before"]);
    assert!(
        world.stage.questions.lock().unwrap().is_empty(),
        "a question that is not on disk is not asked"
    );
}

#[tokio::test]
async fn a_call_answers_its_caller_if_the_store_fails_while_it_runs() {
    let dir = Arc::new(TempDir::new().unwrap());
    let setup = TestWorldBuilder {
        dir: Some(Arc::clone(&dir)),
        ..TestWorldBuilder::answers([Answer::once()])
    };
    let world = setup.build();
    *world.stage.on_start.lock().unwrap() = Some(Box::new(move |_| damage_store(&dir)));
    let report = world.call("c", "write", json!({})).await;
    assert_eq!(shown(&report), "ok: done");
    *world.stage.on_start.lock().unwrap() = None;
    let refused = world.call("d", "write", json!({})).await;
    assert_eq!(refused.result.unwrap_err().code, "store_unavailable");
}

// An approval whose use cannot be counted does not apply, and the search for another one ends.
#[tokio::test]
async fn a_saved_approval_does_not_apply_when_the_store_fails() {
    let world = TestWorldBuilder::answers([Answer::Allow {
        offer: 1,
        note: None,
    }])
    .build();
    for id in ["a", "b"] {
        assert_eq!(shown(&world.call(id, "write", json!({})).await), "ok: done");
    }
    assert_eq!(world.stage.questions.lock().unwrap().len(), 1);
    break_store(&world).await;
    let refused = world.call("c", "write", json!({})).await;
    assert_eq!(refused.result.unwrap_err().code, "store_unavailable");
    assert_eq!(*world.stage.started.lock().unwrap(), ["a", "b"]);
}

// An answer identifies its question by its time; two questions in the same millisecond must differ.
#[tokio::test(start_paused = true)]
async fn an_answer_to_the_first_question_does_not_answer_the_second() {
    let clock = Some(Clock::new(|| Timestamp(5)));
    let dir = Arc::new(TempDir::new().unwrap());
    let folder = Arc::clone(&dir);
    let setup = TestWorldBuilder {
        clock,
        dir: Some(dir),
        ..TestWorldBuilder::says(move |at, _, call| {
            if at > 0 {
                // The user decides, and in the meantime the old answer would be found.
                return None;
            }
            let store = Store::open(&folder.path().join("state")).unwrap();
            let row = answer(&call.id.0, "allow_once");
            let elsewhere = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                runtime.unwrap().block_on(store.answer(row)).unwrap();
            });
            elsewhere.join().unwrap();
            Some(Answer::Modify {
                input: json!({"n": 2}),
            })
        })
    };
    let world = setup.build();
    let call = world.start("c", "write", json!({"n": 1}));
    // Only this test answers the second question.
    while world.stage.questions.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    // Enough polls of the store to find the old answer.
    tokio::time::timeout(
        std::time::Duration::from_millis(250),
        std::future::pending::<()>(),
    )
    .await
    .unwrap_err();
    assert!(world.stage.started.lock().unwrap().is_empty());
    let no = crate::AttributedAnswer {
        answer: Answer::Deny { note: None },
        by: "me".to_owned(),
    };
    world.kernel.answer(&CallId("c".to_owned()), no).unwrap();
    assert_eq!(call.await.unwrap().result.unwrap_err().code, "user_denied");
}

pub(super) fn answer(call: &str, decision: &str) -> toolhost_store::AnswerRow {
    toolhost_store::AnswerRow {
        asked_ms: None,
        call: call.to_owned(),
        decision: decision.to_owned(),
        note: None,
        payload: None,
        by: "somebody elsewhere".to_owned(),
        at_ms: 7,
    }
}

// R-163: a turn has its row, with its end.
#[tokio::test]
async fn r_163_a_turn_is_recorded_with_its_calls() {
    let world = TestWorldBuilder::default().build();
    let turn = batch("t", [("a", "look", json!({})), ("b", "step", json!({}))]);
    world.start_batch(turn).await.unwrap();
    world.kernel.flush().await.unwrap();
    let rows = world.store().batches("local").unwrap();
    assert!(rows.len() == 1 && rows[0].calls == 2 && rows[0].finished_ms.is_some());
    let row = world.store().call("b").unwrap().unwrap();
    assert_eq!(row.batch.as_deref(), Some("t"));
    world.event_log().await;
}

// R-144, R-145, R-147: the record of an ended call has everything but the input itself.
#[tokio::test]
async fn r_144_the_record_on_disk_has_no_raw_input() {
    let world = TestWorldBuilder::answers([Answer::once()]).build();
    world
        .call("c", "write", json!({"n": 1, "token": "hush"}))
        .await;
    world.kernel.flush().await.unwrap();
    let record = world.store().call("c").unwrap().unwrap().record;
    let mut members: Vec<&str> = record
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    members.sort_unstable();
    expect!["agentId approval attempts completedAt createdAt durationMs effect id inputPreview isError mode name origin outputBytes plugin policyRuleId sessionId startedAt state taskId toolHash toolVersion updatedAt"].assert_eq(&members.join(" "));
    let everything = format!("{record}{:?}", world.store().events(None, 0, 100).unwrap());
    assert!(!everything.contains("hush"));
}

#[tokio::test]
async fn a_record_states_what_the_call_used_and_the_rule_that_asked() {
    let world = TestWorldBuilder::answers([Answer::once(), Answer::Deny { note: None }])
        .rules("ask write")
        .build();
    for (id, input) in [
        ("c", json!({"memory": 3 << 16})),
        ("d", json!({"memory": 7, "do": "trap"})),
    ] {
        world.call(id, "write", input).await;
    }
    world.kernel.flush().await.unwrap();
    let record = |id| world.store().call(id).unwrap().unwrap().record;
    let ended = record("c");
    assert_eq!(ended["memoryBytes"], 3 << 16);
    assert!(ended["outputBytes"].as_u64().unwrap() > 0);
    assert_eq!(ended["approval"]["rule"], "user:1");
    // Denied.
    assert_eq!(record("d").get("memoryBytes"), None);
}
