//! Retention drops whole segments of the chain, and the rest still verifies.

use std::env;
use std::process::Command;

use serde_json::Value;

use super::{Home, answer, approval, call, commit, step};
use crate::{
    ApprovalRow, CallFilter, CallRow, ChainDefect, CommitState, RecordRetention, RecordedHead,
    SessionRow, Store, TransitionFilter, TransitionRow, Verification, Write,
};

const DAY: i64 = 24 * 3_600 * 1_000;
const NOW: i64 = 100 * DAY;

fn keep() -> RecordRetention {
    RecordRetention {
        now_ms: NOW,
        max_age_ms: Some(30 * DAY),
        max_bytes: None,
        undo_ms: 10 * DAY,
    }
}

/// A call with these steps at this time.
fn at(id: &str, states: &[&str], at_ms: i64) -> Write {
    let mut row = call(id, states.last().unwrap());
    row.created_ms = at_ms;
    let transitions = states
        .iter()
        .map(|state| TransitionRow {
            at_ms,
            detail: Value::Null,
            ..step(id, state)
        })
        .collect();
    let row = Box::new(row);
    Write::Call { row, transitions }
}

/// Ends a segment every few calls, as a long-running host would.
async fn lives(store: &Store, calls: std::ops::Range<usize>, at_ms: i64) {
    for number in calls {
        let write = at(&format!("c{number}"), &["pending", "completed"], at_ms);
        store.commit(write).await.unwrap();
        if number % 5 == 4 {
            store.seal_head().await.unwrap();
        }
    }
}

fn ids(store: &Store) -> Vec<String> {
    let calls = store.calls(&CallFilter::default()).unwrap();
    calls.into_iter().map(|call: CallRow| call.id).collect()
}

async fn head(store: &Store) -> RecordedHead {
    let (seq, hash) = store.seal_head().await.unwrap();
    let seq = Some(seq);
    RecordedHead { seq, hash }
}

fn verified(store: &Store) {
    let found = store.verify().unwrap();
    assert!(matches!(found, Verification::Verified { .. }), "{found:?}");
}

#[tokio::test]
async fn old_parts_are_dropped_and_the_chain_stays_verifiable() {
    let home = Home::new();
    let store = home.open();
    lives(&store, 0..10, DAY).await;
    let old = head(&store).await;
    lives(&store, 10..12, 90 * DAY).await;
    let late = head(&store).await;
    let rows = late.seq.unwrap();
    assert_eq!(store.due(&keep()).unwrap().len(), 2);
    let dropped = store.prune(keep(), None).await.unwrap();
    assert_eq!((dropped.segments, dropped.steps, dropped.rows), (2, 20, 10));
    assert_eq!(ids(&store), ["c11", "c10"]);
    verified(&store);
    // Heads that were handed out verify, including the one at the end of the dropped segments.
    for head in [old, late] {
        for seq in [head.seq, None] {
            let found = store.verify_head(RecordedHead { seq, ..head }).unwrap();
            assert!(
                matches!(found, Verification::Verified { removed: 20, .. }),
                "{found:?}"
            );
        }
    }
    // Only the hashes at the ends of dropped segments are known.
    let other = |seq| RecordedHead { seq, hash: [7; 32] };
    for seq in [Some(7), None] {
        let removed = Verification::HeadRemoved { seq, removed: 20 };
        assert_eq!(store.verify_head(other(seq)).unwrap(), removed);
    }
    for seq in [old.seq, late.seq, Some(0), Some(rows + 1)] {
        let found = store.verify_head(other(seq)).unwrap();
        let Verification::Broken { reason, .. } = found else {
            panic!("{found:?}")
        };
        assert_eq!(reason, ChainDefect::Rollback, "{seq:?}");
    }
    // Numbers continue, and later rows are covered too.
    store.commit(at("c12", &["completed"], NOW)).await.unwrap();
    let steps = store.transitions(&TransitionFilter::default()).unwrap();
    assert_eq!(steps[0].seq, 21);
    assert!(steps.last().unwrap().seq > rows);
    verified(&store);
    assert_eq!(store.prune(keep(), None).await.unwrap().segments, 0);
    drop(store);
    verified(&home.open());
}

#[tokio::test]
async fn steps_of_a_store_with_few_calls_are_dropped() {
    let home = Home::new();
    let store = home.open();
    let short = RecordRetention {
        max_age_ms: Some(DAY / 2),
        ..keep()
    };
    store.commit(at("c1", &["completed"], DAY)).await.unwrap();
    store.commit(at("c2", &["completed"], NOW)).await.unwrap();
    // The segment ends, but its newest step is young.
    assert_eq!(store.prune(short, None).await.unwrap().segments, 0);
    store.commit(at("c3", &["completed"], NOW)).await.unwrap();
    for (days, left) in [(0, 3), (2, 0)] {
        let keep = RecordRetention {
            now_ms: NOW + days * DAY,
            ..short
        };
        store.prune(keep, None).await.unwrap();
        assert_eq!(ids(&store).len(), left);
        verified(&store);
    }
}

