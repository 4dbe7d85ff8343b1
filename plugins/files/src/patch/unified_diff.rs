//! Parser of unified diffs as written by `diff -u` and git.

use toolhost_sdk::prelude::*;

use super::names::{self, git_names, without_prefixes};
use super::parse::unexpected;
use super::section::{Action, FileMode, Hunk, Section, Sign, hint};
use crate::edit::errors;

pub fn is_unified(lines: &[&str]) -> bool {
    lines.iter().any(|line| line.starts_with("diff --git "))
        || lines
            .windows(2)
            .any(|pair| pair[0].starts_with("--- ") && pair[1].starts_with("+++ "))
}

/// Parses `lines`, which are preceded by `first` other lines.
pub fn parse(lines: &[&str], first: usize) -> Result<Vec<Section>> {
    let mut reader = Reader {
        lines,
        first,
        at: 0,
        head: GitHeader::default(),
    };
    let mut sections = Vec::new();
    while let Some(text) = reader.peek() {
        if let Some(section) = reader.head(text)? {
            sections.push(section);
        }
    }
    sections.extend(reader.without_hunks()?);
    Ok(sections)
}

/// Git's header of a file, before its hunks or without any.
#[derive(Debug, Default)]
struct GitHeader<'a> {
    /// The line of the patch where it starts; 0 outside of a git header.
    line: usize,
    /// The text after `diff --git`.
    names: &'a str,
    is_created: bool,
    is_deleted: bool,
    /// The new mode of the file.
    mode: Option<FileMode>,
    renamed_from: Option<&'a str>,
    renamed_to: Option<&'a str>,
}

struct Reader<'a, 'b> {
    lines: &'b [&'a str],
    first: usize,
    at: usize,
    head: GitHeader<'a>,
}

