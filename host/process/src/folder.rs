//! Where outputs and temporary files live: a folder of this host's own, whose lock tells the next host whether it was
//! left behind by one that crashed.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::{OpenPath, ProcessError};

const PREFIX: &str = "host-";
const LOCK: &str = "lock";

/// Removed with all that is in it when it is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Held as long as the folder is in use.
    _lock: File,
}

impl Folder {
    pub fn new(parent: &Path) -> Result<Folder, ProcessError> {
        let failed = |source| ProcessError::Folder {
            path: parent.to_owned(),
            source,
        };
        private_dirs(parent).map_err(failed)?;
        // Rules of a fence are taken by path, so no link may stand in it.
        let parent = parent.canonicalize().map_err(failed)?;
        sweep(&parent);
        (0..1000)
            .find_map(|number| Folder::make(&parent, number).transpose())
            .unwrap_or_else(|| Err(io::Error::other("there are a thousand hosts already")))
            .map_err(failed)
    }

    /// None when there is such a folder already.
    fn make(parent: &Path, number: usize) -> io::Result<Option<Folder>> {
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            other => other?,
        }
        let lock = File::create_new(path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Some(Folder { path, _lock: lock }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder of a session, with a place for outputs in it.
    pub fn session(&self, number: u64) -> Result<SessionFolder, ProcessError> {
        let path = self.path.join(number.to_string());
        let folder = SessionFolder { path };
        folder.make(&folder.outputs())?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is swept away by the next host.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[derive(Debug)]
pub struct SessionFolder {
    path: PathBuf,
}

impl SessionFolder {
    /// Makes a place for temporary files. It is not among the outputs, which tools may read.
    pub fn temporary(&self, number: usize) -> Result<OpenPath, ProcessError> {
        let path = self.path.join(format!("tmp-{number}"));
        self.make(&path)?;
        OpenPath::open(&path).map_err(|source| ProcessError::Folder { path, source })
    }

    /// Where the outputs of all jobs of the session are, and nothing else is.
    pub fn outputs(&self) -> PathBuf {
        self.path.join("output")
    }

    pub fn output(&self, job: u64) -> PathBuf {
        self.outputs().join(format!("{job}.log"))
    }

    fn make(&self, path: &Path) -> Result<(), ProcessError> {
        private_dirs(path).map_err(|source| ProcessError::Folder {
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for SessionFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn private_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes the folders of hosts that are gone: nobody holds their lock.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let named = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !named || !is_dir {
            continue;
        }
        // A folder without a lock is one that is just being made.
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
    fn what_a_crashed_host_left_is_swept_and_what_a_living_one_has_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("host-1-0");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        fs::write(left.join("1.log"), "old").unwrap();
        fs::create_dir(parent.path().join("other")).unwrap();

        let first = Folder::new(parent.path()).unwrap();
        let session = first.session(3).unwrap();
        let second = Folder::new(parent.path()).unwrap();
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
