//! Resolves a path one component at a time. The access can change at each directory, and the kernel's resolution
//! does not report which directories it traversed.
//!
//! Each step opens one name, without following it, relative to a held descriptor. `..` returns to a descriptor that
//! the walk came through, so renames by other processes cannot lead it above the start. The result is a held parent
//! and a name in it; callers act on those and never on the path again.

use std::{
    ffi::OsStr,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use crate::{
    Access, EntryKind, FileId, PathError, Protection, Scope, Stat,
    dir_location::DirLocation,
    stage::{Layers, Origin},
    sys::{BENEATH, NAME_ONLY, PATH_MAX, check_path, open_beneath, open_error},
};

/// The kernel's limit.
const MAX_LINKS: usize = 40;
/// Each level holds a descriptor during the walk; one path may not exhaust those of the host.
pub(crate) const MAX_DEPTH: usize = 128;
/// Without it, links that lead back and forth could turn a short path into minutes of work.
const MAX_STEPS: usize = 4096;

/// How to handle a symbolic link in the last component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinalLink {
    Follow,
    /// For a file that may be created: a trailing slash is refused in any case, as in the kernel.
    FollowToCreate,
    /// Only before a trailing slash, like `O_NOFOLLOW` and `lstat` in the kernel.
    FollowIfSlash,
    /// Never. Operations that change a directory act on the exact name.
    Exact,
}

/// Result of a walk: a name in a directory that is held open.
pub(crate) struct ResolvedPath<'a> {
    start: BorrowedFd<'a>,
    /// The handle at which the walk started.
    pub start_id: FileId,
    parent_fd: Option<OwnedFd>,
    pub parent_id: FileId,
    /// Access of the parent directory.
    pub access: Access,
    /// Depth of the parent directory below the start.
    pub depth: usize,
    /// One component; `.` if the path ended in the directory itself.
    pub name: Vec<u8>,
    /// The name is protected: it may not be created, replaced or removed.
    pub is_protected: bool,
    /// The name is granted individually, as a file. A link there would be followed when the host starts next.
    pub file_only: bool,
    /// Location of the parent directory, if names can be hidden.
    pub location: Option<DirLocation>,
    /// The path had a trailing slash and must be a directory.
    pub dir_only: bool,
    pub found: Option<ResolvedEntry>,
}

/// The entry at the name.
pub(crate) struct ResolvedEntry {
    /// Opened with `O_PATH`.
    pub fd: OwnedFd,
    pub stat: Stat,
    pub access: Access,
    pub origin: Origin,
}

impl ResolvedPath<'_> {
    pub(crate) fn parent(&self) -> BorrowedFd<'_> {
        self.parent_fd.as_ref().map_or(self.start, OwnedFd::as_fd)
    }

    /// Host path, for a scope whose reads are recorded.
    pub(crate) fn host_path(&self, scope: &Scope) -> Option<PathBuf> {
        Some(self.location.as_ref()?.host_path(scope, &self.name))
    }

    pub(crate) fn os_name(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }

    pub(crate) fn is_dot(&self) -> bool {
        self.name == b"."
    }
}

struct Level {
    fd: OwnedFd,
    id: FileId,
    access: Access,
    site: Option<DirLocation>,
}

struct Walk<'a, 'o> {
    scope: &'a Scope,
    /// Staged changes of the call; they take precedence over the real tree.
    layers: Option<&'o Layers>,
    start: BorrowedFd<'a>,
    start_id: FileId,
    start_access: Access,
    /// `None` if no decision depends on paths; the same in every level.
    start_site: Option<DirLocation>,
    levels: Vec<Level>,
    /// Remaining components, the next one last.
    queue: Vec<Vec<u8>>,
    links: usize,
    dir_only: bool,
}