#[tokio::test]
async fn a_row_that_is_kept_does_not_end_a_segment_at_each_prune() {
    let home = Home::new();
    let store = home.open();
    store.commit(at("waits", &["pending"], DAY)).await.unwrap();
    let all = RecordRetention {
        max_bytes: Some(0),
        ..keep()
    };
    assert_eq!(store.prune(all, None).await.unwrap().segments, 1);
    assert_eq!(store.prune(all, None).await.unwrap().segments, 0);
    assert_eq!(ids(&store), ["waits"]);
}

#[tokio::test]
async fn the_record_of_dropped_segments_is_covered() {
    for sql in [
        "UPDATE chain SET base = 10",
        "UPDATE chain SET base = 0",
        "UPDATE segments SET head = zeroblob(32) WHERE last = 20",
        "UPDATE segments SET at_ms = 0 WHERE last = 10",
        "DELETE FROM segments WHERE last = 10",
        "DELETE FROM segments",
    ] {
        let home = Home::new();
        let store = home.open();
        lives(&store, 0..10, DAY).await;
        lives(&store, 10..15, 90 * DAY).await;
        store.prune(keep(), None).await.unwrap();
        verified(&store);
        home.raw().execute_batch(sql).unwrap();
        let found = store.verify().unwrap();
        assert!(matches!(found, Verification::Broken { .. }), "{sql}");
    }
}

#[tokio::test]
async fn needed_rows_are_kept() {
    let home = Home::new();
    let store = home.open();
    let mut waits = call("waits", "awaiting_approval");
    (waits.deferred, waits.created_ms) = (true, DAY);
    let transitions: Vec<_> = ["pending", "validating", "awaiting_approval"]
        .map(|state| TransitionRow {
            at_ms: DAY,
            ..step("waits", state)
        })
        .into();
    store
        .commit(Write::Call {
            row: Box::new(waits.clone()),
            transitions: transitions.clone(),
        })
        .await
        .unwrap();
    store.answer(answer("waits", "user")).await.unwrap();
    for row in [
        approval("live"),
        ApprovalRow {
            revoked_ms: Some(1),
            ..approval("revoked")
        },
        ApprovalRow {
            uses_left: Some(0),
            ..approval("used up")
        },
        ApprovalRow {
            expires_ms: Some(NOW),
            ..approval("expired")
        },
        ApprovalRow {
            expires_ms: Some(NOW + 1),
            ..approval("expires later")
        },
    ] {
        store.put_approval(row).await.unwrap();
    }
    for (id, state, at_ms) in [
        ("old", Some(CommitState::Done), DAY),
        ("young", Some(CommitState::Done), NOW - DAY),
        ("begun", None, DAY),
    ] {
        let mut row = commit(id);
        row.at_ms = at_ms;
        store.begin_commit(row).await.unwrap();
        if let Some(state) = state {
            store.end_commit(id, state, at_ms).await.unwrap();
        }
    }
    for (id, ended_ms) in [("open", None), ("ended", Some(2))] {
        let row = SessionRow {
            id: id.to_owned(),
            started_ms: 1,
            ended_ms,
            client: String::new(),
            mode: String::new(),
            detail: Value::Null,
        };
        store.commit(Write::Session(row)).await.unwrap();
    }
    lives(&store, 0..5, DAY).await;
    let keep = RecordRetention {
        max_age_ms: None,
        max_bytes: Some(0),
        ..keep()
    };
    // Twice: a row that was kept once is kept again.
    for _ in 0..2 {
        store.seal_head().await.unwrap();
        let dropped = store.prune(keep, None).await.unwrap();
        assert_eq!(dropped.segments, 1, "{dropped:?}");
        verified(&store);
        assert_eq!(ids(&store), ["waits"]);
        let of_it = TransitionFilter {
            call: Some("waits".to_owned()),
            ..TransitionFilter::default()
        };
        let steps = store.transitions(&of_it).unwrap();
        let steps: Vec<_> = steps.into_iter().map(|step| step.row).collect();
        assert_eq!(steps, transitions);
        let answered = store.answer_for("waits", 2_000).unwrap();
        assert_eq!(answered.unwrap().by, "user");
        let approvals = store.approvals().unwrap();
        let approvals: Vec<_> = approvals.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(approvals, ["live", "expires later"]);
        let commits = store.commits(&crate::CommitFilter::default()).unwrap();
        let commits: Vec<_> = commits.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(commits, ["begun", "young"]);
        let sessions = store.sessions(9).unwrap();
        assert_eq!(sessions.len(), 1);
        assert_eq!(sessions[0].id, "open");
    }
    assert!(store.use_approval("live", NOW).await.unwrap());
    // The process that had the session open has ended, so the session is dropped.
    drop(store);
    let store = home.open();
    store.seal_head().await.unwrap();
    store.prune(keep, None).await.unwrap();
    assert_eq!(store.sessions(9).unwrap(), []);
}

