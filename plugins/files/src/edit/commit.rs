//! Applies several file changes, and reverts the earlier ones if one fails.

use std::fs;
use std::io;

use toolhost_sdk::prelude::*;

use crate::file_writer::{ensure_parent, load, store};
use crate::path::Target;

/// One change to one file.
#[derive(Debug)]
pub enum FileStep<'a> {
    /// Writes this content, creating the file if needed.
    Put {
        target: &'a Target,
        old: Option<&'a [u8]>,
        new: Vec<u8>,
    },
    /// Renames the file.
    Rename {
        from: &'a Target,
        to: &'a Target,
    },
    Remove {
        target: &'a Target,
        old: &'a [u8],
    },
}

/// Applies all steps in order.
pub fn commit(steps: &[FileStep]) -> Result<()> {
    for (index, step) in steps.iter().enumerate() {
        // A later step may reach the same file by another path; changes of earlier steps must not be lost.
        let done = if index > 0 { step.check() } else { Ok(()) };
        let Err(error) = done.and_then(|()| step.apply()) else {
            continue;
        };
        let undone = steps[..index].iter().rev().map(FileStep::undo);
        let failed = undone.filter(Result::is_err).count();
        return Err(match (index, failed) {
            (0, _) => error,
            (_, 0) => error.recommend("nothing was changed; retry after the cause is fixed"),
            (_, failed) => error.cause(format!("{failed} earlier changes could not be reverted")),
        });
    }
    Ok(())
}

impl FileStep<'_> {
    fn check(&self) -> Result<()> {
        match self {
            Self::Put {
                target,
                old: Some(old),
                ..
            }
            | Self::Remove { target, old } => {
                if load(target)?.as_deref() == Some(old) {
                    return Ok(());
                }
                let message = format!(
                    "{} changed during this call; another path of the call may refer to the same file",
                    target.shown
                );
                Err(Error::failed(message).code("edit_stale"))
            }
            Self::Put { old: None, .. } | Self::Rename { .. } => Ok(()),
        }
    }

    fn apply(&self) -> Result<()> {
        match self {
            Self::Put { target, old, new } => store(target, *old, new, true),
            Self::Rename { from, to } => {
                ensure_parent(to, true)?;
                fs::rename(&from.path, &to.path).map_err(|error| from.error(&error))
            }
            Self::Remove { target, .. } => {
                fs::remove_file(&target.path).map_err(|error| target.error(&error))
            }
        }
    }

    fn undo(&self) -> io::Result<()> {
        match self {
            Self::Put {
                target, old: None, ..
            } => fs::remove_file(&target.path),
            Self::Put {
                target,
                old: Some(old),
                ..
            }
            | Self::Remove { target, old } => fs::write(&target.path, old),
            Self::Rename { from, to } => fs::rename(&to.path, &from.path),
        }
    }
}
