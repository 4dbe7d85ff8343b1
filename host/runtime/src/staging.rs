//! Staged changes of a call: shown to the user and to rules, committed, recovered and undone.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize as _;
use serde_json::Value;
use toolhost_contract::{
    BoxFuture, CallError, ChangeSet, CommitError, Edit, EditError, Edited, Effects, ErrorClass,
    FileDiff, Recovered, text,
};
use toolhost_vfs::{ApplyError, Blobs, Change, Conflict, Op, Roots, Source, Stage, StageError};

use crate::difference::{Diffs, file_diff, host};

/// Directory of the stages and store of replaced content. Both are accessible to the host only.
#[derive(Clone)]
pub struct Staging {
    pub stages: PathBuf,
    pub blobs: Arc<Blobs>,
}

impl toolhost_contract::Undo for Staging {
    fn recover(&self, id: &str, entry: &Value) -> Result<Recovered, CallError> {
        let changes = changes(entry)?;
        let (roots, step) = (roots(&changes)?, &mut crate::crash::steps());
        let whole = toolhost_vfs::is_made(id, &self.blobs)
            || toolhost_vfs::check_undo(&roots, &changes)
                .map_err(broken)?
                .is_empty();
        if whole {
            toolhost_vfs::tidy(&roots, &changes, id, &self.blobs, step).map_err(broken)?;
            return Ok(Recovered::Whole);
        }
        let left =
            toolhost_vfs::recover(&roots, &changes, id, &self.blobs, step).map_err(broken)?;
        if left.is_empty() {
            return Ok(Recovered::Nothing);
        }
        let left = left.iter().map(ToString::to_string).collect();
        Ok(Recovered::NothingBut(left))
    }

    fn inverted(&self, entry: &Value) -> Result<Value, CallError> {
        serde_json::to_value(toolhost_vfs::inverted(&changes(entry)?)).map_err(CallError::internal)
    }

    fn undo(&self, id: &str, entry: &Value) -> Result<(), CommitError> {
        let changes = changes(entry).map_err(failed)?;
        let (roots, step) = (roots(&changes).map_err(failed)?, &mut crate::crash::steps());
        toolhost_vfs::undo(&roots, &changes, id, &self.blobs, step).map_err(not_applied)
    }
}

fn changes(entry: &Value) -> Result<Vec<Change>, CallError> {
    Vec::<Change>::deserialize(entry).map_err(|error| {
        CallError::new(
            ErrorClass::Failed,
            format!("cannot read the journal entry: {error}"),
        )
    })
}

fn roots(changes: &[Change]) -> Result<Roots, CallError> {
    let moved = changes
        .iter()
        .filter_map(|change| change.moved_from.as_ref());
    let places = changes.iter().map(|change| &change.at).chain(moved);
    Roots::open(places.map(|at| at.root.clone())).map_err(broken)
}

fn conflicting(conflicts: &[Conflict]) -> CommitError {
    CommitError::Conflict(conflicts.iter().map(ToString::to_string).collect())
}

/// The staged changes of one call.
pub struct Held {
    changes: ChangeSet,
    entry: Value,
    work: Arc<Work>,
}

/// The blocking part of a commit.
struct Work {
    /// Keeps the pool alive.
    stage: Stage,
    blobs: Arc<Blobs>,
    ops: Mutex<Vec<Op>>,
}

impl Held {
    /// Reads the changed files; may block.
    pub fn of(stage: Stage, blobs: Arc<Blobs>) -> Result<Effects, CallError> {
        let staged = match stage.changes() {
            Ok(staged) if staged.is_empty() => return Ok(Effects::None),
            Ok(staged) => staged,
            Err(error @ StageError::Changed(_)) => {
                return Ok(Effects::Conflict(vec![error.to_string()]));
            }
            Err(error) => return Err(not_staged(error)),
        };
        let mut diffs = Diffs::below(stage.scope());
        let changes = ChangeSet {
            changes: staged.iter().map(|one| diffs.change(one)).collect(),
        };
        let list: Vec<&Change> = staged.iter().map(|one| &one.change).collect();
        let entry = serde_json::to_value(list).map_err(CallError::internal)?;
        let ops = staged
            .into_iter()
            .map(|one| Op {
                change: one.change,
                source: one.content.map(Source::Take),
                base: one.base,
            })
            .collect();
        Ok(Effects::Held(Box::new(Self {
            changes,
            entry,
            work: Arc::new(Work {
                stage,
                blobs,
                ops: Mutex::new(ops),
            }),
        })))
    }

