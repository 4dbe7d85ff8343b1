//! File system access for searches, with as few host calls as possible.
//!
//! In the sandbox the standard library queries the metadata of each listed entry, opens files by absolute path, and
//! creates a stream for each. A search needs none of that: it descends directory by directory and reads files
//! sequentially.

#[cfg(not(target_os = "wasi"))]
mod native;
#[cfg(target_os = "wasi")]
mod sandbox;

#[cfg(not(target_os = "wasi"))]
pub use native::{Directory, File};
#[cfg(target_os = "wasi")]
pub use sandbox::{Directory, File};

/// The type of a directory entry, from the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    /// A symbolic link (not followed, because it may leave the tree or loop), a socket, or a device.
    Other,
}

/// The entries of a directory.
#[derive(Debug, Default)]
pub struct Listing {
    pub entries: Vec<(String, Kind)>,
    /// Entries without type information, and names that are not Unicode.
    pub unreadable: u64,
}
