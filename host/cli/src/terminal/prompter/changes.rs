//! Display of the staged changes of a call.

use std::fmt::Write as _;

use super::draft::Draft;
use super::margin::{self, Look};

/// Maximum rows for the diffs of all changes.
const CHANGED_ROWS: usize = 400;

/// Shows all staged changes of a call. Returns the number of diff lines that are not shown.
pub fn changed(draft: &Draft, look: Look, out: &mut String) -> usize {
    let Some(set) = &draft.question.changes else {
        return 0;
    };
    let _ = writeln!(out, "    Not applied yet. {set}");
    for edit in draft.edits() {
        let is_there = set.changes.iter().any(|change| change.path == edit.path);
        let words = if is_there {
            "by you"
        } else {
            "by you, restored to the original content"
        };
        let words = format!("{}  ({words})", edit.path);
        out.push_str(&margin::fact("edited", &words, look));
    }
    let (mut rows, mut hidden) = (CHANGED_ROWS, 0);
    for change in &set.changes {
        out.push_str(&margin::fact(
            change.kind.as_str(),
            &change.described(),
            look,
        ));
        if let Some(diff) = &change.diff {
            // Without the header, which repeats the line above.
            let body = diff.body();
            hidden += margin::fenced_diff(body, &mut rows, ", not shown", look, out);
        }
    }
    hidden
}

/// The prompt for the file to edit.
pub fn files(files: &[String], look: Look) -> String {
    let mut out = String::new();
    for (at, file) in files.iter().enumerate() {
        out.push_str(&margin::fact(&format!("{}.", at + 1), file, look));
    }
    out.push_str("  file number, or Enter to return to the question: ");
    out
}
