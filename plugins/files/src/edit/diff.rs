//! Fast line diffs of edits, also for large files.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use memchr::{memchr, memchr_iter, memrchr};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};
use toolhost_sdk::prelude::*;

/// Lines added and removed.
#[data]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffStat {
    /// Added lines.
    pub added: usize,
    /// Removed lines.
    pub removed: usize,
}

const CONTEXT_LINES: usize = 3;
/// Time limit; afterwards the diff is coarser.
const MOST_TIME: Duration = Duration::from_millis(100);
/// Limit of both texts in bytes. Larger ones are not displayed as a diff; the host has them.
pub const MOST_BYTES: usize = 1 << 20;

/// The diff of two texts.
pub struct Difference<'a> {
    /// Equal lines before the compared ones.
    before: usize,
    /// Whether equal lines follow the compared ones.
    has_more: bool,
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    ops: Vec<DiffOp>,
}

impl<'a> Difference<'a> {
    pub fn of(old: &'a str, new: &'a str) -> Self {
        // An edit leaves most of a file unchanged, so equal ends are not diffed.
        let (start, end) = same_ends(old.as_bytes(), new.as_bytes());
        let before = memchr_iter(b'\n', &old.as_bytes()[..start]).count();
        let middle = |text: &'a str| -> Vec<&'a str> {
            text[start..text.len() - end]
                .split_inclusive('\n')
                .collect()
        };
        let (old, new) = (middle(old), middle(new));
        let deadline = Instant::now() + MOST_TIME;
        let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
        Self {
            before,
            has_more: end > 0,
            old,
            new,
            ops,
        }
    }

    fn changes(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + '_ {
        self.ops
            .iter()
            .filter(|op| !matches!(op, DiffOp::Equal { .. }))
            .map(|op| (op.old_range(), op.new_range()))
    }

    pub fn stat(&self) -> DiffStat {
        let sum = |stat: DiffStat, (old, new): (Range<usize>, Range<usize>)| DiffStat {
            added: stat.added + new.len(),
            removed: stat.removed + old.len(),
        };
        self.changes().fold(DiffStat::default(), sum)
    }

    /// The changed lines of the new text, counted from 0; empty where lines were only removed.
    pub fn new_lines(&self) -> Vec<Range<usize>> {
        let lines = self
            .changes()
            .map(|(_, new)| self.before + new.start..self.before + new.end);
        lines.collect()
    }

    /// First and last lines of each change in the new text, counted from 1. For removed lines, the following line.
    pub fn ranges(&self) -> Vec<(usize, usize)> {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        let all = self.before + self.new.len() + usize::from(self.has_more);
        for (_, new) in self.changes() {
            let first = (self.before + new.start + 1).min(all.max(1));
            let last = (self.before + new.end).max(first);
            match ranges.last_mut() {
                // Adjacent removed and added lines are one change.
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        ranges
    }

    /// The position in a hunk header: the first line, and the count if it is not one.
    fn extent(&self, lines: &Range<usize>) -> String {
        let start = self.before + lines.start;
        match lines.len() {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            count => format!("{},{count}", start + 1),
        }
    }

    /// A unified diff for display. `is_new` means that the file did not exist.
    pub fn unified(&self, name: &str, is_new: bool) -> String {
        let mut text = String::new();
        for hunk in group_diff_ops(self.ops.clone(), CONTEXT_LINES) {
            let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
                continue;
            };
            let old = first.old_range().start..last.old_range().end;
            let new = first.new_range().start..last.new_range().end;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "@@ -{} +{} @@", self.extent(&old), self.extent(&new));
            for op in &hunk {
                let is_equal = matches!(op, DiffOp::Equal { .. });
                for line in &self.old[op.old_range()] {
                    push(&mut text, if is_equal { ' ' } else { '-' }, line);
                }
                for line in self.new[op.new_range()].iter().filter(|_| !is_equal) {
                    push(&mut text, '+', line);
                }
            }
        }
        if text.is_empty() {
            return text;
        }
        let old = if is_new {
            "/dev/null".to_owned()
        } else {
            format!("a/{name}")
        };
        format!("--- {old}\n+++ b/{name}\n{text}")
    }
}

