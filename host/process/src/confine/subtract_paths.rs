//! Grants a directory without some paths. Landlock rules only add rights, so all siblings of an excluded path are
//! granted instead.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};

/// Maximum number of entries granted one by one for one program. Further entries are not granted.
pub const MAX_ENTRIES: usize = 20_000;

/// How much of a file or directory is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantScope {
    /// Everything.
    Whole,
    /// Only the names in a directory that contains an excluded path. Entries cannot be created directly in it, because
    /// the right to create entries in a directory applies to everything below it.
    NamesOnly,
}

pub type GrantFn<'a, E> = dyn FnMut(BorrowedFd<'_>, GrantScope) -> Result<(), E> + 'a;

/// Grants `root` without the paths `except`, which are relative to it. At most `left` entries are granted one by one;
/// further entries are not granted.
///
/// Walks by descriptors and does not follow symbolic links. An entry that is replaced during the walk is still inside
/// `root`.
pub fn subtract_paths<E>(
    root: BorrowedFd<'_>,
    except: &[&Path],
    left: &mut usize,
    grant: &mut GrantFn<'_, E>,
) -> Result<(), E> {
    if except.is_empty() {
        return grant(root, GrantScope::Whole);
    }
    grant(root, GrantScope::NamesOnly)?;
    // Opened again, because a shared descriptor has a shared position, and an `O_PATH` descriptor cannot be read.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(entries) = openat(root, c".", flags, Mode::empty()).and_then(Dir::new) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let path = Path::new(OsStr::from_bytes(name.to_bytes()));
        let below = except.iter().filter_map(|out| out.strip_prefix(path).ok());
        let below: Vec<&Path> = below.collect();
        if *left == 0 || below.contains(&Path::new("")) {
            continue;
        }
        *left -= 1;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(fd) = openat(root, name, flags, Mode::empty()) else {
            continue;
        };
        // The target of a symbolic link is granted, or not, at its own path.
        if file_type(fd.as_fd()) != FileType::Symlink {
            subtract_paths(fd.as_fd(), &below, left, grant)?;
        }
    }
    Ok(())
}

pub fn file_type(fd: BorrowedFd<'_>) -> FileType {
    fstat(fd).map_or(FileType::Unknown, |stat| {
        FileType::from_raw_mode(stat.st_mode)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd as _;

    use super::*;

    /// Checks the granted relative names in a tree of `a/b/{c,d}`, `a/e`, `f`, with `link` to `a/b/c`.
    fn check(path: &str, except: &[&str], left: usize, expected: &[(&str, GrantScope)]) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        for file in ["a/b/c", "a/b/d", "a/e", "f"] {
            fs::write(root.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("a/b/c", root.join("link")).unwrap();
        let held = crate::OpenPath::open(&root.join(path)).unwrap();
        let except: Vec<&Path> = except.iter().map(Path::new).collect();
        let mut found = Vec::new();
        let mut grant = |fd: BorrowedFd<'_>, part: GrantScope| {
            let real = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
            let name = real.strip_prefix(&root).unwrap().to_str().unwrap();
            found.push((name.to_owned(), part));
            std::io::Result::Ok(())
        };
        subtract_paths(held.as_fd(), &except, &mut { left }, &mut grant).unwrap();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let found: Vec<(&str, GrantScope)> =
            found.iter().map(|(name, part)| (&**name, *part)).collect();
        assert_eq!(found, expected, "{path} but {except:?}");
    }

    #[test]
    fn everything_except_the_exclusions_is_granted() {
        use GrantScope::{NamesOnly, Whole};
        const MANY: usize = 100;
        check("", &[], MANY, &[("", Whole)]);
        check("", &["a"], MANY, &[("", NamesOnly), ("f", Whole)]);
        check(
            "",
            &["a/b/c"],
            MANY,
            &[
                ("", NamesOnly),
                ("a", NamesOnly),
                ("a/b", NamesOnly),
                ("a/b/d", Whole),
                ("a/e", Whole),
                ("f", Whole),
            ],
        );
        // A path that does not exist yet still cannot be created.
        check(
            "",
            &["a/new/file"],
            MANY,
            &[
                ("", NamesOnly),
                ("a", NamesOnly),
                ("a/b", Whole),
                ("a/e", Whole),
                ("f", Whole),
            ],
        );
        check(
            "a/b",
            &["x"],
            MANY,
            &[("a/b", NamesOnly), ("a/b/c", Whole), ("a/b/d", Whole)],
        );
        check("", &["x"], 0, &[("", NamesOnly)]);
    }
}