    /// Writes the files; may block.
    fn edited(&self, edits: Vec<Edit>) -> Result<Edited, CallError> {
        let edits = self.changes.accept(edits).map_err(not_staged)?;
        let diffs = edits.iter().filter_map(|edit| self.difference(edit));
        let diffs = diffs.collect();
        let stage = &self.work.stage;
        for edit in &edits {
            let ops = self.work.ops();
            let op = ops.iter().find(|op| host(&op.change.at) == edit.path);
            let op = op.ok_or_else(|| not_staged(EditError::Unknown(edit.path.clone())))?;
            stage
                .replace(&op.change.at, edit.text.as_bytes())
                .map_err(not_staged)?;
        }
        // Read from the stage again, so that what is shown, authorized and committed is its actual content.
        let effects = Self::of(stage.clone(), Arc::clone(&self.work.blobs))?;
        Ok(Edited { effects, diffs })
    }

    /// Diff between the proposed and the user's content.
    fn difference(&self, edit: &Edit) -> Option<FileDiff> {
        let mut changes = self.changes.changes.iter();
        let proposal = changes
            .find(|change| change.path == edit.path)?
            .editable()?;
        let proposed = Some(proposal.new.clone());
        Some(file_diff(&edit.path, proposed, Some(&edit.text)))
    }
}

impl Work {
    fn ops(&self) -> MutexGuard<'_, Vec<Op>> {
        self.ops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The granted directories, if they are still at their granted paths.
    fn roots(&self, ops: &[Op]) -> Result<Roots, CommitError> {
        let roots = Roots::of(self.stage.scope());
        let roots = roots.map_err(CallError::internal).map_err(failed)?;
        let changes = ops.iter().map(|op| &op.change);
        roots.in_place(changes).map_err(not_applied)?;
        Ok(roots)
    }

    fn prepare(&self) -> Result<(), CommitError> {
        let ops = self.ops();
        let roots = self.roots(&ops)?;
        let conflicts = toolhost_vfs::check(&roots, &ops).map_err(not_applied)?;
        if !conflicts.is_empty() {
            return Err(conflicting(&conflicts));
        }
        toolhost_vfs::keep_before(&roots, &ops, &self.blobs).map_err(not_applied)
    }

    fn commit(&self, id: &str) -> Result<(), CommitError> {
        let (ops, step) = (std::mem::take(&mut *self.ops()), &mut crate::crash::steps());
        toolhost_vfs::apply(&self.roots(&ops)?, ops, id, &self.blobs, step).map_err(not_applied)
    }
}

impl toolhost_contract::Staged for Held {
    fn changes(&self) -> &ChangeSet {
        &self.changes
    }

    fn prepare(&self) -> BoxFuture<'_, Result<Value, CommitError>> {
        Box::pin(async {
            let work = Arc::clone(&self.work);
            where_it_may_block(move || work.prepare()).await?;
            Ok(self.entry.clone())
        })
    }

    fn edit(self: Box<Self>, edits: Vec<Edit>) -> BoxFuture<'static, Result<Edited, CallError>> {
        Box::pin(async move {
            tokio::task::spawn_blocking(move || self.edited(edits))
                .await
                .map_err(CallError::internal)?
        })
    }

    fn commit(self: Box<Self>, id: String) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(where_it_may_block(move || self.work.commit(&id)))
    }
}

async fn where_it_may_block<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CommitError> + Send + 'static,
) -> Result<T, CommitError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(CallError::internal)
        .map_err(failed)?
}

/// The call's changes cannot be determined or staged.
fn not_staged(error: impl std::fmt::Display) -> CallError {
    CallError::new(ErrorClass::Failed, error.to_string()).code("stage_failed")
}

fn failed(error: CallError) -> CommitError {
    CommitError::Failed(Box::new(error))
}

fn broken(error: ApplyError) -> CallError {
    CallError::new(
        ErrorClass::Failed,
        text::block(&format!("cannot apply the changes: {error}"), 2_000),
    )
    .code("commit_failed")
}

fn not_applied(error: ApplyError) -> CommitError {
    match error {
        ApplyError::Changed(conflicts) => conflicting(&conflicts),
        error => failed(broken(error)),
    }
}

#[cfg(test)]
mod tests;
