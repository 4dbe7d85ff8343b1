//! Adoption of commits whose process has ended.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::commits::ids;
use super::{Home, commit, write};
use crate::CommitState::{Done, Reverted, Undone};
use crate::{CommitFilter, Store, Verification};

const CHILD: &str = "TOOLHOST_STORE_TEST_COMMITS";

#[tokio::test]
async fn begun_commits_of_a_dropped_store_are_adopted() {
    let home = Home::new();
    let (first, lives) = (home.open(), home.open());
    for (id, ends) in [
        ("w1", vec![]),
        ("w2", vec![Done]),
        ("w3", vec![Reverted]),
        ("w4", vec![Done, Undone]),
        ("w5", vec![]),
    ] {
        first.begin_commit(commit(id)).await.unwrap();
        for state in ends {
            first.end_commit(id, state, 1).await.unwrap();
        }
    }
    lives.begin_commit(commit("w6")).await.unwrap();
    assert_eq!(lives.adopt_commits().await.unwrap(), []);
    drop(first);
    let next = home.open();
    let (one, two) = tokio::join!(lives.adopt_commits(), next.adopt_commits());
    let (one, two) = (one.unwrap(), two.unwrap());
    let (taken, none) = if one.is_empty() {
        (two, one)
    } else {
        (one, two)
    };
    assert_eq!(taken, [commit("w5"), commit("w1")]);
    assert_eq!(none, []);
    // If the adopting process dies too, the next one adopts them.
    drop((lives, next));
    let last = home.open();
    let taken = last.adopt_commits().await.unwrap();
    assert_eq!(ids(&taken), ["w6", "w5", "w1"]);
    for row in taken {
        last.end_commit(&row.id, Reverted, 9).await.unwrap();
    }
    drop(last);
    assert_eq!(home.open().adopt_commits().await.unwrap(), []);
}

/// Not a test: the child's code, which runs until it is killed. Does nothing without the variable.
#[tokio::test]
async fn child_begins_until_it_is_killed() {
    let Some(dir) = env::var_os(CHILD) else {
        return;
    };
    let store = Store::open(dir.as_ref()).unwrap();
    let stage = store
        .stage_dir()
        .unwrap()
        .join(format!("{}-1", store.owner()));
    std::fs::create_dir_all(stage.join("src")).unwrap();
    store.queue(write("c1", &["pending", "executing"])).unwrap();
    for (id, state) in [("w1", Some(Done)), ("w2", Some(Reverted)), ("w3", None)] {
        store.begin_commit(commit(id)).await.unwrap();
        if let Some(state) = state {
            store.end_commit(id, state, 1).await.unwrap();
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "acknowledged").unwrap();
    out.flush().unwrap();
    // Nothing is ever sent: this ends with the process, or with its parent.
    let _ = std::io::stdin().read(&mut [0]);
}

/// Also returns the open pipe, because the child ends when it is closed.
fn start(home: &Home) -> (Child, ChildStdin) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "tests::adoption::child_begins_until_it_is_killed",
            "--nocapture",
        ])
        .env(CHILD, home.state())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    // The test harness prints its own text first.
    let is_reported = out
        .lines()
        .any(|line| line.unwrap().ends_with("acknowledged"));
    assert!(is_reported);
    (child, input)
}

/// work that a crash interrupted is found, so that it can be reverted.
#[tokio::test]
async fn one_of_two_processes_adopts_the_commits_of_a_killed_one() {
    let home = Home::new();
    let (mut child, _input) = start(&home);
    let stages = || {
        std::fs::read_dir(home.state().join("stage"))
            .unwrap()
            .count()
    };
    // While the process runs, its commits and its stage belong to it.
    let one = home.open();
    assert_eq!(one.adopt_commits().await.unwrap(), []);
    assert_eq!(stages(), 1);
    child.kill().unwrap();
    child.wait().unwrap();

    let two = home.open();
    assert_eq!(stages(), 0);
    let states: Vec<_> = one.commits(&CommitFilter::default()).unwrap();
    assert_eq!(ids(&states), ["w3", "w2", "w1"]);
    let (first, second) = tokio::join!(one.adopt_commits(), two.adopt_commits());
    let mut taken = first.unwrap();
    taken.extend(second.unwrap());
    assert_eq!(taken, [commit("w3")]);
    let verified = one.verify().unwrap();
    assert!(
        matches!(verified, Verification::Verified { rows: 8, .. }),
        "{verified:?}"
    );
}
