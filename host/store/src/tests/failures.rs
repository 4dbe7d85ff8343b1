//! Full disk and locked database: writes fail, nothing is partially written, and the store recovers.

use std::fs;

use super::{BUSY, Home, answer, event, write};
use crate::{AnswerError, CallFilter, Store, StoreError, Verification, Write};

/// Lets the file grow by at most `pages` pages.
pub(super) async fn room(store: &Store, pages: i64) {
    store
        .change(0, move |connection| {
            let count: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
            connection.pragma_update(None, "max_page_count", count + pages)
        })
        .await
        .unwrap();
}

fn large(kind: &str) -> Write {
    let mut row = event("progress", kind);
    row.body = "x".repeat(100_000).into();
    Write::Many(vec![
        write(kind, &["pending", "completed"]),
        Write::Event(row),
    ])
}

fn is_full(result: Result<(), StoreError>) -> bool {
    matches!(result, Err(StoreError::Full { .. }))
}

#[tokio::test]
async fn a_full_disk_fails_writes_atomically_and_recovers() {
    let home = Home::new();
    let store = home.open();
    store.commit(large("before")).await.unwrap();
    let before = store.verify().unwrap();

    room(&store, 0).await;
    assert!(is_full(store.commit(large("effect")).await));
    assert!(is_full(store.health()));
    // No row of the refused call, no transition, no event.
    assert_eq!(store.call("effect").unwrap(), None);
    assert_eq!(store.verify().unwrap(), before);
    assert_eq!(store.last_event().unwrap(), 1);

    room(&store, 10_000).await;
    store.commit(large("after")).await.unwrap();
    store.health().unwrap();
    store.queue(large("later")).unwrap();
    store.flush().await.unwrap();
    // Refused writes are not retried: their caller got the error.
    assert_eq!(store.call("effect").unwrap(), None);
    assert!(store.call("later").unwrap().is_some());
    let verified = store.verify().unwrap();
    assert!(
        matches!(verified, Verification::Verified { rows: 9, .. }),
        "{verified:?}"
    );
}

#[tokio::test]
async fn ending_with_a_full_disk_leaves_a_whole_file() {
    let home = Home::new();
    let store = home.open();
    store.commit(write("c1", &["pending"])).await.unwrap();
    room(&store, 0).await;
    store.queue(large("queued")).unwrap();
    assert!(is_full(store.flush().await));
    drop(store);
    let store = home.open();
    assert_eq!(store.call("queued").unwrap(), None);
    let verified = store.verify().unwrap();
    assert!(
        matches!(verified, Verification::Verified { rows: 1, .. }),
        "{verified:?}"
    );
}

fn is_locked(result: Result<(), StoreError>) -> bool {
    matches!(result, Err(StoreError::Locked { .. }))
}

#[tokio::test]
async fn a_locked_store_fails_in_time_and_retries_queued_writes() {
    let home = Home::new();
    let store = Store::open_with(&home.state(), BUSY).unwrap();
    store
        .commit(write("asks", &["awaiting_approval"]))
        .await
        .unwrap();
    let other = home.raw();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.queue(write("queued", &["pending"])).unwrap();
    assert!(is_locked(store.commit(write("effect", &["pending"])).await));
    assert!(is_locked(store.health()));
    // A call that runs while the store fails is recorded later.
    store.queue(write("late", &["pending"])).unwrap();
    let refused = store.answer(answer("asks", "terminal")).await.unwrap_err();
    let expected = AnswerError::Store(StoreError::Locked {
        path: home.database(),
    });
    assert_eq!(refused, expected);
    // Reading still works.
    assert_eq!(store.calls(&CallFilter::default()).unwrap().len(), 1);

    other.execute_batch("ROLLBACK").unwrap();
    store.commit(write("after", &["pending"])).await.unwrap();
    store.health().unwrap();
    let calls = store.calls(&CallFilter::default()).unwrap();
    let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["after", "late", "queued", "asks"]);
    assert!(matches!(
        store.verify().unwrap(),
        Verification::Verified { rows: 4, .. }
    ));
    store.flush().await.unwrap();
}

