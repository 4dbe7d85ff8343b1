//! The text changes of a call, for display.

use std::ops::Range;

use similar::{ChangeTag, DiffTag, TextDiff};
use toolhost_sdk::prelude::*;

use crate::snippet::snippet;

/// Limit of both texts in bytes. The cost of comparing grows with both, and larger diffs are not useful.
const MOST_BYTES: usize = 1 << 20;
const CONTEXT_LINES: usize = 3;

/// The old text, if any, and the new one.
pub struct TextChange {
    name: String,
    old: Option<String>,
    new: String,
    compared: Option<LineDiff>,
}

struct LineDiff {
    added: usize,
    removed: usize,
    unified: String,
    /// Changed lines of the new text, counted from 0.
    ranges: Vec<Range<usize>>,
}

impl TextChange {
    pub fn new(name: &str, old: Option<String>, new: String) -> Self {
        let compared = compare(name, old.as_deref(), &new);
        Self {
            name: name.to_owned(),
            old,
            new,
            compared,
        }
    }

    /// Lines added and removed.
    pub fn stat(&self) -> Option<(usize, usize)> {
        self.compared
            .as_ref()
            .map(|compared| (compared.added, compared.removed))
    }

    /// The changed lines with context; `None` without an old text or a computed diff.
    pub fn snippet(&self) -> Option<String> {
        self.old.as_ref()?;
        let compared = self.compared.as_ref()?;
        Some(snippet(&self.new, &compared.ranges)).filter(|snippet| !snippet.is_empty())
    }

    pub fn into_diff(self) -> Option<FileDiff> {
        let Self {
            name,
            old,
            new,
            compared,
        } = self;
        compared
            .filter(|compared| !compared.unified.is_empty())
            .map(|compared| FileDiff {
                file_name: name,
                diff: compared.unified,
                original: old,
                new,
            })
    }
}

fn compare(name: &str, old: Option<&str>, new: &str) -> Option<LineDiff> {
    let before = old.unwrap_or_default();
    if before.len() + new.len() > MOST_BYTES {
        return None;
    }
    let diff = TextDiff::from_lines(before, new);
    let count = |tag: ChangeTag| {
        diff.iter_all_changes()
            .filter(|change| change.tag() == tag)
            .count()
    };
    let old_name = old.map_or_else(|| "/dev/null".to_owned(), |_| format!("a/{name}"));
    let unified = diff
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .header(&old_name, &format!("b/{name}"))
        .to_string();
    let ranges = diff
        .ops()
        .iter()
        .filter(|op| op.tag() != DiffTag::Equal)
        .map(similar::DiffOp::new_range)
        .collect();
    Some(LineDiff {
        added: count(ChangeTag::Insert),
        removed: count(ChangeTag::Delete),
        unified,
        ranges,
    })
}
