//! The changes of a call that has run, as a person sees them.

use std::fmt::Write as _;

use toolhost_contract::units::show_size;
use toolhost_contract::{ChangeKind, FileChange};

use super::draft::Draft;
use super::margin::{self, Look};

/// Rows of all the differences of a call that has run.
const CHANGED_ROWS: usize = 400;

/// The call has run; this is what it did, and all of it.
pub fn changed(draft: &Draft, look: Look, out: &mut String) {
    let Some(set) = &draft.question.changes else {
        return;
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
    let mut rows = CHANGED_ROWS;
    for change in &set.changes {
        out.push_str(&margin::fact(
            change.kind.as_str(),
            &one_change(change),
            look,
        ));
        let Some(diff) = &change.diff else { continue };
        if rows == 0 {
            out.push_str(&margin::fact("", "more lines than are shown here", look));
            continue;
        }
        // The header says what the line above has said.
        let body = diff.body();
        out.push_str(&margin::fenced_diff(
            body,
            rows,
            ", which are not shown",
            look,
        ));
        rows = rows.saturating_sub(body.lines().count());
    }
}

/// `src/a.rs  (file, 120 B → 124 B, mode 644 → 755, binary)`
fn one_change(change: &FileChange) -> String {
    let mut words = vec![change.what.as_str().to_owned()];
    if let ChangeKind::Moved { from } = &change.kind {
        words.push(format!("from {from}"));
    }
    match change.sizes {
        (Some(before), Some(after)) => {
            words.push(format!("{} → {}", show_size(before), show_size(after)));
        }
        (Some(size), None) | (None, Some(size)) => words.push(show_size(size)),
        (None, None) => {}
    }
    if let Some((before, after)) = change.modes {
        words.push(format!("mode {before:o} → {after:o}"));
    }
    words.extend(change.undiffed.map(ToOwned::to_owned));
    format!("{}  ({})", change.path, words.join(", "))
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
