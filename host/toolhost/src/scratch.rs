//! Folders that go with the process. One that is killed cannot remove its own, so the next one does.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

/// Between making a folder and locking it nobody may take it for one that was left.
const YOUNG: Duration = Duration::from_mins(1);

/// Only for this user, and removed when it is dropped.
pub struct Scratch {
    // In this order: it is removed while it is still locked.
    dir: TempDir,
    _lock: File,
}

impl Scratch {
    /// `kind` is a part of the name. What processes that were killed have left of that kind is removed, in the
    /// background.
    pub fn new(kind: &'static str) -> io::Result<Self> {
        let parent = std::env::temp_dir();
        let scratch = Self::below(&parent, kind)?;
        std::thread::spawn(move || sweep(&parent, kind));
        Ok(scratch)
    }

    fn below(parent: &Path, kind: &str) -> io::Result<Self> {
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

/// What cannot be removed stays for the next time.
fn sweep(parent: &Path, kind: &str) {
    let prefix = prefix(kind);
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_kind = entry.file_name().to_string_lossy().starts_with(&prefix);
        if is_kind && let Some(_lock) = left(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Locks a folder of this user that is not new and that no process has. The parent may be shared, so it may be a link
/// or somebody else's.
fn left(path: &Path) -> Option<File> {
    let meta = fs::symlink_metadata(path).ok()?;
    let is_old = meta.modified().ok()?.elapsed().ok()? >= YOUNG;
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
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let dir = parent.path().join(name);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("kept"), "of a call").unwrap();
            let dir = File::open(dir).unwrap();
            dir.set_modified(SystemTime::now() - age).unwrap();
        };
        let live = Scratch::below(parent.path(), "test").unwrap();
        let old = YOUNG * 2;
        let handle = File::open(live.path()).unwrap();
        handle.set_modified(SystemTime::now() - old).unwrap();
        make("toolhost-test-left", old);
        make("toolhost-test-new", Duration::ZERO);
        make("toolhost-other-left", old);
        make("elsewhere", old);
        let link = parent.path().join("toolhost-test-link");
        std::os::unix::fs::symlink(parent.path().join("elsewhere"), link).unwrap();

        sweep(parent.path(), "test");

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
