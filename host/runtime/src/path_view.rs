//! Restricts the granted directories of a call to given directories of the host.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolhost_vfs::{Access, Root};

/// Whether this guest path is a host directory: memory, skills or program output. These contain none of the user's
/// files, and are not restricted.
pub fn is_host_dir(guest: &str) -> bool {
    guest == "/output"
        || ["/memory/", "/skills/"]
            .iter()
            .any(|own| guest.starts_with(own))
}

/// A directory, or a file in it, that a call may access.
#[derive(Debug, Clone)]
pub struct PathView {
    /// Guest path of the directory.
    pub guest: String,
    pub host: PathBuf,
    /// The directory itself or the granted file in it, and its access.
    pub granted: (PathBuf, Access),
    /// The directory that was checked. Programs get this descriptor, so no path is resolved again.
    pub dir: Arc<OwnedFd>,
}

impl PathView {
    pub fn of(root: &Root) -> Self {
        Self {
            guest: root.guest().to_owned(),
            host: root.host().to_owned(),
            granted: root.granted(),
            dir: Arc::clone(root.dir()),
        }
    }
}

/// Lists of directories: accessible paths are in one directory of each list. No lists means no restriction.
#[derive(Debug, Clone, Default)]
pub struct DirRestriction(Vec<Arc<[String]>>);

impl DirRestriction {
    pub fn new(lists: &[Arc<[String]>]) -> Self {
        Self(lists.to_vec())
    }

    pub fn is_unlimited(&self) -> bool {
        self.0.is_empty()
    }

    /// `root` itself, or the accessible directories in it. Reads the file system.
    pub fn intersect(&self, root: &Path) -> Vec<PathBuf> {
        let mut left = vec![root.to_owned()];
        for list in &self.0 {
            let of = |part: PathBuf| {
                if list.iter().any(|dir| part.starts_with(dir)) {
                    return vec![part];
                }
                // Canonical, because rules use real paths.
                let real = list
                    .iter()
                    .filter_map(|dir| Path::new(dir).canonicalize().ok());
                real.filter(|dir| dir.starts_with(&part) && dir.is_dir())
                    .collect()
            };
            left = left.into_iter().flat_map(of).collect();
        }
        left.sort();
        left.dedup();
        // A directory inside another one is redundant.
        let all = left.clone();
        left.retain(|dir| {
            !all.iter()
                .any(|outer| outer != dir && dir.starts_with(outer))
        });
        left
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn remaining_directories_are_in_every_list() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("ws/a/deep")).unwrap();
        fs::create_dir_all(base.join("ws/b")).unwrap();
        std::os::unix::fs::symlink(base.join("ws/b"), base.join("link")).unwrap();
        fs::write(base.join("ws/file"), "").unwrap();
        let root = base.join("ws");
        for (lists, expected) in [
            (vec![], vec!["ws"]),
            (vec![vec!["ws"]], vec!["ws"]),
            (vec![vec![""]], vec!["ws"]),
            (
                vec![vec!["ws/a", "ws/b", "ws/a/deep"]],
                vec!["ws/a", "ws/b"],
            ),
            (vec![vec!["link"]], vec!["ws/b"]),
            (vec![vec!["ws/none", "ws/file", "elsewhere"]], vec![]),
            (
                vec![vec!["ws"], vec!["ws/a/deep", "ws/b"]],
                vec!["ws/a/deep", "ws/b"],
            ),
            (
                vec![vec!["ws/a"], vec!["ws/a/deep", "ws/b"]],
                vec!["ws/a/deep"],
            ),
            (vec![vec!["ws/a"], vec!["ws/b"]], vec![]),
        ] {
            let full = |dir: &&str| {
                base.join(dir)
                    .to_string_lossy()
                    .trim_end_matches('/')
                    .to_owned()
            };
            let lists: Vec<Arc<[String]>> = lists
                .iter()
                .map(|list: &Vec<&str>| list.iter().map(full).collect())
                .collect();
            let expected: Vec<PathBuf> = expected.iter().map(|dir| base.join(dir)).collect();
            let restriction = DirRestriction::new(&lists);
            assert_eq!(restriction.intersect(&root), expected, "{lists:?}");
        }
    }
}
