//! Landlock only ever adds: what is to stay out of a granted directory is left out by granting everything beside it.

use std::fs;
use std::path::{Path, PathBuf};

/// Entries of all carved directories together; what is beyond is not granted.
const MOST: usize = 20_000;

/// What is granted of some paths when `except` is not.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Carved {
    pub granted: Vec<PathBuf>,
    /// Directories that hold something excepted: they can be listed, but nothing can be made right in them, because
    /// a right to make something in a directory holds for all below it.
    pub listed: Vec<PathBuf>,
}

/// Paths that are not there are left out.
pub fn carve(paths: &[PathBuf], except: &[PathBuf]) -> Carved {
    let except: Vec<PathBuf> = except.iter().map(|path| real(path)).collect();
    let mut carved = Carved::default();
    let mut left = MOST;
    for path in paths {
        if let Ok(path) = path.canonicalize() {
            one(path, &except, &mut carved, &mut left);
        }
    }
    carved
}

fn one(path: PathBuf, except: &[PathBuf], carved: &mut Carved, left: &mut usize) {
    if except.iter().any(|except| path.starts_with(except)) {
        return;
    }
    if !except.iter().any(|except| except.starts_with(&path)) {
        carved.granted.push(path);
        return;
    }
    for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
        // What a link leads to is granted, or not, where it is.
        if *left == 0 || entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            continue;
        }
        *left -= 1;
        one(entry.path(), except, carved, left);
    }
    carved.listed.push(path);
}

/// The path without links, also when its last parts are not there yet: they must not be made either.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative names under a tree of `a/b/{c,d}`, `a/e`, `f`, with `link` to `a/b/c`.
    fn check(paths: &[&str], except: &[&str], granted: &[&str], listed: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        for file in ["a/b/c", "a/b/d", "a/e", "f"] {
            fs::write(root.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("a/b/c", root.join("link")).unwrap();
        let all = |names: &[&str]| -> Vec<PathBuf> {
            names
                .iter()
                .map(|name| root.join(name).components().collect())
                .collect()
        };
        let mut found = carve(&all(paths), &all(except));
        found.granted.sort();
        found.listed.sort();
        let expected = Carved {
            granted: all(granted),
            listed: all(listed),
        };
        assert_eq!(found, expected, "{paths:?} but {except:?}");
    }

    #[test]
    fn everything_beside_an_exception_is_granted() {
        check(&[""], &[], &[""], &[]);
        check(&["", "missing"], &["a"], &["f"], &[""]);
        check(&[""], &["a/b/c"], &["a/b/d", "a/e", "f"], &["", "a", "a/b"]);
        check(&[""], &["link"], &["a/b/d", "a/e", "f"], &["", "a", "a/b"]);
        check(&[""], &["a/new/file"], &["a/b", "a/e", "f"], &["", "a"]);
        check(&["a/b", "f"], &["a"], &["f"], &[]);
        check(&["a/b"], &["a/e"], &["a/b"], &[]);
        check(&["link"], &["a/b/d"], &["a/b/c"], &[]);
        check(&[""], &[""], &[], &[]);
    }
}
