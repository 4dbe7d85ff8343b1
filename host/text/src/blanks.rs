//! Runs of blanks in text that a user decides about.

use std::fmt::Write as _;

use crate::{escape_line, escape_lines};

/// Longer runs of blanks are replaced by their count: of one kind, and of several kinds, as in indented lines.
const MAX_BLANKS: usize = 40;
const MAX_MIXED_BLANKS: usize = 60;

/// [`escape_line`] for text that a user decides about: long runs of blanks, which could hide the text after them, are
/// replaced by their count.
pub fn decision_line(text: &str, max: usize) -> String {
    collapse_blanks(&escape_line(text, max))
}

/// [`decision_line`] that keeps line breaks.
pub fn decision_lines(text: &str, max: usize) -> String {
    collapse_blanks(&escape_lines(text, max))
}

fn collapse_blanks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let end = rest.find(|c| !is_blank(c)).unwrap_or(rest.len());
        let (blanks, after) = rest.split_at(end);
        let (count, breaks) = (blanks.chars().count(), blanks.matches('\n').count());
        let is_mixed = blanks.chars().any(|other| other != c);
        if count
            > if is_mixed {
                MAX_MIXED_BLANKS
            } else {
                MAX_BLANKS
            }
        {
            let sign = match breaks {
                0 => "␠",
                _ if is_mixed => "␠␤",
                _ => "␤",
            };
            let _ = write!(out, "{sign}×{count}");
        } else {
            out.push_str(&blanks.replace('\t', "⇥   "));
        }
        let end = after.find(is_blank).unwrap_or(after.len());
        out.push_str(&after[..end]);
        rest = &after[end..];
    }
    out
}

/// Whether nothing is drawn for the character.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{2800}' | '\u{1d159}' | '\u{13441}' | '\u{13442}')
}
