//! Where the store lies, and that nobody else can put something there.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::StoreError;

/// The directory of a store and the names in it.
#[derive(Debug, Clone)]
pub struct Place {
    pub database: PathBuf,
    pub owners: PathBuf,
    /// Contents of files that were replaced or removed; made when first asked for.
    pub blobs: PathBuf,
    /// What calls have written and nobody has committed; made when first asked for.
    pub stage: PathBuf,
}

impl Place {
    /// Makes what is missing: directories for their owner alone, and an empty file that SQLite fills later.
    pub fn prepare(dir: &Path) -> Result<Self, StoreError> {
        private_dir(dir)?;
        // SQLite opens no path that goes through a link, and a state folder may be one that its user made.
        let dir = &dir
            .canonicalize()
            .map_err(|error| StoreError::io(dir, &error))?;
        // SQLite would say that it cannot open a file, and not that it may not make one.
        rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| StoreError::io(dir, &error.into()))?;
        let place = Self {
            database: dir.join("store.db"),
            owners: dir.join("owners"),
            blobs: dir.join("blobs"),
            stage: dir.join("stage"),
        };
        private_dir(&place.owners)?;
        private_file(&place.database)?;
        Ok(place)
    }
}

/// Makes a directory for its owner alone, or checks that the one that is there may be trusted.
pub fn private_dir(dir: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::io(dir, &error);
    if let Some(parent) = dir.parent() {
        // Private whatever the umask is: the folder of the host's state may be among what is made here.
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
        // Whatever the umask is, it takes nothing from the owner.
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    check_dir(dir)
}

/// A directory that only its owner can change, and its owner is us.
pub fn check_dir(dir: &Path) -> Result<(), StoreError> {
    let metadata = fs::metadata(dir).map_err(|error| StoreError::io(dir, &error))?;
    if !metadata.is_dir() {
        return Err(StoreError::NotADirectory {
            path: dir.to_owned(),
        });
    }
    only_ours(dir, &metadata)
}

/// SQLite gives its log and its index the mode of the database, so this one file settles all three.
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
    // An existing file is looked at and never opened here: POSIX drops all locks of a process on a file when any of
    // its descriptors is closed, and another store of this process may hold some.
    let metadata = fs::symlink_metadata(file).map_err(failed)?;
    if !metadata.is_file() {
        return Err(StoreError::NotAFile {
            path: file.to_owned(),
        });
    }
    only_ours(file, &metadata)
}

fn only_ours(path: &Path, metadata: &fs::Metadata) -> Result<(), StoreError> {
    let path = path.to_owned();
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(StoreError::NotOurs {
            path,
            uid: metadata.uid(),
        });
    }
    match metadata.mode() & 0o7777 {
        mode if mode & 0o022 != 0 => Err(StoreError::Exposed { path, mode }),
        _ => Ok(()),
    }
}
