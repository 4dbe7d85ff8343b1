//! The files of a package, and their form as a tar archive.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

/// The time of all entries: 26 October 1985, which npm uses too, because zip has no earlier times than 1980.
const TIME: u64 = 499_162_500;

/// Files by their path, in the order in which they are written.
#[derive(Clone, Default)]
pub struct Tree(BTreeMap<String, Entry>);

#[derive(Clone)]
enum Entry {
    File { mode: u32, content: Content },
    Link { target: String },
    Directory { mode: u32, owner: u64 },
}

/// Shared, because every package contains the program.
pub type Content = Arc<[u8]>;

impl Tree {
    pub fn file(&mut self, path: impl Into<String>, content: impl Into<Content>) {
        self.add(path, 0o644, content);
    }

    pub fn program(&mut self, path: impl Into<String>, content: impl Into<Content>) {
        self.add(path, 0o755, content);
    }

    fn add(&mut self, path: impl Into<String>, mode: u32, content: impl Into<Content>) {
        let content = content.into();
        self.0.insert(path.into(), Entry::File { mode, content });
    }

    pub fn link(&mut self, path: impl Into<String>, target: &str) {
        let target = target.to_owned();
        self.0.insert(path.into(), Entry::Link { target });
    }

    /// A directory that is empty, or has another mode or owner than usual.
    pub fn directory(&mut self, path: impl Into<String>, mode: u32, owner: u64) {
        self.0.insert(path.into(), Entry::Directory { mode, owner });
    }

    /// The files with their modes, without links and directories.
    pub fn files(&self) -> impl Iterator<Item = (&str, u32, &[u8])> {
        self.0.iter().filter_map(|(path, entry)| match entry {
            Entry::File { mode, content } => Some((path.as_str(), *mode, &content[..])),
            Entry::Link { .. } | Entry::Directory { .. } => None,
        })
    }

    /// A tar archive with entries for all directories.
    pub fn tar(&self) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut directories = BTreeSet::new();
        for (path, entry) in &self.0 {
            for (end, _) in path.match_indices('/') {
                let parent = &path[..=end];
                if directories.insert(parent.to_owned()) && !self.0.contains_key(&parent[..end]) {
                    append(&mut archive, parent, &Entry::USUAL_DIRECTORY)?;
                }
            }
            append(&mut archive, path, entry)?;
        }
        Ok(archive.into_inner()?)
    }

    pub fn tar_gz(&self, level: Compression) -> Result<Vec<u8>> {
        gzip(&self.tar()?, level)
    }
}

impl Entry {
    const USUAL_DIRECTORY: Self = Self::Directory {
        mode: 0o755,
        owner: 0,
    };
}

fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, entry: &Entry) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_mtime(TIME);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    match entry {
        Entry::File { mode, content } => {
            header.set_entry_type(EntryType::Regular);
            header.set_mode(*mode);
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, path, &content[..])?;
        }
        Entry::Link { target } => {
            header.set_entry_type(EntryType::Symlink);
            header.set_mode(0o777);
            archive.append_link(&mut header, path, target)?;
        }
        Entry::Directory { mode, owner } => {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(*mode);
            header.set_uid(*owner);
            header.set_gid(*owner);
            let name = format!("{}/", path.trim_end_matches('/'));
            archive.append_data(&mut header, name, &[][..])?;
        }
    }
    Ok(())
}

/// Compresses without a name and a time, which would differ from build to build.
pub fn gzip(bytes: &[u8], level: Compression) -> Result<Vec<u8>> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), level);
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_additions_does_not_matter() {
        let archive = |paths: [&str; 3]| {
            let mut tree = Tree::default();
            for path in paths {
                tree.file(path, path.as_bytes());
            }
            tree.tar_gz(Compression::fast()).unwrap()
        };
        let first = archive(["b/c", "a", "b/a/d"]);
        assert_eq!(first, archive(["b/a/d", "b/c", "a"]));
        assert_ne!(first, archive(["b/a/d", "b/c", "b"]));
    }

    #[test]
    fn entries_have_fixed_times_and_owners_and_directories_come_first() {
        let mut tree = Tree::default();
        tree.program("usr/bin/x", *b"x");
        tree.link("usr/bin/y", "x");
        tree.directory("tmp", 0o1777, 7);
        let bytes = tree.tar().unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(header.mtime().unwrap(), TIME);
            format!(
                "{} {:o} {}",
                entry.path().unwrap().display(),
                header.mode().unwrap(),
                header.uid().unwrap()
            )
        });
        let entries: Vec<String> = entries.collect();
        let expected = [
            "tmp/ 1777 7",
            "usr/ 755 0",
            "usr/bin/ 755 0",
            "usr/bin/x 755 0",
            "usr/bin/y 777 0",
        ];
        assert_eq!(entries, expected);
    }
}
