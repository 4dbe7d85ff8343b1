//! Commits round-trip and follow the valid state changes.

use serde_json::json;

use super::failures::room;
use super::{Home, commit};
use crate::{CommitError, CommitFilter, CommitRow, CommitState, MAX_ROW, StoreError};

use CommitState::{Begun, Done, Reverted, Undone};

pub(super) fn ids(rows: &[CommitRow]) -> Vec<&str> {
    rows.iter().map(|row| row.id.as_str()).collect()
}

#[tokio::test]
async fn a_commit_comes_back_as_it_was_also_after_opening_again() {
    let home = Home::new();
    let bare = CommitRow {
        batch: None,
        of: Some("w1".to_owned()),
        body: json!(null),
        ..commit("w2")
    };
    let store = home.open();
    store.begin_commit(commit("w1")).await.unwrap();
    store.end_commit("w1", Done, 4_000).await.unwrap();
    store.begin_commit(bare.clone()).await.unwrap();
    drop(store);
    let store = home.open();
    let done = CommitRow {
        state: Done,
        at_ms: 4_000,
        ..commit("w1")
    };
    assert_eq!(store.commit_row("w1").unwrap(), Some(done));
    assert_eq!(store.commit_row("w2").unwrap(), Some(bare));
    assert_eq!(store.commit_row("w3").unwrap(), None);
    for state in CommitState::ALL {
        assert_eq!(CommitState::parse(state.as_str()), Some(state));
    }
    assert_eq!(CommitState::parse("Done"), None);
}

#[tokio::test]
async fn only_these_states_follow_each_other() {
    let home = Home::new();
    let store = home.open();
    let histories: [(CommitState, &[CommitState]); 4] = [
        (Begun, &[]),
        (Done, &[Done]),
        (Reverted, &[Reverted]),
        (Undone, &[Done, Undone]),
    ];
    for (from, steps) in histories {
        for next in CommitState::ALL {
            let id = format!("{from}-{next}");
            store.begin_commit(commit(&id)).await.unwrap();
            for state in steps {
                store.end_commit(&id, *state, 1).await.unwrap();
            }
            let allowed = matches!(
                (from, next),
                (Begun, Done | Reverted) | (Done, Undone) | (Undone, Done)
            );
            let expected = if allowed {
                Ok(())
            } else {
                Err(CommitError::State {
                    id: id.clone(),
                    state: from,
                    next,
                })
            };
            assert_eq!(store.end_commit(&id, next, 9).await, expected, "{id}");
            let row = store.commit_row(&id).unwrap().unwrap();
            let found = (row.state, row.at_ms == 9);
            let stored = if allowed { (next, true) } else { (from, false) };
            assert_eq!(found, stored, "{id}");
        }
    }
    let unknown = store.end_commit("none", Done, 9).await.unwrap_err();
    assert_eq!(unknown.to_string(), "no commit `none`; list the commits");
    let again = store.end_commit("begun-done", Reverted, 9).await;
    assert_eq!(
        again.unwrap_err().to_string(),
        "commit `begun-done` is done and cannot become reverted; check it again, another process may have changed it"
    );
}

#[tokio::test]
async fn an_undo_and_its_commit_change_atomically() {
    let home = Home::new();
    let store = home.open();
    for id in ["w1", "u1", "u2"] {
        store.begin_commit(commit(id)).await.unwrap();
    }
    store.end_commit("w1", Done, 1).await.unwrap();
    let pair = |undo: &str| vec![(undo.to_owned(), Done), ("w1".to_owned(), Undone)];
    store.end_commits(pair("u1"), 2).await.unwrap();
    // The second undo is too late, and does not end either.
    let late = store.end_commits(pair("u2"), 3).await.unwrap_err();
    assert!(
        matches!(&late, CommitError::State { id, state: Undone, .. } if id == "w1"),
        "{late}"
    );
    // A commit that is listed twice takes both steps.
    let twice = vec![("u2".to_owned(), Done), ("u2".to_owned(), Undone)];
    store.end_commits(twice, 4).await.unwrap();
    let state = |id: &str| store.commit_row(id).unwrap().unwrap().state;
    assert_eq!(["w1", "u1", "u2"].map(state), [Undone, Done, Undone]);
    store.end_commits(Vec::new(), 5).await.unwrap();
}

