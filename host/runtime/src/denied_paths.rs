//! Paths below a program's directories that read rules deny.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use rustix::io::Errno;
use toolhost_contract::policy::{DeniedPath, ReadGuard};
use toolhost_contract::{Failure, text};
use toolhost_process::OpenPath;

/// Maximum number of entries that are matched with patterns before one program starts.
const MAX_ENTRIES: usize = 20_000;
/// Maximum depth of the search, with one open descriptor per level; deeper directories are denied.
const MAX_DEPTH: usize = 128;

/// The paths below `granted` that no program of the call may read.
///
/// Landlock grants directories and not names, so names that match a pattern are searched now; files created later
/// are not covered. The search uses the descriptors that the program gets, so replacing a directory
/// during the search does not affect it.
pub fn denied_below(
    guard: Option<&ReadGuard>,
    granted: &[&OpenPath],
) -> Result<Vec<PathBuf>, Failure> {
    let Some(guard) = guard else {
        return Ok(Vec::new());
    };
    let mut search = Search {
        guard,
        found: Vec::new(),
        left: MAX_ENTRIES,
        searched: Vec::new(),
    };
    for denied in guard.denied_paths() {
        match denied {
            // The user is asked about a path in the tree, and the rest stays denied.
            DeniedPath::Tree(path) if guard.has_answered_below(&path) => {
                search.below(&path, granted)?;
            }
            DeniedPath::Tree(path) => {
                // A rule of higher priority can allow the directory and deny entries in it.
                if guard.denies_read(&path) {
                    let path = PathBuf::from(path);
                    search.found.extend(path.canonicalize());
                    if path.symlink_metadata().is_ok() {
                        search.found.push(path);
                    }
                }
            }
            DeniedPath::Below(start) => search.below(&start, granted)?,
        }
    }
    let mut found = search.found;
    found.sort();
    found.dedup();
    Ok(found)
}

struct Search<'a> {
    guard: &'a ReadGuard,
    found: Vec<PathBuf>,
    left: usize,
    searched: Vec<PathBuf>,
}

/// The search exceeded [`MAX_ENTRIES`].
struct TooManyEntries;

impl Search<'_> {
    /// Searches the part of `start` that is granted.
    fn below(&mut self, start: &str, granted: &[&OpenPath]) -> Result<(), Failure> {
        for folder in granted {
            let start = Path::new(start);
            let below = start.strip_prefix(folder.path()).ok();
            if below.is_none() && !folder.path().starts_with(start) {
                continue;
            }
            let from = below.map_or(folder.path(), |_| start);
            if self.searched.iter().any(|known| from.starts_with(known)) {
                continue;
            }
            self.searched.push(from.to_owned());
            if self.refuses(from, from) {
                continue;
            }
            let below = below.filter(|path| !path.as_os_str().is_empty());
            let below = below.unwrap_or(Path::new("."));
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let Ok(dir) = openat(folder, below, flags, Mode::empty()) else {
                self.deny_unreadable(folder, below, from);
                continue;
            };
            // The rule can name the directory by a link; a program can reach it by its real path.
            let real = std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()));
            let real = real.unwrap_or_else(|_| from.to_owned());
            self.directory(dir, from, &real, 0)
                .map_err(|TooManyEntries| too_many(self.guard, from))?;
        }
        Ok(())
    }

    /// `named`: the path as in the rule; `real`: without links.
    fn directory(
        &mut self,
        dir: OwnedFd,
        named: &Path,
        real: &Path,
        depth: usize,
    ) -> Result<(), TooManyEntries> {
        let Ok(entries) = Dir::read_from(&dir) else {
            self.found.push(real.to_owned());
            return Ok(());
        };
        for entry in entries {
            let Ok(entry) = entry else {
                self.found.push(real.to_owned());
                return Ok(());
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.left = self.left.checked_sub(1).ok_or(TooManyEntries)?;
            let part = OsStr::from_bytes(name.to_bytes());
            let (named, real) = (named.join(part), real.join(part));
            if self.refuses(&named, &real) {
                continue;
            }
            // The target of a link is matched at its own path.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                match openat(&dir, name, flags, Mode::empty()) {
                    Ok(inner) if depth < MAX_DEPTH => {
                        self.directory(inner, &named, &real, depth + 1)?;
                    }
                    Err(Errno::NOTDIR | Errno::NOENT) => {}
                    // A program could make it readable after this search.
                    _ => self.found.push(real),
                }
            }
        }
        Ok(())
    }

    fn refuses(&mut self, named: &Path, real: &Path) -> bool {
        // The entries of a directory are refused one by one if the user is asked about one of them.
        let refuses = |path: &Path| {
            let path = path.to_string_lossy();
            !self.guard.has_answered_below(&path) && self.guard.denies_read(&path)
        };
        let refused = refuses(named) || (real != named && refuses(real));
        if refused {
            self.found.push(real.to_owned());
        }
        refused
    }

    /// A directory that exists but cannot be searched is denied: a program could make it readable.
    fn deny_unreadable(&mut self, folder: impl AsFd, below: &Path, path: &Path) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if openat(folder, below, flags, Mode::empty()).is_ok() {
            self.found.push(path.to_owned());
        }
    }
}

fn too_many(guard: &ReadGuard, dir: &Path) -> Failure {
    let rules = match guard.hits().as_slice() {
        [] => "a rule".to_owned(),
        labels => format!("rule {}", labels.join(", ")),
    };
    Failure {
        recommendations: vec![
            "use a directory in the rule, such as `Read(config/**)`, or write the rule as a table with `programs = false` if programs may read such files".to_owned(),
        ],
        ..Failure::new(
            "read_denied",
            format!(
                "{rules} denies reading by a pattern, and `{}` has more than {MAX_ENTRIES} entries, too many to check before a program starts",
                text::escape_line(&dir.to_string_lossy(), 200)
            ),
        )
    }
}
