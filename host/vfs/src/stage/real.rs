//! Things of the person's own, found again by where they were and checked to be the same.
//!
//! Nothing is held open for them: a call that removes a tree of ten thousand directories would use up the descriptors
//! of the host. A number may be given to another directory when somebody else removes one meanwhile; then what the
//! call staged in it no longer fits, and the commit finds out.

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
    FileId, Kind, Refusal, Scope, Stat,
    sys::{BENEATH, NAME_ONLY, open_beneath, open_refused},
};

/// A real directory: where it was when it was first touched.
#[derive(Debug, Clone)]
pub(crate) struct RealDir {
    root: Arc<OwnedFd>,
    below: PathBuf,
    pub id: FileId,
    /// With the root's own.
    pub path: PathBuf,
}

impl RealDir {
    /// `None` when it is no longer where a root is.
    pub(super) fn of(scope: &Scope, dir: BorrowedFd<'_>, id: FileId) -> Option<Self> {
        let path = path_of(dir, id)?;
        let site = scope.site_of(&path)?;
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

    /// Opens it again, to name things in it.
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

/// A file or directory of the person's, at its real place.
#[derive(Debug, Clone)]
pub(crate) struct Real {
    pub dir: Arc<RealDir>,
    pub name: Vec<u8>,
    pub base: Base,
}

impl Real {
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path.join(OsStr::from_bytes(&self.name))
    }

    /// Names it again, if it is still what it was.
    pub(super) fn name(&self) -> Result<OwnedFd, Errno> {
        let fd = open_name(self.dir.open()?.as_fd(), &self.name)?;
        // When somebody put another thing there, what the guest moved is gone. The number of a removed file may
        // already be the next one's, so it does not say enough.
        let (was, now) = (&self.base.stat, Stat::from(rustix::fs::fstat(&fd)?));
        let same = match was.kind {
            Kind::Directory => (was.id, was.kind) == (now.id, now.kind),
            _ => self.base.is_still(&now),
        };
        if same { Ok(fd) } else { Err(Errno::NOENT) }
    }

    pub(super) fn open(&self, flags: OFlags) -> Result<OwnedFd, Refusal> {
        open_real(self.dir.open()?.as_fd(), &self.name, flags)
    }
}

pub(crate) fn open_name(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    open_beneath(dir, name, NAME_ONLY, Mode::empty(), BENEATH)
}

/// Opens a thing of the person's, at a name that was looked at before.
pub(super) fn open_real(
    dir: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Refusal> {
    let flags = flags.difference(OFlags::CREATE | OFlags::EXCL)
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let resolve = BENEATH | ResolveFlags::NO_SYMLINKS;
    open_beneath(dir, name, flags, Mode::empty(), resolve).map_err(open_refused)
}

/// A stage must not promise what the commit could not do.
pub(super) fn may_write(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Refusal> {
    let access = rustix::fs::Access::WRITE_OK;
    Ok(rustix::fs::accessat(dir, name, access, AtFlags::EACCESS)?)
}

/// The kernel's own name for a directory, if that leads to it.
fn path_of(dir: BorrowedFd<'_>, id: FileId) -> Option<PathBuf> {
    name_of(dir).filter(|path| is_there(path, id))
}

/// The kernel's own name for a directory. One that was removed has a name that leads nowhere, or elsewhere.
pub(crate) fn name_of(dir: BorrowedFd<'_>) -> Option<PathBuf> {
    let own = format!("/proc/self/fd/{}", dir.as_raw_fd());
    let path = rustix::fs::readlinkat(CWD, own, Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

pub(crate) fn is_there(path: &Path, id: FileId) -> bool {
    let there = rustix::fs::openat(CWD, path, NAME_ONLY, Mode::empty());
    there.is_ok_and(|there| Stat::of(&there).is_ok_and(|stat| stat.id == id))
}
