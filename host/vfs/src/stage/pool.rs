//! Host directory that holds the new files, directories and links of a call until they are committed.
//!
//! It is flat: each object is named by a number, and its directories stay empty. Only the layers record nesting and
//! names, so no guest-chosen name reaches the pool, and moves cost nothing.

use std::{
    collections::hash_map::RandomState,
    ffi::OsStr,
    fs::{DirBuilder, File},
    hash::{BuildHasher, Hasher},
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, ResolveFlags, Timespec, Timestamps},
    io::Errno,
};

use super::base::Base;
use crate::{
    EntryKind, OpenHow, PathError,
    sys::{BENEATH, NAME_ONLY, open_beneath, open_error},
};

/// One object in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolItem {
    number: u64,
    pub kind: EntryKind,
}

impl PoolItem {
    fn name(self) -> String {
        self.number.to_string()
    }
}

#[derive(Debug)]
pub(super) struct Pool {
    path: PathBuf,
    dir: OwnedFd,
    next: u64,
    /// Total size of the pool's files at the last count, plus what was copied since.
    estimated_bytes: u64,
    /// Number of objects at which the next count happens.
    count_at: u64,
}

impl Pool {
    /// Creates a directory in `parent` that only this user can access.
    pub(super) fn create(parent: &Path) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
        // The hasher's random keys make the name unguessable; an existing directory is never reused.
        let name = format!("call-{:016x}", RandomState::new().build_hasher().finish());
        let path = parent.join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&path, flags, Mode::empty())?;
        // The umask can remove more than other users' access.
        rustix::fs::fchmod(&dir, Mode::RWXU)?;
        Ok(Self {
            path,
            dir,
            next: 0,
            estimated_bytes: 0,
            count_at: 64,
        })
    }

    pub(super) fn path_of(&self, item: PoolItem) -> PathBuf {
        self.path.join(item.name())
    }

    /// An `O_PATH` descriptor of the object.
    pub(super) fn name(&self, item: PoolItem) -> Result<OwnedFd, Errno> {
        open_beneath(
            self.dir.as_fd(),
            &item.name(),
            NAME_ONLY,
            Mode::empty(),
            BENEATH,
        )
    }

    pub(super) fn open(&self, item: PoolItem, how: OpenHow) -> Result<OwnedFd, PathError> {
        let flags = how.flags().difference(OFlags::CREATE | OFlags::EXCL) | OFlags::NOFOLLOW;
        self.open_with(item, flags)
    }

    pub(super) fn open_with(&self, item: PoolItem, flags: OFlags) -> Result<OwnedFd, PathError> {
        let resolve = BENEATH | ResolveFlags::NO_SYMLINKS;
        open_beneath(
            self.dir.as_fd(),
            &item.name(),
            flags,
            Mode::empty(),
            resolve,
        )
        .map_err(open_error)
    }

    pub(super) fn create_file(&mut self, how: OpenHow) -> Result<(OwnedFd, PoolItem), PathError> {
        let item = self.number(EntryKind::File);
        let flags = how.flags() | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o666);
        let fd = open_beneath(self.dir.as_fd(), &item.name(), flags, mode, BENEATH)?;
        Ok((fd, item))
    }

    pub(super) fn create_dir(&mut self) -> Result<PoolItem, PathError> {
        let item = self.number(EntryKind::Directory);
        rustix::fs::mkdirat(&self.dir, item.name(), Mode::from_raw_mode(0o777))?;
        Ok(item)
    }

    pub(super) fn create_link(&mut self, target: &OsStr) -> Result<PoolItem, PathError> {
        let item = self.number(EntryKind::Symlink);
        rustix::fs::symlinkat(target, &self.dir, item.name())?;
        Ok(item)
    }

    /// Creates a hard link to a file or link of the pool.
    pub(super) fn link(&mut self, old: PoolItem) -> Result<PoolItem, PathError> {
        let item = self.number(old.kind);
        let none = AtFlags::empty();
        rustix::fs::linkat(&self.dir, old.name(), &self.dir, item.name(), none)?;
        Ok(item)
    }

    /// Copies a real file with its mode and times, as a reflink if the file system supports it. `limit` bounds a
    /// file that grows during the copy.
    pub(super) fn copy(
        &mut self,
        from: &File,
        base: &Base,
        limit: u64,
    ) -> Result<PoolItem, PathError> {
        let (item, to) = self.create_like(base)?;
        let copied = io::copy(&mut from.take(limit.saturating_add(1)), &mut File::from(to));
        let refusal = match copied {
            Ok(bytes) if bytes <= limit => {
                self.estimated_bytes = self.estimated_bytes.saturating_add(bytes);
                self.copy_times(item, base).err()
            }
            Ok(_) => Some(PathError::NoSpace),
            Err(error) => Some(path_error(&error)),
        };
        match refusal {
            None => Ok(item),
            Some(refusal) => {
                self.remove(item)?;
                Err(refusal)
            }
        }
    }

    /// Creates an empty file with the mode of a real one that is about to be truncated.
    pub(super) fn create_like(&mut self, base: &Base) -> Result<(PoolItem, OwnedFd), PathError> {
        let item = self.number(EntryKind::File);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = open_beneath(self.dir.as_fd(), &item.name(), flags, Mode::RUSR, BENEATH)?;
        rustix::fs::fchmod(&fd, Mode::from_raw_mode(base.mode))?;
        Ok((item, fd))
    }

    fn copy_times(&self, item: PoolItem, base: &Base) -> Result<(), PathError> {
        use crate::{NewTime, mutate::timespec};
        let spec = |time: Option<std::time::SystemTime>| -> Result<Timespec, PathError> {
            timespec(time.map_or(NewTime::Keep, NewTime::At))
        };
        let times = Timestamps {
            last_access: spec(base.stat.accessed)?,
            last_modification: spec(base.stat.modified)?,
        };
        self.set_times(item, &times)
    }

    pub(super) fn set_times(&self, item: PoolItem, times: &Timestamps) -> Result<(), PathError> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(&self.dir, item.name(), times, flags)?)
    }

    pub(super) fn remove(&self, item: PoolItem) -> Result<(), PathError> {
        let flags = match item.kind {
            EntryKind::Directory => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        match rustix::fs::unlinkat(&self.dir, item.name(), flags) {
            // Already committed: a commit may rename the file away.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Bytes left for another copy. Not recounted each time, which would make many copies slow.
    pub(super) fn remaining_bytes(&mut self, limit: u64) -> Result<u64, PathError> {
        if self.next >= self.count_at || self.estimated_bytes >= limit {
            self.estimated_bytes = self.bytes().map_err(|error| path_error(&error))?;
            self.count_at = self.next.saturating_mul(2);
        }
        Ok(limit.saturating_sub(self.estimated_bytes))
    }

    /// Total size of all files; hard links count again.
    pub(super) fn bytes(&self) -> io::Result<u64> {
        let mut bytes: u64 = 0;
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            let entry = entry?;
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let stat = match rustix::fs::statat(&self.dir, entry.file_name(), flags) {
                Err(Errno::NOENT) => continue,
                stat => crate::Stat::from(stat?),
            };
            if stat.kind == EntryKind::File {
                bytes = bytes.saturating_add(stat.size);
            }
        }
        Ok(bytes)
    }

    fn number(&mut self, kind: EntryKind) -> PoolItem {
        let number = self.next;
        self.next += 1;
        PoolItem { number, kind }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Leftovers are removed by the sweep of stages whose process has ended.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

pub(super) fn path_error(error: &io::Error) -> PathError {
    Errno::from_io_error(error).map_or(PathError::Io(Errno::IO), PathError::from)
}