#[tokio::test]
async fn nothing_is_written_to_a_file_that_was_moved_away() {
    let home = Home::new();
    let store = home.open();
    store.commit(write("before", &["pending"])).await.unwrap();
    let moved = StoreError::Moved {
        path: home.database(),
    };
    let elsewhere = home.state().join("old.db");
    fs::rename(home.database(), &elsewhere).unwrap();
    for new_file in [false, true] {
        if new_file {
            fs::write(home.database(), "").unwrap();
        }
        store.queue(write("read", &["pending"])).unwrap();
        let refused = store.commit(write("effect", &["pending"])).await;
        assert_eq!(refused, Err(moved.clone()));
        assert_eq!(store.health(), Err(moved.clone()));
    }
    assert_eq!(store.calls(&CallFilter::default()).unwrap().len(), 1);
    fs::rename(&elsewhere, home.database()).unwrap();
    store.flush().await.unwrap();
    assert!(store.call("read").unwrap().is_some());
    assert_eq!(store.call("effect").unwrap(), None);
}

#[test]
fn opening_waits_for_a_lock_only_so_long() {
    let home = Home::new();
    drop(home.open());
    let other = home.raw();
    // In this mode of SQLite one process locks the file exclusively.
    other
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; UPDATE chain SET rows = rows; COMMIT")
        .unwrap();
    let error = Store::open_with(&home.state(), BUSY).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    drop(other);
    home.open();
}

#[tokio::test]
async fn a_rejected_row_does_not_fail_other_rows() {
    let home = Home::new();
    let store = home.open();
    home.raw()
        .execute_batch(
            "CREATE TRIGGER never BEFORE INSERT ON events WHEN new.kind = 'bad'
             BEGIN SELECT raise(ABORT, 'no'); END",
        )
        .unwrap();
    store.queue(write("before", &["pending"])).unwrap();
    store
        .queue(Write::Many(vec![
            write("beside", &["pending"]),
            Write::Event(event("progress", "bad")),
        ]))
        .unwrap();
    store.commit(write("after", &["pending"])).await.unwrap();
    store.health().unwrap();
    assert!(store.call("before").unwrap().is_some());
    assert_eq!(store.call("beside").unwrap(), None);
    let refused = store.commit(Write::Event(event("progress", "bad"))).await;
    assert!(
        matches!(refused, Err(StoreError::Statement { .. })),
        "{refused:?}"
    );
    store.health().unwrap();
    assert!(matches!(
        store.verify().unwrap(),
        Verification::Verified { rows: 2, .. }
    ));
    // The lost row is reported once.
    let lost = StoreError::Lost {
        path: home.database(),
        count: 1,
    };
    assert_eq!(store.flush().await, Err(lost));
    store.flush().await.unwrap();
}

#[tokio::test]
async fn a_damaged_row_is_an_error_only_where_it_is_read() {
    let home = Home::new();
    let store = home.open();
    store.commit(write("c1", &["executing"])).await.unwrap();
    store.commit(write("c2", &["executing"])).await.unwrap();
    home.raw()
        .execute_batch("UPDATE calls SET record = '{', owner = '' WHERE id = 'c1'")
        .unwrap();
    let unreadable = |error: StoreError| matches!(error, StoreError::Unreadable { .. });
    assert!(unreadable(store.call("c1").unwrap_err()));
    assert!(store.call("c2").unwrap().is_some());
    assert!(unreadable(store.adopt_orphans().await.unwrap_err()));
    store.health().unwrap();
    store.commit(write("c3", &["executing"])).await.unwrap();
}

/// A panic in the writer must not leave a caller waiting.
#[tokio::test]
async fn a_stopped_writer_is_reported() {
    let home = Home::new();
    let store = home.open();
    let died: Result<(), StoreError> = store.change(0, |_| panic!("on purpose")).await;
    assert_eq!(died, Err(StoreError::Closed));
    assert_eq!(
        store.commit(write("c1", &["pending"])).await,
        Err(StoreError::Closed)
    );
    assert_eq!(
        store.queue(write("c1", &["pending"])),
        Err(StoreError::Closed)
    );
    assert_eq!(store.health(), Err(StoreError::Closed));
}
