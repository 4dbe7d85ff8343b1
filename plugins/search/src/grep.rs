//! The tool `grep`: which files, and which of their lines, match a pattern.

mod answer;
mod collect;
mod files;
mod hints;
mod live;
mod search;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use toolhost_sdk::prelude::*;

use crate::query::Reading;

/// What a call of grep asks for.
#[data]
#[derive(Clone, Debug)]
pub struct Input {
    /// Regular expression in the syntax of Rust and ripgrep (no look-around, no back-references), for example `fn\s+\w+`.
    #[arg(min_len = 1)]
    pattern: String,
    /// Directory or file to search in; the workspace when absent.
    #[arg(default = ".", aliases = ["file_path", "filePath", "absolute_path", "dir_path", "directory", "target_file"])]
    path: String,
    /// Only files whose name or path matches, for example `*.{ts,tsx}` or `src/**/*.rs`; a `!` in front turns it round.
    #[arg(aliases = ["include", "include_pattern"])]
    glob: Option<String>,
    /// Leave out files and directories that match one of these globs.
    #[arg(default = Vec::<String>::new(), aliases = ["exclude_globs"])]
    exclude: Vec<String>,
    /// Matching lines that match this regular expression too do not count.
    exclude_pattern: Option<String>,
    /// Only files of this type of ripgrep's, for example `rust`, `py`, `js`.
    #[arg(rename = "type", aliases = ["file_type"])]
    file_type: Option<String>,
    /// `files_with_matches`: paths, newest first; `content`: the lines; `count`: matching lines per file.
    #[arg(default = OutputMode::FilesWithMatches)]
    output_mode: OutputMode,
    /// Upper and lower case are the same.
    #[arg(default = false, aliases = ["-i", "ignore_case"])]
    case_insensitive: bool,
    /// The pattern is text, not a regular expression.
    #[arg(default = false, aliases = ["-F", "literal"])]
    fixed_strings: bool,
    /// Match whole words only.
    #[arg(default = false, aliases = ["-w"])]
    word: bool,
    /// A match may cover several lines, and `.` matches line ends.
    #[arg(default = false, aliases = ["-U"])]
    multiline: bool,
    /// Lines to show before each match.
    #[arg(max = 1000, aliases = ["-B"])]
    before: Option<u32>,
    /// Lines to show after each match.
    #[arg(max = 1000, aliases = ["-A"])]
    after: Option<u32>,
    /// Lines to show before and after each match.
    #[arg(max = 1000, aliases = ["-C"])]
    context: Option<u32>,
    /// Show more lines around the matches when there are at most three and no context was asked for.
    #[arg(default = true)]
    auto_context: bool,
    /// Show line numbers.
    #[arg(default = true, aliases = ["-n"])]
    line_numbers: bool,
    /// Show at most this many files or lines.
    #[arg(default = 100, min = 1, max = 10_000, aliases = ["max_results", "total_max_matches", "limit"])]
    head_limit: u32,
    /// Leave out this many files or lines first.
    #[arg(default = 0)]
    offset: u32,
    /// Show at most this many lines of one file.
    #[arg(min = 1, aliases = ["-m", "max_matches_per_file"])]
    max_per_file: Option<u32>,
    /// Search ignored files too.
    #[arg(default = false)]
    no_ignore: bool,
    /// Letters of ripgrep's: i (case-insensitive), w (word), F (fixed strings), v (lines that do not match), U or m (multiline).
    #[arg(default = "", pattern = "^[iwFvUm]*$")]
    flags: String,
    /// Show matches to whoever watches while the search still runs; when absent, once it has taken a second.
    stream: Option<bool>,
}

/// What grep shows.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMode {
    /// Paths only.
    FilesWithMatches,
    /// Matching lines.
    Content,
    /// Matching lines per file.
    Count,
}

/// What grep found.
#[data]
#[derive(Debug)]
pub struct Output {
    /// The output mode.
    mode: OutputMode,
    /// Files with a match; only those that are shown.
    files: Vec<FileMatches>,
    /// All matching lines; in the mode `files_with_matches`, all files.
    total_matches: u64,
    /// All files with a match.
    total_files: u64,
    /// More was found than is shown.
    truncated: bool,
    /// The time was up before all files were searched.
    timed_out: bool,
}

/// What matches in one file.
#[data]
#[derive(Debug)]
pub struct FileMatches {
    /// Path relative to the workspace.
    path: String,
    /// How many lines match; absent in the mode `files_with_matches`.
    count: Option<u64>,
    /// The lines, in the mode `content`.
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
    /// The line; with `multiline`, all lines that the match covers.
    text: String,
    /// Lines above.
    before: Vec<String>,
    /// Lines below.
    after: Vec<String>,
}

/// The tool. It has more parameters than a function should, so it takes them as one struct.
pub struct Grep;

impl Tool for Grep {
    fn descriptor() -> Descriptor {
        Descriptor::new(
            "grep",
            "Search the contents of files for a regular expression. Skips ignored (.gitignore, .ignore) and binary \
             files. Shows paths by default; set `output_mode` to `content` for the matching lines.",
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
    fn reading(&self) -> Reading {
        Reading {
            case_insensitive: self.case_insensitive || self.flags.contains('i'),
            fixed: self.fixed_strings || self.flags.contains('F'),
            word: self.word || self.flags.contains('w'),
            multiline: self.multiline || self.flags.contains(['U', 'm']),
        }
    }

    fn inverted(&self) -> bool {
        self.flags.contains('v')
    }

    /// Lines to show before and after a match; `None` when the caller has no opinion.
    fn around(&self) -> Option<(usize, usize)> {
        let lines = |own: Option<u32>| own.or(self.context).unwrap_or(0) as usize;
        (self.before.or(self.after).or(self.context).is_some())
            .then(|| (lines(self.before), lines(self.after)))
    }
}