#[tokio::test]
async fn a_commit_is_undone_only_when_it_is_done_and_by_one_at_a_time() {
    let home = Home::new();
    let store = home.open();
    let undo = |id: &str, of: &str| CommitRow {
        of: Some(of.to_owned()),
        ..commit(id)
    };
    for (id, ends) in [
        ("begun", vec![]),
        ("reverted", vec![Reverted]),
        ("done", vec![Done]),
        ("undone", vec![Done, Undone]),
    ] {
        store.begin_commit(commit(id)).await.unwrap();
        for state in ends {
            store.end_commit(id, state, 1).await.unwrap();
        }
    }
    let id = |id: &str| id.to_owned();
    let unknown = |of: &str| Err(CommitError::Unknown { id: id(of) });
    let not_done = |of: &str, state| Err(CommitError::NotDone { id: id(of), state });
    let busy = |of: &str, by: &str| {
        Err(CommitError::Busy {
            id: id(of),
            by: id(by),
        })
    };
    for (row, expected) in [
        (undo("u1", "none"), unknown("none")),
        (undo("u1", "u1"), unknown("u1")),
        (undo("u1", "begun"), not_done("begun", Begun)),
        (undo("u1", "reverted"), not_done("reverted", Reverted)),
        (undo("u1", "done"), Ok(())),
        (undo("u2", "done"), busy("done", "u1")),
        (undo("u3", "undone"), not_done("undone", Undone)),
    ] {
        assert_eq!(store.begin_commit(row.clone()).await, expected, "{row:?}");
    }
    // After the first has ended in any state, the next one can begin.
    store.end_commit("u1", Reverted, 2).await.unwrap();
    store.begin_commit(undo("u2", "done")).await.unwrap();
    let ends = vec![(id("u2"), Done), (id("done"), Undone)];
    store.end_commits(ends, 3).await.unwrap();
    let again = store.begin_commit(undo("u4", "done")).await;
    assert_eq!(again, not_done("done", Undone));
    // A redo undoes the undo.
    store.begin_commit(undo("r1", "u2")).await.unwrap();
}

#[tokio::test]
async fn of_two_processes_that_undo_one_commit_one_begins() {
    let home = Home::new();
    let (one, two) = (home.open(), home.open());
    one.begin_commit(commit("w1")).await.unwrap();
    one.end_commit("w1", Done, 1).await.unwrap();
    for number in 0..10 {
        let ids = ["a", "b"].map(|by| format!("{by}{number}"));
        let [a, b] = ids.clone().map(|id| CommitRow {
            of: Some("w1".to_owned()),
            ..commit(&id)
        });
        let (first, second) = tokio::join!(one.begin_commit(a), two.begin_commit(b));
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
        let id = &ids[usize::from(second.is_ok())];
        one.end_commit(id, Reverted, 2).await.unwrap();
    }
}

#[tokio::test]
async fn of_two_changes_of_state_at_once_one_counts() {
    let home = Home::new();
    let (one, two) = (home.open(), home.open());
    for number in 0..10 {
        let id = format!("w{number}");
        one.begin_commit(commit(&id)).await.unwrap();
        one.end_commit(&id, Done, 1).await.unwrap();
        let (first, second) = tokio::join!(
            one.end_commit(&id, Undone, 2),
            two.end_commit(&id, Undone, 2)
        );
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    }
}

#[tokio::test]
async fn an_invalid_commit_is_refused_and_the_store_stays_healthy() {
    let home = Home::new();
    let store = home.open();
    let long = "w".repeat(65);
    for id in ["", "../w1", "W1", "w_1", "w1\n", "ä", long.as_str()] {
        let refused = store.begin_commit(commit(id)).await.unwrap_err();
        assert!(matches!(refused, CommitError::Name { .. }), "{refused}");
    }
    for state in [Done, Reverted, Undone] {
        let row = CommitRow {
            state,
            ..commit("w1")
        };
        let refused = store.begin_commit(row).await;
        assert_eq!(refused, Err(CommitError::NotBegun { state }));
    }
    let large = CommitRow {
        body: json!([["y".repeat(MAX_ROW)]]),
        ..commit("w1")
    };
    let refused = store.begin_commit(large).await.unwrap_err();
    assert!(
        refused.to_string().ends_with("shorten the list of changes"),
        "{refused}"
    );
    assert_eq!(store.commits(&CommitFilter::default()).unwrap(), []);

    // Ids are unique.
    store.begin_commit(commit(&long[1..])).await.unwrap();
    let twice = store.begin_commit(commit(&long[1..])).await;
    let id = long[1..].to_owned();
    assert_eq!(twice, Err(CommitError::Exists { id }));
    store.health().unwrap();
}

