//! File metadata without platform-specific integers: identity, type, size and times.

use std::{
    os::fd::AsFd,
    time::{Duration, SystemTime},
};

use rustix::fs::FileType;

use crate::PathError;

/// Identity of a file while it exists. Access decisions use it instead of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    dev: u64,
    ino: u64,
}

impl FileId {
    pub fn dev(self) -> u64 {
        self.dev
    }

    pub fn ino(self) -> u64 {
        self.ino
    }

    pub(crate) fn new(dev: u64, ino: u64) -> Self {
        Self { dev, ino }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
    Unknown,
}

impl From<FileType> for EntryKind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::CharDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Unknown => Self::Unknown,
        }
    }
}

/// The metadata of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub id: FileId,
    pub kind: EntryKind,
    pub size: u64,
    pub links: u64,
    /// `None` if the value is outside the range of `SystemTime`.
    pub accessed: Option<SystemTime>,
    pub modified: Option<SystemTime>,
    pub changed: Option<SystemTime>,
}

impl Stat {
    /// The metadata of an open descriptor.
    pub fn of(fd: impl AsFd) -> Result<Self, PathError> {
        Ok(Self::from(rustix::fs::fstat(fd)?))
    }
}

impl From<rustix::fs::Stat> for Stat {
    // The raw fields have other widths and signs on other Linux architectures.
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        clippy::cast_sign_loss,
        reason = "see above"
    )]
    fn from(raw: rustix::fs::Stat) -> Self {
        Self {
            id: FileId::new(raw.st_dev as u64, raw.st_ino as u64),
            kind: FileType::from_raw_mode(raw.st_mode).into(),
            size: u64::try_from(raw.st_size).unwrap_or(0),
            links: raw.st_nlink as u64,
            accessed: time(raw.st_atime as i64, raw.st_atime_nsec as u64),
            modified: time(raw.st_mtime as i64, raw.st_mtime_nsec as u64),
            changed: time(raw.st_ctime as i64, raw.st_ctime_nsec as u64),
        }
    }
}

/// A file time can be before 1970 or far beyond the year 9999, so each step is checked.
fn time(seconds: i64, nanoseconds: u64) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    }?;
    second.checked_add(Duration::from_nanos(nanoseconds))
}
