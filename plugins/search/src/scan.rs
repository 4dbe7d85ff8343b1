//! Iteration over matching lines of a text: the engine runs to the next match, and only then are line boundaries
//! searched.

use std::fmt::Write;
use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};
use regex_automata::Input;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use crate::query::{Matcher, Query};
use crate::reader::Window;

/// Longer lines are cut, in grapheme clusters.
const LINE_CHARS: usize = 2000;
/// Characters before the match in a cut line.
const LEAD_CHARS: usize = 200;

/// A matching line, or with `multiline` the lines of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedLine {
    /// Without the line end.
    pub line: Range<usize>,
    /// Offset of the match in the text.
    pub at: usize,
}

/// The matching lines of a window.
pub struct MatchedLines<'a> {
    query: &'a Query,
    matcher: &'a Matcher,
    /// Up to the end of the searched part.
    text: &'a [u8],
    from: usize,
}

impl<'a> MatchedLines<'a> {
    pub fn new(query: &'a Query, window: &Window<'a>) -> Self {
        Self {
            query,
            matcher: query.matcher(window.text),
            text: &window.text[..window.range.end],
            from: window.range.start,
        }
    }
}

impl Iterator for MatchedLines<'_> {
    type Item = MatchedLine;

    fn next(&mut self) -> Option<MatchedLine> {
        while self.from < self.text.len() {
            let spot = if let Some(candidates) = &self.matcher.candidates {
                let at = candidates.find(self.text, self.from)?;
                let line = self.line_start(at)..line_end(self.text, at);
                let found = self.search(line.clone());
                self.from = line.end + 1;
                let Some(found) = found else { continue };
                MatchedLine {
                    line,
                    at: found.start,
                }
            } else {
                let found = self.search(self.from..self.text.len())?;
                let start = self.line_start(found.start);
                if start == self.text.len() {
                    // An empty match after the last line end is on no line.
                    return None;
                }
                let mut end = self.end(&found);
                if self.query.multiline {
                    end = self.extended(&found, end);
                }
                self.from = end + 1;
                MatchedLine {
                    line: start..end,
                    at: found.start,
                }
            };
            if counts(self.query, &self.text[spot.line.clone()]) {
                return Some(spot);
            }
        }
        None
    }
}

impl MatchedLines<'_> {
    /// The engine sees the text around the range, so that `^` and `\b` are correct at its ends.
    fn search(&self, range: Range<usize>) -> Option<Range<usize>> {
        Some(
            self.matcher
                .regex
                .search(&Input::new(self.text).range(range))?
                .range(),
        )
    }

    /// The end of the last line of a match. A match that ends with a line end does not include the next line.
    fn end(&self, found: &Range<usize>) -> usize {
        let covers_end = found.end > found.start && self.text[found.end - 1] == b'\n';
        line_end(self.text, found.end - usize::from(covers_end))
    }

    /// The end of the lines of a match, including further matches that start on its last line.
    fn extended(&self, found: &Range<usize>, mut end: usize) -> usize {
        let mut last = found.clone();
        loop {
            let from = last.end + usize::from(last.is_empty());
            if from > end {
                return end;
            }
            match self.search(from..self.text.len()) {
                Some(next) if next.start <= end => {
                    end = end.max(self.end(&next));
                    last = next;
                }
                Some(_) | None => return end,
            }
        }
    }

    fn line_start(&self, at: usize) -> usize {
        memrchr(b'\n', &self.text[self.from..at]).map_or(self.from, |end| self.from + end + 1)
    }
}

/// The lines that do not match.
pub struct UnmatchedLines<'a> {
    query: &'a Query,
    text: &'a [u8],
    from: usize,
    matching: std::iter::Peekable<MatchedLines<'a>>,
}

impl<'a> UnmatchedLines<'a> {
    pub fn new(query: &'a Query, window: &Window<'a>) -> Self {
        Self {
            query,
            text: &window.text[..window.range.end],
            from: window.range.start,
            matching: MatchedLines::new(query, window).peekable(),
        }
    }
}

impl Iterator for UnmatchedLines<'_> {
    type Item = MatchedLine;

    fn next(&mut self) -> Option<MatchedLine> {
        while self.from < self.text.len() {
            let start = self.from;
            if let Some(spot) = self.matching.next_if(|spot| spot.line.start == start) {
                self.from = spot.line.end + 1;
                continue;
            }
            let end = line_end(self.text, start);
            self.from = end + 1;
            if counts(self.query, &self.text[start..end]) {
                return Some(MatchedLine {
                    line: start..end,
                    at: start,
                });
            }
        }
        None
    }
}

