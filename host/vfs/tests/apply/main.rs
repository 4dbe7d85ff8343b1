//! A single binary for all tests of applying and undoing changes, so that they are linked once.

mod bad_input;
mod blobs;
mod changes;
mod conflicts;
mod crash;
mod faults;
mod support;
