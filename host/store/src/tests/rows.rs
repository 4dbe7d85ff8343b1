//! All row types round-trip.

use serde_json::json;

use super::{Home, approval, call, event, step, write};
use crate::{BatchRow, CallFilter, MAX_ROW, SessionRow, StoreError, TransitionFilter, Write};

fn session(id: &str) -> SessionRow {
    SessionRow {
        id: id.to_owned(),
        started_ms: 1,
        ended_ms: Some(-2),
        client: "terminal".to_owned(),
        mode: "default".to_owned(),
        detail: json!({"cwd": "/ws"}),
    }
}

fn batch(id: &str) -> BatchRow {
    BatchRow {
        id: id.to_owned(),
        session: "s1".to_owned(),
        created_ms: 1,
        finished_ms: Some(2),
        submitted_ms: None,
        calls: u32::MAX,
        strategy: "waves".to_owned(),
    }
}

///
#[tokio::test]
async fn all_rows_round_trip_across_reopening() {
    let home = Home::new();
    let mut bare = call("c2", "pending");
    bare.batch = None;
    bare.tool = None;
    bare.plugin = None;
    bare.parent = Some("c1".to_owned());
    let mut quiet = step("c2", "pending");
    quiet.note = None;
    {
        let store = home.open();
        store.queue(write("c1", &["pending", "completed"])).unwrap();
        store
            .queue(Write::Many(vec![
                Write::Call {
                    row: Box::new(bare.clone()),
                    transitions: vec![quiet.clone()],
                },
                Write::Event(event("control", "asked")),
                Write::Session(session("s1")),
                Write::Batch(batch("b1")),
            ]))
            .unwrap();
        store.put_approval(approval("a1")).await.unwrap();
    }
    let store = home.open();
    assert_eq!(store.call("c1").unwrap().unwrap(), call("c1", "completed"));
    assert_eq!(store.call("c2").unwrap().unwrap(), bare);
    assert_eq!(store.call("c3").unwrap(), None);
    let steps = store.transitions(&TransitionFilter::default()).unwrap();
    let rows: Vec<_> = steps.iter().map(|step| step.row.clone()).collect();
    let expected = [step("c1", "pending"), step("c1", "completed"), quiet];
    assert_eq!(rows, expected);
    assert_eq!(
        steps.iter().map(|step| step.seq).collect::<Vec<_>>(),
        // The event, session and batch of the group are written before them.
        [4, 5, 6]
    );
    assert_eq!(
        store.events(None, 0, 10).unwrap(),
        [(1, event("control", "asked"))]
    );
    assert_eq!(store.sessions(10).unwrap(), [session("s1")]);
    assert_eq!(store.batches("s1").unwrap(), [batch("b1")]);
    assert_eq!(store.batches("s2").unwrap(), []);
    assert_eq!(store.approvals().unwrap(), [approval("a1")]);
}

#[tokio::test]
async fn dropping_the_store_writes_queued_rows() {
    let home = Home::new();
    let store = home.open();
    for number in 0..2_000 {
        store
            .queue(write(&format!("c{number}"), &["pending"]))
            .unwrap();
    }
    drop(store);
    let filter = CallFilter {
        limit: u32::MAX,
        ..CallFilter::default()
    };
    assert_eq!(home.open().calls(&filter).unwrap().len(), 2_000);
}

#[tokio::test]
async fn the_last_row_of_a_call_wins_within_and_across_groups() {
    let home = Home::new();
    let store = home.open();
    store
        .commit(Write::Many(vec![
            write("c1", &["pending"]),
            write("c2", &["pending"]),
            write("c1", &["executing"]),
        ]))
        .await
        .unwrap();
    assert_eq!(store.call("c1").unwrap().unwrap().state, "executing");
    store.commit(write("c1", &["completed"])).await.unwrap();
    assert_eq!(store.call("c1").unwrap().unwrap().state, "completed");
    let of_c1 = TransitionFilter {
        call: Some("c1".to_owned()),
        ..TransitionFilter::default()
    };
    assert_eq!(store.transitions(&of_c1).unwrap().len(), 3);
}

