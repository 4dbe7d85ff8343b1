//! Operations that change directories: create, remove, rename, link, set times. They always walk the path, so that
//! the parent is held open and the last component is not followed.

use std::{os::fd::BorrowedFd, time::SystemTime};

use rustix::fs::{AtFlags, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use crate::{
    Access, Kind, Refusal, Scope,
    links::{check_target, may_point_from},
    walk::{Found, Last, Place},
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
    ) -> Result<(), Refusal> {
        let place = self.walk(dir, access, path, Last::Exact)?;
        may_make_new(&place)?;
        Ok(rustix::fs::mkdirat(
            place.parent(),
            place.name.as_slice(),
            Mode::from_raw_mode(0o777),
        )?)
    }

    pub fn remove_dir_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
    ) -> Result<(), Refusal> {
        let place = self.walk(dir, access, path, Last::Exact)?;
        self.may_take_away(&place)?;
        Ok(rustix::fs::unlinkat(
            place.parent(),
            place.name.as_slice(),
            AtFlags::REMOVEDIR,
        )?)
    }

    pub fn unlink_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
    ) -> Result<(), Refusal> {
        let place = self.walk(dir, access, path, Last::Exact)?;
        self.may_unlink(&place)?;
        Ok(rustix::fs::unlinkat(
            place.parent(),
            place.name.as_slice(),
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
    ) -> Result<(), Refusal> {
        let from = self.walk(dir, access, path, Last::Exact)?;
        let to = self.walk(new_dir, new_access, new_path, Last::Exact)?;
        let moved = self.may_rename(&from, &to)?;
        may_point_from(moved, &from, &to)?;
        self.stays_left_out(None, moved, &from, &to)?;
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
    ) -> Result<(), Refusal> {
        let from = self.walk(dir, access, path, Last::Exact)?;
        let to = self.walk(new_dir, new_access, new_path, Last::Exact)?;
        let linked = self.may_link(&from, &to)?;
        may_point_from(linked, &from, &to)?;
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
    ) -> Result<(), Refusal> {
        let place = self.walk(dir, access, path, Last::Exact)?;
        may_link_symbolically(&place, target)?;
        Ok(rustix::fs::symlinkat(
            target,
            place.parent(),
            place.name.as_slice(),
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
    ) -> Result<(), Refusal> {
        let last = if follow {
            Last::Follow
        } else {
            Last::FollowIfSlash
        };
        let place = self.walk(dir, access, path, last)?;
        may_set_times(&place)?;
        let times = Timestamps {
            last_access: timespec(accessed)?,
            last_modification: timespec(modified)?,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(
            place.parent(),
            place.name.as_slice(),
            &times,
            flags,
        )?)
    }

    pub(crate) fn may_unlink<'p>(&self, place: &'p Place<'_>) -> Result<&'p Found, Refusal> {
        if place.access == Access::ReadWrite && place.is_dot() {
            return Err(Refusal::IsDirectory);
        }
        let found = self.may_take_away(place)?;
        if found.stat.kind == Kind::Directory {
            return Err(Refusal::IsDirectory);
        }
        no_slash_after(place)?;
        Ok(found)
    }

    /// Returns the entry to move if the rename is allowed. Does not check its links.
    pub(crate) fn may_rename<'p>(
        &self,
        from: &'p Place<'_>,
        to: &Place<'_>,
    ) -> Result<&'p Found, Refusal> {
        // Checked first, so that errors reveal nothing about read-only directories.
        if from.access == Access::ReadOnly || to.access == Access::ReadOnly {
            return Err(Refusal::NotPermitted);
        }
        let moved = self.may_take_away(from)?;
        if to.file_only && moved.stat.kind != Kind::File {
            return Err(Refusal::NotPermitted);
        }
        if to.is_dot() {
            return Err(Refusal::Invalid);
        }
        if to.found.is_some() {
            self.may_take_away(to)?;
        } else {
            may_make(to)?;
        }
        if moved.stat.kind != Kind::Directory {
            no_slash_after(from)?;
            no_slash_after(to)?;
        }
        Ok(moved)
    }

    /// Returns the entry to link if the link is allowed.
    pub(crate) fn may_link<'p>(
        &self,
        from: &'p Place<'_>,
        to: &Place<'_>,
    ) -> Result<&'p Found, Refusal> {
        if from.access == Access::ReadOnly || to.access == Access::ReadOnly {
            return Err(Refusal::NotPermitted);
        }
        if from.is_dot() {
            return Err(Refusal::NotPermitted);
        }
        let linked = self.may_take_away(from)?;
        // Hard links to devices and sockets are not needed; directories cannot have them.
        if !matches!(linked.stat.kind, Kind::File | Kind::Symlink)
            || to.file_only && linked.stat.kind != Kind::File
        {
            return Err(Refusal::NotPermitted);
        }
        no_slash_after(from)?;
        may_make(to)?;
        if to.is_dot() || to.found.is_some() {
            return Err(Refusal::Exists);
        }
        no_slash_after(to)?;
        Ok(linked)
    }

    /// Returns the entry if it exists, is writable and is not pinned.
    pub(crate) fn may_take_away<'p>(&self, place: &'p Place<'_>) -> Result<&'p Found, Refusal> {
        if place.access == Access::ReadOnly {
            return Err(Refusal::NotPermitted);
        }
        if place.is_dot() {
            return Err(Refusal::Invalid);
        }
        let found = place.found.as_ref().ok_or(Refusal::NotFound)?;
        // `found.access` is narrower than the parent's where a read-only grant or a protected path begins here.
        if found.access == Access::ReadOnly || self.rules.marks.is_pinned(found.stat.id) {
            return Err(Refusal::NotPermitted);
        }
        Ok(found)
    }
}

fn may_make(place: &Place<'_>) -> Result<(), Refusal> {
    if place.access == Access::ReadOnly || place.guarded {
        Err(Refusal::NotPermitted)
    } else {
        Ok(())
    }
}

/// Checks that a new entry can be created at the place.
pub(crate) fn may_make_new(place: &Place<'_>) -> Result<(), Refusal> {
    // First, so that without write access the error does not depend on whether the name exists.
    may_make(place)?;
    if place.file_only {
        return Err(Refusal::NotPermitted);
    }
    if place.is_dot() || place.found.is_some() {
        return Err(Refusal::Exists);
    }
    Ok(())
}

pub(crate) fn may_link_symbolically(place: &Place<'_>, target: &str) -> Result<(), Refusal> {
    may_make_new(place)?;
    no_slash_after(place)?;
    check_target(target.as_bytes(), place.depth)
}

pub(crate) fn may_set_times<'p>(place: &'p Place<'_>) -> Result<&'p Found, Refusal> {
    let Some(found) = &place.found else {
        return Err(Refusal::NotFound);
    };
    if found.access == Access::ReadOnly {
        return Err(Refusal::NotPermitted);
    }
    if found.stat.kind != Kind::Directory {
        no_slash_after(place)?;
    }
    Ok(found)
}

/// Rejects `f.txt/` and `link/`, which name directories. Other sandboxes have been escaped by treating them as the
/// file or link itself.
fn no_slash_after(place: &Place<'_>) -> Result<(), Refusal> {
    match (place.dir_only, &place.found) {
        (false, _) => Ok(()),
        (true, Some(_)) => Err(Refusal::NotDirectory),
        (true, None) => Err(Refusal::NotFound),
    }
}

pub(crate) fn timespec(time: NewTime) -> Result<Timespec, Refusal> {
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
        i64::try_from(duration.as_secs()).map_err(|_| Refusal::Invalid)
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