#[tokio::test]
async fn a_limit_of_bytes_drops_only_as_much_as_it_takes() {
    let home = Home::new();
    let store = home.open();
    for round in 0..40 {
        for number in 0..50 {
            store
                .queue(at(
                    &format!("c{round}-{number}"),
                    &["pending", "completed"],
                    NOW,
                ))
                .unwrap();
        }
        store.seal_head().await.unwrap();
    }
    let full = store.used_bytes().unwrap();
    let keep = RecordRetention {
        max_age_ms: None,
        max_bytes: Some(full / 2),
        ..keep()
    };
    let estimate = store.due(&keep).unwrap().len();
    let dropped = store.prune(keep, None).await.unwrap();
    let left = store.used_bytes().unwrap();
    assert!(left <= full / 2 && left > full / 4, "{left} of {full}");
    assert!((10..30).contains(&dropped.segments), "{dropped:?}");
    assert!(
        estimate.abs_diff(dropped.segments) < 10,
        "{estimate} {dropped:?}"
    );
    verified(&store);
}

/// No segment is dropped for records that are kept anyway.
#[tokio::test]
async fn records_of_waiting_calls_do_not_count_for_the_limit_of_bytes() {
    let home = Home::new();
    let store = home.open();
    lives(&store, 0..10, NOW).await;
    let limit = store.used_bytes().unwrap() + 100_000;
    let mut waits = call("waits", "awaiting_approval");
    (waits.deferred, waits.record) = (true, "x".repeat(1_000_000).into());
    let (row, transitions) = (Box::new(waits), vec![step("waits", "awaiting_approval")]);
    store
        .commit(Write::Call { row, transitions })
        .await
        .unwrap();
    store.seal_head().await.unwrap();
    assert!(store.used_bytes().unwrap() > limit);
    let keep = RecordRetention {
        max_age_ms: None,
        max_bytes: Some(limit),
        ..keep()
    };
    assert!(store.due(&keep).unwrap().is_empty());
    assert_eq!(store.prune(keep, None).await.unwrap().segments, 0);
    assert_eq!(ids(&store).len(), 11);
}

#[tokio::test]
async fn a_part_that_was_changed_is_not_dropped() {
    let home = Home::new();
    let store = home.open();
    lives(&store, 0..5, DAY).await;
    let raw = home.raw();
    raw.execute_batch(
        "DROP TRIGGER transitions_stay_unchanged; UPDATE transitions SET note = 'x' WHERE seq = 2",
    )
    .unwrap();
    let refused = store.prune(keep(), None).await.unwrap_err().to_string();
    assert!(
        refused.contains("step 1 is not as it was written"),
        "{refused}"
    );
    assert_eq!(ids(&store).len(), 5);
}

const CHILD: &str = "TOOLHOST_STORE_TEST_PRUNE";

/// Not a test: the child's code, which runs until it is killed. Does nothing without the variable.
#[tokio::test]
async fn child_prunes_until_it_is_killed() {
    let Some(dir) = env::var_os(CHILD) else {
        return;
    };
    let store = Store::open(dir.as_ref()).unwrap();
    store.prune(keep(), None).await.unwrap();
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_prune_leaves_a_chain_that_can_be_verified() {
    for step in [
        "prune_checked",
        "prune_deleted",
        "prune_noted",
        "prune_committed",
    ] {
        let home = Home::new();
        let store = home.open();
        lives(&store, 0..10, DAY).await;
        let mut row = call("waits", "awaiting_approval");
        row.deferred = true;
        let transitions = vec![super::step("waits", "awaiting_approval")];
        let row = Box::new(row);
        store
            .commit(Write::Call { row, transitions })
            .await
            .unwrap();
        let head = head(&store).await;
        drop(store);
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "tests::prune::child_prunes_until_it_is_killed"])
            .env(CHILD, home.state())
            .env("TOOLHOST_CRASH_AT", step)
            .output()
            .unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&child.status);
        assert_eq!(signal, Some(9), "{step}: {child:?}");
        let store = home.open();
        verified(&store);
        let left = if step == "prune_committed" { 6 } else { 11 };
        assert_eq!(ids(&store).len(), left, "{step}");
        // The next prune drops the rest.
        store.prune(keep(), None).await.unwrap();
        assert_eq!(ids(&store), ["waits"], "{step}");
        verified(&store);
        let found = store.verify_head(head).unwrap();
        assert!(matches!(found, Verification::Verified { .. }), "{found:?}");
    }
}
