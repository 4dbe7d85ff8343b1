//! A normalized view of a text, with a mapping to the original offsets.

use std::borrow::Cow;
use std::ops::Range;

/// What becomes of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CharMapping {
    Keep,
    Drop,
    As(char),
}

/// A normalization.
pub type CharMapper = fn(char) -> CharMapping;

pub struct NormalizedText<'a> {
    original: &'a str,
    pub text: String,
    /// Offsets at which the distance between the texts changes: in the view and in the original.
    steps: Vec<(usize, usize)>,
}

impl<'a> NormalizedText<'a> {
    /// The carriage return of a line break is dropped in every view.
    pub fn of(original: &'a str, read: CharMapper) -> Self {
        let mut view = Self {
            original,
            text: String::with_capacity(original.len()),
            steps: vec![(0, 0)],
        };
        // The expected original offset if the view continued in step.
        let mut expected = 0;
        for (at, c) in original.char_indices() {
            let reading = match c {
                '\r' if original[at..].starts_with("\r\n") => CharMapping::Drop,
                _ => read(c),
            };
            let written = match reading {
                CharMapping::Drop => continue,
                CharMapping::Keep => c,
                CharMapping::As(other) => other,
            };
            if expected != at {
                view.steps.push((view.text.len(), at));
            }
            view.text.push(written);
            expected = at + written.len_utf8();
        }
        view
    }

    /// The original text of `range` of the view, which is not empty. Dropped characters at its ends are excluded,
    /// except that a line break is never split.
    pub fn original(&self, range: &Range<usize>) -> Range<usize> {
        let last = self.text[..range.end]
            .char_indices()
            .next_back()
            .map_or(range.start, |(at, _)| at);
        let last = self.back(last);
        let length = self.original[last..]
            .chars()
            .next()
            .map_or(0, char::len_utf8);
        let mut start = self.back(range.start);
        if self.original[start..].starts_with('\n') && self.original[..start].ends_with('\r') {
            start -= 1;
        }
        start..last + length
    }

    fn back(&self, at: usize) -> usize {
        let step = self.steps.partition_point(|(from, _)| *from <= at) - 1;
        let (from, to) = self.steps[step];
        to + (at - from)
    }
}

/// `text` normalized like a [`View`].
pub fn read(text: &str, read: CharMapper) -> Cow<'_, str> {
    if !text.contains("\r\n") && text.chars().all(|c| read(c) == CharMapping::Keep) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(NormalizedText::of(text, read).text)
}

/// Normalizes only line breaks.
pub fn breaks(_: char) -> CharMapping {
    CharMapping::Keep
}

/// Normalizes typographic characters to plain ones.
pub fn plain(c: char) -> CharMapping {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' => CharMapping::As('\''),
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' | '\u{2033}' => CharMapping::As('"'),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => CharMapping::As('-'),
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            CharMapping::As(' ')
        }
        '\u{200b}' | '\u{2060}' | '\u{feff}' => CharMapping::Drop,
        _ => CharMapping::Keep,
    }
}

/// Like [`plain`], and without white space.
pub fn squeezed(c: char) -> CharMapping {
    match plain(c) {
        _ if c.is_whitespace() => CharMapping::Drop,
        CharMapping::As(' ') => CharMapping::Drop,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds `wanted` in the view of `text` and checks the corresponding original text.
    fn check(text: &str, read: CharMapper, wanted: &str, expected: &str) {
        let view = NormalizedText::of(text, read);
        let at = view.text.find(wanted).expect("it is in the view");
        let found = &text[view.original(&(at..at + wanted.len()))];
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn every_place_of_a_view_is_one_of_the_text() {
        check("a\r\nb\r\nc", breaks, "a\nb", "a\r\nb");
        check("a\r\nb\r\nc", breaks, "b\n", "b\r\n");
        check("a\r\nb\r\nc", breaks, "\nb", "\r\nb");
        check("a\rb\r\nc", breaks, "a\rb\nc", "a\rb\r\nc");
        check(
            "x \u{201c}hé\u{201d} y",
            plain,
            "\"hé\"",
            "\u{201c}hé\u{201d}",
        );
        check("a\u{a0}b\u{2014}c", plain, "b-c", "b\u{2014}c");
        check("a\u{200b}b", plain, "ab", "a\u{200b}b");
        check("if (a  &&\n\tb) {", squeezed, "(a&&b)", "(a  &&\n\tb)");
        check("  a", squeezed, "a", "a");
    }

    #[test]
    fn a_plain_text_is_read_as_it_is() {
        assert!(matches!(read("a \n b", plain), Cow::Borrowed(_)));
        assert_eq!(read("a\u{a0}\r\n", plain), "a \n");
    }
}
