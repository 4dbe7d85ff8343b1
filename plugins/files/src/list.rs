//! `list_directory`: what is in a directory, and below it if wanted.

use std::fmt::Write as _;
use std::fs;

use toolhost_sdk::prelude::*;

use crate::ignored::Rules;
use crate::path::resolve;
use crate::text::size;
use crate::walk::{Found, MOST_DEPTH, MOST_ENTRIES, Walk, globs, order};

/// What comes first.
#[data]
#[derive(Debug, Clone, Copy)]
pub enum Sort {
    /// Directories, then files, each by name.
    Type,
    /// By name.
    Name,
    /// Largest first.
    Size,
    /// Newest first.
    Mtime,
}

/// The content of a directory.
#[data]
pub struct Listing {
    /// Absolute path of the directory.
    path: String,
    /// The entries shown.
    files: Vec<Entry>,
    /// How many entries are shown.
    count: usize,
    /// How many entries there are, without ignored ones.
    total: usize,
    /// There are more than are shown.
    truncated: bool,
    /// Entries left out by ignore files.
    ignored: Ignored,
}

/// Entries left out by ignore files.
#[data]
#[derive(Clone, Copy, Default)]
pub struct Ignored {
    /// By `.gitignore`, `.ignore` or `.git/info/exclude`.
    pub git: usize,
    /// By `.toolignore`.
    pub tool: usize,
}

/// One file or directory.
#[data]
pub struct Entry {
    /// Its name; below a subdirectory with the way to it, such as `src/main.rs`.
    pub name: String,
    /// Absolute path.
    pub path: String,
    /// It is a directory.
    #[arg(rename = "isDir")]
    pub is_dir: bool,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change, such as `2026-01-31T09:30:00Z`.
    pub modified: Option<String>,
    /// It is a symbolic link.
    #[arg(rename = "isSymlink")]
    pub is_symlink: bool,
    /// Where the link leads.
    pub target: Option<String>,
}

/// List a directory: directories first, then files with their sizes.
///
/// What ignore files leave out is only counted. With `recursive` it goes all the way down, except into directories
/// such as `node_modules` and `.git`.
#[tool(
    reads,
    idempotent,
    category = "file",
    kind = "read",
    icon = "folder",
    aliases = ["list_files", "list_dir", "ls"],
    tags = ["file", "directory"],
    output = Listing,
    example(description = "The workspace", input = r#"{}"#),
    example(description = "All Rust files below src", input = r#"{"path": "src", "recursive": true, "pattern": "*.rs"}"#),
)]
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of a tool are its schema"
)]
pub fn list_directory(
    cx: &Context,
    /// Path of the directory, relative to the workspace or absolute.
    #[arg(default = ".", aliases = ["dir_path", "directory", "file_path", "absolute_path"])]
    path: String,
    /// Also list what is below subdirectories.
    #[arg(default = false)]
    recursive: bool,
    /// How many levels to list: 1 is the directory itself. Without `recursive` 1, with it all.
    #[arg(min = 1)]
    depth: Option<u32>,
    /// Only entries that match this glob, for example `*.rs` or `src/**/*.{js,ts}`. Without a `/` it is matched
    /// with names at any depth.
    pattern: Option<String>,
    /// Leave out entries that match one of these globs, with all below them.
    ignore: Option<Vec<String>>,
    /// Also show names that begin with a dot.
    #[arg(default = true)]
    show_hidden: bool,
    /// Leave out what `.gitignore` files name.
    #[arg(default = true)]
    respect_git_ignore: bool,
    /// What comes first.
    #[arg(default = "type")]
    sort: Sort,
    /// Show at most this many entries.
    #[arg(default = 200, min = 1, max = 2000)]
    limit: usize,
    /// Pass over this many entries first.
    #[arg(default = 0)]
    offset: usize,
) -> Result<Outcome> {
    let target = resolve(cx, &path)?;
    let metadata = fs::metadata(&target.path).map_err(|error| target.error(&error))?;
    if !metadata.is_dir() {
        return Err(
            Error::invalid_input(format!("{} is a file, not a directory", target.shown))
                .code("not_a_directory")
                .recommend(format!("read it: read_file with path {:?}", target.shown)),
        );
    }
    let mut walk = Walk {
        cx,
        top: &target,
        depth: depth
            .unwrap_or(if recursive { MOST_DEPTH } else { 1 })
            .min(MOST_DEPTH),
        pattern: pattern
            .as_deref()
            .map(|pattern| globs(&[pattern.to_owned()]))
            .transpose()?,
        leave_out: globs(&ignore.unwrap_or_default())?,
        show_hidden,
        rules: Rules::above(&target.root, &target.path, respect_git_ignore),
        found: Vec::new(),
        ignored: Ignored::default(),
        is_complete: true,
    };
    walk.directory(&target.path, 1)?;
    let Walk {
        mut found,
        ignored,
        is_complete,
        ..
    } = walk;
    order(&mut found, sort);

    let total = found.len();
    let page: Vec<Found> = found.into_iter().skip(offset).take(limit).collect();
    let shown = page.len();
    if shown == 0 && total > 0 {
        let message = format!(
            "offset {offset} is past the end: {} has {total} entries",
            target.shown
        );
        return Err(Error::invalid_input(message).code("offset_past_end"));
    }
    let files: Vec<Entry> = page.into_iter().map(Found::entry).collect();
    let truncated = offset + shown < total || !is_complete;
    let mut text = String::new();
    for entry in &files {
        push_line(&mut text, entry);
    }
    if files.is_empty() {
        let what = match pattern {
            Some(pattern) => format!("nothing in {} matches {pattern}", target.shown),
            None if ignored.git + ignored.tool > 0 => {
                format!("nothing to show in {}", target.shown)
            }
            None => format!("{} is empty", target.shown),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "({what})");
    }
    let Ignored { git, tool } = ignored;
    if git + tool > 0 {
        let _ = writeln!(text, "({} ignored: git {git}, tool {tool})", git + tool);
    }
    if offset + shown < total {
        let next = offset + shown;
        let _ = writeln!(
            text,
            "(showing entries {}-{next} of {total}; to go on: the same call with offset {next})",
            offset + 1
        );
    }
    if !is_complete {
        let _ = writeln!(
            text,
            "(stopped after {MOST_ENTRIES} entries; list a subdirectory)"
        );
    }
    let listing = Listing {
        path: target.path.display().to_string(),
        count: shown,
        total,
        truncated,
        ignored,
        files,
    };
    let summary = format!("{shown} of {total} entries in {}", target.shown);
    Ok(Outcome::text(text.trim_end())
        .summary(summary)
        .structured(&listing))
}

