//! Metadata of a real entry when the call first accessed it.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt as _;

use crate::{EntryKind, LinkTarget, PathError, Stat};

#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub stat: Stat,
    /// Permission bits.
    pub mode: u32,
    /// Target of a symbolic link.
    pub target: Option<LinkTarget>,
}

impl Base {
    /// Fails for sockets and devices, which a [`crate::Change`] cannot represent.
    pub(crate) fn of(fd: impl AsFd) -> Result<Self, PathError> {
        let raw = rustix::fs::fstat(&fd)?;
        let stat = Stat::from(raw);
        let target = match stat.kind {
            EntryKind::File | EntryKind::Directory => None,
            EntryKind::Symlink => {
                let target = rustix::fs::readlinkat(fd, "", Vec::new())?;
                Some(OsString::from_vec(target.into_bytes()).into())
            }
            _ => return Err(PathError::Unsupported),
        };
        Ok(Self {
            stat,
            mode: raw.st_mode & 0o7777,
            target,
        })
    }

    /// Whether its metadata shows no write since. Not for directories, whose timestamps depend on their entries.
    pub(crate) fn is_unchanged(&self, now: &Stat) -> bool {
        let stat = &self.stat;
        (stat.id, stat.kind, stat.size, stat.modified, stat.changed)
            == (now.id, now.kind, now.size, now.modified, now.changed)
    }
}
