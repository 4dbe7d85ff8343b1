//! Cleaning, folding and truncation of program output for models.

mod fold;
mod terminal_text;
mod truncate;

use self::fold::{FoldMode, Item, fold};
pub use self::terminal_text::lines;
pub use self::truncate::Omitted;

/// Output as far as the host kept it.
#[derive(Clone, Copy, Debug)]
pub struct RawOutput<'a> {
    pub bytes: &'a [u8],
    /// Total bytes written. If the host omitted some, `bytes` has the line `[… N bytes …]` in their place.
    pub total: u64,
}

impl<'a> RawOutput<'a> {
    /// The bytes before those that the host omitted, the number of omitted bytes, and the bytes after them.
    fn parts(self) -> (&'a [u8], u64, &'a [u8]) {
        const START: &[u8] = "\n[… ".as_bytes();
        const END: &[u8] = " bytes …]\n".as_bytes();
        let Self { bytes, total } = self;
        for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(START)) {
            let (head, rest) = (&bytes[..at], &bytes[at + START.len()..]);
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let omitted = str::from_utf8(&rest[..digits])
                .ok()
                .and_then(|digits| digits.parse().ok());
            // A program may print such a line as well, but without the number of bytes that are missing.
            if let Some(tail) = rest[digits..].strip_prefix(END)
                && omitted == total.checked_sub((head.len() + tail.len()) as u64)
                && let Some(omitted) = omitted
            {
                return (head, omitted, tail);
            }
        }
        (bytes, total.saturating_sub(bytes.len() as u64), b"")
    }
}

/// Output in lines, with identical lines folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputText {
    items: Vec<Item>,
    /// The last line has no line break.
    open: bool,
}

/// The shown part of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownOutput {
    pub text: String,
    /// The text was cut.
    pub cut: bool,
}

impl OutputText {
    pub fn of(raw: RawOutput<'_>) -> Self {
        let open = !raw.bytes.is_empty() && !raw.bytes.ends_with(b"\n");
        let (head, omitted, tail) = raw.parts();
        let mut items: Vec<Item> = numbered(lines(head)).collect();
        if omitted > 0 {
            items.push(Item {
                text: format!("[… {omitted} bytes not kept]"),
                // The line before may be incomplete.
                at: Some(items.len().max(1) as u64),
                lines: 0,
                lost: usize::try_from(omitted).unwrap_or(usize::MAX),
            });
            items.extend(numbered(lines(tail)).map(|item| Item { at: None, ..item }));
        }
        Self {
            items: fold(items, FoldMode::Same),
            open,
        }
    }

    pub fn of_lines(lines: Vec<String>, open: bool) -> Self {
        Self {
            items: fold(numbered(lines).collect(), FoldMode::Same),
            open,
        }
    }

    pub fn characters(&self) -> usize {
        truncate::characters(&self.items)
    }

    /// At most `most` characters. `remark` describes in one line what was omitted and how to get it.
    pub fn fit(self, most: usize, remark: impl FnOnce(Omitted) -> String) -> ShownOutput {
        let items = if self.characters() > most {
            fold(self.items, FoldMode::ButForNumbers)
        } else {
            self.items
        };
        let (mut text, cut) = truncate::cut(&items, most, remark);
        if self.open && text.ends_with('\n') {
            text.pop();
        }
        ShownOutput { text, cut }
    }
}

fn numbered(lines: Vec<String>) -> impl Iterator<Item = Item> {
    (1..).zip(lines).map(|(at, text)| Item {
        text,
        at: Some(at),
        lines: 1,
        lost: 0,
    })
}

