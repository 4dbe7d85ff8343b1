//! The text changes of a call, for display.

use std::ops::Range;

use toolhost_sdk::prelude::*;

use crate::edit::diff::{DiffStat, Difference, MOST_BYTES};
use crate::snippet::snippet;

/// The old text, if any, and the new one.
pub struct TextChange {
    name: String,
    old: Option<String>,
    new: String,
    compared: Option<LineDiff>,
}

struct LineDiff {
    stat: DiffStat,
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

    /// `None` if the texts are too large to compare.
    pub fn stat(&self) -> Option<DiffStat> {
        self.compared.as_ref().map(|compared| compared.stat)
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

/// The cost of comparing grows with both texts, and larger diffs are not useful.
fn compare(name: &str, old: Option<&str>, new: &str) -> Option<LineDiff> {
    let before = old.unwrap_or_default();
    if before.len() + new.len() > MOST_BYTES {
        return None;
    }
    let difference = Difference::of(before, new);
    Some(LineDiff {
        stat: difference.stat(),
        unified: difference.unified(name, old.is_none()),
        ranges: difference.new_lines(),
    })
}
