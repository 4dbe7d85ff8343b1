//! Recovery of interrupted commits, and undo of commits.

use std::sync::Arc;

use serde_json::Value;
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
        let mut recovered =
            looked.unwrap_or_else(|_| Err(CallError::internal("recovery panicked")));
        let state = match &recovered {
            Ok(RecoveryOutcome::Committed) => Some(CommitState::Done),
            Ok(RecoveryOutcome::RolledBack | RecoveryOutcome::PartiallyRolledBack(_)) => {
                Some(CommitState::Reverted)
            }
            // Left unchanged and tried again at the next start.
            Err(_) => None,
        };
        if let Some(state) = state
            && let Err(error) = end(store, &row, state, now).await
        {
            // One row that cannot be settled must not prevent the start.
            recovered = Err(CallError::internal(error));
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
    let id = undoing.id.clone();
    // A separate task, so that the result is recorded even if the caller stops waiting.
    let run = run_undo(
        store.clone(),
        Arc::clone(files),
        undoing,
        row.body.clone(),
        now,
    );
    let result = tokio::spawn(run).await;
    result.unwrap_or_else(|_| Err(UndoError::Failed(Box::new(panicked()))))?;
    Ok(id)
}

async fn run_undo(
    store: Store,
    files: Arc<dyn CommitRecovery>,
    undoing: CommitRow,
    body: Value,
    now: Timestamp,
) -> Result<(), UndoError> {
    store.begin_commit(undoing.clone()).await?;
    let id = undoing.id.clone();
    let result = tokio::task::spawn_blocking(move || files.undo(&id, &body))
        .await
        .unwrap_or_else(|_| Err(CommitError::Incomplete(Box::new(panicked()))));
    if let Some(state) = final_state(&result) {
        end(&store, &undoing, state, now).await?;
    }
    result.map_err(|error| match error {
        CommitError::Conflict(paths) => UndoError::Conflict(paths),
        CommitError::Failed(error) | CommitError::Incomplete(error) => UndoError::Failed(error),
    })
}

fn panicked() -> CallError {
    CallError::internal("the undo panicked")
}

/// The state in which a commit ends. `None` leaves it begun, so that the next start recovers it.
pub(crate) fn final_state(result: &Result<(), CommitError>) -> Option<CommitState> {
    match result {
        Ok(()) => Some(CommitState::Done),
        Err(CommitError::Conflict(_) | CommitError::Failed(_)) => Some(CommitState::Reverted),
        Err(CommitError::Incomplete(_)) => None,
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

#[cfg(test)]
mod tests;
