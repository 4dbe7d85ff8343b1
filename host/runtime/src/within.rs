//! What is left of a granted folder when a call is held to other folders of the host.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolhost_vfs::{Access, Root};

/// Whether guests know a folder of the host's own by this name: what is remembered, skills, what programs wrote. It is
/// none of the user's files, and nobody's folders narrow it.
pub fn is_own(guest: &str) -> bool {
    guest == "/output"
        || ["/memory/", "/skills/"]
            .iter()
            .any(|own| guest.starts_with(own))
}

/// A folder, or a file in it, that a call may use.
#[derive(Debug, Clone)]
pub struct Window {
    /// The name that the guest knows the folder by.
    pub guest: String,
    pub host: PathBuf,
    /// The folder itself or the file in it, and how it may be used.
    pub granted: (PathBuf, Access),
    /// The folder that was checked: what a program gets is made of it, and no path is looked up again.
    pub dir: Arc<OwnedFd>,
}

impl Window {
    pub fn of(root: &Root) -> Self {
        Self {
            guest: root.guest().to_owned(),
            host: root.host().to_owned(),
            granted: root.granted(),
            dir: Arc::clone(root.dir()),
        }
    }
}

/// Lists of folders: what a call uses lies in one of each. No list, no limit.
#[derive(Debug, Clone, Default)]
pub struct Within(Vec<Arc<[String]>>);

impl Within {
    pub fn new(lists: &[Arc<[String]>]) -> Self {
        Self(lists.to_vec())
    }

    pub fn is_unlimited(&self) -> bool {
        self.0.is_empty()
    }

    /// `root` itself, or the folders in it that are left. Looks at the disk.
    pub fn left_of(&self, root: &Path) -> Vec<PathBuf> {
        let mut left = vec![root.to_owned()];
        for list in &self.0 {
            let of = |part: PathBuf| {
                if list.iter().any(|dir| part.starts_with(dir)) {
                    return vec![part];
                }
                // By its real name, which is how the rules speak of it.
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
        // A folder in another one of them adds nothing.
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
    fn what_is_left_lies_in_a_folder_of_each_list() {
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
            let within = Within::new(&lists);
            assert_eq!(within.left_of(&root), expected, "{lists:?}");
        }
    }
}