fn counts(query: &Query, line: &[u8]) -> bool {
    query
        .exclude
        .as_ref()
        .is_none_or(|exclude| !exclude.is_match(line))
}

fn line_end(text: &[u8], from: usize) -> usize {
    memchr(b'\n', &text[from..]).map_or(text.len(), |at| from + at)
}

/// A line counter that moves forward through a text.
pub struct LineCounter<'a> {
    text: &'a [u8],
    at: usize,
    line: u64,
}

impl<'a> LineCounter<'a> {
    pub fn new(window: &Window<'a>) -> Self {
        Self {
            text: window.text,
            at: 0,
            line: window.line,
        }
    }

    /// The number of the line that starts at `start`, which must not be before the previous one.
    pub fn line(&mut self, start: usize) -> u64 {
        self.line += memchr_iter(b'\n', &self.text[self.at..start]).count() as u64;
        self.at = start;
        self.line
    }
}

/// The `count` lines above the one that starts at `start`.
pub fn lines_above(text: &[u8], start: usize, count: usize) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut next = start;
    while lines.len() < count && next > 0 {
        let end = next - 1;
        next = memrchr(b'\n', &text[..end]).map_or(0, |at| at + 1);
        lines.push(next..end);
    }
    lines.reverse();
    lines
}

/// The `count` lines below the one that ends at `end`.
pub fn lines_below(text: &[u8], end: usize, count: usize) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = end + 1;
    while lines.len() < count && start < text.len() {
        let end = line_end(text, start);
        lines.push(start..end);
        start = end + 1;
    }
    lines
}

/// Limits of bytes of a line that are examined for display, before the match and in total. More than any shown line
/// needs.
const NEAR_BYTES: usize = 16 * 1024;
const SHOWN_BYTES: usize = 256 * 1024;

