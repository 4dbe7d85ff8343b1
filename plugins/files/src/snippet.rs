//! Changed lines of a text with context, for models.

use std::fmt::Write as _;
use std::ops::Range;

use crate::page::{MOST_CHARS, push_line};

/// Lines before and after each change.
const CONTEXT: usize = 5;
/// Limit of shown lines; the model knows what it wrote.
const MOST_LINES: usize = 80;

/// The lines of `text` around `changed`, with their numbers. The ranges are of lines, counted from 0, ascending; an
/// empty one marks removed lines.
pub fn snippet(text: &str, changed: &[Range<usize>]) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let shown = blocks(changed.iter().cloned(), CONTEXT, lines.len());
    let mut snippet = String::new();
    let mut left = MOST_LINES;
    for (index, range) in shown.iter().enumerate() {
        if index > 0 {
            snippet.push_str("   ...\n");
        }
        for line in range.clone().take(left) {
            // Writing to a String cannot fail.
            let _ = write!(snippet, "{:>6}→", line + 1);
            push_line(&mut snippet, lines[line], MOST_CHARS);
            snippet.push('\n');
        }
        if range.len() > left {
            snippet.push_str("   ... (the other changes are not shown)\n");
            break;
        }
        left -= range.len();
    }
    snippet
}

/// The ascending ranges `changed` of a text of `total` lines, with `context` lines around each; ranges that touch are
/// joined.
pub fn blocks(
    changed: impl IntoIterator<Item = Range<usize>>,
    context: usize,
    total: usize,
) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    for range in changed {
        let start = range.start.saturating_sub(context).min(total);
        let end = (range.end + context).min(total);
        match blocks.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => blocks.push(start..end),
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(lines: usize, changed: &[(usize, usize)], expected: Expect) {
        let text: Vec<String> = (1..=lines).map(|line| format!("l{line}")).collect();
        let changed: Vec<Range<usize>> = changed.iter().map(|(start, end)| *start..*end).collect();
        // An unindented first line, because `expect!` removes common indentation.
        let shown = format!("shown:\n{}", snippet(&text.join("\n"), &changed));
        expected.assert_eq(&shown);
    }

    #[test]
    fn changes_come_with_five_lines_around_them() {
        check(
            20,
            &[(9, 10)],
            expect![[r#"
                shown:
                     5→l5
                     6→l6
                     7→l7
                     8→l8
                     9→l9
                    10→l10
                    11→l11
                    12→l12
                    13→l13
                    14→l14
                    15→l15
            "#]],
        );
        check(
            8,
            &[(0, 1), (7, 8)],
            expect![[r#"
                shown:
                     1→l1
                     2→l2
                     3→l3
                     4→l4
                     5→l5
                     6→l6
                     7→l7
                     8→l8
            "#]],
        );
        check(
            30,
            &[(0, 1), (20, 21)],
            expect![[r#"
                shown:
                     1→l1
                     2→l2
                     3→l3
                     4→l4
                     5→l5
                     6→l6
                   ...
                    16→l16
                    17→l17
                    18→l18
                    19→l19
                    20→l20
                    21→l21
                    22→l22
                    23→l23
                    24→l24
                    25→l25
                    26→l26
            "#]],
        );
    }

    #[test]
    fn where_lines_are_gone_the_place_is_shown() {
        check(
            3,
            &[(1, 1)],
            expect![[r#"
                shown:
                     1→l1
                     2→l2
                     3→l3
            "#]],
        );
        check(
            3,
            &[(3, 3)],
            expect![[r#"
                shown:
                     1→l1
                     2→l2
                     3→l3
            "#]],
        );
        check(
            0,
            &[(0, 0)],
            expect![[r#"
            shown:
        "#]],
        );
    }

    #[test]
    fn a_large_change_is_cut() {
        let text = "x\n".repeat(500);
        let shown = snippet(&text, &[0..200, 400..500]);
        assert_eq!(shown.lines().count(), MOST_LINES + 1);
        assert!(shown.ends_with("    80→x\n   ... (the other changes are not shown)\n"));
    }
}
