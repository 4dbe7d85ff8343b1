//! Text from a guest or a server, escaped and truncated for one line of an error.

use std::fmt::Write as _;

const MAX: usize = 100;

/// Returns the text as one line of printable ASCII, with everything else escaped.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX) + 8);
    for (index, c) in text.chars().enumerate() {
        if index >= MAX {
            let _ = write!(out, "… (+{} characters)", text.chars().count() - MAX);
            break;
        }
        match c {
            ' '..='~' => out.push(c),
            c => out.extend(c.escape_default()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, expected) in [
            ("a\r\nb", r"a\r\nb"),
            ("x\u{202e}y\u{1b}", r"x\u{202e}y\u{1b}"),
            ("plain", "plain"),
        ] {
            assert_eq!(escape(text), expected);
        }
        assert!(escape(&"a".repeat(300)).ends_with("… (+200 characters)"));
    }
}
