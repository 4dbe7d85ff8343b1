//! Makes a set of changes real, all of it or nothing, and takes it back.
//!
//! The order of a commit: [`check`] that every place is as it was seen, [`keep_before`] what an undo needs, write
//! the list into the journal, [`apply`], say so in the journal. After a crash in the middle the journal has the list,
//! and [`recover`] puts the tree back.
//!
//! Within [`apply`], new content is prepared beside its place first, which is where a full disk shows. Then each
//! place changes by one rename, and what was there is kept beside it until all are done, so that going back needs no
//! space and gives the very same files back. No path is followed through a link, and each is resolved below the
//! directory that was granted.
//!
//! Known limits, on purpose:
//! - A file in a directory that may not be written, which itself may be, is written in place: readers can see half
//!   of it. Going back works all the same.
//! - A file that is replaced is a new file: other hard links keep the old content.
//! - Set-user-id bits and a program's capabilities do not survive new content; times are those of the change.
//! - An undo of a removed directory makes it anew, with its mode but without its extended attributes.

mod check;
mod error;
mod items;
mod middle;
mod moves;
mod plan;
mod prepare;
mod recover;
mod roots;
mod run;

use std::{collections::HashMap, path::PathBuf};

pub use self::{
    error::{ApplyError, Conflict},
    items::inverted,
    roots::Roots,
};
use self::{plan::Plan, run::Run};
use crate::{BaseStat, Blobs, Change};

/// One change to be made real.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    pub change: Change,
    /// The new content, where the change has one. What is missing is looked for in the blobs.
    pub source: Option<Source>,
    /// How the file looked that is changed, moved or removed: while it looks the same it need not be read again.
    pub base: Option<BaseStat>,
}

/// Where the bytes of a changed file come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// May be renamed away. When the changes fail half way it is gone.
    Take(PathBuf),
    /// Is copied.
    Keep(PathBuf),
}

/// Are all places as they were seen? An empty answer is a yes.
pub fn check(roots: &Roots, ops: &[Op]) -> Result<Vec<Conflict>, ApplyError> {
    check::conflicts(roots, &Plan::of(&changes(ops), "")?, ops)
}

/// Keeps every content that a revert or an undo needs. On disk when it returns.
pub fn keep_before(roots: &Roots, ops: &[Op], blobs: &Blobs) -> Result<(), ApplyError> {
    check::keep(roots, &Plan::of(&changes(ops), "")?, blobs)
}

/// Makes all changes real, or none. On disk when it returns.
///
/// `id` names what is prepared, `.toolhost-<id>-<n>.tmp`, so that recovery finds it. `step` hears of every change of
/// the file system before it happens.
pub fn apply(
    roots: &Roots,
    mut ops: Vec<Op>,
    id: &str,
    blobs: &Blobs,
    step: &mut dyn FnMut(&str),
) -> Result<(), ApplyError> {
    let plan = &Plan::of(&changes(&ops), id)?;
    keep_shared(&mut ops);
    let mut run = Run::new(roots, plan, id, blobs, step);
    let Err(cause) = run.apply(&ops) else {
        return Ok(());
    };
    match run.put_back_all(run.begun) {
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

/// Undo: are all places still as the changes left them? An empty answer is a yes.
pub fn check_undo(roots: &Roots, changes: &[Change]) -> Result<Vec<Conflict>, ApplyError> {
    check(roots, &undoing(changes))
}

/// Takes changes back, all or none, and keeps what they had made, so that the undo can be undone in the same way.
pub fn undo(
    roots: &Roots,
    changes: &[Change],
    id: &str,
    blobs: &Blobs,
    step: &mut dyn FnMut(&str),
) -> Result<(), ApplyError> {
    let ops = undoing(changes);
    let conflicts = check(roots, &ops)?;
    if !conflicts.is_empty() {
        return Err(ApplyError::Changed(conflicts));
    }
    keep_before(roots, &ops, blobs)?;
    apply(roots, ops, id, blobs, step)
}

/// After a crash in the middle of [`apply`], or of [`undo`] with the [`inverted`] list: puts back whatever is as the
/// change left it, leaves what is as it was before, removes what was prepared. Places that are neither are left alone
/// and returned. Can be killed and run again.
pub fn recover(
    roots: &Roots,
    changes: &[Change],
    id: &str,
    blobs: &Blobs,
    step: &mut dyn FnMut(&str),
) -> Result<Vec<Conflict>, ApplyError> {
    let plan = &Plan::of(changes, id)?;
    Run::new(roots, plan, id, blobs, step).put_back_all(plan.steps.len())
}

/// A file that becomes two cannot be renamed to both places.
fn keep_shared(ops: &mut [Op]) {
    let mut uses: HashMap<PathBuf, usize> = HashMap::new();
    for op in ops.iter() {
        if let Some(Source::Take(path)) = &op.source {
            *uses.entry(path.clone()).or_default() += 1;
        }
    }
    for op in ops {
        if let Some(Source::Take(path)) = &op.source
            && uses.get(path).is_some_and(|uses| *uses > 1)
        {
            op.source = Some(Source::Keep(path.clone()));
        }
    }
}

/// Has [`apply`] made all of it? What others did to the files since does not count.
pub fn is_made(id: &str, blobs: &Blobs) -> bool {
    blobs.is_marked(&run::made(id))
}

/// After a crash at the end of [`apply`], where all changes are real: removes what was prepared and set aside. What
/// is not ours there is left alone and returned.
pub fn tidy(
    roots: &Roots,
    changes: &[Change],
    id: &str,
    blobs: &Blobs,
    step: &mut dyn FnMut(&str),
) -> Result<Vec<Conflict>, ApplyError> {
    let plan = &Plan::of(changes, id)?;
    Run::new(roots, plan, id, blobs, step).put_back_all(0)
}

fn changes(ops: &[Op]) -> Vec<Change> {
    ops.iter().map(|op| op.change.clone()).collect()
}

fn undoing(changes: &[Change]) -> Vec<Op> {
    let op = |change| Op {
        change,
        source: None,
        base: None,
    };
    inverted(changes).into_iter().map(op).collect()
}
