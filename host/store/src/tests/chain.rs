//! The chain of transitions verifies if it is unchanged, and detects any change.

use rusqlite::Connection;

use serde_json::Value;

use super::{Home, call, event, step, write};
use crate::{ChainDefect, StoredTransition, TransitionFilter, TransitionRow, Verification, Write};

async fn five_rows() -> Home {
    let home = Home::new();
    let store = home.open();
    let states = [
        "pending",
        "validating",
        "scheduled",
        "executing",
        "completed",
    ];
    store.commit(write("c1", &states)).await.unwrap();
    home
}

/// What another program could do with the file.
fn tamper(home: &Home, sql: &str) {
    let raw: Connection = home.raw();
    raw.execute_batch("DROP TRIGGER transitions_stay_unchanged; DROP TRIGGER transitions_stay;")
        .unwrap();
    raw.execute_batch(sql).unwrap();
}

#[tokio::test]
async fn an_empty_chain_holds() {
    let home = Home::new();
    let verified = home.open().verify().unwrap();
    assert!(matches!(verified, Verification::Verified { rows: 0, .. }));
}

#[tokio::test]
async fn the_head_is_the_hash_of_the_last_row() {
    let home = five_rows().await;
    let store = home.open();
    let steps = store.transitions(&TransitionFilter::default()).unwrap();
    let head = steps.last().unwrap().hash;
    assert_eq!(
        store.verify().unwrap(),
        Verification::Verified {
            rows: 5,
            removed: 0,
            head
        }
    );
}

#[tokio::test]
async fn a_changed_row_is_detected() {
    use ChainDefect::{Added, Changed, Head, Missing, NoHead};
    for (sql, seq, reason) in [
        (
            "UPDATE transitions SET call = 'c2' WHERE seq = 3",
            3,
            Changed,
        ),
        (
            "UPDATE transitions SET session = 's2' WHERE seq = 3",
            3,
            Changed,
        ),
        (
            "UPDATE transitions SET at_ms = at_ms - 1 WHERE seq = 1",
            1,
            Changed,
        ),
        (
            "UPDATE transitions SET state = 'denied' WHERE seq = 5",
            5,
            Changed,
        ),
        ("UPDATE transitions SET kind = '' WHERE seq = 3", 3, Changed),
        (
            "UPDATE transitions SET note = NULL WHERE seq = 3",
            3,
            Changed,
        ),
        ("UPDATE transitions SET note = '' WHERE seq = 3", 3, Changed),
        (
            "UPDATE transitions SET detail = '{}' WHERE seq = 3",
            3,
            Changed,
        ),
        (
            "UPDATE transitions SET hash = zeroblob(32) WHERE seq = 3",
            3,
            Changed,
        ),
        (
            "UPDATE transitions SET hash = zeroblob(3) WHERE seq = 3",
            3,
            Changed,
        ),
        // Text moved from one column to the next.
        (
            "UPDATE transitions SET call = 'c', session = '1s1' WHERE seq = 3",
            3,
            Changed,
        ),
        ("UPDATE transitions SET seq = 9 WHERE seq = 3", 3, Missing),
        (
            "UPDATE transitions SET subject = 1 WHERE seq = 3",
            3,
            Changed,
        ),
        (
            "UPDATE transitions SET digest = zeroblob(32) WHERE seq = 3",
            3,
            Changed,
        ),
        (
            "UPDATE transitions SET digest = NULL WHERE seq = 5",
            5,
            Changed,
        ),
        ("UPDATE transitions SET seq = 0 WHERE seq = 1", 0, Added),
        ("DELETE FROM transitions WHERE seq = 1", 1, Missing),
        ("DELETE FROM transitions WHERE seq = 3", 3, Missing),
        ("DELETE FROM transitions WHERE seq = 5", 5, Missing),
        ("DELETE FROM transitions", 1, Missing),
        (
            "DELETE FROM transitions WHERE seq = 5; UPDATE chain SET rows = 4",
            4,
            Head,
        ),
        (
            "INSERT INTO transitions SELECT 6, call, session, at_ms, state, kind, note, detail, hash, NULL, 0, NULL, NULL FROM transitions WHERE seq = 5",
            6,
            Added,
        ),
        ("UPDATE chain SET head = zeroblob(32)", 5, Head),
        ("DELETE FROM chain", 5, NoHead),
        // Two rows swapped.
        (
            "UPDATE transitions SET seq = 9 WHERE seq = 2; UPDATE transitions SET seq = 2 WHERE seq = 3; UPDATE transitions SET seq = 3 WHERE seq = 9",
            2,
            Changed,
        ),
    ] {
        let home = five_rows().await;
        tamper(&home, sql);
        let found = home.open().verify().unwrap();
        assert_eq!(found, Verification::Broken { seq, reason }, "{sql}");
    }
}

/// A call with five steps, in one row as the host writes a short call, or in separate rows.
async fn five_steps(together: bool) -> Home {
    let home = Home::new();
    let states = [
        "validating",
        "validating",
        "scheduled",
        "executing",
        "completed",
    ];
    let steps = states.map(|state| TransitionRow {
        detail: Value::Null,
        note: (state == "executing").then(|| "ä \"quoted\"".to_owned()),
        ..step("c1", state)
    });
    let store = home.open();
    let written = if together { 5 } else { 1 };
    for transitions in steps.chunks(written) {
        let row = Box::new(call("c1", "completed"));
        let transitions = transitions.to_vec();
        store
            .commit(Write::Call { row, transitions })
            .await
            .unwrap();
    }
    home
}

