//! Inodes and names at which the access level changes during a walk.

use std::collections::{HashMap, HashSet};

use crate::{Access, FileId, PathError, Protection};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessMark {
    /// A granted directory, or a write-protected path: this access applies below it.
    Access(Access),
    Hidden,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct AccessMarks {
    inodes: HashMap<FileId, AccessMark>,
    /// Protected names in a directory, in addition to inodes: the host replaces its files by rename, and a file
    /// that does not exist yet has no inode.
    names: HashMap<FileId, HashMap<String, Protection>>,
    /// Granted and protected paths and all their parent directories. If one were moved, a guest could create
    /// another entry at the path that the host uses.
    pinned: HashSet<FileId>,
    /// Files that were granted individually, by name, because saving a file can replace its inode.
    files: HashMap<FileId, HashMap<Vec<u8>, Access>>,
    /// Directories of such files that no directory grant covers: their other entries are not visible.
    closed: HashSet<FileId>,
}

impl AccessMarks {
    /// A directory that is granted twice gets the narrower access.
    pub(crate) fn grant(&mut self, id: FileId, access: Access) -> Access {
        let mark = self.inodes.entry(id).or_insert(AccessMark::Access(access));
        if let AccessMark::Access(known) = mark {
            *known = access.min(*known);
        }
        self.pinned.insert(id);
        match mark {
            AccessMark::Access(known) => *known,
            AccessMark::Hidden => Access::ReadOnly,
        }
    }

    pub(crate) fn protect_inode(&mut self, id: FileId, shield: Protection) {
        self.pinned.insert(id);
        match shield {
            Protection::Hidden => {
                self.inodes.insert(id, AccessMark::Hidden);
            }
            Protection::ReadOnly if self.inodes.get(&id) == Some(&AccessMark::Hidden) => {}
            Protection::ReadOnly => {
                self.inodes.insert(id, AccessMark::Access(Access::ReadOnly));
            }
        }
    }

    pub(crate) fn protect_name(&mut self, dir: FileId, name: &[u8], shield: Protection) {
        let known = self
            .names
            .entry(dir)
            .or_default()
            .entry(case_folded(name))
            .or_insert(shield);
        *known = shield.max(*known);
    }

    pub(crate) fn pin(&mut self, id: FileId) {
        self.pinned.insert(id);
    }

    pub(crate) fn is_pinned(&self, id: FileId) -> bool {
        self.pinned.contains(&id)
    }

    /// The access inside `id` when entered from a directory with `access`.
    pub(crate) fn enter(&self, id: FileId, access: Access) -> Result<Access, PathError> {
        match self.inodes.get(&id) {
            None => Ok(access),
            Some(AccessMark::Access(own)) => Ok(*own),
            Some(AccessMark::Hidden) => Err(PathError::NotPermitted),
        }
    }

    /// The access that a directory was granted with.
    pub(crate) fn access(&self, id: FileId) -> Option<Access> {
        match self.inodes.get(&id)? {
            AccessMark::Access(access) => Some(*access),
            AccessMark::Hidden => None,
        }
    }

    pub(crate) fn protection_of(&self, dir: FileId, name: &[u8]) -> Option<Protection> {
        if self.closed.contains(&dir) && self.file(dir, name).is_none() {
            return Some(Protection::Hidden);
        }
        self.names.get(&dir)?.get(&case_folded(name)).copied()
    }

    /// A file that is granted twice gets the narrower access.
    pub(crate) fn grant_file(&mut self, dir: FileId, name: &[u8], access: Access) {
        let names = self.files.entry(dir).or_default();
        let known = names.entry(name.to_vec()).or_insert(access);
        *known = access.min(*known);
    }

    pub(crate) fn close(&mut self, dir: FileId) {
        self.closed.insert(dir);
    }

    pub(crate) fn file(&self, dir: FileId, name: &[u8]) -> Option<Access> {
        self.files.get(&dir)?.get(name).copied()
    }

    pub(crate) fn has_files(&self) -> bool {
        !self.files.is_empty()
    }
}

/// Some file systems ignore case. Protecting both spellings does not affect legitimate guests.
fn case_folded(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_lowercase()
}
