//! Display of the staged changes of a call.

use super::diff_rows::{LineNumbers, diff_rows};
use super::question_draft::QuestionDraft;
use super::question_text::Section;
use super::untrusted_text::{self, TerminalLayout};

/// Lays out all staged changes of a call: each with its path, and its diff if there is one.
pub fn change_sections(draft: &QuestionDraft, look: TerminalLayout) -> Vec<Section> {
    let Some(set) = &draft.question.changes else {
        return Vec::new();
    };
    let mut sections = Vec::new();
    for edit in draft.edits() {
        let is_there = set.changes.iter().any(|change| change.path == edit.path);
        let author = if is_there {
            "by you"
        } else {
            "by you, restored to the original content"
        };
        let value = format!("{}  ({author})", edit.path);
        sections.push(Section::Text(untrusted_text::fact("edited", &value, look)));
    }
    for change in &set.changes {
        sections.push(Section::Text(untrusted_text::fact(
            change.kind.verb(),
            &change.describe(),
            look,
        )));
        if let Some(diff) = &change.diff {
            // Without the header, which repeats the line above.
            let rows = diff_rows(&change.path, diff.body(), LineNumbers::Shown, look);
            sections.push(Section::Diff(rows));
        }
    }
    sections
}

/// The prompt for the file to edit.
pub fn format_file_list(files: &[String], look: TerminalLayout) -> String {
    let mut out = String::new();
    for (at, file) in files.iter().enumerate() {
        out.push_str(&untrusted_text::fact(&format!("{}.", at + 1), file, look));
    }
    out.push_str("  file number, or Enter to return to the question: ");
    out
}
