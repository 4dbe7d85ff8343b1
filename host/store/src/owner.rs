//! Process ownership of calls, and detection of ended processes.
//!
//! Process ids are reused and timestamps can be wrong, but the kernel always releases a file lock when its process
//! ends.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::StoreError;

/// The id of this process among the owners; its lock is held until this value is dropped.
#[derive(Debug)]
pub struct Owner {
    id: String,
    path: PathBuf,
    _lock: File,
}

impl Owner {
    pub fn register(owners: &Path) -> Result<Self, StoreError> {
        // A process that checks for ended owners can briefly lock the new file, or remove it before it is locked,
        // so a few new names are tried.
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
        // A leftover file is removed by the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the owner with this id is still running.
pub fn is_alive(owners: &Path, id: &str) -> bool {
    // The id comes from a table; only ids that this program can generate become part of a path.
    is_name(id) && try_lock(&file(owners, id)).is_none_or(|taken| !taken)
}

/// Whether a process can have this id.
pub fn is_name(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes the lock files of ended owners.
pub fn sweep(owners: &Path) -> Result<(), StoreError> {
    let entries = fs::read_dir(owners).map_err(|error| StoreError::io(owners, &error))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "lock")
            && try_lock(&path) == Some(true)
        {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

/// Whether the lock can be taken; `None` if that cannot be determined. Uses a shared lock, so that two processes
/// that check at the same time do not take each other for the owner.
fn try_lock(path: &Path) -> Option<bool> {
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
