//! File changes as text: a line for each path, followed by its difference.

use std::fmt::Write as _;

use toolhost_contract::{ChangeKind, ChangeSet, text};

use super::prompter::diff_rows::{LineNumbers, diff_rows};
use super::prompter::untrusted_text::{TerminalLayout, fact};

/// Maximum number of changes that are shown.
const MAX_CHANGES: usize = 50;

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

/// The changes with at most `max_rows` rows of differences, laid out like those of a question. The second value is the
/// number of rows that are left out.
pub fn format_changes(
    set: &ChangeSet,
    verbs: ChangeVerbs,
    max_rows: usize,
    look: TerminalLayout,
) -> (String, usize) {
    let (mut out, mut left, mut hidden) = (String::new(), max_rows, 0);
    for change in set.changes.iter().take(MAX_CHANGES) {
        out += &fact(verbs.of(&change.kind), &change.describe(), look);
        let Some(diff) = &change.diff else {
            continue;
        };
        if left == 0 {
            hidden += text::diff_lines(diff.body()).count();
            continue;
        }
        let rows = diff_rows(&change.path, diff.body(), LineNumbers::Shown, look);
        let shown = rows.len().min(left);
        out.extend(rows[..shown].iter().map(String::as_str));
        left -= shown;
        hidden += rows.len() - shown;
    }
    let more = set.changes.len().saturating_sub(MAX_CHANGES);
    if more > 0 {
        let _ = writeln!(out, "    and {more} more changes");
    }
    (out, hidden)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use toolhost_contract::{FileChange, FileDiff, FileKind};

    use super::super::prompter::testing::{layout, with_header};
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
    fn rows_of_files_cannot_look_like_rows_of_the_host() {
        let forged = format!("{}revert   /etc/passwd", " ".repeat(34));
        let set = ChangeSet {
            changes: vec![
                change(
                    &format!("a\u{1b}[2J{}", "b".repeat(30)),
                    ChangeKind::Modified,
                    Some(&format!(
                        "@@ -1,2 +1,2 @@\n-a\r\n-x\ty\n+\u{202e}{forged}\n+x\\ty\n"
                    )),
                ),
                change("b", ChangeKind::Created, None),
                change(
                    "c",
                    ChangeKind::Moved {
                        from: "d\n".to_owned(),
                    },
                    Some(""),
                ),
                FileChange {
                    file_kind: FileKind::Link,
                    link_targets: (Some("a".to_owned()), Some("\u{1b}".to_owned())),
                    no_diff_reason: None,
                    ..change("l", ChangeKind::Modified, None)
                },
            ],
        };
        let (whole, hidden) = format_changes(&set, DONE, usize::MAX, layout(40, 24));
        expect![[r#"
            screen:
                modified a\u{1b}[2Jbbbbbbbbbbbbbbbb
                       ┊ bbbbbbbbbbbbbb  (file)
               1 │ - a\r
               2 │ - x⇥   y
               1 │ + \u{202e}                      
                 ┊             revert   /etc/passwd
               2 │ + x\ty
                created  b  (file, binary)
                moved    c  (file, from d\n)
                modified l  (link, target "a" → "\
                       ┊ u{1b}")
        "#]]
        .assert_eq(&with_header(&whole));
        assert_eq!(hidden, 0);
        let (start, hidden) = format_changes(&set, DONE, 1, layout(40, 24));
        assert_eq!(hidden, 4);
        assert_eq!(start.matches('-').count(), 1, "{start}");
    }
}
