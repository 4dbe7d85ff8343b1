//! The chain of transitions: whole when left alone, and whoever touches a row is found out.

use rusqlite::Connection;

use super::{Home, event, write};
use crate::{Breakage, TransitionFilter, Verification, Write};

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

/// What somebody does who opens the file with another tool.
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
        Verification::Verified { rows: 5, head }
    );
}

#[tokio::test]
async fn whoever_touches_a_row_is_found_out() {
    use Breakage::{Added, Changed, Head, Missing, NoHead};
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
        // Text moved from one column into its neighbour.
        (
            "UPDATE transitions SET call = 'c', session = '1s1' WHERE seq = 3",
            3,
            Changed,
        ),
        ("UPDATE transitions SET seq = 9 WHERE seq = 3", 3, Missing),
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
            "INSERT INTO transitions SELECT 6, call, session, at_ms, state, kind, note, detail, hash FROM transitions WHERE seq = 5",
            6,
            Added,
        ),
        ("UPDATE chain SET head = zeroblob(32)", 5, Head),
        ("DELETE FROM chain", 5, NoHead),
        // Two rows that changed places.
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

#[tokio::test]
async fn rows_appended_to_a_broken_chain_do_not_hide_the_break() {
    let home = five_rows().await;
    tamper(&home, "UPDATE transitions SET note = 'x' WHERE seq = 2");
    let store = home.open();
    store.commit(write("c2", &["pending"])).await.unwrap();
    let expected = Verification::Broken {
        seq: 2,
        reason: Breakage::Changed,
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
        matches!(verified, Verification::Verified { rows: 200, .. }),
        "{verified:?}"
    );
    assert_eq!(verified, two.verify().unwrap());
}
