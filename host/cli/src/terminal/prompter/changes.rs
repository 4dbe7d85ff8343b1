//! The changes of a call that has run, as a person sees them.

use std::fmt::Write as _;

use super::draft::Draft;
use super::margin::{self, Look};

/// Rows of the terminal for all the differences of a call that has run.
const CHANGED_ROWS: usize = 400;

/// The call has run; this is what it did, and all of it. Returns how many lines of differences had no room.
pub fn changed(draft: &Draft, look: Look, out: &mut String) -> usize {
    let Some(set) = &draft.question.changes else {
        return 0;
    };
    let _ = writeln!(
        out,
        "    it has run, and nothing is real yet; a yes makes exactly this real: {set}"
    );
    for edit in draft.edits() {
        let is_there = set.changes.iter().any(|change| change.path == edit.path);
        let words = if is_there {
            "by you"
        } else {
            "by you, to what it was before the call"
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
            // The header says what the line above has said.
            let body = diff.body();
            hidden += margin::fenced_diff(body, &mut rows, ", which are not shown", look, out);
        }
    }
    hidden
}

/// Which of them shall be edited?
pub fn files(files: &[String], look: Look) -> String {
    let mut out = String::new();
    for (at, file) in files.iter().enumerate() {
        out.push_str(&margin::fact(&format!("{}.", at + 1), file, look));
    }
    out.push_str("  Which one? Its number, or nothing: back to the question: ");
    out
}