impl<'a> Reader<'a, '_> {
    /// Reads one line before the hunks of a file; at the first hunk, reads all of them.
    fn head(&mut self, text: &'a str) -> Result<Option<Section>> {
        let line = self.first + self.at + 1;
        if text.starts_with("--- ") && self.next_starts("+++ ") {
            return self.file(line).map(Some);
        }
        let mut section = None;
        if let Some(names) = text.strip_prefix("diff --git ") {
            section = self.without_hunks()?;
            self.head = GitHeader {
                line,
                names,
                ..GitHeader::default()
            };
        } else if text.starts_with("GIT binary patch") || text.starts_with("Binary files ") {
            let message =
                format!("line {line} of the patch changes a binary file; only text is supported");
            return Err(errors::invalid_edit(message));
        } else if text.starts_with("@@ ") {
            return Err(unexpected(
                line,
                text,
                "`--- a/PATH` and `+++ b/PATH` before the hunks",
            ));
        } else {
            self.extended(text, line)?;
        }
        self.at += 1;
        Ok(section)
    }

    /// Reads a line of git's extended header; other lines are ignored.
    fn extended(&mut self, text: &'a str, line: usize) -> Result<()> {
        if let Some(from) = text.strip_prefix("rename from ") {
            self.head.renamed_from = Some(from);
        } else if let Some(to) = text.strip_prefix("rename to ") {
            self.head.renamed_to = Some(to);
        } else if text.starts_with("copy from ") {
            let message =
                format!("line {line} of the patch copies a file; write the copy as a new file");
            return Err(errors::invalid_edit(message));
        } else if self.head.line == 0 {
            return Ok(());
        } else if let Some(mode) = text.strip_prefix("new file mode ") {
            self.head.is_created = true;
            self.head.mode = file_mode(mode, line)?.filter(|mode| *mode == FileMode::Executable);
        } else if let Some(mode) = text.strip_prefix("deleted file mode ") {
            self.head.is_deleted = true;
            file_mode(mode, line)?;
        } else if let Some(mode) = text.strip_prefix("old mode ") {
            file_mode(mode, line)?;
        } else if let Some(mode) = text.strip_prefix("new mode ") {
            self.head.mode = file_mode(mode, line)?;
        } else if let Some(index) = text.strip_prefix("index ") {
            // The mode of a file whose mode does not change.
            if let Some((_, mode)) = index.split_once(' ') {
                file_mode(mode, line)?;
            }
        }
        Ok(())
    }

    /// The change of a file without hunks: an empty file added or deleted, a rename, a mode change.
    fn without_hunks(&mut self) -> Result<Option<Section>> {
        let head = std::mem::take(&mut self.head);
        let (path, action) = match (head.renamed_from, head.renamed_to) {
            (Some(from), Some(to)) => {
                let to = Some(names::unquoted(to)?);
                let hunks = Vec::new();
                (names::unquoted(from)?, Action::Update { to, hunks })
            }
            _ if head.is_created || head.is_deleted || head.mode.is_some() => {
                let path = git_names(head.names)?.ok_or_else(|| {
                    let line = head.line;
                    errors::invalid_edit(format!(
                        "line {line} of the patch names two files; it is unclear which is meant"
                    ))
                })?;
                let hunks = Vec::new();
                let action = match (head.is_created, head.is_deleted) {
                    (true, _) => Action::Add {
                        content: String::new(),
                    },
                    (false, true) => Action::Delete { hunks },
                    (false, false) => Action::Update { to: None, hunks },
                };
                (path, action)
            }
            _ => return Ok(None),
        };
        Ok(Some(Section {
            path,
            action,
            mode: head.mode,
            line: head.line.max(1),
        }))
    }

    fn file(&mut self, line: usize) -> Result<Section> {
        let (old, new) = (
            names::of_file(&self.lines[self.at][4..])?,
            names::of_file(&self.lines[self.at + 1][4..])?,
        );
        self.at += 2;
        let (old, new) = without_prefixes(old, new);
        let mut hunks = Vec::new();
        while let Some(text) = self.peek()
            && text.starts_with("@@")
        {
            hunks.push(self.hunk(text));
        }
        let head = std::mem::take(&mut self.head);
        let (path, action) = match (old, new) {
            (None, None) => {
                return Err(errors::invalid_edit(format!(
                    "line {line} of the patch names no file"
                )));
            }
            (None, Some(path)) => (
                path,
                Action::Add {
                    content: content(&hunks),
                },
            ),
            (Some(path), None) => (path, Action::Delete { hunks }),
            (Some(old), Some(new)) => {
                let to = match (head.renamed_from, head.renamed_to) {
                    (Some(from), Some(to)) => (from != to).then(|| names::unquoted(to)),
                    _ => (old != new).then_some(Ok(new)),
                };
                let to = to.transpose()?;
                (old, Action::Update { to, hunks })
            }
        };
        let is_empty = matches!(&action, Action::Update { to: None, hunks } if hunks.is_empty());
        if is_empty {
            let found = self.peek().unwrap_or_default();
            return Err(unexpected(
                self.first + self.at + 1,
                found,
                "a hunk that begins with `@@`",
            ));
        }
        Ok(Section {
            path,
            action,
            mode: head.mode,
            line,
        })
    }

    fn hunk(&mut self, head: &str) -> Hunk {
        let mut hunk = Hunk {
            hint: hint(&head[2..]),
            line: self.first + self.at + 1,
            ..Hunk::default()
        };
        self.at += 1;
        let mut blank = 0;
        let (mut old_left, mut new_left) = hunk
            .hint
            .map_or((usize::MAX, usize::MAX), |hint| (hint.old, hint.new));
        while let Some(text) = self.peek() {
            // A removed `-- a` before an added `++ b` looks like the next file; the counts disambiguate.
            let is_file = text.starts_with("--- ") && self.next_starts("+++ ");
            let is_known = hunk.hint.is_some();
            if is_file && !(is_known && old_left > 0 && new_left > 0) {
                break;
            }
            // The signature line of `git format-patch`, not a removed line.
            if text == "-- " && old_left == 0 && new_left == 0 {
                break;
            }
            // An empty line belongs to the hunk while lines are missing.
            if text.is_empty() && (old_left == 0 || new_left == 0) {
                break;
            }
            let lines = hunk.lines.len();
            if !hunk.push(text) {
                break;
            }
            if let Some((sign, _)) = hunk.lines.get(lines) {
                old_left = old_left.saturating_sub(usize::from(*sign != Sign::Add));
                new_left = new_left.saturating_sub(usize::from(*sign != Sign::Remove));
            }
            blank = if text.is_empty() { blank + 1 } else { 0 };
            self.at += 1;
        }
        hunk.drop_blank(blank);
        hunk
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn next_starts(&self, start: &str) -> bool {
        self.lines
            .get(self.at + 1)
            .is_some_and(|line| line.starts_with(start))
    }
}

/// Parses a git mode. Links and submodules are refused, because patching them as text would destroy them.
fn file_mode(text: &str, line: usize) -> Result<Option<FileMode>> {
    let kind = match text.trim() {
        "100644" | "100664" | "100600" => return Ok(Some(FileMode::Plain)),
        "100755" | "100775" | "100700" => return Ok(Some(FileMode::Executable)),
        "120000" => "a symbolic link (mode 120000)",
        "160000" => "a submodule (mode 160000)",
        _ => {
            return Err(errors::invalid_edit(format!(
                "line {line} of the patch has an invalid mode; use 100644 or 100755"
            )));
        }
    };
    Err(errors::invalid_edit(format!(
        "line {line} of the patch changes {kind}; only regular files are supported"
    ))
    .recommend("omit this file from the patch and change it with git or another program"))
}

/// The text of a new file.
fn content(hunks: &[Hunk]) -> String {
    let mut content = String::new();
    for line in hunks.iter().flat_map(Hunk::added) {
        content.push_str(line);
        content.push('\n');
    }
    if hunks.last().is_some_and(|hunk| hunk.is_new_unbroken) {
        content.pop();
    }
    content
}
