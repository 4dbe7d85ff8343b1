//! A single binary for all tests of the capability file system, so that they are linked once.

mod differential;
mod excludes;
mod grants;
mod hostile;
mod listing;
mod overlaps;
mod protected;
mod races;
mod read_only;
mod special_files;
mod support;
mod symlinks;
