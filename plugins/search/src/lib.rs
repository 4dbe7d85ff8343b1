//! Finding files by name (`glob`) and by content (`grep`), fast enough that asking is cheaper than guessing.
//!
//! In the sandbox each visit to the host (open, read, next directory entry) costs more than searching a few
//! kilobytes. So the walk asks for nothing that a directory listing does not already say, a file is opened once and
//! read into one buffer that all files share, and patterns run over that whole buffer instead of line by line.

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