/// Shares `most` characters between two texts: each can use at least half.
pub fn share(most: usize, first: usize, second: usize) -> (usize, usize) {
    let half = most / 2;
    let second = second.min(half.max(most.saturating_sub(first)));
    (most - second, second)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn remark(left: Omitted) -> String {
        let at = left.at.unwrap_or_default();
        format!(
            "[… {} lines, {} characters, from {at}]",
            left.lines, left.characters
        )
    }

    fn check(bytes: &[u8], total: u64, most: usize, expected: Expect) {
        let shown = OutputText::of(RawOutput { bytes, total }).fit(most, remark);
        expected.assert_eq(&format!("{}\n{:?}", shown.cut, shown.text));
    }

    #[test]
    fn a_short_text_is_left_alone() {
        check(
            b"",
            0,
            1000,
            expect![[r#"
            false
            """#]],
        );
        check(
            b"a\n\nb\n",
            5,
            1000,
            expect![[r#"
            false
            "a\n\nb\n""#]],
        );
        check(
            b"a",
            1,
            1000,
            expect![[r#"
            false
            "a""#]],
        );
    }

    #[test]
    fn numbers_are_folded_only_when_there_is_no_room() {
        let lines: Vec<String> = (0..200).map(|number| format!("step {number}")).collect();
        let text = lines.join("\n") + "\n";
        let bytes = text.as_bytes();
        let total = bytes.len() as u64;
        assert_eq!(
            OutputText::of(RawOutput { bytes, total })
                .fit(9000, remark)
                .text,
            text
        );
        check(
            bytes,
            total,
            1000,
            expect![[r#"
            true
            "step 0\n[… 198 lines, 1674 characters, from 2]\nstep 199\n""#]],
        );
    }

    #[test]
    fn dropped_bytes_are_reported_where_they_are_missing() {
        let head = "a longer beginning\nhalf";
        let bytes = format!("{head}\n[… 1000000 bytes …]\n a line\nlast\n");
        let total = 1_000_000 + head.len() as u64 + 13;
        check(
            bytes.as_bytes(),
            total,
            1000,
            expect![[r#"
            true
            "a longer beginning\nhalf\n[… 0 lines, 1000000 characters, from 2]\n a line\nlast\n""#]],
        );
        // A program printed this line.
        check(
            bytes.as_bytes(),
            bytes.len() as u64,
            1000,
            expect![[r#"
            false
            "a longer beginning\nhalf\n[… 1000000 bytes …]\n a line\nlast\n""#]],
        );
    }

    #[test]
    fn a_cut_counts_the_dropped_bytes() {
        let head: String = (1..40).map(|length| "x".repeat(length) + "\n").collect();
        let bytes = format!("{head}\n[… 1000000 bytes …]\n{head}");
        let total = 1_000_000 + 2 * head.len() as u64;
        let shown = OutputText::of(RawOutput {
            bytes: bytes.as_bytes(),
            total,
        })
        .fit(200, remark);
        assert!(shown.cut && shown.text.chars().count() <= 200, "{shown:?}");
        assert!(
            shown.text.contains("[… 0 lines, 1001590 characters"),
            "{shown:?}"
        );
    }

    #[test]
    fn room_is_shared() {
        for (most, first, second, expected) in [
            (100, 10, 10, (90, 10)),
            (100, 500, 10, (90, 10)),
            (100, 10, 500, (10, 90)),
            (100, 500, 500, (50, 50)),
            (100, 0, 0, (100, 0)),
        ] {
            assert_eq!(share(most, first, second), expected, "{first} {second}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_never_panics_and_never_gives_more_than_asked(
            bytes in prop::collection::vec(prop_oneof![
                Just(b'\n'), Just(b'\r'), Just(b'\x1b'), Just(b'['), Just(b'1'), Just(b'a'), Just(0x08), any::<u8>(),
            ], 0..1500),
            missing in 0_u64..3,
            most in 100_usize..1200,
        ) {
            let raw = RawOutput { bytes: &bytes, total: bytes.len() as u64 + missing };
            let shown = OutputText::of(raw).fit(most, remark);
            prop_assert!(shown.text.chars().count() <= most, "{} of {most}", shown.text.chars().count());
            prop_assert!(!shown.text.contains(['\x1b', '\r', '\x08', '\0']));
        }

        #[test]
        fn plain_text_that_fits_comes_out_as_it_went_in(
            lines in prop::collection::vec("[a-z]{1,20}", 0..50),
        ) {
            let mut seen = std::collections::HashSet::new();
            let mut text = String::new();
            for line in lines.iter().filter(|line| seen.insert(*line)) {
                text += line;
                text.push('\n');
            }
            let raw = RawOutput { bytes: text.as_bytes(), total: text.len() as u64 };
            prop_assert_eq!(OutputText::of(raw).fit(5000, remark), ShownOutput { text, cut: false });
        }
    }

    /// As much as the host keeps. Quadratic work would take minutes.
    #[test]
    fn hostile_output_is_linear() {
        for unit in [
            "\r", "a\r", "\x1b[K", "\x1b]", "\n", "a1\n", "\x08", "\u{301}", "1", "a\x1b[31",
        ] {
            let text = unit.repeat((256 << 10) / unit.len());
            let raw = RawOutput {
                bytes: text.as_bytes(),
                total: text.len() as u64,
            };
            let shown = OutputText::of(raw).fit(30_000, remark);
            assert!(shown.text.chars().count() <= 30_000, "{unit:?}");
        }
    }
}
