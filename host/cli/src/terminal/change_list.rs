//! File changes as text: a line for each path, followed by its difference.

use std::fmt::Write as _;

use toolhost_contract::{ChangeKind, ChangeSet, FileChange, text};

use super::style::{Paint, Style};

/// Maximum number of changes that are shown.
const MAX_CHANGES: usize = 50;
/// Maximum length of a line of a difference in bytes.
const MAX_LINE: usize = 2_000;

/// The words for the kinds of changes.
#[derive(Debug, Clone, Copy)]
pub struct ChangeVerbs {
    pub created: &'static str,
    pub modified: &'static str,
    pub deleted: &'static str,
    pub moved: &'static str,
}

/// What a call did.
pub const DONE: ChangeVerbs = ChangeVerbs {
    created: "created",
    modified: "modified",
    deleted: "deleted",
    moved: "moved",
};

impl ChangeVerbs {
    pub fn of(self, kind: &ChangeKind) -> &'static str {
        match kind {
            ChangeKind::Created => self.created,
            ChangeKind::Modified => self.modified,
            ChangeKind::Deleted => self.deleted,
            ChangeKind::Moved { .. } => self.moved,
        }
    }
}

/// The changes with at most `max_rows` lines of differences. The second value is the number of lines that are left out.
pub fn format_changes(
    set: &ChangeSet,
    verbs: ChangeVerbs,
    max_rows: usize,
    style: Style,
) -> (String, usize) {
    let (mut out, mut rows, mut hidden) = (String::new(), max_rows, 0);
    for change in set.changes.iter().take(MAX_CHANGES) {
        let _ = writeln!(out, "  {}", format_line(change, verbs));
        let diffs = change.diff.iter();
        for line in diffs.flat_map(|diff| text::diff_lines(diff.body())) {
            if rows == 0 {
                hidden += 1;
                continue;
            }
            rows -= 1;
            let paint = match line.as_bytes().first() {
                Some(b'+') => Some(Paint::Green),
                Some(b'-') => Some(Paint::Red),
                Some(b'@') => Some(Paint::Cyan),
                _ => None,
            };
            let line = text::escape_line(line, MAX_LINE).replace("\\t", "\t");
            let line = paint.map_or(line.clone(), |paint| style.paint(paint, &line));
            let _ = writeln!(out, "  │ {line}");
        }
    }
    let more = set.changes.len().saturating_sub(MAX_CHANGES);
    if more > 0 {
        let _ = writeln!(out, "  and {more} more changes");
    }
    (out, hidden)
}

fn format_line(change: &FileChange, verbs: ChangeVerbs) -> String {
    let path = text::escape_line(&change.path, 1_000);
    let mut line = format!("{:<8} {path}", verbs.of(&change.kind));
    if let ChangeKind::Moved { from } = &change.kind {
        let _ = write!(line, "  (from {})", text::escape_line(from, 1_000));
    }
    if let Some(link) = change.describe_link() {
        let _ = write!(line, "  ({})", text::escape_line(&link, usize::MAX));
    }
    if let Some(reason) = change.no_diff_reason {
        let _ = write!(line, "  ({reason})");
    }
    if let Some((before, after)) = change.modes {
        let _ = write!(line, "  (mode {before:o} → {after:o})");
    }
    line
}

#[cfg(test)]
mod tests {
    use toolhost_contract::{FileDiff, FileKind};

    use super::*;

    fn change(path: &str, kind: ChangeKind, diff: Option<&str>) -> FileChange {
        FileChange {
            path: path.to_owned(),
            kind,
            file_kind: FileKind::File,
            sizes: (None, None),
            link_targets: (None, None),
            modes: None,
            executable: false,
            diff: diff.map(|diff| FileDiff {
                file_name: path.to_owned(),
                diff: format!("--- a\n+++ b\n{diff}"),
                original: None,
                new: String::new(),
            }),
            no_diff_reason: diff.is_none().then_some("binary"),
            content: None,
        }
    }

    #[test]
    fn changes_are_listed_with_escaped_and_limited_differences() {
        let set = ChangeSet {
            changes: vec![
                change(
                    "a\u{1b}[2J",
                    ChangeKind::Modified,
                    Some("@@ -1 +1 @@\n-a\r\n+\u{202e}\tb\n"),
                ),
                change("b", ChangeKind::Created, None),
                change(
                    "c",
                    ChangeKind::Moved {
                        from: "d\n".to_owned(),
                    },
                    Some(""),
                ),
            ],
        };
        let link = FileChange {
            file_kind: FileKind::Link,
            link_targets: (Some("a".to_owned()), Some("\u{1b}".to_owned())),
            no_diff_reason: None,
            ..change("l", ChangeKind::Modified, None)
        };
        let links = ChangeSet {
            changes: vec![link],
        };
        assert_eq!(
            format_changes(&links, DONE, 2, Style::PLAIN).0,
            "  modified l  (target \"a\" → \"\\u{1b}\")\n"
        );
        let shown = format_changes(&set, DONE, 2, Style::PLAIN);
        assert_eq!(shown.1, 1);
        assert_eq!(
            shown.0,
            "  modified a\\u{1b}[2J\n  │ @@ -1 +1 @@\n  │ -a\\r\n  created  b  (binary)\n  moved    c  (from d\\n)\n"
        );
        let whole = format_changes(&set, DONE, 100, Style::PLAIN);
        assert!(whole.0.contains("│ +\\u{202e}\tb"), "{}", whole.0);
        assert_eq!(whole.1, 0);
    }
}
