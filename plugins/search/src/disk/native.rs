//! File system access by the standard library, for tests outside of the sandbox.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::SystemTime;

use super::{Kind, Listing};

/// A directory.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    pub fn open(path: &str) -> io::Result<Self> {
        // The root of the file system is the empty string here.
        let path = if path.is_empty() { "/" } else { path };
        fs::metadata(path)?;
        Ok(Self(PathBuf::from(path)))
    }

    /// The subdirectory `name`; links are refused.
    pub fn directory(&self, name: &str) -> io::Result<Self> {
        let path = self.0.join(name);
        fs::symlink_metadata(&path)?;
        Ok(Self(path))
    }

    pub fn file(&self, name: &str) -> io::Result<File> {
        fs::File::open(self.0.join(name)).map(File)
    }

    pub fn list(&self) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for entry in fs::read_dir(&self.0)? {
            let listed = entry.and_then(|entry| Ok((entry.file_type()?, entry.file_name())));
            let Some((kind, name)) = listed
                .ok()
                .and_then(|(kind, name)| Some((kind, name.into_string().ok()?)))
            else {
                listing.unreadable += 1;
                continue;
            };
            let kind = match kind {
                kind if kind.is_file() => Kind::File,
                kind if kind.is_dir() => Kind::Directory,
                _ => Kind::Other,
            };
            listing.entries.push((name, kind));
        }
        Ok(listing)
    }

    /// Modification time of the entry `name`.
    pub fn modified(&self, name: &str) -> Option<SystemTime> {
        fs::symlink_metadata(self.0.join(name))
            .ok()?
            .modified()
            .ok()
    }
}

/// A file that is read sequentially.
#[derive(Debug)]
pub struct File(fs::File);

impl File {
    /// Follows links.
    pub fn open(path: &str) -> io::Result<Self> {
        fs::File::open(path).map(Self)
    }

    /// The next bytes, at most `most`; fewer only at the end of the file.
    pub fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let limit = u64::try_from(most).unwrap_or(u64::MAX);
        (&mut self.0).take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub fn modified(&self) -> Option<SystemTime> {
        self.0.metadata().ok()?.modified().ok()
    }
}
