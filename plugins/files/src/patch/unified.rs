//! Reads unified differences, as `diff -u` and git write them.

use toolhost_sdk::prelude::*;

use super::parse::unexpected;
use super::section::{Action, Hunk, Section, Sign, hint};
use crate::edit::failure;

pub fn is_unified(lines: &[&str]) -> bool {
    lines.iter().any(|line| line.starts_with("diff --git "))
        || lines
            .windows(2)
            .any(|pair| pair[0].starts_with("--- ") && pair[1].starts_with("+++ "))
}

/// `first` lines stand in front of `lines`.
pub fn parse(lines: &[&str], first: usize) -> Result<Vec<Section>> {
    let mut reader = Reader {
        lines,
        first,
        at: 0,
        moved: (None, None),
    };
    let mut sections = Vec::new();
    while let Some(text) = reader.peek() {
        if let Some(section) = reader.head(text)? {
            sections.push(section);
        }
    }
    sections.extend(reader.renamed());
    Ok(sections)
}

struct Reader<'a, 'b> {
    lines: &'b [&'a str],
    first: usize,
    at: usize,
    /// A renaming that git has announced, and whose hunks may follow.
    moved: (Option<&'a str>, Option<&'a str>),
}

impl<'a> Reader<'a, '_> {
    /// One line in front of the hunks of a file. Once they come, all of them.
    fn head(&mut self, text: &'a str) -> Result<Option<Section>> {
        let line = self.first + self.at + 1;
        if text.starts_with("--- ") && self.next_starts("+++ ") {
            return self.file(line).map(Some);
        }
        let mut section = None;
        if text.starts_with("diff --git ") {
            section = self.renamed();
        } else if let Some(from) = text.strip_prefix("rename from ") {
            self.moved.0 = Some(from);
        } else if let Some(to) = text.strip_prefix("rename to ") {
            self.moved.1 = Some(to);
        } else if text.starts_with("GIT binary patch") || text.starts_with("Binary files ") {
            let message =
                format!("line {line} of the patch changes a binary file, and only text is patched");
            return Err(failure::unprepared(message));
        } else if text.starts_with("copy from ") {
            let message =
                format!("line {line} of the patch copies a file; write the copy as a new file");
            return Err(failure::unprepared(message));
        } else if text.starts_with("@@ ") {
            return Err(unexpected(
                line,
                text,
                "`--- a/PATH` and `+++ b/PATH` in front of the hunks",
            ));
        }
        self.at += 1;
        Ok(section)
    }

    fn renamed(&mut self) -> Option<Section> {
        let (from, to) = std::mem::take(&mut self.moved);
        Some(Section {
            path: from?.to_owned(),
            action: Action::Update {
                to: Some(to?.to_owned()),
                hunks: Vec::new(),
            },
            line: self.first + self.at,
        })
    }

    fn file(&mut self, line: usize) -> Result<Section> {
        let (old, new) = (
            name(&self.lines[self.at][4..]),
            name(&self.lines[self.at + 1][4..]),
        );
        self.at += 2;
        let (old, new) = without_prefixes(old, new);
        let mut hunks = Vec::new();
        while let Some(text) = self.peek()
            && text.starts_with("@@")
        {
            hunks.push(self.hunk(text));
        }
        let moved = std::mem::take(&mut self.moved);
        let (path, action) = match (old, new) {
            (None, None) => {
                return Err(failure::unprepared(format!(
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
                let to = match moved {
                    (Some(from), Some(to)) => (from != to).then(|| to.to_owned()),
                    _ => (old != new).then(|| new.to_owned()),
                };
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
            path: path.to_owned(),
            action,
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
            // A removed `-- a` in front of an added `++ b` looks like the next file; the counts tell.
            let is_file = text.starts_with("--- ") && self.next_starts("+++ ");
            let is_known = hunk.hint.is_some();
            if is_file && !(is_known && old_left > 0 && new_left > 0) {
                break;
            }
            // An empty line is one of the file as long as some are missing.
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

/// Without the time that `diff -u` adds and without quotes; nothing for no file.
fn name(text: &str) -> Option<&str> {
    let name = text.split('\t').next().unwrap_or_default().trim_end();
    let name = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'))
        .unwrap_or(name);
    (name != "/dev/null").then_some(name)
}

/// git's `a/` and `b/`, where both sides have them.
fn without_prefixes<'a>(
    old: Option<&'a str>,
    new: Option<&'a str>,
) -> (Option<&'a str>, Option<&'a str>) {
    let has = |name: Option<&str>, prefix: &str| name.is_none_or(|name| name.starts_with(prefix));
    if has(old, "a/") && has(new, "b/") {
        return (old.map(|name| &name[2..]), new.map(|name| &name[2..]));
    }
    (old, new)
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
