//! Search tools: `glob` finds files by name, `grep` by content.
//!
//! In the sandbox a host call (open, read, next directory entry) costs more than searching a few kilobytes. The
//! traversal therefore uses only what a directory listing contains, each file is opened once and read into a shared
//! buffer, and patterns run over the whole buffer instead of line by line.

mod candidates;
mod disk;
mod glob;
mod glob_set;
mod grep;
mod ignore_rules;
mod query;
mod reader;
mod result_limit;
#[cfg(test)]
mod sample;
mod scan;
mod search_path;
mod time_limit;
mod walk;

toolhost_sdk::export_tools![glob::Glob, grep::Grep];
