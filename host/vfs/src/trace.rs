//! Resolves a host path link by link before it is granted, to record the links and missing names that it depends
//! on.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};

use crate::FileId;

/// Result of tracing a path.
pub(crate) struct PathTrace {
    /// Each symbolic link on the way, as (directory without links, name).
    pub links: Vec<(PathBuf, OsString)>,
    pub end: TraceEnd,
}

pub(crate) enum TraceEnd {
    /// The path without links.
    Found(PathBuf),
    /// The last existing directory, and the first missing name.
    Missing { dir: PathBuf, name: OsString },
}

pub(crate) fn trace(path: &Path) -> io::Result<PathTrace> {
    let mut links = Vec::new();
    let mut queue = VecDeque::new();
    push_front(&mut queue, path);
    let mut here = PathBuf::from("/");
    while let Some(name) = queue.pop_front() {
        if name == OsStr::new("/") {
            here = PathBuf::from("/");
            continue;
        }
        if name == OsStr::new("..") {
            // `here` never contains a link, so its textual parent is its real one.
            here.pop();
            continue;
        }
        let next = here.join(&name);
        match std::fs::symlink_metadata(&next) {
            Ok(metadata) if metadata.is_symlink() => {
                if links.len() == 40 {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                push_front(&mut queue, &std::fs::read_link(&next)?);
                links.push((here.clone(), name));
            }
            Ok(_) => here = next,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(PathTrace {
                    links,
                    end: TraceEnd::Missing { dir: here, name },
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(PathTrace {
        links,
        end: TraceEnd::Found(here),
    })
}

fn push_front(queue: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::CurDir => {}
            other => queue.push_front(other.as_os_str().to_owned()),
        }
    }
}

/// One inode as seen through one mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountedInode {
    pub id: FileId,
    /// 0 on kernels before 5.8, which do not report it.
    pub mount: u64,
}

impl MountedInode {
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let stat = rustix::fs::fstat(fd)?;
        let mount = match rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID) {
            Ok(answer) if answer.stx_mask & StatxFlags::MNT_ID.bits() != 0 => answer.stx_mnt_id,
            _ => 0,
        };
        Ok(Self {
            id: crate::Stat::from(stat).id,
            mount,
        })
    }

    /// Whether both are views of one file system through different mounts. A directory of one can then be a
    /// directory of the other without being its parent.
    pub(crate) fn is_alias_of(self, other: Self) -> bool {
        self.id.dev() == other.id.dev() && self.mount != other.mount
    }
}

/// An open inode and all directories above it, nearest first.
pub(crate) struct Ancestry {
    pub inode: MountedInode,
    pub ancestors: Vec<FileId>,
}

impl Ancestry {
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        const UP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
        let inode = MountedInode::of(fd)?;
        let mut above = Vec::new();
        let mut here: OwnedFd = rustix::fs::openat(fd, "..", UP, Mode::empty())?;
        let mut below = inode;
        loop {
            let now = MountedInode::of(here.as_fd())?;
            // The root directory is its own parent.
            if now == below {
                return Ok(Self {
                    inode,
                    ancestors: above,
                });
            }
            above.push(now.id);
            below = now;
            here = rustix::fs::openat(&here, "..", UP, Mode::empty())?;
        }
    }

    /// The ancestry of a directory given by a path without links.
    pub(crate) fn of_dir(path: &Path) -> io::Result<Self> {
        let fd = rustix::fs::openat(
            CWD,
            path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Self::of(fd.as_fd())
    }

    pub(crate) fn self_and_ancestors(&self) -> impl Iterator<Item = FileId> {
        std::iter::once(self.inode.id).chain(self.ancestors.iter().copied())
    }

    pub(crate) fn is_in(&self, dir: FileId) -> bool {
        self.self_and_ancestors().any(|id| id == dir)
    }
}
