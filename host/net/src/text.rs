//! What a guest or a server wrote, made safe for one line of an error: escaped, never stripped, and cut.

use std::fmt::Write as _;

const MAX: usize = 100;

/// The text as one line of printable ASCII; everything else is shown as an escape.
pub(crate) fn shown(text: &str) -> String {
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
    fn hostile_characters_are_shown_not_obeyed() {
        for (text, expected) in [
            ("a\r\nb", r"a\r\nb"),
            ("x\u{202e}y\u{1b}", r"x\u{202e}y\u{1b}"),
            ("plain", "plain"),
        ] {
            assert_eq!(shown(text), expected);
        }
        assert!(shown(&"a".repeat(300)).ends_with("… (+200 characters)"));
    }
}
