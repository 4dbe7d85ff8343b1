//! The line endings at the position of an edit, which new text adopts.

use std::rc::Rc;

use memchr::{memchr, memmem, memrchr};

use super::find::TextReplacement;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineBreaks {
    /// The text contains no line break.
    None,
    Lf,
    Crlf,
    Mixed,
}

impl LineBreaks {
    pub fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        if memchr(b'\n', bytes).is_none() {
            return Self::None;
        }
        // Most files contain no carriage return; one search finds out.
        if memchr(b'\r', bytes).is_none() {
            return Self::Lf;
        }
        let all = memchr::memchr_iter(b'\n', bytes).count();
        match memmem::find_iter(bytes, b"\r\n").count() {
            0 => Self::Lf,
            crlf if crlf == all => Self::Crlf,
            _ => Self::Mixed,
        }
    }

    pub fn has_crlf(self) -> bool {
        matches!(self, Self::Crlf | Self::Mixed)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lf => "lf",
            Self::Crlf => "crlf",
            Self::Mixed => "mixed",
        }
    }

    /// Extends a place that starts between the two bytes of a CRLF, so that no lone carriage return remains.
    pub fn take_whole_crlf(self, text: &str, replacements: &mut [TextReplacement]) {
        if !self.has_crlf() {
            return;
        }
        let mut end = 0;
        for replacement in replacements {
            if replacement.range.start > end && splits_crlf(text, replacement.range.start) {
                replacement.range.start -= 1;
            }
            end = replacement.range.end;
        }
    }

    /// Converts the new text to the line endings around its position.
    pub fn adapt(self, text: &str, mut replacements: Vec<TextReplacement>) -> Vec<TextReplacement> {
        let mut before: Option<[Rc<str>; 3]> = None;
        // The next line break; places ascend, so each is searched once.
        let mut next = memchr(b'\n', text.as_bytes());
        self.take_whole_crlf(text, &mut replacements);
        for replacement in &mut replacements {
            if !replacement.new.contains('\n') {
                continue;
            }
            let crlf = match self {
                Self::None => continue,
                Self::Lf => false,
                Self::Crlf => true,
                Self::Mixed => {
                    while let Some(at) = next
                        && at < replacement.range.start
                    {
                        next = memchr(b'\n', &text.as_bytes()[at + 1..]).map(|more| at + 1 + more);
                    }
                    let bytes = text.as_bytes();
                    // After the last line break, the last one counts.
                    next.or_else(|| memrchr(b'\n', bytes))
                        .is_some_and(|at| bytes[..at].ends_with(b"\r"))
                }
            };
            // All places share the same new text, so it is converted once.
            let [_, lf_new, crlf_new] = match &mut before {
                Some(known) if Rc::ptr_eq(&known[0], &replacement.new) => known,
                other => {
                    let lf = replacement.new.replace("\r\n", "\n");
                    let crlf = lf.replace('\n', "\r\n");
                    other.insert([Rc::clone(&replacement.new), lf.into(), crlf.into()])
                }
            };
            replacement.new = Rc::clone(if crlf { crlf_new } else { lf_new });
        }
        replacements
    }
}

/// Whether the position is between the two bytes of a CRLF.
fn splits_crlf(text: &str, at: usize) -> bool {
    let (before, after) = text.as_bytes().split_at(at);
    before.ends_with(b"\r") && after.starts_with(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of inserting `a\nb` in place of `x` in `text`.
    fn check(text: &str, expected: &str) {
        let at = text.find('x').expect("there is an x");
        let replacements = vec![TextReplacement::new(at..at + 1, "a\nb")];
        let adapted = LineBreaks::of(text).adapt(text, replacements);
        assert_eq!(&*adapted[0].new, expected, "{text:?}");
    }

    #[test]
    fn line_breaks_are_those_of_the_place() {
        check("x", "a\nb");
        check("x\n", "a\nb");
        check("x\r\n", "a\r\nb");
        check("1\nx\r\n2\n", "a\r\nb");
        check("1\r\nx\n", "a\nb");
        check("1\n2\r\nx", "a\r\nb");
    }

    #[test]
    fn a_crlf_is_replaced_as_a_whole() {
        for (text, new, expected) in [
            ("a\r\nx\r\n", "\ny", "a\r\ny\r\n"),
            ("a\r\nx\n", "\ny", "a\r\ny\n"),
            ("a\r\nx\r\n", "y", "ay\r\n"),
            ("a\nx\r\n", "\ny", "a\ny\r\n"),
        ] {
            let at = text.find("\nx").expect("there is an x");
            let replacements = vec![TextReplacement::new(at..at + 2, new)];
            let [replacement] = &*LineBreaks::of(text).adapt(text, replacements) else {
                panic!("one place")
            };
            let mut edited = text.to_owned();
            edited.replace_range(replacement.range.clone(), &replacement.new);
            assert_eq!(edited, expected, "{text:?}");
        }
    }

    #[test]
    fn r_320_all_four_line_break_kinds_are_detected() {
        for (text, expected) in [
            ("a", "none"),
            ("a\n", "lf"),
            ("a\rb\n", "lf"),
            ("a\r\n", "crlf"),
            ("a\r\nb\n", "mixed"),
        ] {
            assert_eq!(LineBreaks::of(text).as_str(), expected, "{text:?}");
        }
    }
}