#[tokio::test]
async fn filters_narrow_and_limits_hold() {
    let home = Home::new();
    let store = home.open();
    for (id, session, tool, state, created_ms) in [
        ("c1", "s1", "read", "completed", 10),
        // A clock that jumped back does not change the order.
        ("c2", "s1", "write", "executing", 5),
        ("c3", "s2", "read", "pending", 30),
    ] {
        let mut row = call(id, state);
        row.session = session.to_owned();
        row.tool = Some(tool.to_owned());
        row.created_ms = created_ms;
        let mut step = step(id, state);
        step.session = session.to_owned();
        store
            .commit(Write::Call {
                row: Box::new(row),
                transitions: vec![step],
            })
            .await
            .unwrap();
    }
    let all = CallFilter::default;
    let some = |text: &str| Some(text.to_owned());
    for (filter, expected) in [
        (all(), vec!["c3", "c2", "c1"]),
        (
            CallFilter {
                session: some("s1"),
                ..all()
            },
            vec!["c2", "c1"],
        ),
        (
            CallFilter {
                tool: some("read"),
                ..all()
            },
            vec!["c3", "c1"],
        ),
        (
            CallFilter {
                state: some("pending"),
                ..all()
            },
            vec!["c3"],
        ),
        (
            CallFilter {
                unfinished: true,
                ..all()
            },
            vec!["c3", "c2"],
        ),
        (
            CallFilter {
                after_ms: Some(10),
                ..all()
            },
            vec!["c3", "c1"],
        ),
        (
            CallFilter {
                before_ms: Some(10),
                ..all()
            },
            vec!["c2"],
        ),
        (CallFilter { limit: 1, ..all() }, vec!["c3"]),
        (
            CallFilter {
                session: some("' OR 1=1 --"),
                ..all()
            },
            vec![],
        ),
    ] {
        let calls = store.calls(&filter).unwrap();
        let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, expected, "{filter:?}");
    }
    let all = TransitionFilter::default;
    for (filter, expected) in [
        (all(), vec![1, 2, 3]),
        (
            TransitionFilter {
                session: some("s1"),
                ..all()
            },
            vec![1, 2],
        ),
        (
            TransitionFilter {
                call: some("c2"),
                ..all()
            },
            vec![2],
        ),
        (
            TransitionFilter {
                call: some("c2"),
                session: some("s2"),
                ..all()
            },
            vec![],
        ),
        (
            TransitionFilter {
                after_seq: 1,
                limit: 1,
                ..all()
            },
            vec![2],
        ),
    ] {
        let steps = store.transitions(&filter).unwrap();
        let seqs: Vec<_> = steps.iter().map(|step| step.seq).collect();
        assert_eq!(seqs, expected, "{filter:?}");
    }
}

/// each channel can be followed from the last read position.
#[tokio::test]
async fn r_236_a_channel_is_followed_from_where_one_stopped() {
    let home = Home::new();
    let store = home.open();
    assert_eq!(store.last_event().unwrap(), 0);
    for (channel, kind) in [("progress", "a"), ("monitor", "b"), ("progress", "c")] {
        store.queue(Write::Event(event(channel, kind))).unwrap();
    }
    store.flush().await.unwrap();
    let kinds = |channel, after, limit| -> Vec<(i64, String)> {
        let events = store.events(channel, after, limit).unwrap();
        events
            .into_iter()
            .map(|(seq, row)| (seq, row.kind))
            .collect()
    };
    let named = |seq: i64, kind: &str| (seq, kind.to_owned());
    assert_eq!(kinds(Some("progress"), 0, 1), [named(1, "a")]);
    assert_eq!(kinds(Some("progress"), 1, 9), [named(3, "c")]);
    assert_eq!(kinds(Some("control"), 0, 9), []);
    assert_eq!(kinds(None, 1, 9), [named(2, "b"), named(3, "c")]);
    assert_eq!(store.last_event().unwrap(), 3);
    // Removing old events manually does not cause numbers to be reused.
    home.raw().execute("DELETE FROM events", []).unwrap();
    store
        .commit(Write::Event(event("progress", "d")))
        .await
        .unwrap();
    assert_eq!(kinds(None, 3, 9), [named(4, "d")]);
}

#[tokio::test]
async fn a_row_that_is_too_large_is_refused_and_the_store_stays_healthy() {
    let home = Home::new();
    let store = home.open();
    let mut large = event("progress", "x");
    large.body = json!([["y".repeat(MAX_ROW)]]);
    let refused = store.queue(Write::Event(large.clone())).unwrap_err();
    assert!(
        matches!(refused, StoreError::TooLarge { kind: "event", .. }),
        "{refused}"
    );
    let batch = Write::Many(vec![write("c1", &["pending"]), Write::Event(large)]);
    assert!(store.commit(batch).await.is_err());
    store.health().unwrap();
    assert_eq!(store.call("c1").unwrap(), None);
}

/// The row that ends a session is written with the time of its end.
#[tokio::test]
async fn a_session_keeps_the_time_when_it_started() {
    let home = Home::new();
    let store = home.open();
    let started = SessionRow {
        ended_ms: None,
        ..session("s1")
    };
    let ended = SessionRow {
        started_ms: 5,
        ended_ms: Some(5),
        ..session("s1")
    };
    for row in [started, ended] {
        store.commit(Write::Session(row)).await.unwrap();
    }
    let [row] = &store.sessions(9).unwrap()[..] else {
        panic!("there is one session");
    };
    assert_eq!((row.started_ms, row.ended_ms), (1, Some(5)));
}
