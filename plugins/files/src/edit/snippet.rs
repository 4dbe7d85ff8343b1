//! Changed lines with context and line numbers, like the output of `read_file`.

use std::fmt::Write as _;
use std::ops::Range;

use super::lines::{self, Line};
use crate::page::push_line;
use crate::snippet::blocks;

/// Lines of context above and below a change.
const AROUND: usize = 4;
/// Limit of shown lines.
const MOST_LINES: usize = 160;
/// Lines shown of one long change, from its start and end.
const MOST_OF_ONE: (usize, usize) = (40, 10);
const MOST_CHARS: usize = 500;
/// Limit of bytes after which no further change is shown.
const MOST_BYTES: usize = 16 << 10;

/// The lines `ranges` of `text`, counted from 1 and ascending, with context.
pub fn changed(text: &str, ranges: &[(usize, usize)]) -> String {
    let all = lines::split(text);
    let ranges = ranges
        .iter()
        .map(|&(first, last)| first.saturating_sub(1)..last);
    let blocks = blocks(ranges, AROUND, all.len());
    let mut shown = String::new();
    let mut left = MOST_LINES;
    for (index, block) in blocks.iter().enumerate() {
        if left == 0 || shown.len() > MOST_BYTES {
            let rest = blocks.len() - index;
            // Writing to a String cannot fail.
            let _ = writeln!(shown, "… and {rest} more places");
            break;
        }
        if index > 0 {
            shown.push_str("   ...\n");
        }
        left = left.saturating_sub(push(&mut shown, text, &all, block.clone()));
    }
    shown
}

/// At most `most` lines of `range`, which counts from 0.
pub fn region(text: &str, all: &[Line], range: &Range<usize>, most: usize) -> String {
    let mut shown = String::new();
    for index in range.clone().take(most) {
        line(&mut shown, text, all, index);
    }
    if range.len() > most {
        let _ = writeln!(shown, "… and {} more lines", range.len() - most);
    }
    shown
}

/// Returns the number of lines shown.
fn push(shown: &mut String, text: &str, all: &[Line], range: Range<usize>) -> usize {
    let (head, tail) = MOST_OF_ONE;
    let left_out = range.len().saturating_sub(head + tail);
    for index in range.clone() {
        if left_out > 0 && index == range.start + head {
            let _ = writeln!(shown, "   ... {left_out} lines ...");
        }
        if left_out == 0 || index < range.start + head || index >= range.end - tail {
            line(shown, text, all, index);
        }
    }
    range.len() - left_out
}

fn line(shown: &mut String, text: &str, all: &[Line], index: usize) {
    let _ = write!(shown, "{:>6}→", index + 1);
    push_line(shown, &text[all[index].start..all[index].end], MOST_CHARS);
    shown.push('\n');
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, ranges: &[(usize, usize)], expected: Expect) {
        // With a marker, because leading spaces are lost in an expectation.
        let shown = changed(text, ranges);
        let marked = shown
            .lines()
            .fold(String::new(), |text, line| format!("{text}|{line}\n"));
        expected.assert_eq(&marked);
    }

    #[test]
    fn changes_are_shown_with_what_is_around_them() {
        let many = (1..=40).fold(String::new(), |text, line| format!("{text}line {line}\n"));
        check(
            &many,
            &[(1, 1), (7, 7), (30, 31)],
            expect![[r#"
            |     1→line 1
            |     2→line 2
            |     3→line 3
            |     4→line 4
            |     5→line 5
            |     6→line 6
            |     7→line 7
            |     8→line 8
            |     9→line 9
            |    10→line 10
            |    11→line 11
            |   ...
            |    26→line 26
            |    27→line 27
            |    28→line 28
            |    29→line 29
            |    30→line 30
            |    31→line 31
            |    32→line 32
            |    33→line 33
            |    34→line 34
            |    35→line 35
        "#]],
        );
        check(
            "a\n",
            &[(1, 1)],
            expect![[r#"
            |     1→a
        "#]],
        );
        check("", &[(1, 1)], expect![[""]]);
    }

    #[test]
    fn what_is_long_is_cut() {
        let many = (1..=100).fold(String::new(), |text, line| format!("{text}{line}\n"));
        let shown = changed(&many, &[(1, 100)]);
        assert_eq!(shown.lines().count(), 51);
        assert!(shown.contains("\n   ... 50 lines ...\n"), "{shown}");
        let far = "x\n".repeat(4000);
        let ranges: Vec<_> = (1..100).map(|line| (line * 20, line * 20)).collect();
        let shown = changed(&far, &ranges);
        assert!(shown.ends_with("… and 81 more places\n"), "{shown}");
        check(
            &"y".repeat(503),
            &[(1, 1)],
            expect![[r#"
            |     1→yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy… [+3 chars]
        "#]],
        );
    }
}
