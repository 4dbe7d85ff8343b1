//! Selection of output lines to show, and the offset to continue from.

use regex::Regex;

use crate::output::lines;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEnd {
    /// The first lines, for paging.
    First,
    /// The last lines, for new output.
    Last,
}

pub struct Window<'a> {
    /// The reader's offset.
    pub from: u64,
    pub side: WindowEnd,
    pub most: usize,
    pub filter: Option<&'a Regex>,
    /// More output follows, so an incomplete end is held back.
    pub hold: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowView {
    pub lines: Vec<String>,
    /// Offset of each of them.
    pub starts: Vec<u64>,
    /// The last line is incomplete.
    pub open: bool,
    pub from: u64,
    /// Offset of the first line.
    pub start: u64,
    pub next: u64,
    /// Bytes between the reader's offset and the shown part.
    pub earlier: u64,
    /// Number of matching lines and of all lines.
    pub matched: Option<(usize, usize)>,
    /// Incomplete output was held back.
    pub held: bool,
}

impl WindowView {
    /// Bytes after the shown part that are available, excluding held back ones unless a page ends there.
    pub fn later(&self, written: u64, side: WindowEnd) -> u64 {
        let waits = self.held && side == WindowEnd::Last;
        if waits {
            0
        } else {
            written.saturating_sub(self.next)
        }
    }
}

impl Window<'_> {
    /// `bytes` start at offset `start` of the output.
    pub fn look(&self, bytes: &[u8], start: u64) -> WindowView {
        let whole = if self.hold {
            complete(
                bytes,
                self.filter.is_some() || self.side == WindowEnd::First,
            )
        } else {
            bytes.len()
        };
        let held = whole < bytes.len();
        let bytes = &bytes[..whole];
        let texts = lines(bytes);
        let ends = ends(bytes);
        let all = texts.len();
        let mut chosen: Vec<(usize, String)> = texts
            .into_iter()
            .enumerate()
            .filter(|(_, text)| self.filter.is_none_or(|filter| filter.is_match(text)))
            .collect();
        let matched = self.filter.map(|_| (chosen.len(), all));
        let extra = chosen.len().saturating_sub(self.most);
        let begin = |line: usize| {
            let before = line.checked_sub(1).and_then(|line| ends.get(line));
            before.copied().unwrap_or(0) as u64
        };
        let mut next = start + whole as u64;
        let mut shown_from = start;
        if extra > 0 {
            match self.side {
                WindowEnd::First => {
                    next = start + begin(chosen[self.most].0);
                    chosen.truncate(self.most);
                }
                WindowEnd::Last => {
                    chosen.drain(..extra);
                    shown_from = start + chosen.first().map_or(0, |(line, _)| begin(*line));
                }
            }
        }
        let last = chosen.last().is_some_and(|(line, _)| line + 1 == all);
        WindowView {
            open: last && !bytes.is_empty() && !bytes.ends_with(b"\n"),
            starts: chosen
                .iter()
                .map(|(line, _)| start + begin(*line))
                .collect(),
            lines: chosen.into_iter().map(|(_, text)| text).collect(),
            from: self.from,
            start: shown_from,
            next,
            earlier: shown_from.saturating_sub(self.from),
            matched,
            held,
        }
    }
}

/// The end offset of each line.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let breaks = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    breaks.map(|(at, _)| at + 1).collect()
}

