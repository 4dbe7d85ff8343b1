//! A guest reads a directory's entries one by one.

use std::sync::atomic::Ordering;

use toolhost_vfs::Entry;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{self, HostDirectoryEntryStream};

use super::FilesView;
use super::convert::show_kind;

/// What is left of a directory listing.
pub(super) struct Listing {
    pub(super) entries: std::vec::IntoIter<Entry>,
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
            type_: show_kind(entry.kind),
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
