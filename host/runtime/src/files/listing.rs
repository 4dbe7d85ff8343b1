//! Directory listings, which guests read entry by entry.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use toolhost_vfs::{DirEntry, FileId};
use wasmtime::component::Resource;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{self, HostDirectoryEntryStream};

use super::FilesView;
use super::convert::kind_to_wasi;

/// Number of entries hidden from a call because their names are not UTF-8. A directory that is listed twice counts
/// once.
#[derive(Debug, Clone, Default)]
pub struct NonUtf8Names(Arc<Mutex<HashMap<FileId, usize>>>);

/// Maximum number of directories that are tracked.
const MAX_DIRS: usize = 10_000;

impl NonUtf8Names {
    pub(super) fn add(&self, dir: FileId, count: usize) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_DIRS || known.contains_key(&dir) {
            known.insert(dir, count);
        }
    }

    /// Notice for the caller of the tool; `None` if all names were listed.
    pub fn notice(&self) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count: usize = known.values().sum();
        let (names, are) = match count {
            0 => return None,
            1 => ("name", "is"),
            _ => ("names", "are"),
        };
        Some(format!(
            "{count} {names} in the listed directories {are} not UTF-8 and left out"
        ))
    }
}

/// The remaining entries of a directory listing.
pub(super) struct Listing {
    pub(super) entries: std::vec::IntoIter<DirEntry>,
    pub(super) size: usize,
}

impl HostDirectoryEntryStream for FilesView<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<types::DirectoryEntryStream>,
    ) -> FsResult<Option<types::DirectoryEntry>> {
        let listing = self
            .wasi
            .table
            .get_mut(&Resource::<Listing>::new_borrow(stream.rep()))?;
        Ok(listing.entries.next().map(|entry| types::DirectoryEntry {
            type_: kind_to_wasi(entry.kind),
            name: entry.name,
        }))
    }

    fn drop(&mut self, stream: Resource<types::DirectoryEntryStream>) -> wasmtime::Result<()> {
        let listing = self
            .wasi
            .table
            .delete(Resource::<Listing>::new_own(stream.rep()))?;
        self.listed.fetch_sub(listing.size, Ordering::Relaxed);
        Ok(())
    }
}
