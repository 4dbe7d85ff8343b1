//! The host's directory for outputs and temporary files. Its lock file shows the next host whether the directory was
//! left behind by a crash.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::{OpenPath, ProcessError};

const PREFIX: &str = "host-";
const LOCK: &str = "lock";

/// Removed with its contents on drop.
#[derive(Debug)]
pub struct OutputDirectory {
    path: PathBuf,
    /// Held while the directory is in use.
    _lock: File,
}

impl OutputDirectory {
    pub fn new(parent: &Path) -> Result<OutputDirectory, ProcessError> {
        let failed = |source| ProcessError::Folder {
            path: parent.to_owned(),
            source,
        };
        create_private_dirs(parent).map_err(failed)?;
        // Sandbox rules are resolved by path, so the path must not contain symbolic links.
        let parent = parent.canonicalize().map_err(failed)?;
        remove_stale(&parent);
        (0..1000)
            .find_map(|number| OutputDirectory::try_create(&parent, number).transpose())
            .unwrap_or_else(|| Err(io::Error::other("a thousand hosts are running already")))
            .map_err(failed)
    }

    /// Returns `None` if the directory exists already.
    fn try_create(parent: &Path, number: usize) -> io::Result<Option<OutputDirectory>> {
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            other => other?,
        }
        let lock = File::create_new(path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Some(OutputDirectory { path, _lock: lock }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a directory for a session, with a subdirectory for outputs.
    pub fn session(&self, number: u64) -> Result<SessionDirectory, ProcessError> {
        let path = self.path.join(number.to_string());
        let folder = SessionDirectory { path };
        folder.create_dir(&folder.outputs())?;
        Ok(folder)
    }
}

impl Drop for OutputDirectory {
    fn drop(&mut self) {
        // The next host removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[derive(Debug)]
pub struct SessionDirectory {
    path: PathBuf,
}

impl SessionDirectory {
    /// Creates a directory for temporary files. It is outside the output directory, which tools may read.
    pub fn temporary(&self, number: usize) -> Result<OpenPath, ProcessError> {
        let path = self.path.join(format!("tmp-{number}"));
        self.create_dir(&path)?;
        OpenPath::open(&path).map_err(|source| ProcessError::Folder { path, source })
    }

    /// The directory that contains the outputs of all jobs of the session, and nothing else.
    pub fn outputs(&self) -> PathBuf {
        self.path.join("output")
    }

    pub fn output(&self, job: u64) -> PathBuf {
        self.outputs().join(format!("{job}.log"))
    }

    fn create_dir(&self, path: &Path) -> Result<(), ProcessError> {
        create_private_dirs(path).map_err(|source| ProcessError::Folder {
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for SessionDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn create_private_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes the directories of hosts that no longer run: their lock is not held.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let named = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !named || !is_dir {
            continue;
        }
        // A directory without a lock file is still being created.
        if let Ok(lock) = File::open(entry.path().join(LOCK))
            && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_crashed_hosts_are_removed_and_those_of_running_hosts_are_not() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("host-1-0");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        fs::write(left.join("1.log"), "old").unwrap();
        fs::create_dir(parent.path().join("other")).unwrap();

        let first = OutputDirectory::new(parent.path()).unwrap();
        let session = first.session(3).unwrap();
        let second = OutputDirectory::new(parent.path()).unwrap();
        assert!(!left.exists());
        assert!(parent.path().join("other").exists());
        let temporary = session.temporary(0).unwrap().path().to_owned();
        assert!(temporary.is_dir() && session.outputs().is_dir());
        assert_ne!(first.path, second.path);

        drop(session);
        assert!(!temporary.exists());
        let path = first.path.clone();
        drop(first);
        assert!(!path.exists());
        assert!(second.path.exists());
    }
}
