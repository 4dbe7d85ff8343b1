//! Operations that change directories: create, remove, rename, link, set times. They always walk the path, so that
//! the parent is held open and the last component is not followed.

use std::{os::fd::BorrowedFd, time::SystemTime};

use rustix::fs::{AtFlags, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use crate::{
    Access, EntryKind, PathError, Scope,
    symlinks::{check_moved_links, check_target},
    walk::{FinalLink, ResolvedEntry, ResolvedPath},
};

/// New value of a file's access or modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTime {
    Keep,
    Now,
    At(SystemTime),
}

impl Scope {
    pub fn create_dir_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
    ) -> Result<(), PathError> {
        let resolved = self.walk(dir, access, path, FinalLink::Exact)?;
        check_create(&resolved)?;
        Ok(rustix::fs::mkdirat(
            resolved.parent(),
            resolved.name.as_slice(),
            Mode::from_raw_mode(0o777),
        )?)
    }

    pub fn remove_dir_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
    ) -> Result<(), PathError> {
        let resolved = self.walk(dir, access, path, FinalLink::Exact)?;
        self.check_removable(&resolved)?;
        Ok(rustix::fs::unlinkat(
            resolved.parent(),
            resolved.name.as_slice(),
            AtFlags::REMOVEDIR,
        )?)
    }

    pub fn unlink_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
    ) -> Result<(), PathError> {
        let resolved = self.walk(dir, access, path, FinalLink::Exact)?;
        self.check_unlink(&resolved)?;
        Ok(rustix::fs::unlinkat(
            resolved.parent(),
            resolved.name.as_slice(),
            AtFlags::empty(),
        )?)
    }

    /// Renames within a directory or between two handles. Both sides and the moved entry need write access.
    pub fn rename_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        new_dir: BorrowedFd<'_>,
        new_access: Access,
        new_path: &str,
    ) -> Result<(), PathError> {
        let from = self.walk(dir, access, path, FinalLink::Exact)?;
        let to = self.walk(new_dir, new_access, new_path, FinalLink::Exact)?;
        let moved = self.check_rename(&from, &to)?;
        check_moved_links(moved, &from, &to)?;
        self.check_excluded_after_move(None, moved, &from, &to)?;
        Ok(rustix::fs::renameat(
            from.parent(),
            from.name.as_slice(),
            to.parent(),
            to.name.as_slice(),
        )?)
    }

    /// Creates a hard link. The content becomes accessible at the new path, so both sides need write access.
    pub fn link_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        new_dir: BorrowedFd<'_>,
        new_access: Access,
        new_path: &str,
    ) -> Result<(), PathError> {
        let from = self.walk(dir, access, path, FinalLink::Exact)?;
        let to = self.walk(new_dir, new_access, new_path, FinalLink::Exact)?;
        let linked = self.check_link(&from, &to)?;
        check_moved_links(linked, &from, &to)?;
        let flags = AtFlags::empty();
        Ok(rustix::fs::linkat(
            from.parent(),
            from.name.as_slice(),
            to.parent(),
            to.name.as_slice(),
            flags,
        )?)
    }

    /// Creates a symbolic link. Targets outside the directory `dir` are refused, because a user's editor or git
    /// would follow them.
    pub fn symlink_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        target: &str,
        path: &str,
    ) -> Result<(), PathError> {
        let resolved = self.walk(dir, access, path, FinalLink::Exact)?;
        check_symlink(&resolved, target)?;
        Ok(rustix::fs::symlinkat(
            target,
            resolved.parent(),
            resolved.name.as_slice(),
        )?)
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
        let last = if follow {
            FinalLink::Follow
        } else {
            FinalLink::FollowIfSlash
        };
        let resolved = self.walk(dir, access, path, last)?;
        check_set_times(&resolved)?;
        let times = Timestamps {
            last_access: timespec(accessed)?,
            last_modification: timespec(modified)?,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(
            resolved.parent(),
            resolved.name.as_slice(),
            &times,
            flags,
        )?)
    }

    pub(crate) fn check_unlink<'p>(
        &self,
        resolved: &'p ResolvedPath<'_>,
    ) -> Result<&'p ResolvedEntry, PathError> {
        if resolved.access == Access::ReadWrite && resolved.is_dot() {
            return Err(PathError::IsDirectory);
        }
        let found = self.check_removable(resolved)?;
        if found.stat.kind == EntryKind::Directory {
            return Err(PathError::IsDirectory);
        }
        reject_trailing_slash(resolved)?;
        Ok(found)
    }

    /// Returns the entry to move if the rename is allowed. Does not check its links.
    pub(crate) fn check_rename<'p>(
        &self,
        from: &'p ResolvedPath<'_>,
        to: &ResolvedPath<'_>,
    ) -> Result<&'p ResolvedEntry, PathError> {
        // Checked first, so that errors reveal nothing about read-only directories.
        if from.access == Access::ReadOnly || to.access == Access::ReadOnly {
            return Err(PathError::NotPermitted);
        }
        let moved = self.check_removable(from)?;
        if to.file_only && moved.stat.kind != EntryKind::File {
            return Err(PathError::NotPermitted);
        }
        if to.is_dot() {
            return Err(PathError::Invalid);
        }
        if to.found.is_some() {
            self.check_removable(to)?;
        } else {
            check_writable(to)?;
        }
        if moved.stat.kind != EntryKind::Directory {
            reject_trailing_slash(from)?;
            reject_trailing_slash(to)?;
        }
        Ok(moved)
    }

    /// Returns the entry to link if the link is allowed.
    pub(crate) fn check_link<'p>(
        &self,
        from: &'p ResolvedPath<'_>,
        to: &ResolvedPath<'_>,
    ) -> Result<&'p ResolvedEntry, PathError> {
        if from.access == Access::ReadOnly || to.access == Access::ReadOnly {
            return Err(PathError::NotPermitted);
        }
        if from.is_dot() {
            return Err(PathError::NotPermitted);
        }
        let linked = self.check_removable(from)?;
        // Hard links to devices and sockets are not needed; directories cannot have them.
        if !matches!(linked.stat.kind, EntryKind::File | EntryKind::Symlink)
            || to.file_only && linked.stat.kind != EntryKind::File
        {
            return Err(PathError::NotPermitted);
        }
        reject_trailing_slash(from)?;
        check_writable(to)?;
        if to.is_dot() || to.found.is_some() {
            return Err(PathError::Exists);
        }
        reject_trailing_slash(to)?;
        Ok(linked)
    }

    /// Returns the entry if it exists, is writable and is not pinned.
    pub(crate) fn check_removable<'p>(
        &self,
        resolved: &'p ResolvedPath<'_>,
    ) -> Result<&'p ResolvedEntry, PathError> {
        if resolved.access == Access::ReadOnly {
            return Err(PathError::NotPermitted);
        }
        if resolved.is_dot() {
            return Err(PathError::Invalid);
        }
        let found = resolved.found.as_ref().ok_or(PathError::NotFound)?;
        // `found.access` is narrower than the parent's where a read-only grant or a protected path begins here.
        if found.access == Access::ReadOnly || self.rules.marks.is_pinned(found.stat.id) {
            return Err(PathError::NotPermitted);
        }
        Ok(found)
    }
}

