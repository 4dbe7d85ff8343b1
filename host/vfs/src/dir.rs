//! Read-only queries: list a directory, stat a path, read a link.

use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::{
    Access, EntryKind, FileId, PathError, Protection, Scope, Stat,
    dir_location::{DirLocation, MAX_SCANNED},
    open::must_walk,
    stage::Layers,
    sys::{BENEATH, NAME_ONLY, check_path, open_beneath, open_error},
    walk::{FinalLink, ResolvedPath},
};

/// One entry of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    pub name: String,
    pub kind: EntryKind,
}

/// Entries of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirListing {
    pub entries: Vec<DirEntry>,
    /// Number of entries that are omitted because their names are not UTF-8.
    pub non_utf8: usize,
}

impl Scope {
    /// Lists the entries of `dir` without `.` and `..`, in the file system's order.
    ///
    /// Reading stops at the first entry over `limit`, so the cost of a huge directory is bounded. Names that are
    /// not UTF-8 are omitted and counted, because guests cannot pass them. Excluded entries are omitted and not
    /// counted.
    pub fn read_dir(&self, dir: BorrowedFd<'_>, limit: usize) -> Result<DirListing, PathError> {
        self.read_dir_under(None, dir, limit)
    }

    /// Like [`Scope::read_dir`], without the names that the call has changed.
    pub(crate) fn read_dir_under(
        &self,
        over: Option<&Layers>,
        dir: BorrowedFd<'_>,
        limit: usize,
    ) -> Result<DirListing, PathError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        // Reopened: the handle may be `O_PATH`, and its position is shared with all other calls.
        let own = open_beneath(dir, ".", flags, Mode::empty(), BENEATH).map_err(open_error)?;
        let (mut id, mut site) = (None, None);
        if self.needs_locations() || self.rules.needs_walk || over.is_some() {
            let here = Stat::of(&own)?.id;
            id = Some(here);
            if self.needs_locations() {
                site = match self.locate(over, own.as_fd(), here) {
                    // The directory was removed while it was open.
                    Err(PathError::NotFound) => return Ok(DirListing::default()),
                    site => Some(site?),
                };
            }
        }
        let mut entries = Vec::new();
        let (mut visible, mut scanned, mut unnamed) = (0, 0, 0);
        for entry in rustix::fs::Dir::new(own)? {
            let entry = entry?;
            let name = entry.file_name();
            let changed = |id| over.is_some_and(|over| over.is_changed(id, name.to_bytes()));
            if name == c"." || name == c".." || id.is_some_and(changed) {
                continue;
            }
            // Excluded entries do not count toward `limit`, or a guest could count them; but the scan is bounded.
            scanned += 1;
            let kind = kind_of(dir, name, entry.file_type());
            let hides = |id| self.is_hidden(id, site.as_ref(), name, entry.ino(), kind);
            let hidden = id.is_some_and(hides);
            visible += usize::from(!hidden);
            if visible > limit || scanned > MAX_SCANNED {
                return Err(PathError::TooManyEntries);
            }
            let Ok(text) = name.to_str() else {
                unnamed += usize::from(!hidden);
                continue;
            };
            if !hidden {
                entries.push(DirEntry {
                    name: text.to_owned(),
                    kind,
                });
            }
        }
        if let (Some(reads), Some(site)) = (&self.reads, &site) {
            reads.record_listing(site.host_path(self, b"."), &entries);
        }
        Ok(DirListing {
            entries,
            non_utf8: unnamed,
        })
    }

    fn is_hidden(
        &self,
        dir: FileId,
        site: Option<&DirLocation>,
        name: &CStr,
        ino: u64,
        kind: EntryKind,
    ) -> bool {
        let (marks, name) = (&self.rules.marks, name.to_bytes());
        let id = FileId::new(dir.dev(), ino);
        let left_out = || {
            let out = |site| self.is_excluded(site, name, Some((id, kind)));
            let denied = |site| self.is_denied(site, name);
            site.is_some_and(denied) || marks.file(dir, name).is_none() && site.is_some_and(out)
        };
        marks.protection_of(dir, name) == Some(Protection::Hidden)
            || marks.enter(id, Access::ReadOnly).is_err()
            || left_out()
    }

    /// Metadata of `path` below `dir`. Special files can be queried, but never opened.
    pub fn stat_at(
        &self,
        dir: BorrowedFd<'_>,
        path: &str,
        follow: bool,
    ) -> Result<Stat, PathError> {
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
                Err(errno) => return Err(open_error(errno)),
            }
        }
        let last = if follow {
            FinalLink::Follow
        } else {
            FinalLink::FollowIfSlash
        };
        stat_of(&self.walk(dir, Access::ReadOnly, path, last)?)
    }

    /// Target of a symbolic link. Absolute targets are refused, because they reveal host paths.
    pub fn read_link_at(&self, dir: BorrowedFd<'_>, path: &str) -> Result<String, PathError> {
        link_text(&self.walk(dir, Access::ReadOnly, path, FinalLink::FollowIfSlash)?)
    }
}

pub(crate) fn stat_of(resolved: &ResolvedPath<'_>) -> Result<Stat, PathError> {
    let found = resolved.found.as_ref().ok_or(PathError::NotFound)?;
    if resolved.dir_only && found.stat.kind != EntryKind::Directory {
        return Err(PathError::NotDirectory);
    }
    Ok(found.stat)
}

pub(crate) fn link_text(resolved: &ResolvedPath<'_>) -> Result<String, PathError> {
    let found = resolved.found.as_ref().ok_or(PathError::NotFound)?;
    if resolved.dir_only && found.stat.kind != EntryKind::Directory {
        return Err(PathError::NotDirectory);
    }
    if found.stat.kind != EntryKind::Symlink {
        return Err(PathError::Invalid);
    }
    let target = rustix::fs::readlinkat(found.fd.as_fd(), "", Vec::new())?;
    let target = target.into_string().map_err(|_| PathError::NotUtf8)?;
    if target.starts_with('/') {
        Err(PathError::NotPermitted)
    } else {
        Ok(target)
    }
}

/// Some file systems do not report the file type in listings.
pub(crate) fn kind_of(dir: BorrowedFd<'_>, name: &CStr, listed: FileType) -> EntryKind {
    if listed != FileType::Unknown {
        return listed.into();
    }
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode).into(),
        Err(_) => EntryKind::Unknown,
    }
}
