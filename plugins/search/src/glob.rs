//! The tool `glob`: which files have a name that fits.

mod answer;
mod find;
mod plan;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use toolhost_sdk::prelude::*;

/// What a call of glob asks for.
#[data]
#[derive(Clone, Debug)]
pub struct Input {
    /// Glob such as `**/*.rs`, `src/*.{ts,tsx}` or `Cargo.toml`; without a slash it holds at any depth.
    #[arg(min_len = 1)]
    pattern: String,
    /// Directory to search in; the workspace when absent.
    #[arg(default = ".", aliases = ["file_path", "filePath", "absolute_path", "dir_path", "directory", "target_file", "cwd"])]
    path: String,
    /// Leave out files and directories that match one of these globs.
    #[arg(default = Vec::<String>::new())]
    exclude: Vec<String>,
    /// Upper and lower case differ.
    #[arg(default = false)]
    case_sensitive: bool,
    /// Find names that start with a dot too.
    #[arg(default = true)]
    dot: bool,
    /// Leave out what `.gitignore` and `.git/info/exclude` name.
    #[arg(default = true)]
    respect_git_ignore: bool,
    /// Leave out `node_modules` and what `.ignore`, `.toolignore` and the like name.
    #[arg(default = true)]
    respect_tool_ignore: bool,
    /// Show at most this many.
    #[arg(default = 100, min = 1, max = 2000, aliases = ["head_limit", "max_results"])]
    limit: u32,
    /// Leave out this many first.
    #[arg(default = 0)]
    offset: u32,
    /// `mtime`: newest first; `path`: by name; `gem`: newest first what was changed in the last 24 hours, then by name.
    #[arg(default = Sort::Mtime)]
    sort: Sort,
    /// What to find.
    #[arg(default = Wanted::File)]
    kind: Wanted,
    /// Show absolute paths.
    #[arg(default = false)]
    absolute: bool,
}

/// Order of the matches.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Newest first.
    Mtime,
    /// By name.
    Path,
    /// What was changed in the last 24 hours, newest first; then the rest by name.
    Gem,
}

/// What glob finds.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Files only.
    File,
    /// Directories only.
    Dir,
    /// Files, directories and links.
    Any,
}

/// What glob found.
#[data]
#[derive(Debug)]
pub struct Output {
    /// Paths relative to the workspace unless `absolute`; only those that are shown.
    matches: Vec<String>,
    /// How many are shown.
    count: u64,
    /// How many were found; there may be more when the time was up.
    total_known: u64,
    /// More was found than is shown.
    truncated: bool,
    /// What was left out because of rules; a directory counts once.
    ignored: Ignored,
    /// The time was up before everything was seen.
    timed_out: bool,
}

/// Entries left out because of rules.
#[data]
#[derive(Debug)]
pub struct Ignored {
    /// By git's rules.
    git: u64,
    /// By rules for tools.
    tool: u64,
}

/// The tool. It has more parameters than a function should, so it takes them as one struct.
pub struct Glob;

impl Tool for Glob {
    fn descriptor() -> Descriptor {
        Descriptor::new(
            "glob",
            "Find files by name, newest first. Skips ignored files (.gitignore, .ignore). For the contents of files use \
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
        find::run(cx, &input)
    }

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("glob")
    }
}
