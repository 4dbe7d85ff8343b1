//! Path locks: the workspace paths that a call accesses, and conflicts between them.

use std::fmt;

use super::conflict_queue::ConflictsWith;

/// A call with more paths than this locks everything. The list comes from a guest, and comparing two calls takes time
/// proportional to the product of their lists.
const MAX_PATHS: usize = 32;

/// A longer path is shortened to an ancestor directory, which covers it.
const MAX_PATH: usize = 4096;

/// A path that a call reads or writes. A directory covers everything below it.
///
/// Paths are virtual and compared as text, so two names of one file (a symlink, another case) are different paths. A
/// lock prevents accidental conflicts between calls; it is not a protection of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathLock {
    /// Normalized: no `.`, `..` or empty parts, a `/` before each part. The root is the empty string.
    path: String,
    write: bool,
}

impl PathLock {
    pub fn read(path: &str) -> Self {
        Self::new(path, false)
    }

    pub fn write(path: &str) -> Self {
        Self::new(path, true)
    }

    fn new(path: &str, write: bool) -> Self {
        let path = normal(path);
        Self { path, write }
    }

    pub fn path(&self) -> &str {
        if self.path.is_empty() {
            "/"
        } else {
            &self.path
        }
    }

    pub fn is_write(&self) -> bool {
        self.write
    }

    fn conflicts_with(&self, other: &Self) -> bool {
        (self.write || other.write)
            && (covers(&self.path, &other.path) || covers(&other.path, &self.path))
    }
}

impl fmt::Display for PathLock {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let access = if self.write { "write" } else { "read" };
        write!(f, "{access} {}", self.path())
    }
}

fn normal(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut normal = String::new();
    for part in parts {
        if normal.len() + 1 + part.len() > MAX_PATH {
            break;
        }
        normal.push('/');
        normal.push_str(part);
    }
    normal
}

/// Whether `above` covers `below`: `/a` covers `/a` and `/a/b`, but not `/ab`.
fn covers(above: &str, below: &str) -> bool {
    below
        .strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// All path locks of one call. They are taken together or not at all, so two calls cannot deadlock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PathLocks(Vec<PathLock>);

impl PathLocks {
    pub(super) fn of(locks: &[PathLock]) -> Self {
        if locks.len() <= MAX_PATHS {
            return Self(locks.to_vec());
        }
        let write = locks.iter().any(PathLock::is_write);
        Self(vec![PathLock::new("/", write)])
    }
}

impl ConflictsWith for PathLocks {
    fn conflicts_with(&self, other: &Self) -> bool {
        self.0
            .iter()
            .any(|lock| other.0.iter().any(|theirs| lock.conflicts_with(theirs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(first: &[PathLock], second: &[PathLock], clash: bool) {
        let (first, second) = (PathLocks::of(first), PathLocks::of(second));
        assert_eq!(first.conflicts_with(&second), clash, "{first:?} {second:?}");
        assert_eq!(second.conflicts_with(&first), clash, "{second:?} {first:?}");
    }

    #[test]
    fn a_directory_covers_its_descendants_and_not_its_prefix_siblings() {
        let write = |path| [PathLock::write(path)];
        check(&write("/workspace/a"), &write("/workspace/a"), true);
        check(&write("/workspace/a"), &write("/workspace/a/b"), true);
        check(&write("/workspace/a"), &write("/workspace/ab"), false);
        check(&write("/"), &write("/workspace/ab"), true);
        check(&write("/workspace/a/b"), &write("/workspace/a/c"), false);
    }

    #[test]
    fn readers_share_and_a_writer_does_not() {
        check(&[PathLock::read("/a")], &[PathLock::read("/a")], false);
        check(&[PathLock::read("/a")], &[PathLock::write("/a")], true);
        check(
            &[PathLock::read("/a"), PathLock::write("/b")],
            &[PathLock::read("/a"), PathLock::read("/b/c")],
            true,
        );
        check(&[], &[PathLock::write("/")], false);
    }

    #[test]
    fn paths_are_normalized() {
        for path in ["/a/b", "a/b/", "//a/./b", "/a/x/../b", "/../a/b/."] {
            assert_eq!(PathLock::read(path).path(), "/a/b");
        }
        for path in ["", "/", "/..", "."] {
            assert_eq!(PathLock::read(path).to_string(), "read /");
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_covered_by_an_ancestor() {
        let deep = format!("/top/{}", "directory/".repeat(1000));
        let lock = PathLock::write(&deep);
        assert!(lock.path().len() <= MAX_PATH && covers(lock.path(), deep.trim_end_matches('/')));
        assert_eq!(PathLock::write(&"x".repeat(MAX_PATH)).path(), "/");

        let many: Vec<_> = (0..=MAX_PATHS)
            .map(|n| PathLock::read(&format!("/{n}")))
            .collect();
        check(&many, &[PathLock::write("/elsewhere")], true);
        check(&many, &[PathLock::read("/elsewhere")], false);
    }
}
