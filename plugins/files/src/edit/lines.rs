//! The lines of a text, and search for a sequence of lines.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use memchr::memchr_iter;

/// One line as offsets into the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    pub start: usize,
    /// Before the line break.
    pub end: usize,
    /// After the line break.
    pub next: usize,
}

/// The lines of `text`. Text after the last line break is a line only if it is not empty.
pub fn split(text: &str) -> Vec<Line> {
    let bytes = text.as_bytes();
    let mut lines = Vec::new();
    let mut start = 0;
    for at in memchr_iter(b'\n', bytes) {
        let end = if at > start && bytes[at - 1] == b'\r' {
            at - 1
        } else {
            at
        };
        lines.push(Line {
            start,
            end,
            next: at + 1,
        });
        start = at + 1;
    }
    if start < text.len() {
        lines.push(Line {
            start,
            end: text.len(),
            next: text.len(),
        });
    }
    lines
}

/// The number, from 1, of the line that contains offset `at`.
pub fn number(text: &str, at: usize) -> usize {
    memchr_iter(b'\n', &text.as_bytes()[..at]).count() + 1
}

/// The line numbers of ascending offsets, in one pass.
pub fn numbers(text: &str, offsets: impl Iterator<Item = usize>) -> Vec<usize> {
    let (mut line, mut counted) = (1, 0);
    offsets
        .map(|at| {
            line += memchr_iter(b'\n', &text.as_bytes()[counted..at]).count();
            counted = at;
            line
        })
        .collect()
}

/// The positions of `wanted` in `all`, including overlapping ones, in linear time.
pub fn positions<T: Copy + Eq + Hash>(
    wanted: &[T],
    all: impl ExactSizeIterator<Item = T>,
) -> Vec<Range<usize>> {
    if wanted.is_empty() || wanted.len() > all.len() {
        return Vec::new();
    }
    let mut known = HashMap::new();
    let pattern: Vec<usize> = wanted
        .iter()
        .map(|line| {
            let next = known.len();
            *known.entry(*line).or_insert(next)
        })
        .collect();
    let retreats = retreats(&pattern);
    let mut found = Vec::new();
    let mut matched = 0;
    for (index, line) in all.enumerate() {
        let id = known.get(&line).copied();
        while matched > 0 && id != Some(pattern[matched]) {
            matched = retreats[matched - 1];
        }
        if id == Some(pattern[matched]) {
            matched += 1;
        }
        if matched == pattern.len() {
            found.push(index + 1 - matched..index + 1);
            matched = retreats[matched - 1];
        }
    }
    found
}

/// For each prefix of the pattern, how much still matches after a mismatch (Knuth, Morris and Pratt).
fn retreats(pattern: &[usize]) -> Vec<usize> {
    let mut retreats = vec![0; pattern.len()];
    let mut matched = 0;
    for index in 1..pattern.len() {
        while matched > 0 && pattern[index] != pattern[matched] {
            matched = retreats[matched - 1];
        }
        if pattern[index] == pattern[matched] {
            matched += 1;
        }
        retreats[index] = matched;
    }
    retreats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_know_their_breaks() {
        let shown: Vec<(usize, usize, usize)> = split("a\r\n\n\rb")
            .into_iter()
            .map(|line| (line.start, line.end, line.next))
            .collect();
        assert_eq!(shown, [(0, 1, 3), (3, 3, 4), (4, 6, 6)]);
        assert_eq!(split(""), []);
        assert_eq!(split("a\n").len(), 1);
    }

    #[test]
    fn lines_are_counted_from_one() {
        let text = "a\nb\nc";
        for (at, expected) in [(0, 1), (1, 1), (2, 2), (5, 3)] {
            assert_eq!(number(text, at), expected, "{at}");
        }
        assert_eq!(numbers(text, [0, 2, 3, 4].into_iter()), [1, 2, 2, 3]);
    }

    #[test]
    fn a_sequence_is_found_wherever_it_is() {
        for (wanted, all, expected) in [
            ("a b", "x a b a b", "1..3 3..5"),
            ("a a b", "a a a b", "1..4"),
            ("a a", "a a a", "0..2 1..3"),
            ("a b", "a", ""),
            ("a", "", ""),
        ] {
            let wanted: Vec<&str> = wanted.split(' ').collect();
            let all: Vec<&str> = all.split_whitespace().collect();
            let found: Vec<String> = positions(&wanted, all.iter().copied())
                .iter()
                .map(|range| format!("{range:?}"))
                .collect();
            assert_eq!(found.join(" "), expected);
        }
    }
}
