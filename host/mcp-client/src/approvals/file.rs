//! The approval file of one server.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use toolhost_hostfiles::{lock_within, open_regular_no_follow};

use super::{ApprovalError, ApprovalHead, ApprovedServer};
use crate::private_files::{private_file, private_folder};

/// Above the size of any file that is written.
const MAX_FILE: u64 = 64 << 20;

pub fn head(folder: &Path, server: &str) -> Result<Option<ApprovalHead>, ApprovalError> {
    parsed(folder, server)
}

pub fn read(folder: &Path, server: &str) -> Result<Option<ApprovedServer>, ApprovalError> {
    parsed(folder, server)
}

fn parsed<T: DeserializeOwned>(folder: &Path, server: &str) -> Result<Option<T>, ApprovalError> {
    let path = file_path(folder, server, "json")?;
    let file = match open_regular_no_follow(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ApprovalError::Io { path, source }),
    };
    let mut text = String::new();
    match file.take(MAX_FILE).read_to_string(&mut text) {
        Ok(_) => {}
        Err(source) => return Err(ApprovalError::Io { path, source }),
    }
    match serde_json::from_str(&text) {
        Ok(parsed) => Ok(Some(parsed)),
        Err(error) => Err(ApprovalError::Broken {
            server: server.to_owned(),
            path,
            reason: error.to_string(),
        }),
    }
}

/// Written atomically, and readable only by its owner.
pub fn write(folder: &Path, server: &str, known: &ApprovedServer) -> Result<(), ApprovalError> {
    let path = file_path(folder, server, "json")?;
    let write = || {
        // The temporary file has the mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let mut text = serde_json::to_vec(known)?;
        text.push(b'\n');
        file.write_all(&text)?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|source| ApprovalError::Io { path, source })
}

/// Removes the file without reading it, so that a broken file can be removed too.
pub fn remove(folder: &Path, server: &str) -> Result<bool, ApprovalError> {
    let _lock = lock(folder, server, super::LOCK_TIMEOUT)?;
    let path = file_path(folder, server, "json")?;
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(ApprovalError::Io { path, source }),
    }
}

/// Locks the approval until the returned file is dropped. A separate file, because the approval file is replaced.
pub fn lock(folder: &Path, server: &str, patience: Duration) -> Result<File, ApprovalError> {
    let path = file_path(folder, server, "lock")?;
    let open = || {
        private_folder(folder)?;
        private_file(
            File::options().create(true).truncate(false).write(true),
            &path,
        )
    };
    let file = match open() {
        Ok(file) => file,
        Err(source) => return Err(ApprovalError::Io { path, source }),
    };
    match lock_within(&file, patience) {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(source)) => Err(ApprovalError::Io { path, source }),
        Err(TryLockError::WouldBlock) => Err(ApprovalError::Busy { path }),
    }
}

/// Names of servers are validated when they are parsed. They are checked again here, because they become file names.
fn file_path(folder: &Path, server: &str, kind: &str) -> Result<PathBuf, ApprovalError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if server.is_empty() || !server.chars().all(plain) {
        return Err(ApprovalError::Io {
            path: folder.to_owned(),
            source: io::Error::other("it is not a server name"),
        });
    }
    Ok(folder.join(format!("{server}.{kind}")))
}
