//! Display of the staged changes of a call.

use std::fmt::Write as _;

use super::question_draft::QuestionDraft;
use super::untrusted_text::{self, TerminalLayout};

/// Maximum rows for the diffs of all changes.
const MAX_DIFF_ROWS: usize = 400;

/// Shows all staged changes of a call. Returns the number of diff lines that are not shown.
pub fn format_changes(draft: &QuestionDraft, look: TerminalLayout, out: &mut String) -> usize {
    let Some(set) = &draft.question.changes else {
        return 0;
    };
    let _ = writeln!(out, "    Not applied yet. {set}");
    for edit in draft.edits() {
        let is_there = set.changes.iter().any(|change| change.path == edit.path);
        let author = if is_there {
            "by you"
        } else {
            "by you, restored to the original content"
        };
        let value = format!("{}  ({author})", edit.path);
        out.push_str(&untrusted_text::fact("edited", &value, look));
    }
    let (mut rows, mut hidden) = (MAX_DIFF_ROWS, 0);
    for change in &set.changes {
        out.push_str(&untrusted_text::fact(
            change.kind.as_str(),
            &change.describe(),
            look,
        ));
        if let Some(diff) = &change.diff {
            // Without the header, which repeats the line above.
            let body = diff.body();
            hidden += untrusted_text::marked_diff(body, &mut rows, ", not shown", look, out);
        }
    }
    hidden
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
