//! One program for all tests of making changes real and taking them back, so that they link once.

mod bad_input;
mod blobs;
mod changes;
mod conflicts;
mod crash;
mod faults;
mod support;
