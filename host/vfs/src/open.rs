//! Opens paths below a handle. Only regular files and directories are opened, and no open blocks.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::{
    Access, EntryKind, PathError, Scope, Stat,
    sys::{BENEATH, check_path, open_beneath, open_error},
    walk::{FinalLink, ResolvedPath},
};

/// Open options. With neither `read` nor `write`, a file is opened for reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenHow {
    pub read: bool,
    pub write: bool,
    pub append: bool,
    pub create: bool,
    pub exclusive: bool,
    /// Requires write access to the descriptor.
    pub truncate: bool,
    /// Fail unless it is a directory.
    pub directory: bool,
    /// Follow a symbolic link in the last component.
    pub follow: bool,
}

/// Result of an open.
#[derive(Debug)]
pub struct Opened {
    pub fd: OwnedFd,
    /// The access at this path; pass it along with `fd` if `fd` is a directory. The capabilities of a file
    /// descriptor are those requested by [`OpenHow`].
    pub access: Access,
    /// [`Kind::File`] or [`Kind::Directory`] only.
    pub kind: EntryKind,
}

impl OpenHow {
    /// Whether this open can modify anything, and so needs [`Access::ReadWrite`].
    pub fn needs_write(self) -> bool {
        self.write || self.append || self.create || self.truncate
    }

    pub(crate) fn check(self) -> Result<(), PathError> {
        if self.directory && (self.create || self.truncate || self.exclusive) {
            return Err(PathError::Invalid);
        }
        Ok(())
    }

    pub(crate) fn flags(self) -> OFlags {
        let writes = self.write || self.append || self.truncate;
        let mut flags = match (self.read, writes) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            (_, false) => OFlags::RDONLY,
        };
        // A FIFO, a leased file or a tape can block an open; a terminal could become the controlling terminal.
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        for (wanted, flag) in [
            (self.append, OFlags::APPEND),
            (self.create, OFlags::CREATE),
            (self.create && self.exclusive, OFlags::EXCL),
            (self.directory, OFlags::DIRECTORY),
            (!self.follow, OFlags::NOFOLLOW),
        ] {
            if wanted {
                flags |= flag;
            }
        }
        // `O_TRUNC` is omitted: the file is truncated after its type is checked.
        flags
    }

    /// Never executable; the kernel applies the umask.
    pub(crate) fn mode(self) -> Mode {
        if self.create {
            Mode::from_raw_mode(0o666)
        } else {
            Mode::empty()
        }
    }

    /// How a walk handles a link in the last component.
    pub(crate) fn final_link(self) -> FinalLink {
        match (self.create && self.exclusive, self.follow) {
            (true, _) => FinalLink::Exact,
            // A trailing slash is refused, so nothing is followed.
            (false, false) if self.create => FinalLink::Exact,
            (false, true) if self.create => FinalLink::FollowToCreate,
            (false, true) => FinalLink::Follow,
            (false, false) => FinalLink::FollowIfSlash,
        }
    }

    /// Checks that the resolved path can be opened or created this way, and returns its access.
    pub(crate) fn check_open(self, resolved: &ResolvedPath<'_>) -> Result<Access, PathError> {
        // Like the kernel: a name with a trailing slash never names a new file.
        if self.create && resolved.dir_only && !resolved.is_dot() {
            return Err(PathError::IsDirectory);
        }
        let access = match &resolved.found {
            Some(found) => {
                // In the kernel's order, so that both resolvers report the same error.
                let is_plain = matches!(found.stat.kind, EntryKind::File | EntryKind::Directory);
                match found.stat.kind {
                    _ if self.create && self.exclusive && !is_plain => {
                        return Err(PathError::Exists);
                    }
                    EntryKind::Directory => {}
                    _ if self.directory || resolved.dir_only => {
                        return Err(PathError::NotDirectory);
                    }
                    EntryKind::Symlink => return Err(PathError::Loop),
                    EntryKind::File => {}
                    // Not even opened: opening alone can wake a FIFO's writer or rewind a tape.
                    _ => return Err(PathError::NotPermitted),
                }
                found.access
            }
            None if !self.create => return Err(PathError::NotFound),
            None if resolved.is_protected => return Err(PathError::NotPermitted),
            None => resolved.access,
        };
        if self.needs_write() && access == Access::ReadOnly {
            return Err(PathError::NotPermitted);
        }
        Ok(access)
    }
}

