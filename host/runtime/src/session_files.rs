//! The directories that each session has separately, open for its calls.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolhost_contract::{CallError, ErrorClass, SessionKey};
use toolhost_vfs::{PathGrant, Scope};

use crate::files::Files;

/// Maximum number of sessions whose directories stay open. Each has a few descriptors.
const MAX_SESSIONS: usize = 16;

/// Host directories that each session has separately.
#[derive(Clone)]
pub struct SessionDirs {
    /// At least one of them is writable.
    pub writable: bool,
    /// Returns the directories of a session, and creates missing ones. May block.
    pub open: Arc<SessionDirsFn>,
}

type SessionDirsFn = dyn Fn(&SessionKey) -> Result<Vec<PathGrant>, SessionDirError> + Send + Sync;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SessionDirError(pub String);

/// The files of one caller.
#[derive(Clone)]
pub struct CallerFiles {
    pub read_only: Files,
    pub granted: Files,
}

/// Opens the directories of sessions. Those of the sessions that called last stay open while their paths name the same
/// directories: the end of a session removes them, and its next call gets new ones.
pub struct SessionFiles {
    dirs: SessionDirs,
    /// The newest first.
    recent: Mutex<VecDeque<OpenSession>>,
}

#[derive(Clone)]
struct OpenSession {
    key: SessionKey,
    paths: Arc<[(PathBuf, Inode)]>,
    files: CallerFiles,
}

/// Device and number.
type Inode = (u64, u64);

impl SessionFiles {
    pub fn new(dirs: SessionDirs) -> Self {
        Self {
            dirs,
            recent: Mutex::default(),
        }
    }

    /// Whether a session has a directory that it can write to.
    pub fn are_writable(&self) -> bool {
        self.dirs.writable
    }

    /// Returns `scope` with the directories of a session.
    pub async fn of(&self, key: SessionKey, scope: &Scope) -> Result<CallerFiles, CallError> {
        if let Some(files) = self.reused(&key) {
            return Ok(files);
        }
        let (open, scope) = (Arc::clone(&self.dirs.open), scope.clone());
        let opening = move || opened(&*open, key, &scope);
        let opened = tokio::task::spawn_blocking(opening).await;
        let opened = opened.map_err(CallError::internal)?.map_err(|error| {
            let message = format!("cannot open the directories of this session: {error}");
            CallError::new(ErrorClass::Failed, message).code("session_directories_failed")
        })?;
        let files = opened.files.clone();
        // Whether they are unchanged is checked on the executor, which must not block.
        if files.granted.scope().all_local() {
            self.keep(opened);
        }
        Ok(files)
    }

    fn reused(&self, key: &SessionKey) -> Option<CallerFiles> {
        let open = {
            let mut recent = self.lock();
            let index = recent.iter().position(|open| open.key == *key)?;
            if let Some(open) = (index > 0).then(|| recent.remove(index)).flatten() {
                recent.push_front(open);
            }
            recent.front()?.clone()
        };
        let mut paths = open.paths.iter();
        if paths.all(|(path, known)| inode(path).is_ok_and(|inode| inode == *known)) {
            return Some(open.files);
        }
        self.lock()
            .retain(|other| !Arc::ptr_eq(&other.paths, &open.paths));
        None
    }

    fn keep(&self, open: OpenSession) {
        let mut recent = self.lock();
        recent.retain(|other| other.key != open.key);
        recent.push_front(open);
        recent.truncate(MAX_SESSIONS);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<OpenSession>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn opened(
    open: &SessionDirsFn,
    key: SessionKey,
    scope: &Scope,
) -> Result<OpenSession, Box<dyn std::error::Error + Send + Sync>> {
    let dirs = open(&key)?;
    // Before the directories are opened: if one is replaced in between, the next call opens it again.
    let paths = dirs
        .iter()
        .map(|dir| Ok((dir.host.clone(), inode(&dir.host)?)));
    let paths = paths.collect::<io::Result<_>>()?;
    let scope = scope.with_host_dirs(&dirs)?;
    Ok(OpenSession {
        key,
        paths,
        files: CallerFiles {
            read_only: Files::new(scope.read_only())?,
            granted: Files::new(scope)?,
        },
    })
}

fn inode(path: &Path) -> io::Result<Inode> {
    let metadata = path.symlink_metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Directories `NAME` below `root`, and the number of times that they were opened.
    fn sessions(root: &Path) -> (SessionFiles, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let (root, opened) = (root.to_owned(), Arc::clone(&count));
        let open = move |key: &SessionKey| {
            opened.fetch_add(1, Ordering::Relaxed);
            let host = root.join(key.session.as_str());
            fs::create_dir_all(&host).map_err(|error| SessionDirError(error.to_string()))?;
            Ok(vec![PathGrant {
                host,
                guest: "/output".to_owned(),
                access: toolhost_vfs::Access::ReadOnly,
                dangerous: false,
                exclude: Vec::new(),
            }])
        };
        let dirs = SessionDirs {
            writable: false,
            open: Arc::new(open),
        };
        (SessionFiles::new(dirs), count)
    }

    /// Returns the inode of the directory that the session gets.
    async fn directory(files: &SessionFiles, session: &str) -> u64 {
        let files = files.of(SessionKey::local(session), &Scope::empty()).await;
        let files = files.unwrap();
        files.granted.scope().roots()[0].id().ino()
    }

    #[tokio::test]
    async fn directories_are_opened_once_and_again_when_they_are_replaced() {
        let root = tempfile::tempdir().unwrap();
        let (files, count) = sessions(root.path());
        let opened = || count.load(Ordering::Relaxed);
        let first = directory(&files, "a").await;
        assert_eq!((directory(&files, "a").await, opened()), (first, 1));
        assert_ne!(directory(&files, "b").await, first);
        assert_eq!((directory(&files, "a").await, opened()), (first, 2));
        // The end of a session removes its directory.
        fs::rename(root.path().join("a"), root.path().join("old")).unwrap();
        let second = directory(&files, "a").await;
        assert_ne!(second, first);
        assert_eq!((directory(&files, "a").await, opened()), (second, 3));
        // A link to the same directory is not the directory.
        let a = root.path().join("a");
        fs::rename(&a, root.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(root.path().join("moved"), &a).unwrap();
        let linked = files.of(SessionKey::local("a"), &Scope::empty()).await;
        assert!(linked.is_err(), "the path is a symbolic link");
    }

    #[tokio::test]
    async fn the_number_of_open_sessions_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        let (files, count) = sessions(root.path());
        for session in 0..=MAX_SESSIONS {
            directory(&files, &session.to_string()).await;
        }
        assert_eq!(files.recent.lock().unwrap().len(), MAX_SESSIONS);
        directory(&files, "0").await;
        assert_eq!(count.load(Ordering::Relaxed), MAX_SESSIONS + 2);
    }
}
