//! What a person makes of the files that a call would change, before they say yes to it.

use serde::{Deserialize, Serialize};

use crate::{ChangeKind, ChangeSet, Effects, FileChange, FileDiff, FileKind, text};

/// The most text that a person may save for one file, and for all files of a call. Longer ones are not shown either.
pub const EDIT_BYTES: usize = 512 << 10;
pub const EDITS_BYTES: usize = 4 << 20;

/// The content of one changed file, in place of what the call proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// As in [`FileChange::path`].
    pub path: String,
    pub text: String,
}

/// What became of changes that a person edited.
pub struct Edited {
    /// What is held back now. [`Effects::None`] when the person put everything back to what it was.
    pub effects: Effects,
    /// For each edited file, from what was proposed to what was saved. Its name is [`Edit::path`].
    pub diffs: Vec<FileDiff>,
}

/// Why a content may not take the place of a proposed one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("`{0}` is not one of the changes; name a file as the question names it")]
    Unknown(String),
    #[error("`{0}` has no text that could be edited; answer for it as it is")]
    NoText(String),
    #[error("`{0}` is edited twice; send the content that counts")]
    Twice(String),
    #[error("the new text of `{0}` has a NUL in it and could not be shown; take it out")]
    Binary(String),
    #[error("the new text of `{path}` is {bytes} bytes, and the most is {EDIT_BYTES}; shorten it")]
    TooLong { path: String, bytes: usize },
    #[error("the new texts are {bytes} bytes together, and the most is {EDITS_BYTES}; edit fewer")]
    TooMuch { bytes: usize },
}

impl FileChange {
    /// The difference whose new side somebody may edit: of a file that is there afterwards, and whose text was shown.
    pub fn editable(&self) -> Option<&FileDiff> {
        match self.kind {
            ChangeKind::Created | ChangeKind::Modified | ChangeKind::Moved { .. } => {}
            ChangeKind::Deleted => return None,
        }
        self.diff.as_ref().filter(|_| self.what == FileKind::File)
    }
}

impl ChangeSet {
    /// Those of the edits that change anything, if all of them may be made.
    pub fn accept(&self, mut edits: Vec<Edit>) -> Result<Vec<Edit>, EditError> {
        let bytes = edits.iter().map(|edit| edit.text.len()).sum();
        if bytes > EDITS_BYTES {
            return Err(EditError::TooMuch { bytes });
        }
        edits.sort_by(|a, b| a.path.cmp(&b.path));
        let mut pairs = edits.windows(2);
        if let Some([edit, ..]) = pairs.find(|pair| pair[0].path == pair[1].path) {
            return Err(EditError::Twice(shown(edit)));
        }
        let mut changing = Vec::new();
        for edit in edits {
            if self.proposal(&edit)?.new != edit.text {
                changing.push(edit);
            }
        }
        Ok(changing)
    }

    fn proposal(&self, edit: &Edit) -> Result<&FileDiff, EditError> {
        let mut named = self.changes.iter().filter(|one| one.path == edit.path);
        // Names that are not UTF-8 can look the same, and then nobody can say which one is meant.
        let (Some(change), None) = (named.next(), named.next()) else {
            return Err(EditError::Unknown(shown(edit)));
        };
        let proposal = change.editable();
        let proposal = proposal.ok_or_else(|| EditError::NoText(shown(edit)))?;
        if edit.text.contains('\0') {
            return Err(EditError::Binary(shown(edit)));
        }
        let bytes = edit.text.len();
        if bytes > EDIT_BYTES {
            let path = shown(edit);
            return Err(EditError::TooLong { path, bytes });
        }
        Ok(proposal)
    }
}

fn shown(edit: &Edit) -> String {
    text::inline(&edit.path, 300)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn change(path: &str, kind: ChangeKind, what: FileKind, text: bool) -> FileChange {
        FileChange {
            path: path.to_owned(),
            kind,
            what,
            sizes: (None, None),
            modes: None,
            executable: false,
            diff: text.then(|| FileDiff {
                file_name: path.to_owned(),
                diff: String::new(),
                original: Some("old".to_owned()),
                new: "new".to_owned(),
            }),
            undiffed: None,
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
        let edits = edits.iter().map(|(path, text)| Edit {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        });
        let accepted = match set.accept(edits.collect()) {
            Ok(edits) => format!(
                "{:?}",
                edits.iter().map(|edit| &edit.path).collect::<Vec<_>>()
            ),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&accepted);
    }

    #[test]
    fn r_047_the_proposed_text_of_a_file_may_be_replaced_and_nothing_else() {
        check(&[], expect!["[]"]);
        check(&[("b", "x"), ("a", "")], expect![[r#"["a", "b"]"#]]);
        // Also one that puts back what was there: then it is no change any more.
        check(&[("a", "old"), ("b", "new")], expect![[r#"["a"]"#]]);
        check(
            &[("bin", "x")],
            expect!["`bin` has no text that could be edited; answer for it as it is"],
        );
        check(
            &[("dir", "x")],
            expect!["`dir` has no text that could be edited; answer for it as it is"],
        );
        check(
            &[("gone", "x")],
            expect!["`gone` has no text that could be edited; answer for it as it is"],
        );
        check(
            &[("link", "x")],
            expect!["`link` has no text that could be edited; answer for it as it is"],
        );
        check(
            &[("else\u{202e}", "x")],
            expect![[
                r"`else\u{202e}` is not one of the changes; name a file as the question names it"
            ]],
        );
        check(
            &[("twins", "x")],
            expect!["`twins` is not one of the changes; name a file as the question names it"],
        );
        check(
            &[("a", "x"), ("a", "y")],
            expect!["`a` is edited twice; send the content that counts"],
        );
        check(
            &[("a", "x\0")],
            expect!["the new text of `a` has a NUL in it and could not be shown; take it out"],
        );
        let long = "x".repeat(EDIT_BYTES + 1);
        check(
            &[("a", &long)],
            expect!["the new text of `a` is 524289 bytes, and the most is 524288; shorten it"],
        );
        let much = long.repeat(8);
        check(
            &[("a", &much)],
            expect![
                "the new texts are 4194312 bytes together, and the most is 4194304; edit fewer"
            ],
        );
    }
}
