//! The `grep` tool: finds files and lines that match a regular expression.

mod collector;
mod files;
mod hints;
mod match_stream;
mod rendering;
mod search;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use toolhost_sdk::prelude::*;

use crate::query::PatternOptions;

// Without a doc comment, which would become a root description of the input schema.
#[data]
#[derive(Clone, Debug)]
pub struct Input {
    /// Rust regex, without look-around or back-references.
    #[arg(min_len = 1)]
    pattern: String,
    /// Directory or file to search.
    #[arg(default = ".", aliases = ["file_path", "filePath", "absolute_path", "dir_path", "directory", "target_file"])]
    path: String,
    /// File glob, such as `*.{ts,tsx}` or `src/**/*.rs`; `!` negates.
    #[arg(aliases = ["include", "include_pattern"])]
    glob: Option<String>,
    /// Globs to exclude.
    #[arg(default = Vec::<String>::new(), aliases = ["exclude_globs"])]
    exclude: Vec<String>,
    /// Drop matching lines that match this regex.
    exclude_pattern: Option<String>,
    /// ripgrep file type, such as `rust`.
    #[arg(rename = "type", aliases = ["file_type"])]
    file_type: Option<String>,
    /// Output mode.
    #[arg(default = OutputMode::FilesWithMatches)]
    output_mode: OutputMode,
    /// Ignore case.
    #[arg(default = false, aliases = ["-i", "ignore_case"])]
    case_insensitive: bool,
    /// Literal pattern.
    #[arg(default = false, aliases = ["-F", "literal"])]
    fixed_strings: bool,
    /// Whole words.
    #[arg(default = false, aliases = ["-w"])]
    word: bool,
    /// Match across lines, `.` included.
    #[arg(default = false, aliases = ["-U"])]
    multiline: bool,
    /// Lines before a match.
    #[arg(max = 1000, aliases = ["-B"])]
    before: Option<u32>,
    /// Lines after a match.
    #[arg(max = 1000, aliases = ["-A"])]
    after: Option<u32>,
    /// Lines before and after.
    #[arg(max = 1000, aliases = ["-C"])]
    context: Option<u32>,
    /// Add context to at most three matches.
    #[arg(default = true)]
    auto_context: bool,
    /// Show line numbers.
    #[arg(default = true, aliases = ["-n"])]
    line_numbers: bool,
    /// Maximum files or lines.
    #[arg(default = 100, min = 1, max = 10_000, aliases = ["max_results", "total_max_matches", "limit"])]
    head_limit: u32,
    /// Files or lines to skip.
    #[arg(default = 0)]
    offset: u32,
    /// Maximum lines per file.
    #[arg(min = 1, aliases = ["-m", "max_matches_per_file"])]
    max_per_file: Option<u32>,
    /// Include ignored files.
    #[arg(default = false)]
    no_ignore: bool,
    /// i: ignore case, w: word, F: literal, v: invert match, U or m: multiline.
    #[arg(default = "", pattern = "^[iwFvUm]*$")]
    flags: String,
    /// Show the user matches while searching; by default after 1 s.
    stream: Option<bool>,
}

/// Output mode.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMode {
    /// Paths, newest first.
    FilesWithMatches,
    Content,
    /// Matching lines per file.
    Count,
}

/// Result of a search.
#[data]
#[derive(Debug)]
pub struct Output {
    /// Output mode.
    mode: OutputMode,
    /// Shown files with a match.
    files: Vec<FileMatches>,
    /// Number of matching lines; in mode `files_with_matches`, of files.
    total_matches: u64,
    /// Number of files with a match.
    total_files: u64,
    /// More was found than is shown.
    truncated: bool,
    /// The search stopped at the time limit.
    timed_out: bool,
}

/// Matches in one file.
#[data]
#[derive(Debug)]
pub struct FileMatches {
    /// Path relative to the workspace.
    path: String,
    /// Number of matching lines; absent in mode `files_with_matches`.
    count: Option<u64>,
    /// Lines, in mode `content`.
    matches: Vec<LineMatch>,
}

/// One matching line.
#[data]
#[derive(Clone, Debug)]
pub struct LineMatch {
    /// Line number, from 1.
    line: u64,
    /// Column of the match in characters, from 1.
    column: u64,
    /// The line; with `multiline`, all lines of the match.
    text: String,
    /// Lines before.
    before: Vec<String>,
    /// Lines after.
    after: Vec<String>,
}

/// The `grep` tool. It takes its many parameters as one struct.
pub struct Grep;

impl Tool for Grep {
    fn descriptor() -> Descriptor {
        Descriptor::new(
            "grep",
            "Search file contents for a regular expression. Skips ignored (.gitignore, .ignore) and binary files. Set \
             `output_mode` to `content` to see the matching lines.",
        )
        .reads()
        .idempotent()
        .display_name("Search in files")
        .icon("text-search")
        .category("file")
        .kind("search")
        .tags(&["search", "regex", "ripgrep"])
        .aliases(&["Grep", "grep_search", "search_file_content", "fs_grep", "grep_files"])
        .timeout_ms(30_000)
        .streams()
        .plain_text()
        .input::<Input>()
        .output::<Output>()
        .example("Which files mention it", r#"{"pattern": "TODO"}"#)
        .example(
            "Definitions with the lines below them",
            r#"{"pattern": "fn \\w+_tool", "type": "rust", "output_mode": "content", "after": 3}"#,
        )
    }

    fn call(cx: &Context, input: Value) -> Result<Outcome> {
        let input: Input = toolhost_sdk::serde_json::from_value(input)?;
        search::run(cx, &input)
    }

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("grep")
    }
}

impl Input {
    fn reading(&self) -> PatternOptions {
        PatternOptions {
            case_insensitive: self.case_insensitive || self.flags.contains('i'),
            fixed: self.fixed_strings || self.flags.contains('F'),
            word: self.word || self.flags.contains('w'),
            multiline: self.multiline || self.flags.contains(['U', 'm']),
        }
    }

    fn inverted(&self) -> bool {
        self.flags.contains('v')
    }

    /// Lines of context before and after a match; `None` if not specified.
    fn around(&self) -> Option<(usize, usize)> {
        let lines = |own: Option<u32>| own.or(self.context).unwrap_or(0) as usize;
        (self.before.or(self.after).or(self.context).is_some())
            .then(|| (lines(self.before), lines(self.after)))
    }
}
