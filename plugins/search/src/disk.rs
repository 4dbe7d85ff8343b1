//! The few things that a search asks of the file system, in as few visits to the host as there can be.
//!
//! In the sandbox the standard library asks the host for the identity of each entry of a listing, names every file by
//! its whole path, and opens a stream on it. A search needs none of that: it goes from directory to directory, and
//! reads files from their beginning.

#[cfg(not(target_os = "wasi"))]
mod native;
#[cfg(target_os = "wasi")]
mod sandbox;

#[cfg(not(target_os = "wasi"))]
pub use native::{Directory, File};
#[cfg(target_os = "wasi")]
pub use sandbox::{Directory, File};

/// What sort of thing an entry of a directory is, as the listing says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    /// A symbolic link (which is not followed: it may lead out of the tree or back into it), a socket, a device.
    Other,
}

/// The entries of a directory.
#[derive(Debug, Default)]
pub struct Listing {
    pub entries: Vec<(String, Kind)>,
    /// Entries of which the system does not say enough, and names that are not Unicode.
    pub unreadable: u64,
}
