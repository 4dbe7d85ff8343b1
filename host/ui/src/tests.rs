//! Tests of the pages as a browser sees them, with a real kernel.

mod access;
mod answers;
mod history;
mod limits;
mod records;
mod world;