/// The number of complete bytes: without an incomplete character, and with `lines` without an incomplete line.
fn complete(bytes: &[u8], lines: bool) -> usize {
    if lines {
        // An endless line is shown in pieces, otherwise it would never be shown.
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        if let Some(end) = end {
            return end + 1;
        }
    }
    // A character has at most four bytes, so only the last three can start an incomplete one.
    let tail = bytes.len().saturating_sub(3);
    let cut = (tail..bytes.len()).find(|at| {
        let needed = match bytes[*at] {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 0,
        };
        at + needed > bytes.len()
    });
    cut.unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn check(
        bytes: &[u8],
        side: WindowEnd,
        most: usize,
        filter: &str,
        hold: bool,
        expected: Expect,
    ) {
        let filter = Regex::new(filter).unwrap();
        let window = Window {
            from: 100,
            side,
            most,
            filter: (!filter.as_str().is_empty()).then_some(&filter),
            hold,
        };
        let view = window.look(bytes, 100);
        expected.assert_eq(&format!(
            "{:?} from {} next {} earlier {} matched {:?} open {} held {}",
            view.lines, view.start, view.next, view.earlier, view.matched, view.open, view.held
        ));
    }

    #[test]
    fn the_last_lines_of_what_is_new() {
        check(
            b"a\nb\nc\n",
            WindowEnd::Last,
            2,
            "",
            true,
            expect![[
                r#"["b", "c"] from 102 next 106 earlier 2 matched None open false held false"#
            ]],
        );
        check(
            b"",
            WindowEnd::Last,
            2,
            "",
            true,
            expect!["[] from 100 next 100 earlier 0 matched None open false held false"],
        );
    }

    #[test]
    fn the_first_lines_of_a_page() {
        check(
            b"a\nb\nc\n",
            WindowEnd::First,
            2,
            "",
            false,
            expect![[
                r#"["a", "b"] from 100 next 104 earlier 0 matched None open false held false"#
            ]],
        );
    }

    #[test]
    fn a_filter_looks_at_whole_lines() {
        check(
            b"ok 1\nbad 2\nbad 3\nba",
            WindowEnd::Last,
            1,
            "bad",
            true,
            expect![[
                r#"["bad 3"] from 111 next 117 earlier 11 matched Some((2, 3)) open false held true"#
            ]],
        );
        check(
            b"ok 1\nbad 2\nbad 3",
            WindowEnd::First,
            1,
            "bad",
            false,
            expect![[
                r#"["bad 2"] from 100 next 111 earlier 0 matched Some((2, 3)) open false held false"#
            ]],
        );
    }

    #[test]
    fn a_prompt_is_shown_and_a_broken_character_waits() {
        check(
            b"Password: ",
            WindowEnd::Last,
            9,
            "",
            true,
            expect![[
                r#"["Password: "] from 100 next 110 earlier 0 matched None open true held false"#
            ]],
        );
        check(
            b"caf\xc3",
            WindowEnd::Last,
            9,
            "",
            true,
            expect![[r#"["caf"] from 100 next 103 earlier 0 matched None open true held true"#]],
        );
        check(
            b"caf\xc3",
            WindowEnd::Last,
            9,
            "",
            false,
            expect![[r#"["caf�"] from 100 next 104 earlier 0 matched None open true held false"#]],
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// However the output arrives and wherever it is cut, nothing is shown twice and nothing is lost.
        #[test]
        fn all_reads_together_are_what_was_written(
            text in "[aé\u{1f600}\n]{0,60}",
            pieces in prop::collection::vec(0_usize..9, 0..40),
            filtered in any::<bool>(),
        ) {
            let any_line = Regex::new("").unwrap();
            let bytes = text.as_bytes();
            let (mut read, mut written, mut collected) = (0, 0, String::new());
            for piece in pieces.into_iter().chain([bytes.len(), 0]) {
                let done = written == bytes.len();
                written = bytes.len().min(written + piece);
                let window = Window {
                    from: read as u64,
                    side: WindowEnd::Last,
                    most: 2000,
                    filter: filtered.then_some(&any_line),
                    hold: !done,
                };
                let view = window.look(&bytes[read..written], read as u64);
                prop_assert_eq!(view.earlier, 0);
                read = usize::try_from(view.next).unwrap();
                collected += &view.lines.join("\n");
                if !view.lines.is_empty() && !view.open {
                    collected.push('\n');
                }
            }
            prop_assert_eq!(collected, text);
        }
    }
}
