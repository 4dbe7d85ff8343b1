//! Directories of the store, and checks that only this user can write to them.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::StoreError;

/// The directory of a store and the paths in it.
#[derive(Debug, Clone)]
pub struct StorePaths {
    pub database: PathBuf,
    pub owners: PathBuf,
    /// Content of replaced and removed files; created on first use.
    pub blobs: PathBuf,
    /// Staged files of calls; created on first use.
    pub stage: PathBuf,
}

impl StorePaths {
    /// Creates missing directories, accessible to this user only, and an empty database file.
    pub fn prepare(dir: &Path) -> Result<Self, StoreError> {
        private_dir(dir)?;
        // SQLite does not open paths that contain links, and users may link the state directory.
        let dir = &dir
            .canonicalize()
            .map_err(|error| StoreError::io(dir, &error))?;
        // SQLite would report that it cannot open the file, not that it cannot create one.
        rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| StoreError::io(dir, &error.into()))?;
        let paths = Self {
            database: dir.join("store.db"),
            owners: dir.join("owners"),
            blobs: dir.join("blobs"),
            stage: dir.join("stage"),
        };
        private_dir(&paths.owners)?;
        private_file(&paths.database)?;
        Ok(paths)
    }
}

/// Creates a directory for this user only, or checks that an existing one can be trusted.
pub fn private_dir(dir: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::io(dir, &error);
    if let Some(parent) = dir.parent() {
        // Private regardless of the umask, because the host's state directory can be among the created ones.
        let mut maker = DirBuilder::new();
        let made = maker.recursive(true).mode(0o700).create(parent);
        made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::NotADirectory {
                path: parent.to_owned(),
            },
            _ => StoreError::io(parent, &error),
        })?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        // The umask must not remove the owner's permissions.
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    check_dir(dir)
}

/// Checks that this user owns the directory and no other user can write to it.
pub fn check_dir(dir: &Path) -> Result<(), StoreError> {
    let metadata = fs::metadata(dir).map_err(|error| StoreError::io(dir, &error))?;
    if !metadata.is_dir() {
        return Err(StoreError::NotADirectory {
            path: dir.to_owned(),
        });
    }
    check_owner(dir, &metadata)
}

/// Identifies the file that a path named when the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    pub fn of(file: &Path) -> Result<Self, StoreError> {
        let metadata = fs::symlink_metadata(file).map_err(|error| StoreError::io(file, &error))?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    /// Fails if the path no longer names this file. Records written to a file that was moved away are not found.
    pub fn check(self, file: &Path) -> Result<(), StoreError> {
        if Self::of(file).is_ok_and(|found| found == self) {
            return Ok(());
        }
        Err(StoreError::Moved {
            path: file.to_owned(),
        })
    }
}

/// SQLite gives its WAL and shared-memory files the mode of the database, so setting this file's mode is
/// sufficient.
fn private_file(file: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::io(file, &error);
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(file) {
        Ok(made) => {
            made.set_permissions(Permissions::from_mode(0o600))
                .map_err(failed)?;
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    // An existing file is checked but not opened here: POSIX releases all locks of a process on a file when any of
    // its descriptors is closed, and another store of this process can hold some.
    let metadata = fs::symlink_metadata(file).map_err(failed)?;
    if !metadata.is_file() {
        return Err(StoreError::NotAFile {
            path: file.to_owned(),
        });
    }
    check_owner(file, &metadata)
}

fn check_owner(path: &Path, metadata: &fs::Metadata) -> Result<(), StoreError> {
    let path = path.to_owned();
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(StoreError::WrongOwner {
            path,
            uid: metadata.uid(),
        });
    }
    match metadata.mode() & 0o7777 {
        mode if mode & 0o022 != 0 => Err(StoreError::WritableByOthers { path, mode }),
        _ => Ok(()),
    }
}
