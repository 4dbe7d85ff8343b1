//! Tests of undo and recovery: a caller that stops waiting, a failed rollback, and a row that cannot be settled.

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use tempfile::TempDir;
use toolhost_contract::ErrorClass;
use toolhost_store::CommitFilter;

use super::*;

/// Files whose undo waits for a message, which says how it ends.
struct ScriptedFiles(Mutex<Receiver<Result<(), CommitError>>>);

impl CommitRecovery for ScriptedFiles {
    fn recover(&self, _: &str, _: &Value) -> Result<RecoveryOutcome, CallError> {
        Ok(RecoveryOutcome::Committed)
    }

    fn inverse_entry(&self, entry: &Value) -> Result<Value, CallError> {
        Ok(entry.clone())
    }

    fn undo(&self, _: &str, _: &Value) -> Result<(), CommitError> {
        self.0.lock().unwrap().recv().unwrap()
    }
}

fn files() -> (Arc<dyn CommitRecovery>, Sender<Result<(), CommitError>>) {
    let (sender, receiver) = channel();
    (Arc::new(ScriptedFiles(Mutex::new(receiver))), sender)
}

fn open(dir: &Path) -> Store {
    Store::open(&dir.join("state")).unwrap()
}

/// Stores a commit that is done.
async fn done(store: &Store, id: &str) -> CommitRow {
    let row = CommitRow {
        id: id.to_owned(),
        call: "c-1".to_owned(),
        session: "s-1".to_owned(),
        batch: None,
        tool: "write".to_owned(),
        at_ms: 1,
        state: CommitState::Begun,
        of: None,
        body: Value::Null,
    };
    store.begin_commit(row.clone()).await.unwrap();
    store.end_commit(id, CommitState::Done, 1).await.unwrap();
    find(store, id)
}

fn find(store: &Store, id: &str) -> CommitRow {
    store.commit_row(id).unwrap().unwrap()
}

fn undo_of(store: &Store, id: &str) -> Option<CommitRow> {
    let rows = store.commits(&CommitFilter::default()).unwrap();
    rows.into_iter().find(|row| row.of.as_deref() == Some(id))
}

async fn wait_for<T>(mut find: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = find() {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_undo_is_recorded_although_its_caller_is_gone() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let row = done(&store, "w1").await;
    let (files, finish) = files();
    let mut undoing = Box::pin(undo(&store, &files, &row, Timestamp(2)));
    tokio::select! {
        _ = &mut undoing => panic!("it waits for the files"),
        _ = wait_for(|| undo_of(&store, "w1")) => {}
    }
    drop(undoing);
    finish.send(Ok(())).unwrap();
    let is_undone = || (find(&store, "w1").state == CommitState::Undone).then_some(());
    wait_for(is_undone).await;
    assert_eq!(undo_of(&store, "w1").unwrap().state, CommitState::Done);
}

#[tokio::test]
async fn a_failed_rollback_leaves_the_row_for_recovery() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let row = done(&store, "w1").await;
    let (files, finish) = files();
    let error = || Box::new(CallError::new(ErrorClass::Failed, "the disk is gone"));
    finish.send(Err(CommitError::Incomplete(error()))).unwrap();
    undo(&store, &files, &row, Timestamp(2)).await.unwrap_err();
    let first = undo_of(&store, "w1").unwrap();
    assert_eq!(first.state, CommitState::Begun);
    drop(store);
    let store = open(dir.path());
    let recovered = recover(&store, &files, Timestamp(3)).await.unwrap();
    assert!(recovered.iter().all(|(_, result)| result.is_ok()));
    assert_eq!(find(&store, &first.id).state, CommitState::Done);
    assert_eq!(find(&store, "w1").state, CommitState::Undone);
}

#[tokio::test]
async fn a_row_that_cannot_be_settled_does_not_stop_the_others() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    for (of, id) in [("w1", "u1"), ("w2", "u2")] {
        let undoing = CommitRow {
            id: id.to_owned(),
            of: Some(of.to_owned()),
            state: CommitState::Begun,
            ..done(&store, of).await
        };
        store.begin_commit(undoing).await.unwrap();
    }
    // An earlier version accepted an undo of a commit that was undone already.
    store
        .end_commit("w1", CommitState::Undone, 2)
        .await
        .unwrap();
    drop(store);
    let store = open(dir.path());
    let (files, _finish) = files();
    let recovered = recover(&store, &files, Timestamp(3)).await.unwrap();
    let settled = |id: &str| {
        let row = recovered.iter().find(|(row, _)| row.id == id);
        row.unwrap().1.is_ok()
    };
    assert!(!settled("u1") && settled("u2"));
    assert_eq!(find(&store, "w2").state, CommitState::Undone);
}