fn push_line(text: &mut String, entry: &Entry) {
    let Entry { name, .. } = entry;
    // Writing to a String cannot fail.
    let _ = match &entry.target {
        _ if entry.is_dir => writeln!(text, "[DIR] {name}/"),
        Some(target) => writeln!(text, "{name} -> {target}"),
        None => writeln!(text, "{name} ({})", size(entry.size)),
    };
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::testing::Workspace;

    /// What the model reads, or the error.
    fn check(workspace: &Workspace, input: Value, expected: Expect) {
        let answer = workspace.call::<list_directory>(input);
        let (text, _) = answer.split_once("\nsummary: ").unwrap_or((&answer, ""));
        expected.assert_eq(text);
    }

    fn sample() -> Workspace {
        let workspace = Workspace::new(&[
            (".gitignore", "*.log\n"),
            (".hidden", ""),
            ("README.md", "12345"),
            ("build.log", ""),
            ("src/main.rs", "fn main() {}"),
            ("src/deep/a.rs", ""),
            ("src/deep/b.log", ""),
            ("node_modules/x/index.js", ""),
        ]);
        for (path, seconds) in [(".gitignore", 1), (".hidden", 4), ("README.md", 3)] {
            workspace.touch(path, seconds);
        }
        workspace
    }

    #[test]
    fn one_level() {
        let workspace = sample();
        check(
            &workspace,
            json!({}),
            expect![[r#"
            [DIR] node_modules/
            [DIR] src/
            .gitignore (6 B)
            .hidden (0 B)
            README.md (5 B)
            (1 ignored: git 1, tool 0)"#]],
        );
        check(
            &workspace,
            json!({"path": "src"}),
            expect![[r#"
            [DIR] deep/
            main.rs (12 B)"#]],
        );
        check(
            &workspace,
            json!({"show_hidden": false, "respect_git_ignore": false}),
            expect![[r#"
            [DIR] node_modules/
            [DIR] src/
            README.md (5 B)
            build.log (0 B)"#]],
        );
    }

    #[test]
    fn all_levels() {
        let workspace = sample();
        check(
            &workspace,
            json!({"recursive": true}),
            expect![[r#"
            [DIR] node_modules/
            [DIR] src/
            [DIR] src/deep/
            .gitignore (6 B)
            .hidden (0 B)
            README.md (5 B)
            src/deep/a.rs (0 B)
            src/main.rs (12 B)
            (2 ignored: git 2, tool 0)"#]],
        );
        check(
            &workspace,
            json!({"depth": 2, "path": "src"}),
            expect![[r#"
            [DIR] deep/
            deep/a.rs (0 B)
            main.rs (12 B)
            (1 ignored: git 1, tool 0)"#]],
        );
        check(
            &workspace,
            json!({"recursive": true, "depth": 1, "path": "src"}),
            expect![[r#"
            [DIR] deep/
            main.rs (12 B)"#]],
        );
    }

    #[test]
    fn patterns() {
        let workspace = sample();
        check(
            &workspace,
            json!({"recursive": true, "pattern": "*.rs"}),
            expect![[r#"
            src/deep/a.rs (0 B)
            src/main.rs (12 B)
            (2 ignored: git 2, tool 0)"#]],
        );
        check(
            &workspace,
            json!({"recursive": true, "pattern": "src/*.{rs,md}"}),
            expect![[r#"
            src/main.rs (12 B)
            (2 ignored: git 2, tool 0)"#]],
        );
        check(
            &workspace,
            json!({"recursive": true, "ignore": ["deep", ".*"]}),
            expect![[r#"
            [DIR] node_modules/
            [DIR] src/
            README.md (5 B)
            src/main.rs (12 B)
            (1 ignored: git 1, tool 0)"#]],
        );
        check(
            &workspace,
            json!({"pattern": "*.java"}),
            expect![[r#"
                (nothing in . matches *.java)
                (1 ignored: git 1, tool 0)"#]],
        );
        check(
            &workspace,
            json!({"pattern": "[a"}),
            expect![
                "InvalidInput invalid_glob: `[a` is not a glob: unclosed character class; missing ']'"
            ],
        );
    }

    #[test]
    fn orders() {
        let workspace = sample();
        check(
            &workspace,
            json!({"sort": "name", "limit": 3}),
            expect![[r#"
            .gitignore (6 B)
            .hidden (0 B)
            README.md (5 B)
            (1 ignored: git 1, tool 0)
            (showing entries 1-3 of 5; to go on: the same call with offset 3)"#]],
        );
        check(
            &workspace,
            json!({"sort": "mtime", "ignore": ["src", "node_modules"]}),
            expect![[r#"
            .hidden (0 B)
            README.md (5 B)
            .gitignore (6 B)
            (1 ignored: git 1, tool 0)"#]],
        );
        check(
            &workspace,
            json!({"sort": "size", "ignore": ["src", "node_modules"]}),
            expect![[r#"
            .gitignore (6 B)
            README.md (5 B)
            .hidden (0 B)
            (1 ignored: git 1, tool 0)"#]],
        );
    }

    #[test]
    fn pages() {
        let workspace = sample();
        check(
            &workspace,
            json!({"limit": 2}),
            expect![[r#"
            [DIR] node_modules/
            [DIR] src/
            (1 ignored: git 1, tool 0)
            (showing entries 1-2 of 5; to go on: the same call with offset 2)"#]],
        );
        check(
            &workspace,
            json!({"limit": 2, "offset": 4}),
            expect![[r#"
            README.md (5 B)
            (1 ignored: git 1, tool 0)"#]],
        );
        check(
            &workspace,
            json!({"offset": 99}),
            expect!["InvalidInput offset_past_end: offset 99 is past the end: . has 5 entries"],
        );
    }

    #[test]
    fn what_cannot_be_listed() {
        let workspace = sample();
        fs::create_dir(workspace.path("empty")).unwrap();
        workspace.write("all-ignored/a.log", b"");
        check(
            &workspace,
            json!({"path": "empty"}),
            expect!["(empty is empty)"],
        );
        check(
            &workspace,
            json!({"path": "all-ignored"}),
            expect![[r#"
            (nothing to show in all-ignored)
            (1 ignored: git 1, tool 0)"#]],
        );
        check(
            &workspace,
            json!({"path": "README.md"}),
            expect!["InvalidInput not_a_directory: README.md is a file, not a directory"],
        );
        check(
            &workspace,
            json!({"path": "scr"}),
            expect!["NotFound file_not_found: File not found: scr. Did you mean: src?"],
        );
        check(
            &workspace,
            json!({"path": "/"}),
            expect![
                "Denied path_not_in_workspace: Permission denied: Access denied: / is outside the allowed paths (<root>)"
            ],
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_are_shown_and_not_followed() {
        let workspace = Workspace::new(&[]);
        std::os::unix::fs::symlink("..", workspace.path("up")).unwrap();
        let answer = workspace.call::<list_directory>(json!({"recursive": true}));
        expect![[r#"
            up -> ..
            summary: 1 of 1 entries in .
            {"path":"<root>","files":[{"name":"up","path":"<root>/up","isDir":false,"size":2,"modified":"<time>","isSymlink":true,"target":".."}],"count":1,"total":1,"truncated":false,"ignored":{"git":0,"tool":0}}"#]].assert_eq(&answer);
    }

    #[test]
    fn a_cancelled_call_stops() {
        let workspace = sample();
        let cx = workspace.cx().cancelled_after(0);
        let error = toolhost_sdk::testing::call::<list_directory>(&cx, json!({})).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Interrupted);
    }

    #[test]
    fn examples_are_inputs() {
        toolhost_sdk::testing::check_examples::<list_directory>().unwrap();
    }
}
