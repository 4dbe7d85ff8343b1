//! Unfinished calls outlive their process, and are found by the next one.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{Home, call, write};
use crate::{CallRow, Store, Verification, Write};

const CHILD: &str = "TOOLHOST_STORE_TEST_CHILD";

fn ids(calls: Vec<CallRow>) -> Vec<String> {
    calls.into_iter().map(|call| call.id).collect()
}

/// Not a test: the child's code, which runs until it is killed. Does nothing without the variable.
#[tokio::test]
async fn child_writes_until_it_is_killed() {
    let Some(dir) = env::var_os(CHILD) else {
        return;
    };
    let store = Store::open(dir.as_ref()).unwrap();
    let mut deferred = call("deferred", "awaiting_approval");
    deferred.deferred = true;
    store
        .commit(Write::Call {
            row: Box::new(deferred),
            transitions: Vec::new(),
        })
        .await
        .unwrap();
    for number in 0_u64.. {
        store
            .queue(write(&format!("queued{number}"), &["pending", "executing"]))
            .unwrap();
        let states: &[&str] = match number % 2 {
            0 => &["pending", "executing"],
            _ => &["pending", "executing", "completed"],
        };
        store
            .commit(write(&format!("c{number}"), states))
            .await
            .unwrap();
        // Printed after the commit: from here on the row must survive.
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {number}").unwrap();
        out.flush().unwrap();
    }
}

/// Starts the child and waits until it has `rows` rows acknowledged. Returns the number of the last one and the
/// open pipe, because the child ends when it is closed.
fn start(home: &Home, rows: u64) -> (Child, BufReader<ChildStdout>, u64) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "tests::owners::child_writes_until_it_is_killed",
            "--nocapture",
        ])
        .env(CHILD, home.state())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut last = 0;
    let mut out = BufReader::new(child.stdout.take().unwrap());
    for line in out.by_ref().lines() {
        let line = line.unwrap();
        // The test harness prints its own text before the first line.
        if let Some((_, number)) = line.rsplit_once("acknowledged ") {
            last = number.parse().unwrap();
            if last + 1 >= rows {
                break;
            }
        }
    }
    (child, out, last)
}

/// work that a crash interrupted is found, so that it can be sealed.
#[tokio::test]
async fn a_kill_loses_no_acknowledged_row_and_leaves_orphans() {
    for round in 0_u64..5 {
        let home = Home::new();
        let (mut child, _out, last) = start(&home, 5 + 7 * round);
        // While the process runs, its calls belong to it.
        let store = home.open();
        assert_eq!(ids(store.orphans().unwrap()), Vec::<String>::new());
        child.kill().unwrap();
        child.wait().unwrap();

        for number in 0..=last {
            let row = store.call(&format!("c{number}")).unwrap().unwrap();
            assert_eq!(row.finished, number % 2 == 1);
            // Rows queued before it exist too.
            assert!(store.call(&format!("queued{number}")).unwrap().is_some());
        }
        let verified = store.verify().unwrap();
        assert!(
            matches!(verified, Verification::Verified { .. }),
            "{verified:?}"
        );
        let orphans = store.orphans().unwrap();
        assert!(orphans.iter().all(|call| !call.finished && !call.deferred));
        assert!(ids(orphans.clone()).contains(&"c0".to_owned()));
        // One of two processes that start at the same time gets and closes them.
        let other = home.open();
        let (one, two) = tokio::join!(store.adopt_orphans(), other.adopt_orphans());
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(one.len() + two.len(), orphans.len());
        assert!(one.is_empty() || two.is_empty());
        for mut row in orphans {
            row.finished = true;
            store
                .commit(Write::Call {
                    row: Box::new(row),
                    transitions: Vec::new(),
                })
                .await
                .unwrap();
        }
    }
}

#[tokio::test]
async fn a_store_that_was_dropped_leaves_its_unfinished_calls_to_the_next() {
    let home = Home::new();
    let first = home.open();
    let second = home.open();
    first.commit(write("c1", &["executing"])).await.unwrap();
    second.commit(write("c2", &["executing"])).await.unwrap();
    assert_eq!(ids(second.orphans().unwrap()), Vec::<String>::new());
    assert_ne!(first.owner(), second.owner());
    drop(first);
    assert_eq!(ids(second.orphans().unwrap()), ["c1"]);
    assert_eq!(ids(second.adopt_orphans().await.unwrap()), ["c1"]);
    assert_eq!(ids(second.orphans().unwrap()), Vec::<String>::new());
    drop(second);
    assert_eq!(ids(home.open().orphans().unwrap()), ["c1", "c2"]);
}

#[tokio::test]
async fn an_invalid_owner_id_is_not_alive() {
    let home = Home::new();
    let store = home.open();
    store.commit(write("c1", &["executing"])).await.unwrap();
    for owner in ["", "../../store", "no such owner"] {
        home.raw()
            .execute("UPDATE calls SET owner = ?1", [owner])
            .unwrap();
        assert_eq!(ids(store.orphans().unwrap()), ["c1"], "{owner}");
    }
}

#[test]
fn only_lock_files_of_ended_processes_are_removed() {
    let home = Home::new();
    let lives = home.open();
    let owners = home.state().join("owners");
    std::fs::write(owners.join(format!("{}.lock", "0".repeat(32))), "").unwrap();
    let next = home.open();
    let mut names: Vec<_> = std::fs::read_dir(&owners)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut expected = [lives.owner(), next.owner()].map(|id| format!("{id}.lock"));
    expected.sort();
    assert_eq!(names, expected);
    drop((lives, next));
    assert_eq!(std::fs::read_dir(&owners).unwrap().count(), 0);
}

#[tokio::test]
async fn a_later_call_with_the_same_id_does_not_write_over_the_first() {
    let home = Home::new();
    let store = home.open();
    let write = |row: &crate::CallRow| crate::Write::Call {
        row: Box::new(row.clone()),
        transitions: Vec::new(),
    };
    let mut first = super::call("c1", "completed");
    first.finished = true;
    store.commit(write(&first)).await.unwrap();
    let mut second = super::call("c1", "pending");
    "another".clone_into(&mut second.session);
    store.commit(write(&second)).await.unwrap();
    assert_eq!(store.call("c1").unwrap(), Some(first));
}