fn check_writable(resolved: &ResolvedPath<'_>) -> Result<(), PathError> {
    if resolved.access == Access::ReadOnly || resolved.is_protected {
        Err(PathError::NotPermitted)
    } else {
        Ok(())
    }
}

/// Checks that a new entry can be created at the path.
pub(crate) fn check_create(resolved: &ResolvedPath<'_>) -> Result<(), PathError> {
    // First, so that without write access the error does not depend on whether the name exists.
    check_writable(resolved)?;
    if resolved.file_only {
        return Err(PathError::NotPermitted);
    }
    if resolved.is_dot() || resolved.found.is_some() {
        return Err(PathError::Exists);
    }
    Ok(())
}

pub(crate) fn check_symlink(resolved: &ResolvedPath<'_>, target: &str) -> Result<(), PathError> {
    check_create(resolved)?;
    reject_trailing_slash(resolved)?;
    check_target(target.as_bytes(), resolved.depth)
}

pub(crate) fn check_set_times<'p>(
    resolved: &'p ResolvedPath<'_>,
) -> Result<&'p ResolvedEntry, PathError> {
    let Some(found) = &resolved.found else {
        return Err(PathError::NotFound);
    };
    if found.access == Access::ReadOnly {
        return Err(PathError::NotPermitted);
    }
    if found.stat.kind != EntryKind::Directory {
        reject_trailing_slash(resolved)?;
    }
    Ok(found)
}

/// Rejects `f.txt/` and `link/`, which name directories. Other sandboxes have been escaped by treating them as the
/// file or link itself.
fn reject_trailing_slash(resolved: &ResolvedPath<'_>) -> Result<(), PathError> {
    match (resolved.dir_only, &resolved.found) {
        (false, _) => Ok(()),
        (true, Some(_)) => Err(PathError::NotDirectory),
        (true, None) => Err(PathError::NotFound),
    }
}

pub(crate) fn timespec(time: NewTime) -> Result<Timespec, PathError> {
    let time = match time {
        NewTime::Keep => {
            return Ok(Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            });
        }
        NewTime::Now => {
            return Ok(Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_NOW,
            });
        }
        NewTime::At(time) => time,
    };
    let seconds = |duration: std::time::Duration| {
        i64::try_from(duration.as_secs()).map_err(|_| PathError::Invalid)
    };
    Ok(match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => Timespec {
            tv_sec: seconds(after)?,
            tv_nsec: after.subsec_nanos().into(),
        },
        Err(before) => {
            let before = before.duration();
            let nanoseconds = before.subsec_nanos();
            // The kernel counts nanoseconds forward from the previous second.
            let borrow = i64::from(nanoseconds > 0);
            let up = if nanoseconds > 0 {
                1_000_000_000 - nanoseconds
            } else {
                0
            };
            Timespec {
                tv_sec: -seconds(before)? - borrow,
                tv_nsec: up.into(),
            }
        }
    })
}
