//! Staged changes of a call: shown to the user and to rules, committed, recovered and undone.

use std::fs::File;
use std::io::Seek as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize as _;
use serde_json::Value;
use toolhost_contract::{
    BoxFuture, CallError, ChangeSet, CommitError, EditError, EditedChanges, ErrorClass, FileDiff,
    MAX_EDIT_BYTES, RecoveryOutcome, StagedEffects, UserEdit, text,
};
use toolhost_vfs::{
    ApplyError, BlobStore, Change, Conflict, ContentHash, ContentSource, FileOp, PathState, Roots,
    Stage, StageError, StagedChange,
};

use crate::change_summary::{DiffBuilder, file_diff, host_path};

/// Directory of the stages and store of replaced content. Both are accessible to the host only.
#[derive(Clone)]
pub struct Staging {
    pub stages: PathBuf,
    pub blobs: Arc<BlobStore>,
}

/// What an undo of a commit would do.
#[derive(Debug, Clone, PartialEq)]
pub struct UndoPreview {
    pub changes: ChangeSet,
    /// The paths that have changed since the commit, each with both states. The undo is refused while there are any.
    pub conflicts: Vec<String>,
}

impl Staging {
    /// Describes what an undo of the commit of `entry` would do. May block.
    pub fn preview_undo(&self, entry: &Value) -> Result<UndoPreview, CallError> {
        let done = changes(entry)?;
        let roots = roots(&done)?;
        let conflicts = toolhost_vfs::check_undo(&roots, &done).map_err(commit_error)?;
        let mut diffs = DiffBuilder::default();
        let describe = |change: &Change| {
            let (old, new) = (
                || roots.open_file(&change.at).ok(),
                || self.saved_file(&change.after),
            );
            diffs.change(change, old, new)
        };
        let inverse = toolhost_vfs::inverted(&done);
        Ok(UndoPreview {
            changes: ChangeSet {
                changes: inverse.iter().map(describe).collect(),
            },
            conflicts: conflicts.iter().map(ToString::to_string).collect(),
        })
    }

    /// Describes the changes of the commit of `entry`. The new content is that of the file if it has not changed since, or
    /// what an undo has saved. May block.
    pub fn describe_commit(&self, entry: &Value) -> Result<ChangeSet, CallError> {
        let done = changes(entry)?;
        let roots = roots(&done)?;
        let mut diffs = DiffBuilder::default();
        let describe = |change: &Change| {
            let (old, new) = (
                || self.saved_file(&change.before),
                || {
                    let current = || unchanged_file(&roots, change);
                    current().or_else(|| self.saved_file(&change.after))
                },
            );
            diffs.change(change, old, new)
        };
        Ok(ChangeSet {
            changes: done.iter().map(describe).collect(),
        })
    }

    /// Opens the saved content of a file, unless another program changed it.
    fn saved_file(&self, state: &PathState) -> Option<File> {
        match state {
            PathState::File(file) => self.blobs.open_verified(file.hash),
            PathState::Absent | PathState::Dir { .. } | PathState::Link { .. } => None,
        }
    }
}

/// Opens a file if its content is still the one that the change left.
fn unchanged_file(roots: &Roots, change: &Change) -> Option<File> {
    let PathState::File(left) = &change.after else {
        return None;
    };
    let mut file = roots.open_file(&change.at).ok()?;
    // A file of another size is not read. One of this size can be large, but has no difference then.
    if file.metadata().ok()?.len() != left.size || left.size > MAX_EDIT_BYTES as u64 {
        return None;
    }
    let hash = ContentHash::of_reader(&file).ok()?;
    file.rewind().ok()?;
    (hash == left.hash).then_some(file)
}

