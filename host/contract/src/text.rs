//! Text that somebody else wrote, made safe to show: escaped, never stripped, and cut at character boundaries.
//!
//! Stripping would make the shown text differ from the real one, which is how a prompt gets spoofed.

use std::fmt::Write as _;

/// Characters that move a cursor, reorder text or are invisible.
pub(crate) fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// One line of at most `max` characters; whatever is hostile is shown as `\u{…}`.
pub fn inline(text: &str, max: usize) -> String {
    escape(text, max, false)
}

/// Several lines: newlines and tabs stay.
pub fn block(text: &str, max: usize) -> String {
    escape(text, max, true)
}

fn escape(text: &str, max: usize, lines: bool) -> String {
    let mut out = String::with_capacity(text.len().min(max) + 8);
    for (index, c) in text.chars().enumerate() {
        if index >= max {
            let _ = write!(out, "… (+{} characters)", text.chars().count() - max);
            break;
        }
        match c {
            '\n' | '\t' if lines => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_hostile(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// The longest prefix of at most `max` bytes that ends between characters.
pub fn head(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// The longest suffix of at most `max` bytes that starts between characters.
pub fn tail(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_characters_are_shown_not_obeyed() {
        for (text, shown) in [
            ("a\u{1b}[2Jb", r"a\u{1b}[2Jb"),
            ("a\rb", r"a\u{d}b"),
            ("x\u{202e}y", r"x\u{202e}y"),
            ("a\nb", r"a\nb"),
            ("zero\u{200b}width", r"zero\u{200b}width"),
            ("tag\u{e0041}", r"tag\u{e0041}"),
            ("日本 ok", "日本 ok"),
        ] {
            assert_eq!(inline(text, 100), shown);
        }
        assert_eq!(block("a\n\tb\u{7}", 100), "a\n\tb\\u{7}");
    }

    #[test]
    fn cuts_fall_between_characters() {
        assert_eq!(inline("äöü", 2), "äö… (+1 characters)");
        assert_eq!(head("äö", 3), "ä");
        assert_eq!(tail("äö", 3), "ö");
        assert_eq!(tail("ab", 9), "ab");
    }
}
