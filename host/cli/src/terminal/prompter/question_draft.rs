//! A question with the edits that the user has made to the proposed changes.

use std::path::Path;
use std::sync::Arc;

use toolhost_contract::policy::Offer;
use toolhost_contract::{Answer, ChangeKind, ChangeSet, EditError, FileChange, Question, UserEdit};
use toolhost_runtime::file_diff;

pub struct QuestionDraft {
    /// The question with the changes that an approval would apply now.
    pub question: Question,
    proposed: Option<Arc<ChangeSet>>,
    offers: Vec<Offer>,
    edits: Vec<UserEdit>,
}

impl QuestionDraft {
    pub fn new(question: &Question) -> Self {
        Self {
            question: question.clone(),
            proposed: question.changes.clone(),
            offers: question.offers.clone(),
            edits: Vec::new(),
        }
    }

    /// The files whose content can be edited, including those that an edit has restored.
    pub fn editable_files(&self) -> Vec<String> {
        let changes = self.proposed.iter().flat_map(|set| &set.changes);
        let editable = changes.filter(|change| change.editable_diff().is_some());
        editable.map(|change| change.path.clone()).collect()
    }

    pub fn edits(&self) -> &[UserEdit] {
        &self.edits
    }

    /// The content that an approval would write.
    pub fn text(&self, path: &str) -> String {
        if let Some(edit) = self.edits.iter().find(|edit| edit.path == path) {
            return edit.text.clone();
        }
        let mut changes = self.proposed.iter().flat_map(|set| &set.changes);
        let change = changes.find(|change| change.path == path);
        let proposal = change.and_then(FileChange::editable_diff);
        proposal.map_or_else(String::new, |diff| diff.new.clone())
    }

    /// Saves an edit. An error changes nothing.
    pub fn save_edit(&mut self, path: &str, text: String) -> Result<(), EditError> {
        let path = path.to_owned();
        let Some(proposed) = &self.proposed else {
            return Err(EditError::Unknown(path));
        };
        let mut edits = self.edits.clone();
        edits.retain(|edit| edit.path != path);
        edits.push(UserEdit { path, text });
        self.edits = proposed.validate_edits(edits)?;
        let changes = proposed
            .changes
            .iter()
            .filter_map(|change| self.apply_edit(change));
        self.question.changes = Some(Arc::new(ChangeSet {
            changes: changes.collect(),
        }));
        self.question.offers.clone_from(&self.offers);
        if !self.edits.is_empty() {
            // An edit does not apply to later calls, so only the offer for this call remains.
            self.question.offers.truncate(1);
        }
        Ok(())
    }

    /// The answer that allows what is shown once.
    pub fn allow_once(&self) -> Answer {
        if self.edits.is_empty() {
            return Answer::once();
        }
        Answer::Edit {
            edits: self.edits.clone(),
        }
    }

    /// The change with its edit applied; `None` if nothing is left of it.
    fn apply_edit(&self, change: &FileChange) -> Option<FileChange> {
        let edit = self.edits.iter().find(|edit| edit.path == change.path);
        let (Some(edit), Some(proposal)) = (edit, change.editable_diff()) else {
            return Some(change.clone());
        };
        let original = proposal.original.clone();
        let as_it_was = original.as_ref() == Some(&edit.text);
        if as_it_was && change.kind == ChangeKind::Modified && change.modes.is_none() {
            return None;
        }
        let diff = file_diff(&proposal.file_name, original, Some(&edit.text));
        Some(FileChange {
            sizes: (change.sizes.0, Some(edit.text.len() as u64)),
            diff: (!as_it_was).then_some(diff),
            ..change.clone()
        })
    }
}

/// The file extension, so that editors detect the language. Only a plain one is used, because the guest chose the name.
pub fn file_extension(path: &str) -> String {
    let ending = Path::new(path)
        .extension()
        .and_then(|ending| ending.to_str());
    let plain = ending.filter(|ending| {
        ending.len() <= 12 && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    plain.map_or_else(String::new, |ending| format!(".{ending}"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{format_changes, staged_question};
    use super::*;

    #[test]
    fn r_047_an_approval_applies_the_saved_edits() {
        let (question, _) =
            staged_question(&[("/w/a.rs", Some("old\n"), "new\n"), ("/w/b", None, "b\n")]);
        let mut draft = QuestionDraft::new(&question);
        assert_eq!(draft.allow_once(), Answer::once());
        for (path, text, expected, offers) in [
            (
                "/w/a.rs",
                "mine\n",
                "modified /w/a.rs 5 +mine, created /w/b 2 +b",
                1,
            ),
            ("/w/b", "", "modified /w/a.rs 5 +mine, created /w/b 0 ", 1),
            ("/w/a.rs", "old\n", "created /w/b 0 ", 1),
            (
                "/w/a.rs",
                "new\n",
                "modified /w/a.rs 4 +new, created /w/b 0 ",
                1,
            ),
            (
                "/w/b",
                "b\n",
                "modified /w/a.rs 4 +new, created /w/b 2 +b",
                7,
            ),
        ] {
            draft.save_edit(path, text.to_owned()).unwrap();
            let set = draft.question.changes.as_deref().unwrap();
            assert_eq!(format_changes(set), expected, "{path} {text}");
            assert_eq!(draft.question.offers.len(), offers, "{path} {text}");
            assert_eq!(draft.text(path), text);
            assert_eq!(draft.editable_files(), ["/w/a.rs", "/w/b"]);
        }
        assert_eq!(draft.allow_once(), Answer::once());
        let refused = draft.save_edit("/w/a.rs", "\0".to_owned());
        assert!(matches!(refused, Err(EditError::Binary(_))), "{refused:?}");
        assert_eq!(draft.text("/w/a.rs"), "new\n");
    }

    #[test]
    fn only_plain_file_extensions_are_used() {
        for (path, expected) in [
            ("/w/a.rs", ".rs"),
            ("/w/a.tar.gz", ".gz"),
            ("/w/Makefile", ""),
            ("/w/.env", ""),
            ("/w/a.r s", ""),
            ("/w/a.\u{202e}", ""),
            ("/w/a.-x", ""),
            ("/w/a.abcdefghijklm", ""),
            ("/w.d/a", ""),
        ] {
            assert_eq!(file_extension(path), expected, "{path}");
        }
    }
}
