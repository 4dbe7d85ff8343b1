//! Read-only queries: list a directory, stat a path, read a link.

use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::{
    Access, FileId, Kind, Refusal, Scope, Shield, Stat,
    open::must_walk,
    site::{MAX_LOOKED, Site},
    stage::Layers,
    sys::{BENEATH, NAME_ONLY, check_path, open_beneath, open_refused},
    walk::{Last, Place},
};

/// One entry of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub kind: Kind,
}

/// Entries of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirListing {
    pub entries: Vec<Entry>,
    /// Number of entries that are omitted because their names are not UTF-8.
    pub unnamed: usize,
}

impl Scope {
    /// Lists the entries of `dir` without `.` and `..`, in the file system's order.
    ///
    /// Reading stops at the first entry over `limit`, so the cost of a huge directory is bounded. Names that are
    /// not UTF-8 are omitted and counted, because guests cannot pass them. Excluded entries are omitted and not
    /// counted.
    pub fn read_dir(&self, dir: BorrowedFd<'_>, limit: usize) -> Result<DirListing, Refusal> {
        self.read_dir_under(None, dir, limit)
    }

    /// Like [`Scope::read_dir`], without the names that the call has changed.
    pub(crate) fn read_dir_under(
        &self,
        over: Option<&Layers>,
        dir: BorrowedFd<'_>,
        limit: usize,
    ) -> Result<DirListing, Refusal> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        // Reopened: the handle may be `O_PATH`, and its position is shared with all other calls.
        let own = open_beneath(dir, ".", flags, Mode::empty(), BENEATH).map_err(open_refused)?;
        let (mut id, mut site) = (None, None);
        if self.needs_sites() || self.rules.tangled || over.is_some() {
            let here = Stat::of(&own)?.id;
            id = Some(here);
            if self.needs_sites() {
                site = match self.site(over, own.as_fd(), here) {
                    // The directory was removed while it was open.
                    Err(Refusal::NotFound) => return Ok(DirListing::default()),
                    site => Some(site?),
                };
            }
        }
        let mut entries = Vec::new();
        let (mut seen, mut looked, mut unnamed) = (0, 0, 0);
        for entry in rustix::fs::Dir::new(own)? {
            let entry = entry?;
            let name = entry.file_name();
            let changed = |id| over.is_some_and(|over| over.covers(id, name.to_bytes()));
            if name == c"." || name == c".." || id.is_some_and(changed) {
                continue;
            }
            // Excluded entries do not count toward `limit`, or a guest could count them; but the scan is bounded.
            looked += 1;
            let kind = kind_of(dir, name, entry.file_type());
            let hides = |id| self.hides(id, site.as_ref(), name, entry.ino(), kind);
            let hidden = id.is_some_and(hides);
            seen += usize::from(!hidden);
            if seen > limit || looked > MAX_LOOKED {
                return Err(Refusal::TooManyEntries);
            }
            let Ok(text) = name.to_str() else {
                unnamed += usize::from(!hidden);
                continue;
            };
            if !hidden {
                entries.push(Entry {
                    name: text.to_owned(),
                    kind,
                });
            }
        }
        if let (Some(reads), Some(site)) = (&self.reads, &site) {
            reads.listing(site.host_path(self, b"."), &entries);
        }
        Ok(DirListing { entries, unnamed })
    }

    fn hides(&self, dir: FileId, site: Option<&Site>, name: &CStr, ino: u64, kind: Kind) -> bool {
        let (marks, name) = (&self.rules.marks, name.to_bytes());
        let id = FileId::new(dir.dev(), ino);
        let left_out = || {
            let out = |site| self.leaves_out(site, name, Some((id, kind)));
            let denied = |site| self.is_denied(site, name);
            site.is_some_and(denied) || marks.file(dir, name).is_none() && site.is_some_and(out)
        };
        marks.shield_of(dir, name) == Some(Shield::Hidden)
            || marks.enter(id, Access::ReadOnly).is_err()
            || left_out()
    }

    /// Metadata of `path` below `dir`. Special files can be queried, but never opened.
    pub fn stat_at(&self, dir: BorrowedFd<'_>, path: &str, follow: bool) -> Result<Stat, Refusal> {
        check_path(path)?;
        if let Some(resolve) = self.resolve_by_kernel(dir, path)? {
            let flags = if follow {
                NAME_ONLY.difference(OFlags::NOFOLLOW)
            } else {
                NAME_ONLY
            };
            match open_beneath(dir, path, flags, Mode::empty(), resolve) {
                Ok(fd) => {
                    let stat = Stat::of(&fd)?;
                    self.enter(stat.id, Access::ReadOnly)?;
                    return Ok(stat);
                }
                Err(errno) if must_walk(errno, resolve) => {}
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

    /// Target of a symbolic link. Absolute targets are refused, because they reveal host paths.
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
    if place.dir_only && found.stat.kind != Kind::Directory {
        return Err(Refusal::NotDirectory);
    }
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

/// Some file systems do not report the file type in listings.
pub(crate) fn kind_of(dir: BorrowedFd<'_>, name: &CStr, listed: FileType) -> Kind {
    if listed != FileType::Unknown {
        return listed.into();
    }
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode).into(),
        Err(_) => Kind::Unknown,
    }
}
