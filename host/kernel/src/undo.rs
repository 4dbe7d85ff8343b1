//! Recovery of interrupted commits, and undo of commits.

use std::sync::Arc;

use toolhost_contract::lifecycle::Timestamp;
use toolhost_contract::{CallError, CommitError, CommitRecovery, RecoveryOutcome};
use toolhost_store::{CommitError as JournalError, CommitRow, CommitState, Store};

/// Completes or reverts the commits of stopped processes. Must run before [`crate::Kernel::seal`], which reports the
/// result for their calls.
pub async fn recover(
    store: &Store,
    files: &Arc<dyn CommitRecovery>,
    now: Timestamp,
) -> Result<Vec<(CommitRow, Result<RecoveryOutcome, CallError>)>, JournalError> {
    let mut all = Vec::new();
    for row in store.adopt_commits().await? {
        let (files, id, body) = (Arc::clone(files), row.id.clone(), row.body.clone());
        let looked = tokio::task::spawn_blocking(move || files.recover(&id, &body)).await;
        let recovered = looked.unwrap_or_else(|_| Err(CallError::internal("recovery panicked")));
        match &recovered {
            Ok(RecoveryOutcome::Committed) => {
                end(store, &row, CommitState::Done, now).await?;
            }
            Ok(RecoveryOutcome::RolledBack | RecoveryOutcome::PartiallyRolledBack(_)) => {
                end(store, &row, CommitState::Reverted, now).await?;
            }
            // Left unchanged and tried again at the next start.
            Err(_) => {}
        }
        all.push((row, recovered));
    }
    Ok(all)
}

#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    #[error("commit {id} is {}; only a completed commit can be undone", .state.as_str())]
    NotDone { id: String, state: CommitState },
    #[error("changed since the commit: {}", .0.join("; "))]
    Conflict(Vec<String>),
    #[error("{}", .0.message)]
    Failed(Box<CallError>),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Undoes a commit completely or not at all. Returns the id of the new commit; undoing that one is a redo.
pub async fn undo(
    store: &Store,
    files: &Arc<dyn CommitRecovery>,
    row: &CommitRow,
    now: Timestamp,
) -> Result<String, UndoError> {
    if row.state != CommitState::Done {
        return Err(UndoError::NotDone {
            id: row.id.clone(),
            state: row.state,
        });
    }
    let undoing = CommitRow {
        id: format!("commit-{}", crate::id::random()),
        at_ms: now.0,
        state: CommitState::Begun,
        of: Some(row.id.clone()),
        body: files
            .inverse_entry(&row.body)
            .map_err(|error| UndoError::Failed(Box::new(error)))?,
        ..row.clone()
    };
    store.begin_commit(undoing.clone()).await?;
    let (worker, id, body) = (Arc::clone(files), undoing.id.clone(), row.body.clone());
    let result = tokio::task::spawn_blocking(move || worker.undo(&id, &body))
        .await
        .unwrap_or_else(|_| {
            let error = CallError::internal("the undo panicked");
            Err(CommitError::Failed(Box::new(error)))
        });
    match result {
        Ok(()) => {
            end(store, &undoing, CommitState::Done, now).await?;
            Ok(undoing.id)
        }
        Err(error) => {
            store
                .end_commit(&undoing.id, CommitState::Reverted, now.0)
                .await?;
            Err(match error {
                CommitError::Conflict(paths) => UndoError::Conflict(paths),
                CommitError::Failed(error) => UndoError::Failed(error),
            })
        }
    }
}

/// Records the result, together with the new state of the commit that was undone.
async fn end(
    store: &Store,
    row: &CommitRow,
    state: CommitState,
    now: Timestamp,
) -> Result<(), JournalError> {
    let mut ends = vec![(row.id.clone(), state)];
    if let (Some(of), CommitState::Done) = (&row.of, state) {
        ends.push((of.clone(), CommitState::Undone));
    }
    store.end_commits(ends, now.0).await
}
