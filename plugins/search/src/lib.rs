//! Search tools: `glob` finds files by name, `grep` by content.
//!
//! In the sandbox a host call (open, read, next directory entry) costs more than searching a few kilobytes. The
//! traversal therefore uses only what a directory listing contains, each file is opened once and read into a shared
//! buffer, and patterns run over the whole buffer instead of line by line.

mod budget;
mod candidates;
mod clock;
mod disk;
mod glob;
mod grep;
mod names;
mod place;
mod query;
mod reader;
mod rules;
#[cfg(test)]
mod sample;
mod scan;
mod walk;

toolhost_sdk::export_tools![glob::Glob, grep::Grep];