impl Scope {
    pub(crate) fn walk<'a>(
        &'a self,
        dir: BorrowedFd<'a>,
        access: Access,
        path: &str,
        last: FinalLink,
    ) -> Result<ResolvedPath<'a>, PathError> {
        self.walk_over(None, dir, access, path, last)
    }

    pub(crate) fn walk_over<'a>(
        &'a self,
        over: Option<&Layers>,
        dir: BorrowedFd<'a>,
        access: Access,
        path: &str,
        last: FinalLink,
    ) -> Result<ResolvedPath<'a>, PathError> {
        check_path(path)?;
        let start_id = Stat::of(dir)?.id;
        let mut walk = Walk {
            scope: self,
            layers: over,
            start: dir,
            start_id,
            start_access: access.min(self.cap),
            start_site: if self.needs_locations() {
                Some(self.locate(over, dir, start_id)?)
            } else {
                None
            },
            levels: Vec::new(),
            queue: Vec::new(),
            links: 0,
            dir_only: false,
        };
        walk.push(path.as_bytes());
        walk.run(last)
    }
}

impl<'a> Walk<'a, '_> {
    /// Queues the components of `path` before the remaining ones.
    fn push(&mut self, path: &[u8]) {
        // A trailing slash in a link's target matters only if no component follows.
        if self.queue.is_empty() {
            self.dir_only |= path.ends_with(b"/");
        }
        let parts = path.split(|byte| *byte == b'/').rev();
        self.queue
            .extend(parts.filter(|part| !part.is_empty()).map(<[u8]>::to_vec));
    }

    fn run(mut self, last: FinalLink) -> Result<ResolvedPath<'a>, PathError> {
        for _ in 0..MAX_STEPS {
            let Some(name) = self.queue.pop() else {
                return self.finish_here();
            };
            if name == b"." {
                continue;
            }
            if name == b".." {
                // The parent of the start is refused without a lookup.
                self.levels.pop().ok_or(PathError::NotPermitted)?;
                continue;
            }
            let is_last = self.queue.is_empty();
            let shield = self.scope.rules.marks.protection_of(self.id(), &name);
            if shield == Some(Protection::Hidden) {
                return Err(PathError::NotPermitted);
            }
            let is_new_dir = is_last && self.dir_only && last == FinalLink::FollowToCreate;
            let found = match self.look_up(&name) {
                Ok((fd, origin)) => Some(self.found(fd, origin, &name, shield)?),
                Err(Errno::NOENT) => None,
                Err(_) if is_new_dir => None,
                Err(errno) => return Err(open_error(errno)),
            };
            if self.is_excluded(&name, found.as_ref()) {
                return Err(PathError::NotPermitted);
            }
            if is_new_dir {
                return Err(PathError::IsDirectory);
            }
            self.record_read(&name, found.as_ref(), is_last);
            let found = match found {
                Some(found) => found,
                None if is_last => return Ok(self.resolved(name, shield, None)),
                None => return Err(PathError::NotFound),
            };
            let follow = !is_last
                || match last {
                    FinalLink::Follow | FinalLink::FollowToCreate => true,
                    FinalLink::FollowIfSlash => self.dir_only,
                    FinalLink::Exact => false,
                };
            if found.stat.kind == EntryKind::Symlink && follow {
                self.follow(&found)?;
            } else if is_last {
                return Ok(self.resolved(name, shield, Some(found)));
            } else {
                self.descend(&name, found)?;
            }
        }
        Err(PathError::Loop)
    }

    fn look_up(&self, name: &[u8]) -> Result<(OwnedFd, Origin), Errno> {
        if let Some(layers) = self.layers {
            return layers.lookup(self.fd(), self.id(), name);
        }
        let fd = open_beneath(self.fd(), name, NAME_ONLY, Mode::empty(), BENEATH)?;
        Ok((fd, Origin::Real))
    }

    fn found(
        &self,
        fd: OwnedFd,
        origin: Origin,
        name: &[u8],
        shield: Option<Protection>,
    ) -> Result<ResolvedEntry, PathError> {
        let stat = Stat::of(&fd)?;
        let granted = self.scope.rules.marks.file(self.id(), name);
        let here = granted.map_or(self.access(), |access| access.min(self.scope.cap));
        let mut access = self.scope.enter(stat.id, here)?;
        if shield.is_some() {
            access = Access::ReadOnly;
        }
        Ok(ResolvedEntry {
            fd,
            stat,
            access,
            origin,
        })
    }

    fn follow(&mut self, link: &ResolvedEntry) -> Result<(), PathError> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(PathError::Loop);
        }
        let target = rustix::fs::readlinkat(&link.fd, "", Vec::new())?.into_bytes();
        match target.as_slice() {
            [] => Err(PathError::NotFound),
            [b'/', ..] => Err(PathError::NotPermitted),
            long if long.len() >= PATH_MAX => Err(PathError::NameTooLong),
            target => {
                self.push(target);
                Ok(())
            }
        }
    }

    fn is_excluded(&self, name: &[u8], found: Option<&ResolvedEntry>) -> bool {
        let Some(site) = self.site() else {
            return false;
        };
        let found = found.map(|found| (found.stat.id, found.stat.kind));
        self.scope.is_denied(site, name)
            || self.scope.rules.marks.file(self.id(), name).is_none()
                && self.scope.is_excluded(site, name, found)
    }

    /// Records the read, except of entries that the call itself wrote.
    fn record_read(&self, name: &[u8], found: Option<&ResolvedEntry>, is_last: bool) {
        let (Some(reads), Some(site)) = (&self.scope.reads, self.site()) else {
            return;
        };
        match found.map(|found| &found.origin) {
            None if self
                .layers
                .is_some_and(|over| over.is_changed(self.id(), name)) => {}
            Some(Origin::Item(_)) => {}
            Some(Origin::Moved(real)) => reads.record_tree(real.path()),
            None | Some(Origin::Real) => {
                let stat = found.map(|found| &found.stat);
                reads.record_name(site.host_path(self.scope, name), stat, !is_last);
            }
        }
    }

    fn descend(&mut self, name: &[u8], found: ResolvedEntry) -> Result<(), PathError> {
        if found.stat.kind != EntryKind::Directory {
            return Err(PathError::NotDirectory);
        }
        if self.levels.len() == MAX_DEPTH {
            return Err(PathError::NameTooLong);
        }
        let site = self.site();
        let site = site.map(|site| self.scope.child_location(site, name, found.stat.id));
        self.levels.push(Level {
            fd: found.fd,
            id: found.stat.id,
            access: found.access,
            site,
        });
        Ok(())
    }

    /// The path ended in `.` or `..`, or in a link to one of them.
    fn finish_here(self) -> Result<ResolvedPath<'a>, PathError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open_beneath(self.fd(), ".", flags, Mode::empty(), BENEATH).map_err(open_error)?;
        let found = ResolvedEntry {
            stat: Stat::of(&fd)?,
            fd,
            access: self.access(),
            origin: Origin::Real,
        };
        self.record_read(b".", Some(&found), true);
        Ok(self.resolved(b".".to_vec(), None, Some(found)))
    }

    fn resolved(
        mut self,
        name: Vec<u8>,
        shield: Option<Protection>,
        found: Option<ResolvedEntry>,
    ) -> ResolvedPath<'a> {
        let (access, depth, parent_id) = (self.access(), self.levels.len(), self.id());
        let site = self.site().cloned();
        let file_only = self.scope.rules.marks.file(parent_id, &name).is_some();
        ResolvedPath {
            start: self.start,
            start_id: self.start_id,
            parent_fd: self.levels.pop().map(|level| level.fd),
            parent_id,
            access,
            depth,
            name,
            is_protected: shield.is_some(),
            file_only,
            location: site,
            dir_only: self.dir_only,
            found,
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.levels
            .last()
            .map_or(self.start, |level| level.fd.as_fd())
    }

    fn id(&self) -> FileId {
        self.levels.last().map_or(self.start_id, |level| level.id)
    }

    fn site(&self) -> Option<&DirLocation> {
        self.levels
            .last()
            .map_or(self.start_site.as_ref(), |level| level.site.as_ref())
    }

    fn access(&self) -> Access {
        self.levels
            .last()
            .map_or(self.start_access, |level| level.access)
    }
}
