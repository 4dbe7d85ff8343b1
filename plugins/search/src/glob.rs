//! The `glob` tool: finds files by name.

mod plan;
mod rendering;
#[cfg(test)]
mod tests;
mod traversal;

use std::borrow::Cow;

use toolhost_sdk::prelude::*;

// Without a doc comment, which would become a root description of the input schema.
#[data]
#[derive(Clone, Debug)]
pub struct Input {
    /// Such as `src/*.{ts,tsx}`; without `/` it matches at any depth.
    #[arg(min_len = 1)]
    pattern: String,
    /// Directory to search.
    #[arg(default = ".", aliases = ["file_path", "filePath", "absolute_path", "dir_path", "directory", "target_file", "cwd"])]
    path: String,
    /// Globs to exclude.
    #[arg(default = Vec::<String>::new())]
    exclude: Vec<String>,
    /// Match case.
    #[arg(default = false)]
    case_sensitive: bool,
    /// Include dot files.
    #[arg(default = true)]
    dot: bool,
    /// Apply `.gitignore` and `.git/info/exclude`.
    #[arg(default = true)]
    respect_git_ignore: bool,
    /// Exclude `node_modules` and apply `.ignore`, `.toolignore` and the like.
    #[arg(default = true)]
    respect_tool_ignore: bool,
    /// Maximum paths.
    #[arg(default = 100, min = 1, max = 2000, aliases = ["head_limit", "max_results"])]
    limit: u32,
    /// Paths to skip.
    #[arg(default = 0)]
    offset: u32,
    /// Sort order.
    #[arg(default = Sort::Mtime)]
    sort: Sort,
    /// Kind of entry.
    #[arg(default = EntryKind::File)]
    kind: EntryKind,
    /// Return absolute paths.
    #[arg(default = false)]
    absolute: bool,
}

/// Sort order.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Newest first.
    Mtime,
    /// By path.
    Path,
    /// Newest first for the last 24 hours, then by path.
    Gem,
}

/// Kind of entry.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Dir,
    /// Files, directories, links.
    Any,
}

/// Result of a search.
#[data]
#[derive(Debug)]
pub struct Output {
    /// Shown paths, relative to the workspace unless `absolute`.
    matches: Vec<String>,
    /// Number of paths shown.
    count: u64,
    /// Number of paths found; more may exist if `timed_out`.
    total_known: u64,
    /// More paths were found than are shown.
    truncated: bool,
    /// Number of ignored entries; a directory counts once.
    ignored: Ignored,
    /// The search stopped at the time limit.
    timed_out: bool,
}

/// Number of entries excluded by ignore rules.
#[data]
#[derive(Debug)]
pub struct Ignored {
    /// By git rules.
    git: u64,
    /// By tool rules.
    tool: u64,
}

/// The `glob` tool. It takes its many parameters as one struct.
pub struct Glob;

impl Tool for Glob {
    fn descriptor() -> Descriptor {
        Descriptor::new(
            "glob",
            "Find files by name. Skips ignored files (.gitignore, .ignore). To search file contents use \
             `grep`.",
        )
        .reads()
        .idempotent()
        .display_name("Find files")
        .icon("file-search")
        .category("file")
        .kind("search")
        .tags(&["search", "find", "files"])
        .aliases(&["Glob", "fs_glob", "glob_files", "search_files"])
        .timeout_ms(30_000)
        .plain_text()
        .input::<Input>()
        .output::<Output>()
        .example("All Rust files", r#"{"pattern": "**/*.rs"}"#)
        .example("Directories named tests", r#"{"pattern": "tests", "kind": "dir", "sort": "path"}"#)
    }

    fn call(cx: &Context, input: Value) -> Result<Outcome> {
        let input: Input = toolhost_sdk::serde_json::from_value(input)?;
        traversal::run(cx, &input)
    }

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("glob")
    }
}
