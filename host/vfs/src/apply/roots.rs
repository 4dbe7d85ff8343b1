//! The granted directories held open, and the resolution of paths below them one component at a time, without
//! following symbolic links.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsString,
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt as _,
    },
    path::PathBuf,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use super::ApplyError;
use crate::{
    BaseStat, Change, ContentHash, EntryKind, FileState, Location, PathState, Scope, Stat,
    sys::{BENEATH, open_beneath},
};

/// The granted directories, held open, by host path.
#[derive(Debug)]
pub struct Roots(HashMap<PathBuf, OwnedFd>);

impl Roots {
    pub fn of(scope: &Scope) -> io::Result<Self> {
        let held = scope
            .roots()
            .iter()
            .map(|root| Ok((root.host().to_owned(), root.dir().try_clone()?)));
        held.collect::<io::Result<_>>().map(Self)
    }

    /// Checks that the directory of each change is still at its granted path.
    ///
    /// Recovery and undo open directories by path, so a commit to a directory that was moved could not be
    /// completed.
    pub fn check_in_place<'c>(
        &self,
        changes: impl IntoIterator<Item = &'c Change>,
    ) -> Result<(), ApplyError> {
        let locations = |change: &'c Change| [Some(&change.at), change.moved_from.as_ref()];
        let paths = changes.into_iter().flat_map(locations).flatten();
        for path in paths.map(|at| &at.root).collect::<BTreeSet<_>>() {
            let held = self.0.get(path).map(Stat::of);
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            let there = rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve);
            let there = there.ok().map(Stat::of);
            match (held, there) {
                (Some(Ok(held)), Some(Ok(there))) if held.id == there.id => {}
                _ => return Err(ApplyError::RootMoved(path.clone())),
            }
        }
        Ok(())
    }

    /// Opens directories for recovery and undo, when the scope of the call is gone.
    pub fn open(paths: impl IntoIterator<Item = PathBuf>) -> Result<Self, ApplyError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = |path: PathBuf| {
            let opened = if path.is_absolute() {
                rustix::fs::openat2(CWD, &path, flags, Mode::empty(), resolve)
            } else {
                Err(Errno::INVAL)
            };
            match opened {
                Ok(dir) => Ok((path, dir)),
                Err(errno) => Err(ApplyError::Root {
                    path,
                    source: errno.into(),
                }),
            }
        };
        paths
            .into_iter()
            .map(open)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Opens a file for reading, without following symbolic links.
    pub fn open_file(&self, at: &Location) -> Result<File, ApplyError> {
        self.entry(at)?.open_file()
    }

    pub(super) fn root(&self, at: &Location) -> Result<BorrowedFd<'_>, ApplyError> {
        match self.0.get(&at.root) {
            Some(dir) => Ok(dir.as_fd()),
            None => Err(ApplyError::UnknownRoot(at.root.clone())),
        }
    }

    /// The parent directory of a path and its last name, or `None` if the parent does not exist.
    pub(super) fn parent(&self, at: &Location) -> Result<Option<EntryRef>, ApplyError> {
        let root = self.root(at)?;
        let (parent, name) = split(at)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = BENEATH | ResolveFlags::NO_SYMLINKS;
        match open_beneath(root, parent, flags, Mode::empty(), resolve) {
            Ok(dir) => Ok(Some(EntryRef {
                dir,
                name: name.to_owned(),
                at: at.clone(),
            })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(ApplyError::Io {
                operation: "reach",
                at: at.clone(),
                source: errno.into(),
            }),
        }
    }

    /// Like [`Self::parent`], but the parent must exist.
    pub(super) fn entry(&self, at: &Location) -> Result<EntryRef, ApplyError> {
        self.parent(at)?.ok_or_else(|| ApplyError::Io {
            operation: "reach",
            at: at.clone(),
            source: Errno::NOENT.into(),
        })
    }

    /// Reads the current state of a path. If its metadata equals `base`, the content is assumed to match
    /// `expected`.
    pub(super) fn observe(
        &self,
        at: &Location,
        expected: Option<(&PathState, &BaseStat)>,
    ) -> Result<Observation, ApplyError> {
        match self.parent(at)? {
            Some(spot) => spot.observe(expected),
            None => Ok(Observation::absent()),
        }
    }
}

