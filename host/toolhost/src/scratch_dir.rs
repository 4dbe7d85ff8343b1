//! Temporary directories of the process. Those of killed processes are removed by the next one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

/// Minimum age of a stale directory, because a new directory is not locked immediately.
const MIN_STALE_AGE: Duration = Duration::from_mins(1);

/// A private temporary directory, removed on drop.
pub struct ScratchDir {
    // Field order matters: the directory is removed while it is still locked.
    dir: TempDir,
    _lock: File,
}

impl ScratchDir {
    /// Creates a directory with `kind` in its name. Stale directories of that kind are removed in the background.
    pub fn new(kind: &'static str) -> io::Result<Self> {
        let parent = std::env::temp_dir();
        let scratch = Self::create_in(&parent, kind)?;
        std::thread::spawn(move || remove_stale(&parent, kind));
        Ok(scratch)
    }

    fn create_in(parent: &Path, kind: &str) -> io::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(&prefix(kind))
            .tempdir_in(parent)?;
        let lock = File::open(dir.path())?;
        lock.try_lock()?;
        Ok(Self { dir, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn prefix(kind: &str) -> String {
    format!("toolhost-{kind}-")
}

/// Removes stale directories. Those that cannot be removed are kept for the next run.
fn remove_stale(parent: &Path, kind: &str) {
    let prefix = prefix(kind);
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_kind = entry.file_name().to_string_lossy().starts_with(&prefix);
        if is_kind && let Some(_lock) = lock_stale(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Locks a stale directory: owned by this user, not new and not locked. The parent directory can be shared, so the path
/// can be a symlink or belong to another user.
fn lock_stale(path: &Path) -> Option<File> {
    let meta = fs::symlink_metadata(path).ok()?;
    let is_old = meta.modified().ok()?.elapsed().ok()? >= MIN_STALE_AGE;
    if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() || !is_old {
        return None;
    }
    let dir = File::open(path).ok()?;
    dir.try_lock().ok()?;
    Some(dir)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_stale_directories_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let dir = parent.path().join(name);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("kept"), "of a call").unwrap();
            let dir = File::open(dir).unwrap();
            dir.set_modified(SystemTime::now() - age).unwrap();
        };
        let live = ScratchDir::create_in(parent.path(), "test").unwrap();
        let old = MIN_STALE_AGE * 2;
        let handle = File::open(live.path()).unwrap();
        handle.set_modified(SystemTime::now() - old).unwrap();
        make("toolhost-test-left", old);
        make("toolhost-test-new", Duration::ZERO);
        make("toolhost-other-left", old);
        make("elsewhere", old);
        let link = parent.path().join("toolhost-test-link");
        std::os::unix::fs::symlink(parent.path().join("elsewhere"), link).unwrap();

        remove_stale(parent.path(), "test");

        let mut names: Vec<String> = fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| Some(name.as_ref()) != live.path().file_name())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "elsewhere",
                "toolhost-other-left",
                "toolhost-test-link",
                "toolhost-test-new"
            ]
        );
        assert!(parent.path().join("elsewhere/kept").exists());
        let path = live.path().to_owned();
        assert!(path.exists());
        drop(live);
        assert!(!path.exists());
    }
}