/// The number of equal bytes at the start and end, in whole lines, excluding the context lines around a change.
fn same_ends(old: &[u8], new: &[u8]) -> (usize, usize) {
    let same = same_start(old, new);
    let line_start = |end: usize| memrchr(b'\n', &old[..end]).map_or(0, |at| at + 1);
    let changed = line_start(same);
    let mut start = changed;
    for _ in 0..CONTEXT_LINES {
        start = line_start(start.saturating_sub(1));
    }
    let (old, new) = (&old[changed..], &new[changed..]);
    let same = same_end(old, new);
    let mut tail = &old[old.len() - same..];
    // The first line may be only partly equal.
    for _ in 0..=CONTEXT_LINES {
        tail = memchr(b'\n', tail).map_or(&[], |at| &tail[at + 1..]);
    }
    (start, tail.len())
}

const CHUNK: usize = 1024;

fn same_start(old: &[u8], new: &[u8]) -> usize {
    let chunks = old.chunks_exact(CHUNK).zip(new.chunks_exact(CHUNK));
    let same = chunks.take_while(|(a, b)| a == b).count() * CHUNK;
    let rest = old[same..].iter().zip(&new[same..]);
    same + rest.take_while(|(a, b)| a == b).count()
}

fn same_end(old: &[u8], new: &[u8]) -> usize {
    let chunks = old.rchunks_exact(CHUNK).zip(new.rchunks_exact(CHUNK));
    let same = chunks.take_while(|(a, b)| a == b).count() * CHUNK;
    let (old, new) = (&old[..old.len() - same], &new[..new.len() - same]);
    let rest = old.iter().rev().zip(new.iter().rev());
    same + rest.take_while(|(a, b)| a == b).count()
}

fn push(text: &mut String, sign: char, line: &str) {
    text.push(sign);
    text.push_str(line);
    if !line.ends_with('\n') {
        text.push_str("\n\\ No newline at end of file\n");
    }
}

/// The displayed diff of `old` and `new`; `None` if it would be too large.
pub fn display(
    name: &str,
    old: Option<&str>,
    new: &str,
    difference: &Difference,
) -> Option<FileDiff> {
    if old.map_or(0, str::len) + new.len() > MOST_BYTES {
        return None;
    }
    let diff = difference.unified(name, old.is_none());
    (!diff.is_empty()).then(|| FileDiff {
        file_name: name.to_owned(),
        diff,
        original: old.map(str::to_owned),
        new: new.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_similar() {
        let many = (0..40).fold(String::new(), |text, line| format!("{text}{line}\n"));
        let other = many.replace("\n7\n", "\nseven\n").replace("30\n", "");
        for (old, new) in [
            ("", "a\n"),
            ("a\n", ""),
            ("a\nb", "a\nb\n"),
            ("a\nb\nc\n", "a\nx\ny\nc\n"),
            ("a\r\nb\r\n", "a\r\nc\r\n"),
            ("a\n", "a\n"),
            (&many, &other),
            (&many, &many.replace("\n20\n", "\n20\n20\n")),
            (&many, &many.replace("\n38\n", "\n")),
            (&many, many.trim_end()),
            (&"a\n".repeat(900), &"a\n".repeat(901)),
            (
                &"a\n".repeat(2000),
                &format!("{}b\n{}", "a\n".repeat(900), "a\n".repeat(1100)),
            ),
        ] {
            let theirs = similar::TextDiff::from_lines(old, new)
                .unified_diff()
                .context_radius(3)
                .header("a/x", "b/x")
                .to_string();
            assert_eq!(Difference::of(old, new).unified("x", false), theirs);
        }
    }

    #[test]
    fn a_head_says_where_its_lines_are() {
        // Removed and added lines in a different order, which requires corrected positions.
        let old = "a\n@@ z\n\n\n\n\n@@ z\n\n c\n c\n c\n-- x\n";
        let new = "@@ z\nb\nb\n@@ z\nb\na\na\n\na\na\na\na\na\n@@ z\n c\n c\n++ y\n++ y\n\n c\n++ y\n++ y\n";
        let unified = Difference::of(old, new).unified("x", false);
        assert!(unified.contains("@@ -1,12 +1,22 @@"), "{unified}");
    }

    #[test]
    fn ranges_are_those_of_the_new_text() {
        for (old, new, expected) in [
            ("a\nb\nc\n", "a\nx\ny\nc\n", vec![(2, 3)]),
            ("a\nb\nc\n", "a\nc\n", vec![(2, 2)]),
            ("a\nb\n", "a\n", vec![(1, 1)]),
            ("a\n", "", vec![(1, 1)]),
            ("a\nb\nc\nd\n", "x\nb\nc\ny\n", vec![(1, 1), (4, 4)]),
            ("a\n", "a\n", vec![]),
        ] {
            assert_eq!(
                Difference::of(old, new).ranges(),
                expected,
                "{old:?} {new:?}"
            );
        }
    }
}
