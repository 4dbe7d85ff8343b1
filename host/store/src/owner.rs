//! Which process a call belongs to, and whether that process still lives.
//!
//! A process id can be given to another process and a time stamp can lie; a lock cannot: the kernel drops it when its
//! process ends, however it ends.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::StoreError;

/// Our own name among the owners, held for as long as this value lives.
#[derive(Debug)]
pub struct Owner {
    id: String,
    path: PathBuf,
    _lock: File,
}

impl Owner {
    pub fn enter(owners: &Path) -> Result<Self, StoreError> {
        // Whoever looks whether we live may hold our new file for a moment, or remove it before it is locked. A few
        // new names are enough to slip past.
        let mut last = io::Error::from(io::ErrorKind::WouldBlock);
        for _ in 0..16 {
            let id = random_id()?;
            let path = file(owners, &id);
            let made = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            let lock = made.map_err(|error| StoreError::io(owners, &error))?;
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if lock.metadata().is_ok_and(|data| data.nlink() > 0) => {
                    return Ok(Self {
                        id,
                        path,
                        _lock: lock,
                    });
                }
                Ok(()) => {}
                Err(error) => last = error.into(),
            }
        }
        Err(StoreError::io(owners, &last))
    }

    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // A file that stays behind is removed by the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the process that took this name still runs.
pub fn lives(owners: &Path, id: &str) -> bool {
    // The name comes from a table; only what we could have made becomes a path.
    is_name(id) && take(&file(owners, id)).is_none_or(|taken| !taken)
}

/// Whether a process could have this name.
pub fn is_name(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes the lock files whose owners are gone.
pub fn sweep(owners: &Path) -> Result<(), StoreError> {
    let entries = fs::read_dir(owners).map_err(|error| StoreError::io(owners, &error))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|word| word == "lock") && take(&path) == Some(true) {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

/// Whether the lock can be had; nothing when that cannot be told. A shared lock, so that two who look at the same time
/// do not take each other for the owner.
fn take(path: &Path) -> Option<bool> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path);
    match opened {
        Ok(file) => match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Some(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Some(false),
            Err(_) => None,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(true),
        Err(_) => None,
    }
}

fn file(owners: &Path, id: &str) -> PathBuf {
    owners.join(format!("{id}.lock"))
}

fn random_id() -> Result<String, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Random {
        detail: error.to_string(),
    })?;
    let mut id = String::with_capacity(32);
    for byte in bytes {
        let _ = write!(id, "{byte:02x}");
    }
    Ok(id)
}
