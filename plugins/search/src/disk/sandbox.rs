//! File system access by WASI calls, without the C library.

use std::io;
use std::time::{Duration, SystemTime};

use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, OpenFlags, PathFlags,
};

use super::{Kind, Listing};
use crate::search_path::below;

/// An open directory. Entries are opened relative to it, which avoids resolving whole paths.
#[derive(Debug)]
pub struct Directory(Descriptor);

impl Directory {
    /// Follows links.
    pub fn open(path: &str) -> io::Result<Self> {
        open(path, OpenFlags::DIRECTORY).map(Self)
    }

    /// The subdirectory `name`; links are refused.
    pub fn directory(&self, name: &str) -> io::Result<Self> {
        let flags = OpenFlags::DIRECTORY;
        let opened = self
            .0
            .open_at(PathFlags::empty(), name, flags, DescriptorFlags::READ);
        opened.map(Self).map_err(error)
    }

    pub fn file(&self, name: &str) -> io::Result<File> {
        let opened = self.0.open_at(
            PathFlags::empty(),
            name,
            OpenFlags::empty(),
            DescriptorFlags::READ,
        );
        opened.map(File::new).map_err(error)
    }

    pub fn list(&self) -> io::Result<Listing> {
        let stream = self.0.read_directory().map_err(error)?;
        let mut listing = Listing::default();
        while let Some(entry) = stream.read_directory_entry().map_err(error)? {
            let kind = match entry.type_ {
                DescriptorType::RegularFile => Kind::File,
                DescriptorType::Directory => Kind::Directory,
                _ => Kind::Other,
            };
            listing.entries.push((entry.name, kind));
        }
        Ok(listing)
    }

    /// Modification time of the entry `name`.
    pub fn modified(&self, name: &str) -> Option<SystemTime> {
        time(&self.0.stat_at(PathFlags::empty(), name).ok()?)
    }
}

/// A file that is read sequentially.
#[derive(Debug)]
pub struct File {
    descriptor: Descriptor,
    offset: u64,
}

impl File {
    /// Follows links.
    pub fn open(path: &str) -> io::Result<Self> {
        open(path, OpenFlags::empty()).map(Self::new)
    }

    fn new(descriptor: Descriptor) -> Self {
        Self {
            descriptor,
            offset: 0,
        }
    }

    /// The next bytes, at most `most`. Fewer at the end of the file or in multiples of 4 KiB.
    pub fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let (bytes, _) = self
            .descriptor
            .read(most as u64, self.offset)
            .map_err(error)?;
        self.offset += bytes.len() as u64;
        Ok(bytes)
    }

    pub fn modified(&self) -> Option<SystemTime> {
        time(&self.descriptor.stat().ok()?)
    }
}

/// Opens an absolute path relative to the nearest preopened directory.
fn open(path: &str, flags: OpenFlags) -> io::Result<Descriptor> {
    let nearest = get_directories()
        .into_iter()
        .filter_map(|(root, name)| {
            let name = name.trim_end_matches('/');
            let rest = below(name, path)?;
            Some((name.len(), rest, root))
        })
        .max_by_key(|(length, ..)| *length);
    let Some((_, rest, root)) = nearest else {
        return Err(io::ErrorKind::PermissionDenied.into());
    };
    if rest.is_empty() && flags == OpenFlags::DIRECTORY {
        return Ok(root);
    }
    let rest = if rest.is_empty() { "." } else { rest };
    root.open_at(
        PathFlags::SYMLINK_FOLLOW,
        rest,
        flags,
        DescriptorFlags::READ,
    )
    .map_err(error)
}

fn time(stat: &DescriptorStat) -> Option<SystemTime> {
    let time = stat.data_modification_timestamp?;
    let since =
        Duration::from_secs(time.seconds) + Duration::from_nanos(u64::from(time.nanoseconds));
    SystemTime::UNIX_EPOCH.checked_add(since)
}

fn error(code: ErrorCode) -> io::Error {
    io::Error::other(code.name())
}