impl toolhost_contract::CommitRecovery for Staging {
    fn recover(&self, id: &str, entry: &Value) -> Result<RecoveryOutcome, CallError> {
        let changes = changes(entry)?;
        let (roots, step) = (roots(&changes)?, &mut crate::crash::steps());
        let whole = toolhost_vfs::is_applied(id, &self.blobs)
            || toolhost_vfs::check_undo(&roots, &changes)
                .map_err(commit_error)?
                .is_empty();
        if whole {
            toolhost_vfs::tidy(&roots, &changes, id, &self.blobs, step).map_err(commit_error)?;
            return Ok(RecoveryOutcome::Committed);
        }
        let left =
            toolhost_vfs::recover(&roots, &changes, id, &self.blobs, step).map_err(commit_error)?;
        if left.is_empty() {
            return Ok(RecoveryOutcome::RolledBack);
        }
        let left = left.iter().map(ToString::to_string).collect();
        Ok(RecoveryOutcome::PartiallyRolledBack(left))
    }

    fn inverse_entry(&self, entry: &Value) -> Result<Value, CallError> {
        serde_json::to_value(toolhost_vfs::inverted(&changes(entry)?)).map_err(CallError::internal)
    }

    fn undo(&self, id: &str, entry: &Value) -> Result<(), CommitError> {
        let changes = changes(entry).map_err(failed_commit)?;
        let (roots, step) = (
            roots(&changes).map_err(failed_commit)?,
            &mut crate::crash::steps(),
        );
        toolhost_vfs::undo(&roots, &changes, id, &self.blobs, step).map_err(apply_error)
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
    let locations = changes.iter().map(|change| &change.at).chain(moved);
    Roots::open(locations.map(|at| at.root.clone())).map_err(commit_error)
}

fn conflict_error(conflicts: &[Conflict]) -> CommitError {
    CommitError::Conflict(conflicts.iter().map(ToString::to_string).collect())
}

/// The staged changes of one call.
pub struct StagedFiles {
    changes: ChangeSet,
    entry: Value,
    work: Arc<CommitWork>,
}

/// The blocking part of a commit.
struct CommitWork {
    /// Keeps the pool alive.
    stage: Stage,
    blobs: Arc<BlobStore>,
    ops: Mutex<Vec<FileOp>>,
}

impl StagedFiles {
    /// Reads the changed files; may block.
    pub fn of(stage: Stage, blobs: Arc<BlobStore>) -> Result<StagedEffects, CallError> {
        let staged = match stage.changes() {
            Ok(staged) if staged.is_empty() => return Ok(StagedEffects::None),
            Ok(staged) => staged,
            Err(error @ StageError::Changed(_)) => {
                return Ok(StagedEffects::Conflict(vec![error.to_string()]));
            }
            Err(error) => return Err(stage_error(error)),
        };
        let mut diffs = DiffBuilder::default();
        let describe = |one: &StagedChange| diffs.staged_change(&stage, one);
        let changes = ChangeSet {
            changes: staged.iter().map(describe).collect(),
        };
        let list: Vec<&Change> = staged.iter().map(|one| &one.change).collect();
        let entry = serde_json::to_value(list).map_err(CallError::internal)?;
        let ops = staged
            .into_iter()
            .map(|one| FileOp {
                change: one.change,
                source: one.content.map(ContentSource::Move),
                base: one.base,
            })
            .collect();
        Ok(StagedEffects::Staged(Box::new(Self {
            changes,
            entry,
            work: Arc::new(CommitWork {
                stage,
                blobs,
                ops: Mutex::new(ops),
            }),
        })))
    }

    /// Writes the files; may block.
    fn apply_edits(&self, edits: Vec<UserEdit>) -> Result<EditedChanges, CallError> {
        let edits = self.changes.validate_edits(edits).map_err(stage_error)?;
        let diffs = edits.iter().filter_map(|edit| self.difference(edit));
        let diffs = diffs.collect();
        let stage = &self.work.stage;
        for edit in &edits {
            let ops = self.work.ops();
            let op = ops.iter().find(|op| host_path(&op.change.at) == edit.path);
            let op = op.ok_or_else(|| stage_error(EditError::Unknown(edit.path.clone())))?;
            stage
                .replace(&op.change.at, edit.text.as_bytes())
                .map_err(stage_error)?;
        }
        // Read from the stage again, so that what is shown, authorized and committed is its actual content.
        let effects = Self::of(stage.clone(), Arc::clone(&self.work.blobs))?;
        Ok(EditedChanges { effects, diffs })
    }