#[tokio::test]
async fn a_commit_that_began_on_a_full_disk_did_not_begin() {
    let home = Home::new();
    let store = home.open();
    let large = CommitRow {
        body: json!("x".repeat(100_000)),
        ..commit("w1")
    };
    room(&store, 0).await;
    let refused = store.begin_commit(large.clone()).await;
    assert!(
        matches!(refused, Err(CommitError::Store(StoreError::Full { .. }))),
        "{refused:?}"
    );
    assert_eq!(store.commit_row("w1").unwrap(), None);
    room(&store, 10_000).await;
    store.begin_commit(large).await.unwrap();
}

#[tokio::test]
async fn commits_are_listed_from_the_newest_and_filters_narrow() {
    let home = Home::new();
    let store = home.open();
    for (id, call, session, batch, at_ms, ends) in [
        ("w1", "c1", "s1", Some("b1"), 30, vec![Done]),
        // A clock that jumped back does not change the order.
        ("w2", "c2", "s1", None, 20, vec![Reverted]),
        ("w3", "c1", "s1", Some("b2"), 10, vec![Done, Undone]),
        ("w4", "c3", "s2", Some("b1"), 40, vec![]),
    ] {
        let row = CommitRow {
            call: call.to_owned(),
            session: session.to_owned(),
            batch: batch.map(str::to_owned),
            at_ms,
            ..commit(id)
        };
        store.begin_commit(row).await.unwrap();
        for state in ends {
            store.end_commit(id, state, at_ms).await.unwrap();
        }
    }
    let all = CommitFilter::default;
    let some = |text: &str| Some(text.to_owned());
    for (filter, expected) in [
        (all(), vec!["w4", "w3", "w2", "w1"]),
        (
            CommitFilter {
                call: some("c1"),
                ..all()
            },
            vec!["w3", "w1"],
        ),
        (
            CommitFilter {
                session: some("s1"),
                ..all()
            },
            vec!["w3", "w2", "w1"],
        ),
        (
            CommitFilter {
                batch: some("b1"),
                ..all()
            },
            vec!["w4", "w1"],
        ),
        (
            CommitFilter {
                call: some("c1"),
                session: some("s1"),
                batch: some("b2"),
                ..all()
            },
            vec!["w3"],
        ),
        (
            CommitFilter {
                session: some("s1"),
                limit: 1,
                ..all()
            },
            vec!["w3"],
        ),
        (CommitFilter { limit: 0, ..all() }, vec![]),
        (
            CommitFilter {
                call: some("' OR 1=1 --"),
                ..all()
            },
            vec![],
        ),
    ] {
        assert_eq!(
            ids(&store.commits(&filter).unwrap()),
            expected,
            "{filter:?}"
        );
    }
    // A finished commit can be undone while its blobs exist; an unfinished one may need recovery.
    assert_eq!(ids(&store.begun_commits().unwrap()), ["w4"]);
}

#[tokio::test]
async fn a_damaged_row_is_an_error_only_where_it_is_read() {
    let home = Home::new();
    let store = home.open();
    store.begin_commit(commit("w1")).await.unwrap();
    store.begin_commit(commit("w2")).await.unwrap();
    for spoil in ["state = 'half'", "state = 'begun', body = '{'"] {
        home.raw()
            .execute_batch(&format!("UPDATE commits SET {spoil} WHERE id = 'w1'"))
            .unwrap();
        let error = store.commit_row("w1").unwrap_err();
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
        // A list without it would let its blobs be swept.
        store.begun_commits().unwrap_err();
        assert_eq!(store.commit_row("w2").unwrap(), Some(commit("w2")));
    }
    store.end_commit("w2", Done, 1).await.unwrap();
    store.health().unwrap();
}
