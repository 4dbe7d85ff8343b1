//! A call's own view of its files: it reads the real tree with its writes over it, and the real tree stays as it is
//! until somebody commits what [`Stage::changes`] says.
//!
//! Known limits, on purpose:
//! - A file that is open for reading goes on showing what it showed, also when the call writes it anew.
//! - A file with several names is changed under the one name that was used; a name made by `link_at` is committed as
//!   a file of its own.
//! - Times alone are not a change, and a directory's times cannot be set.
//! - FIFOs, sockets and devices can be seen but not moved or removed, and so can links whose target is not UTF-8.

mod base;
mod changes;
mod difference;
mod height;
mod layers;
mod look;
mod moves;
mod pool;
mod real;
mod replace;
mod write;

use std::{
    io,
    os::fd::BorrowedFd,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use self::changes::{StageError, Staged};
pub(crate) use self::layers::{Layers, Origin};
pub(crate) use self::real::{is_there, name_of, open_name};
use self::write::At;
pub(crate) use self::write::list;
use crate::{
    Access, DirListing, Kind, NewTime, OpenHow, Opened, Refusal, Scope, Stat,
    dir::{link_text, stat_of},
    walk::Last,
};

/// What one call may stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageLimits {
    /// Of all copied and written files together.
    pub bytes: u64,
    /// Names that are made, changed or taken away.
    pub files: usize,
}

/// The writes of one call. A clone is the same stage.
#[derive(Debug, Clone)]
pub struct Stage(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    scope: Scope,
    layers: Mutex<Layers>,
}

impl Stage {
    /// `pool` is a directory of the host's own that no grant reaches. A private directory is made in it at the first
    /// change, and removed when the last clone is dropped.
    pub fn new(scope: Scope, pool: PathBuf, limits: StageLimits) -> Self {
        Self(Arc::new(Inner {
            scope,
            layers: Mutex::new(Layers::new(pool, limits)),
        }))
    }

    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// Like [`Scope::open_at`]. What comes out for reading only is never writable, not even its times: it may be the
    /// person's own file.
    pub fn open_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        how: &OpenHow,
    ) -> Result<Opened, Refusal> {
        if !how.changes() && self.is_untouched() {
            return Ok(for_looking(self.scope().open_at(dir, access, path, how)?));
        }
        self.layers()
            .open(self.scope(), At { dir, access }, path, *how)
    }

    /// Like [`Scope::read_dir`]; what the call put there comes last.
    pub fn read_dir(&self, dir: BorrowedFd<'_>, limit: usize) -> Result<DirListing, Refusal> {
        if self.is_untouched() {
            return self.scope().read_dir(dir, limit);
        }
        self.layers().read_dir(self.scope(), dir, limit)
    }

    pub fn stat_at(&self, dir: BorrowedFd<'_>, path: &str, follow: bool) -> Result<Stat, Refusal> {
        if self.is_untouched() {
            return self.scope().stat_at(dir, path, follow);
        }
        let last = if follow {
            Last::Follow
        } else {
            Last::FollowIfSlash
        };
        let at = At {
            dir,
            access: Access::ReadOnly,
        };
        stat_of(&self.layers().walk(self.scope(), at, path, last)?)
    }

    pub fn read_link_at(&self, dir: BorrowedFd<'_>, path: &str) -> Result<String, Refusal> {
        let at = At {
            dir,
            access: Access::ReadOnly,
        };
        link_text(
            &self
                .layers()
                .walk(self.scope(), at, path, Last::FollowIfSlash)?,
        )
    }

    pub fn create_dir_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
    ) -> Result<(), Refusal> {
        self.layers()
            .create_dir(self.scope(), At { dir, access }, path)
    }

    pub fn remove_dir_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
    ) -> Result<(), Refusal> {
        self.layers()
            .remove_dir(self.scope(), At { dir, access }, path)
    }

    pub fn unlink_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
    ) -> Result<(), Refusal> {
        self.layers().unlink(self.scope(), At { dir, access }, path)
    }

    pub fn rename_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        new_dir: BorrowedFd<'_>,
        new_access: Access,
        new_path: &str,
    ) -> Result<(), Refusal> {
        let new = At {
            dir: new_dir,
            access: new_access,
        };
        self.layers()
            .rename(self.scope(), (At { dir, access }, path), (new, new_path))
    }

    pub fn link_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        new_dir: BorrowedFd<'_>,
        new_access: Access,
        new_path: &str,
    ) -> Result<(), Refusal> {
        let new = At {
            dir: new_dir,
            access: new_access,
        };
        self.layers()
            .link(self.scope(), (At { dir, access }, path), (new, new_path))
    }

    pub fn symlink_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        target: &str,
        path: &str,
    ) -> Result<(), Refusal> {
        self.layers()
            .symlink(self.scope(), At { dir, access }, target, path)
    }

    pub fn set_times_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        follow: bool,
        accessed: NewTime,
        modified: NewTime,
    ) -> Result<(), Refusal> {
        let times = (accessed, modified);
        self.layers()
            .set_times(self.scope(), At { dir, access }, path, follow, times)
    }

    /// Whether the call has touched nothing. When it has, it may still have changed nothing.
    pub fn is_empty(&self) -> bool {
        self.layers().slots == 0
    }

    /// What the call did so far, parents before children, sorted by root and path; what is as it was is left out.
    /// Every content is read here, so this takes as long as reading it.
    pub fn changes(&self) -> Result<Vec<Staged>, StageError> {
        self.layers().changes(self.scope())
    }

    /// Bytes the pool holds now.
    pub fn bytes(&self) -> io::Result<u64> {
        self.layers().pool.as_ref().map_or(Ok(0), pool::Pool::bytes)
    }

    fn is_untouched(&self) -> bool {
        self.layers().is_untouched()
    }

    fn layers(&self) -> MutexGuard<'_, Layers> {
        self.0.layers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A descriptor is enough to set a file's times, and this one is the person's file itself.
fn for_looking(opened: Opened) -> Opened {
    match opened.kind {
        Kind::File => Opened {
            access: Access::ReadOnly,
            ..opened
        },
        _ => opened,
    }
}