/// A name in a directory that is held open.
pub(super) struct EntryRef {
    pub dir: OwnedFd,
    pub name: String,
    pub at: Location,
}

/// The state observed at a path.
#[derive(Debug)]
pub(super) struct Observation {
    /// `None` if it is not a file, directory or link.
    pub image: Option<PathState>,
    pub stat: Option<BaseStat>,
}

impl Observation {
    fn absent() -> Self {
        Self {
            image: Some(PathState::Absent),
            stat: None,
        }
    }

    pub(super) fn is(&self, expected: &PathState) -> bool {
        self.image
            .as_ref()
            .is_some_and(|image| image.is_same(expected))
    }

    pub(super) fn is_absent(&self) -> bool {
        self.image == Some(PathState::Absent)
    }
}

impl EntryRef {
    pub(super) fn observe(
        &self,
        expected: Option<(&PathState, &BaseStat)>,
    ) -> Result<Observation, ApplyError> {
        let raw = match rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(raw) => raw,
            Err(Errno::NOENT) => return Ok(Observation::absent()),
            Err(errno) => return Err(self.failed("look at")(errno)),
        };
        let mode = raw.st_mode & 0o7777;
        let stat = Stat::from(raw);
        let image = match stat.kind {
            EntryKind::Directory => Some(PathState::Dir { mode }),
            EntryKind::Symlink => {
                let target = rustix::fs::readlinkat(&self.dir, &self.name, Vec::new())
                    .map_err(self.failed("look at"))?;
                let target = OsString::from_vec(target.into_bytes()).into();
                Some(PathState::Link { target })
            }
            EntryKind::File => return self.observe_file(expected),
            EntryKind::Fifo
            | EntryKind::Socket
            | EntryKind::CharDevice
            | EntryKind::BlockDevice
            | EntryKind::Unknown => None,
        };
        Ok(Observation {
            image,
            stat: Some(BaseStat::from(&stat)),
        })
    }

    fn observe_file(
        &self,
        expected: Option<(&PathState, &BaseStat)>,
    ) -> Result<Observation, ApplyError> {
        let file = self.open_file()?;
        let raw = rustix::fs::fstat(&file).map_err(self.failed("look at"))?;
        let stat = Stat::from(raw);
        let base = BaseStat::from(&stat);
        let hash = match expected {
            Some((PathState::File(known), known_stat)) if *known_stat == base => known.hash,
            _ => ContentHash::of_reader(&file).map_err(|source| self.io("read", source))?,
        };
        let image = (stat.kind == EntryKind::File).then_some(PathState::File(FileState {
            hash,
            size: stat.size,
            mode: raw.st_mode & 0o7777,
        }));
        Ok(Observation {
            image,
            stat: Some(base),
        })
    }

    pub(super) fn stat(&self) -> Option<BaseStat> {
        let raw = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(BaseStat::from(&Stat::from(raw)))
    }

    /// Opens for reading, without blocking on special files.
    pub(super) fn open_file(&self) -> Result<File, ApplyError> {
        self.open(OFlags::RDONLY).map_err(self.failed("open"))
    }

    pub(super) fn open(&self, how: OFlags) -> Result<File, Errno> {
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mode = if how.contains(OFlags::CREATE) {
            Mode::from_raw_mode(0o600)
        } else {
            Mode::empty()
        };
        let resolve = BENEATH | ResolveFlags::NO_SYMLINKS;
        open_beneath(self.dir.as_fd(), self.name.as_str(), flags, mode, resolve).map(File::from)
    }

    pub(super) fn failed(&self, operation: &'static str) -> impl Fn(Errno) -> ApplyError + '_ {
        move |errno| self.io(operation, errno.into())
    }

    pub(super) fn io(&self, operation: &'static str, source: io::Error) -> ApplyError {
        ApplyError::Io {
            operation,
            at: self.at.clone(),
            source,
        }
    }
}

/// The journal can be damaged, so its paths are validated before they reach the kernel.
fn split(at: &Location) -> Result<(&str, &str), ApplyError> {
    let usable = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    if !at.path.split('/').all(usable) {
        return Err(ApplyError::BadPath(at.clone()));
    }
    Ok(at.path.rsplit_once('/').unwrap_or((".", &at.path)))
}