#[tokio::test]
async fn packed_steps_read_like_separate_ones() {
    let (one, five) = (five_steps(true).await, five_steps(false).await);
    let count = |home: &Home| {
        let sql = "SELECT count(*) FROM transitions";
        home.raw()
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!((count(&one), count(&five)), (1, 5));
    let (one, five) = (one.open(), five.open());
    let all = TransitionFilter::default();
    let steps = one.transitions(&all).unwrap();
    assert_eq!(
        steps.iter().map(|step| step.seq).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    let rows = |steps: Vec<StoredTransition>| -> Vec<TransitionRow> {
        steps.into_iter().map(|step| step.row).collect()
    };
    assert_eq!(rows(steps.clone()), rows(five.transitions(&all).unwrap()));
    // The head is the hash of the last step, which depends on the steps before it.
    let head = steps.last().unwrap().hash;
    assert_eq!(
        one.verify().unwrap(),
        Verification::Verified {
            rows: 5,
            removed: 0,
            head
        }
    );
    // Paging returns each step once, wherever a page ends.
    for size in 1..=6 {
        let mut read = Vec::new();
        loop {
            let after_seq = read.last().map_or(0, |step: &StoredTransition| step.seq);
            let filter = TransitionFilter {
                after_seq,
                limit: size,
                call: Some("c1".to_owned()),
                ..all.clone()
            };
            let page = one.transitions(&filter).unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= size as usize);
            read.extend(page);
        }
        assert_eq!(read, steps, "{size}");
    }
}

/// All steps of a row share one hash, so a change is reported at the first of them.
#[tokio::test]
async fn a_changed_step_of_a_row_is_detected() {
    use ChainDefect::{Added, Changed, Missing};
    for (sql, seq, reason) in [
        ("earlier = replace(earlier, 'quoted', 'said')", 1, Changed),
        ("earlier = replace(earlier, '[0', '[1')", 1, Changed),
        ("state = 'failed'", 1, Changed),
        ("session = 's2'", 1, Changed),
        ("detail = '{}'", 1, Changed),
        ("digest = NULL", 1, Changed),
        ("subject = 1", 1, Changed),
        ("subject = 99", 1, Changed),
        ("shape = NULL", 1, Changed),
        ("shape = 99", 1, Changed),
        ("earlier = NULL", 1, Changed),
        ("earlier = '[]'", 1, Changed),
        ("earlier = '[1]'", 1, Changed),
        ("earlier = 5.5", 1, Changed),
        ("hash = substr(hash, 2)", 1, Changed),
        ("hash = zeroblob(32)", 1, Changed),
        ("hash = zeroblob(160)", 1, Changed),
        ("seq = 4", 0, Added),
        ("seq = 6", 1, Missing),
        ("seq = 9223372036854775807", 1, Missing),
        ("seq = -9223372036854775808", i64::MIN, Added),
    ] {
        let home = five_steps(true).await;
        tamper(&home, &format!("UPDATE transitions SET {sql}"));
        let found = home.open().verify().unwrap();
        assert_eq!(found, Verification::Broken { seq, reason }, "{sql}");
    }
    let home = five_steps(true).await;
    tamper(
        &home,
        "UPDATE shapes SET text = replace(text, 'scheduled', 'denied')",
    );
    let found = home.open().verify().unwrap();
    let expected = Verification::Broken {
        seq: 1,
        reason: Changed,
    };
    assert_eq!(found, expected);
}

#[tokio::test]
async fn rows_appended_to_a_broken_chain_do_not_hide_the_break() {
    let home = five_rows().await;
    tamper(&home, "UPDATE transitions SET note = 'x' WHERE seq = 2");
    let store = home.open();
    store.commit(write("c2", &["pending"])).await.unwrap();
    let expected = Verification::Broken {
        seq: 2,
        reason: ChainDefect::Changed,
    };
    assert_eq!(store.verify().unwrap(), expected);
}

#[tokio::test]
async fn transitions_refuse_to_be_changed_or_deleted() {
    let home = five_rows().await;
    for sql in [
        "UPDATE transitions SET note = 'x'",
        "DELETE FROM transitions",
    ] {
        let refused = home.raw().execute(sql, []).unwrap_err().to_string();
        assert!(refused.contains("transitions are never"), "{refused}");
    }
}

#[tokio::test]
async fn two_writers_make_one_chain() {
    let home = Home::new();
    let (one, two) = (home.open(), home.open());
    for number in 0..50 {
        one.queue(write(&format!("one{number}"), &["pending", "completed"]))
            .unwrap();
        two.queue(write(&format!("two{number}"), &["pending", "completed"]))
            .unwrap();
        one.queue(Write::Event(event("progress", "one"))).unwrap();
        if number % 5 == 0 {
            let (first, second) = tokio::join!(one.flush(), two.flush());
            first.unwrap();
            second.unwrap();
        }
    }
    one.flush().await.unwrap();
    two.flush().await.unwrap();
    let verified = one.verify().unwrap();
    assert!(
        matches!(verified, Verification::Verified { rows: 250, .. }),
        "{verified:?}"
    );
    assert_eq!(verified, two.verify().unwrap());
}
