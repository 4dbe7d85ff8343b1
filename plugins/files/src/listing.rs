//! `list_directory`: the entries of a directory.

use std::fmt::Write as _;
use std::slice;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::{file_name, plural};

use crate::ignore_rules::AppliedRules;
use crate::path::resolve_directory;
use crate::text::size;
use crate::walk::{MOST_DEPTH, MOST_ENTRIES, Walk, WalkEntry, globs, order};

/// Sort order.
#[data]
#[derive(Debug, Clone, Copy)]
pub enum Sort {
    /// Directories first.
    Type,
    Name,
    /// Largest first.
    Size,
    /// Newest first.
    Mtime,
}

/// Content of a directory.
#[data]
pub struct Listing {
    /// Absolute path of the directory.
    path: String,
    /// Listed entries.
    files: Vec<Entry>,
    /// Number of listed entries.
    count: usize,
    /// Number of entries, without ignored ones.
    total: usize,
    /// The list was cut.
    truncated: bool,
    /// Number of ignored entries.
    ignored: Ignored,
}

/// Number of entries excluded by ignore files.
#[data]
#[derive(Clone, Copy, Default)]
pub struct Ignored {
    /// By `.gitignore`, `.ignore` or `.git/info/exclude`.
    pub git: usize,
    /// By `.toolignore`, `.geminiignore` or `.aiexclude`.
    pub tool: usize,
}

/// One file or directory.
#[data]
pub struct Entry {
    /// Name, relative to the listed directory.
    pub name: String,
    /// Absolute path.
    pub path: String,
    /// Directory.
    #[arg(rename = "isDir")]
    pub is_dir: bool,
    /// Size in bytes.
    pub size: u64,
    /// Last modification, such as `2026-01-31T09:30:00Z`.
    pub modified: Option<String>,
    /// Symbolic link.
    #[arg(rename = "isSymlink")]
    pub is_symlink: bool,
    /// Target of the link.
    pub target: Option<String>,
}

/// List a directory with sizes. Ignored entries are only counted; `node_modules`, `.git` and the like are not entered.
#[tool(
    reads,
    idempotent,
    plain_text,
    category = "file",
    kind = "read",
    icon = "folder",
    aliases = ["list_files", "list_dir", "ls", "list_directory_with_sizes"],
    tags = ["file", "directory"],
    output = Listing,
    example(description = "The workspace", input = "{}"),
    example(description = "All Rust files below src", input = r#"{"path": "src", "recursive": true, "pattern": "*.rs"}"#),
)]
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of a tool are its schema"
)]
pub fn list_directory(
    cx: &Context,
    /// Workspace-relative or absolute.
    #[arg(default = ".", aliases = ["dir_path", "directory", "file_path", "filePath", "absolute_path", "target_file"])]
    path: String,
    /// Include subdirectories.
    #[arg(default = false)]
    recursive: bool,
    /// Levels to list. Default 1, unlimited with `recursive`.
    #[arg(min = 1)]
    depth: Option<u32>,
    /// Glob, such as `*.rs` or `src/**/*.{js,ts}`; without `/` it matches at any depth.
    pattern: Option<String>,
    /// Globs to exclude.
    ignore: Option<Vec<String>>,
    /// Include dot files.
    #[arg(default = true)]
    show_hidden: bool,
    /// Apply `.gitignore`.
    #[arg(default = true)]
    respect_git_ignore: bool,
    /// Sort order.
    #[arg(default = "type", aliases = ["sort_by", "sortBy"])]
    sort: Sort,
    /// Maximum entries.
    #[arg(default = 200, min = 1, max = 2000)]
    limit: usize,
    /// Entries to skip.
    #[arg(default = 0)]
    offset: usize,
) -> Result<Outcome> {
    let target = resolve_directory(cx, &path)?;
    let respect = AppliedRules {
        git: respect_git_ignore,
        tool: true,
    };
    let depth = depth.unwrap_or(if recursive { MOST_DEPTH } else { 1 });
    let mut walk = Walk {
        depth: depth.min(MOST_DEPTH),
        pattern: pattern
            .as_ref()
            .map(|pattern| globs(slice::from_ref(pattern)))
            .transpose()?,
        leave_out: globs(&ignore.unwrap_or_default())?,
        show_hidden,
        ..Walk::below(cx, &target, respect)
    };
    walk.directory(&target.path, 1)?;
    let Walk {
        mut found,
        ignored,
        unread,
        is_complete,
        ..
    } = walk;
    order(&mut found, sort);

    let total = found.len();
    let page: Vec<WalkEntry> = found.into_iter().skip(offset).take(limit).collect();
    let shown = page.len();
    if shown == 0 && total > 0 {
        let message = format!(
            "offset {offset} is past the end: {} has {total} entries",
            target.shown
        );
        return Err(Error::invalid_input(message).code("offset_past_end"));
    }
    let files: Vec<Entry> = page.into_iter().map(WalkEntry::entry).collect();
    let truncated = offset + shown < total || unread > 0 || !is_complete;
    let listing = Listing {
        path: target.path.display().to_string(),
        count: shown,
        total,
        truncated,
        ignored,
        files,
    };
    let text = listing.render(
        &target.shown,
        pattern.as_deref(),
        offset,
        unread,
        is_complete,
    );
    let summary = format!("{shown} of {total} entries in {}", target.shown);
    Ok(Outcome::text(text.trim_end())
        .summary(summary)
        .structured(&listing))
}

impl Listing {
    /// Returns the entries as lines, with notes about those that are not shown.
    fn render(
        &self,
        shown: &str,
        pattern: Option<&str>,
        offset: usize,
        unread: usize,
        is_complete: bool,
    ) -> String {
        let next = offset + self.count;
        let mut text = String::new();
        for entry in &self.files {
            push_line(&mut text, entry);
        }
        if self.files.is_empty() {
            let reason = match pattern {
                Some(pattern) => format!("nothing in {shown} matches {pattern}"),
                None if self.ignored.git + self.ignored.tool > 0 => {
                    format!("nothing to show in {shown}")
                }
                None => format!("{shown} is empty"),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "({reason})");
        }
        let Ignored { git, tool } = self.ignored;
        if git + tool > 0 {
            let _ = writeln!(text, "({} ignored: git {git}, tool {tool})", git + tool);
        }
        if next < self.total {
            let _ = writeln!(
                text,
                "(showing entries {}-{next} of {}; to go on: the same call with `offset` {next})",
                offset + 1,
                self.total
            );
        }
        if unread > 0 {
            let unread = plural(unread, "directory", "directories");
            let _ = writeln!(text, "({unread} could not be read)");
        }
        if !is_complete {
            let _ = writeln!(
                text,
                "(stopped after {MOST_ENTRIES} entries; list a subdirectory)"
            );
        }
        text
    }
}

fn push_line(text: &mut String, entry: &Entry) {
    let name = file_name(&entry.name);
    // Writing to a String cannot fail.
    let _ = match &entry.target {
        _ if entry.is_dir => writeln!(text, "[DIR] {name}/"),
        Some(target) => writeln!(text, "{name} -> {}", file_name(target)),
        // The sandbox does not reveal the target of a link that leaves the allowed paths.
        None if entry.is_symlink => writeln!(text, "{name} -> (out of the allowed paths)"),
        None => writeln!(text, "{name} ({})", size(entry.size)),
    };
}

#[cfg(test)]
mod tests;
