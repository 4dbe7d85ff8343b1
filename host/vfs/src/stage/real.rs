//! References to real entries by path, verified by inode when they are opened again.
//!
//! They hold no descriptors: a call that removes ten thousand directories would exhaust those of the host. An inode
//! number can be reused for another directory in between; the staged changes then do not match, and the commit
//! detects it.

use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use super::base::Base;
use crate::{
    EntryKind, FileId, PathError, Scope, Stat,
    sys::{BENEATH, NAME_ONLY, open_beneath, open_error},
};

/// A real directory, by its path when it was first accessed.
#[derive(Debug, Clone)]
pub(crate) struct RealDir {
    root: Arc<OwnedFd>,
    below: PathBuf,
    pub id: FileId,
    /// Includes the path of the root.
    pub path: PathBuf,
}

impl RealDir {
    /// `None` if it is no longer below a root.
    pub(super) fn of(scope: &Scope, dir: BorrowedFd<'_>, id: FileId) -> Option<Self> {
        let path = path_of(dir, id)?;
        let site = scope.location_of(&path)?;
        Some(Self {
            root: Arc::clone(scope.roots()[site.root].dir()),
            below: site.below,
            id,
            path,
        })
    }

    pub(super) fn inner(&self, name: &[u8], id: FileId) -> Self {
        let name = OsStr::from_bytes(name);
        Self {
            root: Arc::clone(&self.root),
            below: self.below.join(name),
            id,
            path: self.path.join(name),
        }
    }

    /// Reopens it to access its entries.
    pub(super) fn open(&self) -> Result<OwnedFd, Errno> {
        let below = if self.below.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &self.below
        };
        let flags = NAME_ONLY | OFlags::DIRECTORY;
        let resolve = BENEATH | ResolveFlags::NO_SYMLINKS;
        let fd = open_beneath(self.root.as_fd(), below, flags, Mode::empty(), resolve)?;
        if Stat::from(rustix::fs::fstat(&fd)?).id == self.id {
            Ok(fd)
        } else {
            Err(Errno::NOENT)
        }
    }
}

/// A real file or directory at its real path.
#[derive(Debug, Clone)]
pub(crate) struct RealEntry {
    pub dir: Arc<RealDir>,
    pub name: Vec<u8>,
    pub base: Base,
}

impl RealEntry {
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path.join(OsStr::from_bytes(&self.name))
    }

    /// Reopens it with `O_PATH`, if it is unchanged.
    pub(super) fn name(&self) -> Result<OwnedFd, Errno> {
        let fd = open_name(self.dir.open()?.as_fd(), &self.name)?;
        // If another process replaced it, the entry that the guest moved is gone. Inode numbers of removed files
        // are reused, so they are not sufficient.
        let (was, now) = (&self.base.stat, Stat::from(rustix::fs::fstat(&fd)?));
        let same = match was.kind {
            EntryKind::Directory => (was.id, was.kind) == (now.id, now.kind),
            _ => self.base.is_unchanged(&now),
        };
        if same { Ok(fd) } else { Err(Errno::NOENT) }
    }

    pub(super) fn open(&self, flags: OFlags) -> Result<OwnedFd, PathError> {
        open_real(self.dir.open()?.as_fd(), &self.name, flags)
    }
}

pub(crate) fn open_name(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    open_beneath(dir, name, NAME_ONLY, Mode::empty(), BENEATH)
}

/// Opens a real entry at a name that was checked before.
pub(super) fn open_real(
    dir: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, PathError> {
    let flags = flags.difference(OFlags::CREATE | OFlags::EXCL)
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let resolve = BENEATH | ResolveFlags::NO_SYMLINKS;
    open_beneath(dir, name, flags, Mode::empty(), resolve).map_err(open_error)
}

/// A stage must not accept a change that the commit could not apply.
pub(super) fn check_writable(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), PathError> {
    let access = rustix::fs::Access::WRITE_OK;
    Ok(rustix::fs::accessat(dir, name, access, AtFlags::EACCESS)?)
}

/// The kernel's path of a directory, if it still leads to it.
fn path_of(dir: BorrowedFd<'_>, id: FileId) -> Option<PathBuf> {
    name_of(dir).filter(|path| leads_to(path, id))
}

/// The kernel's path of a directory. For a removed directory the path leads nowhere, or elsewhere.
pub(crate) fn name_of(dir: BorrowedFd<'_>) -> Option<PathBuf> {
    let own = format!("/proc/self/fd/{}", dir.as_raw_fd());
    let path = rustix::fs::readlinkat(CWD, own, Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

pub(crate) fn leads_to(path: &Path, id: FileId) -> bool {
    let there = rustix::fs::openat(CWD, path, NAME_ONLY, Mode::empty());
    there.is_ok_and(|there| Stat::of(&there).is_ok_and(|stat| stat.id == id))
}
