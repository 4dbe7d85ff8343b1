//! User edits of proposed file changes, made before approval.

use serde::{Deserialize, Serialize};

use crate::{ChangeKind, ChangeSet, FileChange, FileDiff, FileKind, StagedEffects, text};

/// Maximum size in bytes of an edited file, and of all edited files of a call together. Larger files are not shown
/// either.
pub const MAX_EDIT_BYTES: usize = 512 << 10;
pub const MAX_TOTAL_EDIT_BYTES: usize = 4 << 20;

/// New content for a changed file, replacing what the call proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserEdit {
    /// As in [`FileChange::path`].
    pub path: String,
    pub text: String,
}

/// The result of applying user edits to staged changes.
pub struct EditedChanges {
    /// The staged changes after the edits. [`StagedEffects::None`] if the user reverted every change.
    pub effects: StagedEffects,
    /// For each edited file, the diff from the proposed to the edited content. Its name is [`UserEdit::path`].
    pub diffs: Vec<FileDiff>,
}

/// Errors of user edits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("`{0}` is not one of the changes; use a path from the prompt")]
    Unknown(String),
    #[error("`{0}` is not an editable text file; approve or deny it unchanged")]
    NotEditable(String),
    #[error("`{0}` is edited twice; send one edit per file")]
    Duplicate(String),
    #[error("the new text of `{0}` contains a NUL character; remove it")]
    Binary(String),
    #[error("the new text of `{path}` is {bytes} bytes; the limit is {MAX_EDIT_BYTES}")]
    TooLong { path: String, bytes: usize },
    #[error("the new texts are {bytes} bytes together; the limit is {MAX_TOTAL_EDIT_BYTES}")]
    TotalTooLong { bytes: usize },
}

impl FileChange {
    /// Returns the diff whose new side the user can edit. Only files that exist after the change and whose text was
    /// shown have one.
    pub fn editable_diff(&self) -> Option<&FileDiff> {
        match self.kind {
            ChangeKind::Created | ChangeKind::Modified | ChangeKind::Moved { .. } => {}
            ChangeKind::Deleted => return None,
        }
        self.diff
            .as_ref()
            .filter(|_| self.file_kind == FileKind::File)
    }
}

impl ChangeSet {
    /// Validates the edits and returns those that change the proposed content.
    pub fn validate_edits(&self, mut edits: Vec<UserEdit>) -> Result<Vec<UserEdit>, EditError> {
        let bytes = edits.iter().map(|edit| edit.text.len()).sum();
        if bytes > MAX_TOTAL_EDIT_BYTES {
            return Err(EditError::TotalTooLong { bytes });
        }
        edits.sort_by(|a, b| a.path.cmp(&b.path));
        let mut pairs = edits.windows(2);
        if let Some([edit, ..]) = pairs.find(|pair| pair[0].path == pair[1].path) {
            return Err(EditError::Duplicate(escaped_path(edit)));
        }
        let mut changing = Vec::new();
        for edit in edits {
            if self.proposed_diff(&edit)?.new != edit.text {
                changing.push(edit);
            }
        }
        Ok(changing)
    }

    fn proposed_diff(&self, edit: &UserEdit) -> Result<&FileDiff, EditError> {
        let mut named = self.changes.iter().filter(|one| one.path == edit.path);
        // Two paths that are not UTF-8 can have the same lossy form, which makes the edit ambiguous.
        let (Some(change), None) = (named.next(), named.next()) else {
            return Err(EditError::Unknown(escaped_path(edit)));
        };
        let proposal = change.editable_diff();
        let proposal = proposal.ok_or_else(|| EditError::NotEditable(escaped_path(edit)))?;
        if edit.text.contains('\0') {
            return Err(EditError::Binary(escaped_path(edit)));
        }
        let bytes = edit.text.len();
        if bytes > MAX_EDIT_BYTES {
            let path = escaped_path(edit);
            return Err(EditError::TooLong { path, bytes });
        }
        Ok(proposal)
    }
}

fn escaped_path(edit: &UserEdit) -> String {
    text::escape_line(&edit.path, 300)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn change(path: &str, kind: ChangeKind, file_kind: FileKind, text: bool) -> FileChange {
        FileChange {
            diff: text.then(|| FileDiff {
                file_name: path.to_owned(),
                diff: String::new(),
                original: Some("old".to_owned()),
                new: "new".to_owned(),
            }),
            ..FileChange::new(path, kind, file_kind)
        }
    }

    fn check(edits: &[(&str, &str)], expected: Expect) {
        let set = ChangeSet {
            changes: vec![
                change("a", ChangeKind::Modified, FileKind::File, true),
                change("b", ChangeKind::Created, FileKind::File, true),
                change("bin", ChangeKind::Modified, FileKind::File, false),
                change("dir", ChangeKind::Created, FileKind::Directory, false),
                change("gone", ChangeKind::Deleted, FileKind::File, true),
                change("link", ChangeKind::Created, FileKind::Link, false),
                change("twins", ChangeKind::Created, FileKind::File, true),
                change("twins", ChangeKind::Created, FileKind::File, true),
            ],
        };
        let edits = edits.iter().map(|(path, text)| UserEdit {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        });
        let accepted = match set.validate_edits(edits.collect()) {
            Ok(edits) => format!(
                "{:?}",
                edits.iter().map(|edit| &edit.path).collect::<Vec<_>>()
            ),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&accepted);
    }

    #[test]
    fn r_047_only_proposed_text_files_can_be_edited() {
        check(&[], expect!["[]"]);
        check(&[("b", "x"), ("a", "")], expect![[r#"["a", "b"]"#]]);
        // An edit that restores the original content is accepted: the file then has no change.
        check(&[("a", "old"), ("b", "new")], expect![[r#"["a"]"#]]);
        check(
            &[("bin", "x")],
            expect!["`bin` is not an editable text file; approve or deny it unchanged"],
        );
        check(
            &[("dir", "x")],
            expect!["`dir` is not an editable text file; approve or deny it unchanged"],
        );
        check(
            &[("gone", "x")],
            expect!["`gone` is not an editable text file; approve or deny it unchanged"],
        );
        check(
            &[("link", "x")],
            expect!["`link` is not an editable text file; approve or deny it unchanged"],
        );
        check(
            &[("else\u{202e}", "x")],
            expect![[r"`else\u{202e}` is not one of the changes; use a path from the prompt"]],
        );
        check(
            &[("twins", "x")],
            expect!["`twins` is not one of the changes; use a path from the prompt"],
        );
        check(
            &[("a", "x"), ("a", "y")],
            expect!["`a` is edited twice; send one edit per file"],
        );
        check(
            &[("a", "x\0")],
            expect!["the new text of `a` contains a NUL character; remove it"],
        );
        let long = "x".repeat(MAX_EDIT_BYTES + 1);
        check(
            &[("a", &long)],
            expect!["the new text of `a` is 524289 bytes; the limit is 524288"],
        );
        let much = long.repeat(8);
        check(
            &[("a", &much)],
            expect!["the new texts are 4194312 bytes together; the limit is 4194304"],
        );
    }
}
