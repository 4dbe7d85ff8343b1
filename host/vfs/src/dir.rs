//! Looks without changing anything: lists a directory, tells what a path is, reads where a link points.

use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};

use crate::{
    Access, FileId, Kind, Refusal, Scope, Shield, Stat,
    sys::{BENEATH, NAME_ONLY, check_path, open_beneath, open_refused},
    walk::{Last, Place},
};

/// One line of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub kind: Kind,
}

impl Scope {
    /// The entries of `dir` without `.` and `..`, in the file system's order.
    ///
    /// Reading stops at the first entry over `limit`: a directory of a million entries costs no more than one of
    /// `limit`. A name that is not UTF-8 counts but is left out, since no guest could ask for it; so is what is
    /// hidden.
    pub fn read_dir(&self, dir: BorrowedFd<'_>, limit: usize) -> Result<Vec<Entry>, Refusal> {
        self.read_dir_but(dir, limit, |_| false)
    }

    /// As if the names that `skip` says were not there.
    pub(crate) fn read_dir_but(
        &self,
        dir: BorrowedFd<'_>,
        limit: usize,
        skip: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Entry>, Refusal> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        // Opened anew: the handle may be `O_PATH`, and its position is shared with every other call.
        let own = open_beneath(dir, ".", flags, Mode::empty(), BENEATH).map_err(open_refused)?;
        let id = if self.rules.tangled {
            Some(Stat::of(&own)?.id)
        } else {
            None
        };
        let mut entries = Vec::new();
        let mut seen = 0;
        for entry in rustix::fs::Dir::new(own)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." || skip(name.to_bytes()) {
                continue;
            }
            seen += 1;
            if seen > limit {
                return Err(Refusal::TooManyEntries);
            }
            if id.is_some_and(|id| self.hides(id, name, entry.ino())) {
                continue;
            }
            if let Ok(text) = name.to_str() {
                let kind = kind_of(dir, name, entry.file_type());
                entries.push(Entry {
                    name: text.to_owned(),
                    kind,
                });
            }
        }
        Ok(entries)
    }

    fn hides(&self, dir: FileId, name: &CStr, ino: u64) -> bool {
        let marks = &self.rules.marks;
        marks.shield_of(dir, name.to_bytes()) == Some(Shield::Hidden)
            || marks
                .enter(FileId::new(dir.dev(), ino), Access::ReadOnly)
                .is_err()
    }

    /// What `path` below `dir` is. Special files can be asked about, though never opened.
    pub fn stat_at(&self, dir: BorrowedFd<'_>, path: &str, follow: bool) -> Result<Stat, Refusal> {
        check_path(path)?;
        if !self.rules.tangled {
            let flags = if follow {
                NAME_ONLY.difference(OFlags::NOFOLLOW)
            } else {
                NAME_ONLY
            };
            match open_beneath(dir, path, flags, Mode::empty(), BENEATH) {
                Ok(fd) => {
                    let stat = Stat::of(&fd)?;
                    self.enter(stat.id, Access::ReadOnly)?;
                    return Ok(stat);
                }
                Err(Errno::AGAIN) => {}
                Err(errno) => return Err(open_refused(errno)),
            }
        }
        let last = if follow {
            Last::Follow
        } else {
            Last::FollowIfSlash
        };
        stat_of(&self.walk(dir, Access::ReadOnly, path, last)?)
    }

    /// The text of a symbolic link. An absolute one would only tell the guest about the host, so it stays closed.
    pub fn read_link_at(&self, dir: BorrowedFd<'_>, path: &str) -> Result<String, Refusal> {
        link_text(&self.walk(dir, Access::ReadOnly, path, Last::FollowIfSlash)?)
    }
}

pub(crate) fn stat_of(place: &Place<'_>) -> Result<Stat, Refusal> {
    let found = place.found.as_ref().ok_or(Refusal::NotFound)?;
    if place.dir_only && found.stat.kind != Kind::Directory {
        return Err(Refusal::NotDirectory);
    }
    Ok(found.stat)
}

pub(crate) fn link_text(place: &Place<'_>) -> Result<String, Refusal> {
    let found = place.found.as_ref().ok_or(Refusal::NotFound)?;
    if found.stat.kind != Kind::Symlink {
        return Err(Refusal::Invalid);
    }
    let target = rustix::fs::readlinkat(found.fd.as_fd(), "", Vec::new())?;
    let target = target.into_string().map_err(|_| Refusal::NotUtf8)?;
    if target.starts_with('/') {
        Err(Refusal::NotPermitted)
    } else {
        Ok(target)
    }
}

/// Some file systems do not tell kinds in a listing.
pub(crate) fn kind_of(dir: BorrowedFd<'_>, name: &CStr, listed: FileType) -> Kind {
    if listed != FileType::Unknown {
        return listed.into();
    }
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode).into(),
        Err(_) => Kind::Unknown,
    }
}