    /// Diff between the proposed and the user's content.
    fn difference(&self, edit: &UserEdit) -> Option<FileDiff> {
        let mut changes = self.changes.changes.iter();
        let proposal = changes
            .find(|change| change.path == edit.path)?
            .editable_diff()?;
        let proposed = Some(proposal.new.clone());
        Some(file_diff(&edit.path, proposed, Some(&edit.text)))
    }
}

impl CommitWork {
    fn ops(&self) -> MutexGuard<'_, Vec<FileOp>> {
        self.ops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The granted directories, if they are still at their granted paths.
    fn roots(&self, ops: &[FileOp]) -> Result<Roots, CommitError> {
        let roots = Roots::of(self.stage.scope());
        let roots = roots.map_err(CallError::internal).map_err(failed_commit)?;
        let changes = ops.iter().map(|op| &op.change);
        roots.check_in_place(changes).map_err(apply_error)?;
        Ok(roots)
    }

    fn prepare(&self) -> Result<(), CommitError> {
        let ops = self.ops();
        let roots = self.roots(&ops)?;
        let conflicts = toolhost_vfs::check(&roots, &ops).map_err(apply_error)?;
        if !conflicts.is_empty() {
            return Err(conflict_error(&conflicts));
        }
        toolhost_vfs::save_before_images(&roots, &ops, &self.blobs).map_err(apply_error)
    }

    fn commit(&self, id: &str) -> Result<(), CommitError> {
        let (ops, step) = (std::mem::take(&mut *self.ops()), &mut crate::crash::steps());
        toolhost_vfs::apply(&self.roots(&ops)?, ops, id, &self.blobs, step).map_err(apply_error)
    }
}

impl toolhost_contract::StagedChanges for StagedFiles {
    fn changes(&self) -> &ChangeSet {
        &self.changes
    }

    fn prepare(&self) -> BoxFuture<'_, Result<Value, CommitError>> {
        Box::pin(async {
            let work = Arc::clone(&self.work);
            run_blocking(move || work.prepare()).await?;
            Ok(self.entry.clone())
        })
    }

    fn edit(
        self: Box<Self>,
        edits: Vec<UserEdit>,
    ) -> BoxFuture<'static, Result<EditedChanges, CallError>> {
        Box::pin(async move {
            tokio::task::spawn_blocking(move || self.apply_edits(edits))
                .await
                .map_err(CallError::internal)?
        })
    }

    fn commit(self: Box<Self>, id: String) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(run_blocking(move || self.work.commit(&id)))
    }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CommitError> + Send + 'static,
) -> Result<T, CommitError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(CallError::internal)
        .map_err(failed_commit)?
}

/// The call's changes cannot be determined or staged.
fn stage_error(error: impl std::fmt::Display) -> CallError {
    CallError::new(ErrorClass::Failed, error.to_string()).code("stage_failed")
}

fn failed_commit(error: CallError) -> CommitError {
    CommitError::Failed(Box::new(error))
}

fn commit_error(error: ApplyError) -> CallError {
    CallError::new(
        ErrorClass::Failed,
        text::escape_lines(&format!("cannot apply the changes: {error}"), 2_000),
    )
    .code("commit_failed")
}

fn apply_error(error: ApplyError) -> CommitError {
    match error {
        ApplyError::Conflicts(conflicts) => conflict_error(&conflicts),
        error @ ApplyError::RevertFailed { .. } => {
            CommitError::Incomplete(Box::new(commit_error(error)))
        }
        error => failed_commit(commit_error(error)),
    }
}

#[cfg(test)]
mod tests;
