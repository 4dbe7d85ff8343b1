//! Staged view of the file system for one call: reads see the real tree overlaid with the call's writes, and the
//! real tree is unchanged until [`Stage::changes`] is committed.
//!
//! Known limits, by design:
//! - A file that is open for reading keeps its old content even if the call rewrites it.
//! - A file with several hard links is changed under the name that was used only; a hard link created by `link_at`
//!   is committed as a separate file.
//! - A change of timestamps alone is not recorded, and a directory's timestamps cannot be set.
//! - FIFOs, sockets and devices are visible but cannot be moved or removed; nor can links whose target is not
//!   UTF-8.

mod base;
mod changes;
mod depth_limit;
mod difference;
mod layers;
mod listing;
mod moves;
mod pool;
mod real;
mod replace;
mod write;

use std::{
    io,
    os::fd::BorrowedFd,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

pub use self::changes::{StageError, StagedChange};
pub(crate) use self::layers::{Layers, Origin};
pub(crate) use self::real::{leads_to, name_of, open_name};
use self::write::DirHandle;
pub(crate) use self::write::list;
use crate::{
    Access, DirListing, EntryKind, NewTime, OpenHow, Opened, PathError, Scope, Stat,
    dir::{link_text, stat_of},
    walk::FinalLink,
};

/// Limits of what one call may stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageLimits {
    /// Total size of all copied and written files, in bytes.
    pub bytes: u64,
    /// Number of names that are created, changed or removed.
    pub files: usize,
}

/// The staged writes of one call. Clones share the same stage.
#[derive(Debug, Clone)]
pub struct Stage(Arc<Inner>);

/// A stage that may have been committed or dropped.
#[derive(Debug, Clone)]
pub struct WeakStage(Weak<Inner>);

impl WeakStage {
    pub fn upgrade(&self) -> Option<Stage> {
        self.0.upgrade().map(Stage)
    }
}

#[derive(Debug)]
struct Inner {
    scope: Scope,
    layers: Mutex<Layers>,
}

impl Stage {
    /// `pool` is a host directory that no grant covers. A private directory is created in it at the first change,
    /// and removed when the last clone is dropped.
    pub fn new(scope: Scope, pool: PathBuf, limits: StageLimits) -> Self {
        Self(Arc::new(Inner {
            scope,
            layers: Mutex::new(Layers::new(pool, limits)),
        }))
    }

    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    pub fn downgrade(&self) -> WeakStage {
        WeakStage(Arc::downgrade(&self.0))
    }

    /// Like [`Scope::open_at`]. A read-only descriptor never allows changes, including timestamps, because it can
    /// refer to the user's real file.
    pub fn open_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        how: &OpenHow,
    ) -> Result<Opened, PathError> {
        if !how.needs_write() && self.is_untouched() {
            return Ok(read_only_handle(
                self.scope().open_at(dir, access, path, how)?,
            ));
        }
        self.layers()
            .open(self.scope(), DirHandle { dir, access }, path, *how)
    }

    /// Like [`Scope::read_dir`]; entries that the call created come last.
    pub fn read_dir(&self, dir: BorrowedFd<'_>, limit: usize) -> Result<DirListing, PathError> {
        if self.is_untouched() {
            return self.scope().read_dir(dir, limit);
        }
        self.layers().read_dir(self.scope(), dir, limit)
    }

    pub fn stat_at(
        &self,
        dir: BorrowedFd<'_>,
        path: &str,
        follow: bool,
    ) -> Result<Stat, PathError> {
        if self.is_untouched() {
            return self.scope().stat_at(dir, path, follow);
        }
        let last = if follow {
            FinalLink::Follow
        } else {
            FinalLink::FollowIfSlash
        };
        let at = DirHandle {
            dir,
            access: Access::ReadOnly,
        };
        stat_of(&self.layers().walk(self.scope(), at, path, last)?)
    }

    pub fn read_link_at(&self, dir: BorrowedFd<'_>, path: &str) -> Result<String, PathError> {
        let at = DirHandle {
            dir,
            access: Access::ReadOnly,
        };
        link_text(
            &self
                .layers()
                .walk(self.scope(), at, path, FinalLink::FollowIfSlash)?,
        )
    }

    pub fn create_dir_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
    ) -> Result<(), PathError> {
        self.layers()
            .create_dir(self.scope(), DirHandle { dir, access }, path)
    }

    pub fn remove_dir_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
    ) -> Result<(), PathError> {
        self.layers()
            .remove_dir(self.scope(), DirHandle { dir, access }, path)
    }

    pub fn unlink_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
    ) -> Result<(), PathError> {
        self.layers()
            .unlink(self.scope(), DirHandle { dir, access }, path)
    }

    pub fn rename_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        new_dir: BorrowedFd<'_>,
        new_access: Access,
        new_path: &str,
    ) -> Result<(), PathError> {
        let new = DirHandle {
            dir: new_dir,
            access: new_access,
        };
        self.layers().rename(
            self.scope(),
            (DirHandle { dir, access }, path),
            (new, new_path),
        )
    }

    pub fn link_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        new_dir: BorrowedFd<'_>,
        new_access: Access,
        new_path: &str,
    ) -> Result<(), PathError> {
        let new = DirHandle {
            dir: new_dir,
            access: new_access,
        };
        self.layers().link(
            self.scope(),
            (DirHandle { dir, access }, path),
            (new, new_path),
        )
    }

    pub fn symlink_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        target: &str,
        path: &str,
    ) -> Result<(), PathError> {
        self.layers()
            .symlink(self.scope(), DirHandle { dir, access }, target, path)
    }

    pub fn set_times_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        follow: bool,
        accessed: NewTime,
        modified: NewTime,
    ) -> Result<(), PathError> {
        let times = (accessed, modified);
        self.layers()
            .set_times(self.scope(), DirHandle { dir, access }, path, follow, times)
    }

    /// Whether the call has changed no name. If it has, the net result can still be no change.
    pub fn is_empty(&self) -> bool {
        self.layers().slots == 0
    }

    /// The net changes of the call so far, parents before children, sorted by root and path. Reads all changed
    /// content.
    pub fn changes(&self) -> Result<Vec<StagedChange>, StageError> {
        self.layers().changes(self.scope())
    }

    /// Current size of the pool in bytes.
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

/// A readable descriptor allows setting a file's timestamps, and this one refers to the user's real file.
fn read_only_handle(opened: Opened) -> Opened {
    match opened.kind {
        EntryKind::File => Opened {
            access: Access::ReadOnly,
            ..opened
        },
        _ => opened,
    }
}