/// A line as shown: without its end, and cut around `at` if it is very long.
pub fn show(text: &[u8], line: &Range<usize>, at: usize) -> String {
    let bytes = &text[line.clone()];
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if bytes.len() <= LINE_CHARS {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let column = column(text, line, at);
    // A line can be as large as the plugin's memory; only a part of it is copied.
    let near = if column > LINE_CHARS - LEAD_CHARS {
        boundary(
            bytes,
            (at.max(line.start) - line.start).saturating_sub(NEAR_BYTES),
        )
    } else {
        0
    };
    let far = boundary(bytes, near.saturating_add(SHOWN_BYTES).min(bytes.len()));
    let (ahead, behind) = (count(&bytes[..near]), count(&bytes[far..]));
    let shown = String::from_utf8_lossy(&bytes[near..far]);
    if ahead == 0 && behind == 0 && shown.chars().count() <= LINE_CHARS {
        return shown.into_owned();
    }
    let start = if column > LINE_CHARS - LEAD_CHARS {
        let lead = column.saturating_sub(LEAD_CHARS + ahead);
        shown.char_indices().nth(lead).map_or(0, |(start, _)| start)
    } else {
        0
    };
    let mut edge = GraphemeCursor::new(start, shown.len(), true);
    let start = match edge.is_boundary(&shown, 0) {
        Ok(false) => edge.next_boundary(&shown, 0).ok().flatten(),
        _ => Some(start),
    };
    let (skipped, shown) = shown.split_at(start.unwrap_or(0));
    let end = shown.grapheme_indices(true).nth(LINE_CHARS);
    let (shown, rest) = shown.split_at(end.map_or(shown.len(), |(end, _)| end));
    let mut cut = String::new();
    if ahead > 0 || !skipped.is_empty() {
        let _ = write!(cut, "[… {} characters] ", ahead + skipped.chars().count());
    }
    cut.push_str(shown);
    if behind > 0 || !rest.is_empty() {
        let _ = write!(cut, " [{} more characters]", behind + rest.chars().count());
    }
    cut
}

/// The first character boundary at or after `at`.
fn boundary(bytes: &[u8], at: usize) -> usize {
    let rest = bytes[at..].iter().take(3);
    at + rest.take_while(|byte| **byte & 0xc0 == 0x80).count()
}

/// The number of characters of the line before `at`.
pub fn column(text: &[u8], line: &Range<usize>, at: usize) -> usize {
    count(&text[line.start..at.max(line.start)])
}

/// Number of characters, with one per invalid UTF-8 sequence.
fn count(bytes: &[u8]) -> usize {
    let chunks = bytes.utf8_chunks();
    chunks
        .map(|chunk| chunk.valid().chars().count() + usize::from(!chunk.invalid().is_empty()))
        .sum()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::query::PatternOptions;

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check(pattern: &str, exclude: Option<&str>, text: &str, matching: Expect, others: Expect) {
        let query = Query::new(pattern, exclude, PatternOptions::default()).unwrap();
        let window = Window::of(text.as_bytes());
        let mut counter = LineCounter::new(&window);
        let mut tell = |spot: MatchedLine| {
            let line = counter.line(spot.line.start);
            format!(
                "{line}:{}:{}",
                column(text.as_bytes(), &spot.line, spot.at),
                show(text.as_bytes(), &spot.line, spot.at)
            )
        };
        let found: Vec<String> = MatchedLines::new(&query, &window).map(&mut tell).collect();
        matching.assert_eq(&format!("{found:?}"));
        counter = LineCounter::new(&window);
        let mut tell = |spot: MatchedLine| {
            let line = counter.line(spot.line.start);
            format!("{line}:{}", show(text.as_bytes(), &spot.line, spot.at))
        };
        let found: Vec<String> = UnmatchedLines::new(&query, &window)
            .map(&mut tell)
            .collect();
        others.assert_eq(&format!("{found:?}"));
    }

    #[test]
    fn a_line_counts_once() {
        check(
            "a",
            None,
            "xaa\nb\r\nä a\n",
            expect![[r#"["1:1:xaa", "3:2:ä a"]"#]],
            expect![[r#"["2:b"]"#]],
        );
    }

    #[test]
    fn the_last_line_may_lack_its_end() {
        check(
            "b",
            None,
            "a\nb",
            expect![[r#"["2:0:b"]"#]],
            expect![[r#"["1:a"]"#]],
        );
        check(
            "^$",
            None,
            "a\n\nb\n",
            expect![[r#"["2:0:"]"#]],
            expect![[r#"["1:a", "3:b"]"#]],
        );
        check("$", None, "", expect!["[]"], expect!["[]"]);
    }

    #[test]
    fn excluded_lines_do_not_count() {
        check(
            "a",
            Some("b"),
            "a\nab\nc\ncb\n",
            expect![[r#"["1:0:a"]"#]],
            expect![[r#"["3:c"]"#]],
        );
    }

    #[test]
    fn lines_around() {
        let text = b"1\n2\n3\n4\n5";
        assert_eq!(lines_above(text, 4, 9), [0..1, 2..3]);
        assert_eq!(lines_above(text, 4, 1), vec![2..3]);
        assert_eq!(lines_below(text, 5, 9), [6..7, 8..9]);
        assert_eq!(lines_below(text, 5, 1), vec![6..7]);
        assert!(lines_above(text, 0, 1).is_empty() && lines_below(text, 9, 1).is_empty());
    }

    #[test]
    fn long_lines_are_cut_around_the_match() {
        let text = format!("{}needle{}", "x".repeat(5000), "y".repeat(3000));
        let shown = show(text.as_bytes(), &(0..text.len()), 5000);
        assert!(
            shown.starts_with("[… 4800 characters] xxx") && shown.contains("needle"),
            "{shown}"
        );
        assert!(shown.ends_with("y [1206 more characters]"), "{shown}");
        // Each is two code points and one character for the user.
        let text = "e\u{301}".repeat(5000);
        let shown = show(text.as_bytes(), &(0..text.len()), 3 * 4000 + 1);
        assert!(
            shown.starts_with("[… 7802 characters] e\u{301}e"),
            "{shown}"
        );
        let shown = show(text.as_bytes(), &(0..text.len()), 0);
        assert!(
            shown.ends_with("e\u{301} [6000 more characters]"),
            "{shown}"
        );
    }

    #[test]
    fn c_08_of_a_line_as_large_as_the_memory_only_a_piece_is_copied() {
        let mut text = vec![0xff; 5 << 20];
        text.extend_from_slice(b"needle");
        text.extend(std::iter::repeat_n(b'x', 5 << 20));
        let shown = show(&text, &(0..text.len()), 5 << 20);
        assert!(shown.starts_with("[… 5242680 characters] "), "{shown}");
        assert!(shown.contains("\u{fffd}needlexxx"), "{shown}");
        assert!(shown.ends_with("x [5241086 more characters]"), "{shown}");
    }
}
