//! Files and directories that are referred to by an open descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags};

use crate::ProcessError;

/// An open descriptor of a file or directory, and the path that it had when it was opened.
///
/// The descriptor determines what a program can access. The path is used for messages and to determine which of two
/// directories contains the other; it is not resolved again.
#[derive(Debug, Clone)]
pub struct OpenPath {
    path: PathBuf,
    fd: Arc<OwnedFd>,
}

impl OpenPath {
    /// `path` must be absolute and must not contain symbolic links.
    pub fn new(path: PathBuf, fd: impl Into<Arc<OwnedFd>>) -> OpenPath {
        OpenPath {
            path,
            fd: fd.into(),
        }
    }

    /// Opens `path` and follows symbolic links.
    pub fn open(path: &Path) -> io::Result<OpenPath> {
        OpenPath::with(path, OFlags::PATH)
    }

    /// Opens a working directory.
    pub fn directory(path: &Path) -> Result<OpenPath, ProcessError> {
        let failed = |reason: String| ProcessError::Directory {
            path: path.to_owned(),
            reason,
        };
        if !path.is_absolute() {
            return Err(failed("it is not an absolute path".to_owned()));
        }
        OpenPath::with(path, OFlags::PATH | OFlags::DIRECTORY)
            .map_err(|error| failed(error.to_string()))
    }

    fn with(path: &Path, flags: OFlags) -> io::Result<OpenPath> {
        let fd = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?;
        let real = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        Ok(OpenPath::new(real, fd))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    pub(crate) fn is_file(&self) -> bool {
        let stat = rustix::fs::fstat(&*self.fd);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }
}

impl AsFd for OpenPath {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