impl Scope {
    /// Opens `path` below `dir`, a directory opened through this scope with `access`.
    pub fn open_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        how: &OpenHow,
    ) -> Result<Opened, PathError> {
        let access = access.min(self.cap);
        how.check()?;
        check_path(path)?;
        let Some(resolve) = self.resolve_by_kernel(dir, path)? else {
            return self.open_walking(dir, access, path, *how);
        };
        if how.needs_write() && access == Access::ReadOnly {
            return Err(PathError::NotPermitted);
        }
        match open_beneath(dir, path, how.flags(), how.mode(), resolve) {
            Ok(fd) => self.check_opened(fd, access, *how),
            Err(errno) if must_walk(errno, resolve) => self.open_walking(dir, access, path, *how),
            Err(errno) => Err(open_error(errno)),
        }
    }

    /// Resolve flags for a single `openat2`, or `None` if the path must be walked.
    pub(crate) fn resolve_by_kernel(
        &self,
        dir: BorrowedFd<'_>,
        path: &str,
    ) -> Result<Option<ResolveFlags>, PathError> {
        if self.rules.needs_walk || self.reads.is_some() {
            return Ok(None);
        }
        if !self.hides_names() {
            return Ok(Some(BENEATH));
        }
        let names = || path.split('/').filter(|name| !matches!(*name, "" | "."));
        // A path without links shows where it leads.
        let resolve = BENEATH | ResolveFlags::NO_SYMLINKS;
        // Most names match no pattern in any directory, so the location need not be looked up.
        if names().all(|name| name != ".." && !self.may_hide(name.as_bytes())) {
            return Ok(Some(resolve));
        }
        let mut site = self.locate(None, dir, Stat::of(dir)?.id)?;
        for name in names() {
            if name == ".." || self.is_excluded(&site, name.as_bytes(), None) {
                return Ok(None);
            }
            site.below.push(name);
        }
        Ok(Some(resolve))
    }

    fn open_walking(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        how: OpenHow,
    ) -> Result<Opened, PathError> {
        let resolved = self.walk(dir, access, path, how.final_link())?;
        let access = how.check_open(&resolved)?;
        let fd = open_beneath(
            resolved.parent(),
            resolved.name.as_slice(),
            how.flags() | OFlags::NOFOLLOW,
            how.mode(),
            BENEATH | ResolveFlags::NO_SYMLINKS,
        )
        .map_err(open_error)?;
        let opened = self.check_opened(fd, access, how)?;
        if !how.truncate {
            self.record_content_read(&resolved, opened.fd.as_fd())?;
        }
        Ok(opened)
    }

    pub(crate) fn record_content_read(
        &self,
        resolved: &ResolvedPath<'_>,
        fd: BorrowedFd<'_>,
    ) -> Result<(), PathError> {
        if let (Some(reads), Some(path)) = (&self.reads, resolved.host_path(self)) {
            let stat = Stat::of(fd)?;
            if stat.kind == EntryKind::File {
                reads.record_content(path, &stat);
            }
        }
        Ok(())
    }

    /// Decided on the opened inode, so concurrent renames do not matter.
    pub(crate) fn check_opened(
        &self,
        fd: OwnedFd,
        access: Access,
        how: OpenHow,
    ) -> Result<Opened, PathError> {
        let stat = Stat::of(&fd)?;
        if !matches!(stat.kind, EntryKind::File | EntryKind::Directory) {
            return Err(PathError::NotPermitted);
        }
        // Also on the fast path: a hard link can lead to a protected file from anywhere.
        let access = self.enter(stat.id, access)?;
        if how.needs_write() && access == Access::ReadOnly {
            return Err(PathError::NotPermitted);
        }
        if how.truncate {
            rustix::fs::ftruncate(&fd, 0)?;
        }
        Ok(Opened {
            fd,
            access,
            kind: stat.kind,
        })
    }
}

/// Whether `openat2` failed for a reason that a walk handles: concurrent renames disturb a `..` in the path, or a
/// link may lead to an excluded path.
pub(crate) fn must_walk(errno: Errno, resolve: ResolveFlags) -> bool {
    errno == Errno::AGAIN || errno == Errno::LOOP && resolve.contains(ResolveFlags::NO_SYMLINKS)
}
