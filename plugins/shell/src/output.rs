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
    /// Total bytes written. If larger than `bytes`, the middle is missing.
    pub total: u64,
}

/// Output in lines, with identical lines folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputText {
    items: Vec<Item>,
    /// The last line has no line break.
    open: bool,
    gap: bool,
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
        let missing = raw.total.saturating_sub(raw.bytes.len() as u64);
        if missing == 0 {
            return Self::of_lines(lines(raw.bytes), open);
        }
        // The host keeps equal parts of the beginning and the end.
        let (head, tail) = raw.bytes.split_at(raw.bytes.len() / 2);
        let mut items: Vec<Item> = numbered(lines(head)).collect();
        items.push(Item {
            text: format!("[… {missing} bytes not kept]"),
            at: None,
            lines: 0,
        });
        items.extend(numbered(lines(tail)).map(|item| Item { at: None, ..item }));
        Self {
            items: fold(items, FoldMode::Same),
            open,
            gap: true,
        }
    }

    pub fn of_lines(lines: Vec<String>, open: bool) -> Self {
        Self {
            items: fold(numbered(lines).collect(), FoldMode::Same),
            open,
            gap: false,
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
        ShownOutput {
            text,
            cut: cut || self.gap,
        }
    }
}

fn numbered(lines: Vec<String>) -> impl Iterator<Item = Item> {
    (1..).zip(lines).map(|(at, text)| Item {
        text,
        at: Some(at),
        lines: 1,
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
        format!("[… {} lines, {} characters]", left.lines, left.characters)
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
            false
            "step 0\n[… 198 similar lines]\nstep 199\n""#]],
        );
    }

    #[test]
    fn dropped_bytes_are_reported() {
        check(
            b"first\nlast\n",
            1_000_011,
            1000,
            expect![[r#"
            true
            "first\n[… 1000000 bytes not kept]\n\nlast\n""#]],
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
