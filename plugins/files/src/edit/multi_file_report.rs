//! The changes of a call to several files, for the model, the user and programs.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;

use super::diff::{self, DiffStat, Difference};
use super::snippet;

/// Limit of snippets of all files together.
const MOST_SNIPPET: usize = 24 << 10;
/// Limit of diffs of all files together.
const MOST_DIFF: usize = 256 << 10;

/// One file, before and after. A missing file has no text.
#[derive(Debug, Clone, Copy)]
pub struct FileChange<'a> {
    pub shown: &'a str,
    pub old: Option<&'a str>,
    pub new: Option<&'a str>,
}

pub struct ChangeReport {
    /// For each piece.
    pub stats: Vec<DiffStat>,
    /// Snippets of the changes for the model.
    pub snippets: String,
    pub display: Option<Display>,
}

pub fn report(pieces: &[FileChange]) -> ChangeReport {
    let mut report = ChangeReport {
        stats: Vec::new(),
        snippets: String::new(),
        display: None,
    };
    let mut diffs = Vec::new();
    for piece in pieces {
        let (old, new) = (piece.old.unwrap_or_default(), piece.new.unwrap_or_default());
        let difference = Difference::of(old, new);
        report.stats.push(difference.stat());
        diffs.extend(diff::display(piece.shown, piece.old, new, &difference));
        if piece.new.is_none() || difference.stat() == DiffStat::default() {
            continue;
        }
        let snippet = snippet::changed(new, &difference.ranges());
        // Writing to a String cannot fail.
        let _ = if report.snippets.len() + snippet.len() > MOST_SNIPPET {
            writeln!(report.snippets, "{}: too long to show", piece.shown)
        } else {
            write!(report.snippets, "{}:\n{snippet}", piece.shown)
        };
    }
    report.display = match (diffs.len(), pieces.len()) {
        (0, _) => None,
        (1, 1) => diffs.pop().map(Display::diff),
        _ => {
            let mut all = String::new();
            for one in &diffs {
                if all.len() + one.diff.len() > MOST_DIFF {
                    let _ = writeln!(all, "{}: too long to show", one.file_name);
                } else {
                    all.push_str(&one.diff);
                }
            }
            Some(Display::text(all))
        }
    };
    report
}
