//! Applies a list of file changes atomically, and undoes it.
//!
//! A commit runs these steps: [`check`] that every path is unchanged since the call read it, [`save_before_images`]
//! for a later undo, write the list to the journal, [`apply`], and mark the commit as done in the journal. After a
//! crash in between, the journal holds the list and [`recover`] restores the tree.
//!
//! [`apply`] first prepares new content next to its target, so that a full disk is detected before the first
//! change. Each path then changes with one rename. The displaced file is kept next to it until all changes are
//! done, so that a rollback needs no disk space and restores the same inodes. No symbolic link is followed, and
//! each path is resolved below the granted directory.
//!
//! Known limits, by design:
//! - A writable file in a directory that is not writable is overwritten in place, so readers can see partial
//!   content. Rollback still works.
//! - A replaced file is a new inode: other hard links keep the old content.
//! - Set-user-id bits and file capabilities are lost when the content changes; timestamps are those of the change.
//! - Undoing the removal of a directory creates a new directory with the old mode but without extended attributes.

mod check;
mod error;
mod items;
mod plan;
mod prepare;
mod recover;
mod renames;
mod roots;
mod run;
mod structural;

use std::{collections::HashMap, path::PathBuf};

pub use self::{
    error::{ApplyError, Conflict},
    items::inverted,
    roots::Roots,
};
use self::{plan::Plan, run::Run};
use crate::{BaseStat, BlobStore, Change};

/// One change to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOp {
    pub change: Change,
    /// The new content, if the change has one. If `None`, it is read from the blob store.
    pub source: Option<ContentSource>,
    /// Metadata of the file before it is changed, moved or removed. While it matches, the file is not read again.
    pub base: Option<BaseStat>,
}

/// Where the content of a changed file comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentSource {
    /// Renamed to its target. It is lost if the changes fail midway.
    Move(PathBuf),
    /// Copied.
    Copy(PathBuf),
}

/// Checks that all paths are unchanged since the call read them. An empty list means no conflict.
pub fn check(roots: &Roots, ops: &[FileOp]) -> Result<Vec<Conflict>, ApplyError> {
    check::conflicts(roots, &Plan::of(&changes(ops), "")?, ops)
}

/// Saves all content that a rollback or an undo needs. Durable on return.
pub fn save_before_images(
    roots: &Roots,
    ops: &[FileOp],
    blobs: &BlobStore,
) -> Result<(), ApplyError> {
    check::save_before_images(roots, &Plan::of(&changes(ops), "")?, blobs)
}

/// Applies all changes, or none. Durable on return.
///
/// Prepared files are named `.toolhost-<id>-<n>.tmp`, so that recovery finds them. `step` is called before each
/// file system operation.
pub fn apply(
    roots: &Roots,
    mut ops: Vec<FileOp>,
    id: &str,
    blobs: &BlobStore,
    step: &mut dyn FnMut(&str),
) -> Result<(), ApplyError> {
    let plan = &Plan::of(&changes(&ops), id)?;
    copy_shared_sources(&mut ops);
    let mut run = Run::new(roots, plan, id, blobs, step);
    let Err(cause) = run.apply(&ops) else {
        return Ok(());
    };
    match run.roll_back(run.begun) {
        Ok(left) if left.is_empty() => Err(cause),
        Ok(left) => Err(ApplyError::NotReverted {
            cause: Box::new(cause),
            left,
        }),
        Err(revert) => Err(ApplyError::RevertFailed {
            cause: Box::new(cause),
            revert: Box::new(revert),
        }),
    }
}

/// Checks that all paths are still as the changes left them. An empty list means no conflict.
pub fn check_undo(roots: &Roots, changes: &[Change]) -> Result<Vec<Conflict>, ApplyError> {
    check(roots, &undo_ops(changes))
}

/// Undoes all changes, or none, and saves the content that they had written, so that the undo can be undone.
pub fn undo(
    roots: &Roots,
    changes: &[Change],
    id: &str,
    blobs: &BlobStore,
    step: &mut dyn FnMut(&str),
) -> Result<(), ApplyError> {
    let ops = undo_ops(changes);
    let conflicts = check(roots, &ops)?;
    if !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    save_before_images(roots, &ops, blobs)?;
    apply(roots, ops, id, blobs, step)
}

/// Rolls back after a crash during [`apply`], or during [`undo`] with the [`inverted`] list.
///
/// Restores paths that are as the change left them, leaves those that are as before, and removes prepared files.
/// Paths in any other state are left alone and returned. Safe to interrupt and run again.
pub fn recover(
    roots: &Roots,
    changes: &[Change],
    id: &str,
    blobs: &BlobStore,
    step: &mut dyn FnMut(&str),
) -> Result<Vec<Conflict>, ApplyError> {
    let plan = &Plan::of(changes, id)?;
    Run::new(roots, plan, id, blobs, step).roll_back(plan.steps.len())
}

/// A file that is moved to two targets cannot be renamed to both.
fn copy_shared_sources(ops: &mut [FileOp]) {
    let mut uses: HashMap<PathBuf, usize> = HashMap::new();
    for op in ops.iter() {
        if let Some(ContentSource::Move(path)) = &op.source {
            *uses.entry(path.clone()).or_default() += 1;
        }
    }
    for op in ops {
        if let Some(ContentSource::Move(path)) = &op.source
            && uses.get(path).is_some_and(|uses| *uses > 1)
        {
            op.source = Some(ContentSource::Copy(path.clone()));
        }
    }
}

/// Whether [`apply`] finished. Later changes by other processes do not count.
pub fn is_applied(id: &str, blobs: &BlobStore) -> bool {
    blobs.is_marked(&run::applied_marker(id))
}

/// Removes prepared and displaced files after a crash at the end of [`apply`], when all changes are applied.
///
/// Files there that this crate did not create are left alone and returned.
pub fn tidy(
    roots: &Roots,
    changes: &[Change],
    id: &str,
    blobs: &BlobStore,
    step: &mut dyn FnMut(&str),
) -> Result<Vec<Conflict>, ApplyError> {
    let plan = &Plan::of(changes, id)?;
    Run::new(roots, plan, id, blobs, step).roll_back(0)
}

fn changes(ops: &[FileOp]) -> Vec<Change> {
    ops.iter().map(|op| op.change.clone()).collect()
}

fn undo_ops(changes: &[Change]) -> Vec<FileOp> {
    let op = |change| FileOp {
        change,
        source: None,
        base: None,
    };
    inverted(changes).into_iter().map(op).collect()
}
