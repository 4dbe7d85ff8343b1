//! Text for models and users: untrusted text on one line, file names, counts, lists and suggestions.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

/// One line of at most `most` characters, trimmed: line breaks and tabs become spaces, and control characters,
/// bidirectional overrides and invisible characters become `\u{…}`. Longer text ends in `…`.
///
/// ```
/// use toolhost_sdk::text::inline;
///
/// assert_eq!(inline("a name\nwith \u{1b}[31mcolour", 80), r"a name with \u{1b}[31mcolour");
/// assert_eq!(inline("much too long", 8), "much too…");
/// ```
pub fn inline(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (count, letter) in text.trim().chars().enumerate() {
        if count == most {
            line.push('…');
            break;
        }
        match letter {
            '\n' | '\r' | '\t' => line.push(' '),
            letter if is_hidden(letter) || matches!(letter, '\u{2028}' | '\u{2029}') => {
                line.extend(letter.escape_unicode());
            }
            letter => line.push(letter),
        }
    }
    line
}

/// One line of at most `most` characters, as in a string literal: line breaks, control characters and invisible
/// characters become escapes such as `\n`, quotation marks stay. Longer text ends in `…`. Use it for text whose exact
/// characters matter, such as commands and URLs.
///
/// ```
/// use toolhost_sdk::text::escape;
///
/// assert_eq!(escape("echo \"a\"\nls", 80), r#"echo "a"\nls"#);
/// assert_eq!(escape("much too long", 8), "much too…");
/// ```
pub fn escape(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (count, letter) in text.chars().enumerate() {
        match letter {
            _ if count == most => {
                line.push('…');
                break;
            }
            '"' | '\'' => line.push(letter),
            letter => line.extend(letter.escape_debug()),
        }
    }
    line
}

/// A file name or path for one line of a list. A name with control characters or line separators, or with a leading
/// quotation mark, is quoted like a string in C, as git does; otherwise a line break in it would start a line that looks
/// like another entry.
///
/// ```
/// use toolhost_sdk::text::file_name;
///
/// assert_eq!(file_name("src/main.rs"), "src/main.rs");
/// assert_eq!(file_name("a\nb\u{1b}"), r#""a\nb\033""#);
/// ```
pub fn file_name(name: &str) -> Cow<'_, str> {
    let is_separator = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if !name.contains(is_separator) && !name.starts_with('"') {
        return Cow::Borrowed(name);
    }
    let mut quoted = String::from("\"");
    for letter in name.chars() {
        match letter {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if is_separator(letter) => {
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a String cannot fail.
                    let _ = write!(quoted, "\\{byte:03o}");
                }
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

/// Decodes a file name in quotation marks, as [`file_name`] and git write unusual names; `None` without quotation marks. The
/// bytes of a name are not always UTF-8.
///
/// ```
/// use toolhost_sdk::text::unquoted_file_name;
///
/// assert_eq!(unquoted_file_name(r#""a\n\303\244""#), Some("a\nä".into()));
/// assert_eq!(unquoted_file_name("a"), None);
/// ```
pub fn unquoted_file_name(name: &str) -> Option<Vec<u8>> {
    let inner = name.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let escaped = match rest.next() {
            Some(b'a') => 7,
            Some(b'b') => 8,
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'v') => 11,
            Some(b'f') => 12,
            Some(b'r') => b'\r',
            Some(digit @ b'0'..=b'3') => {
                let mut value = digit - b'0';
                for _ in 0..2 {
                    let digit = rest.next_if(|digit| (b'0'..=b'7').contains(digit));
                    value = value * 8 + (digit.unwrap_or(b'0') - b'0');
                }
                value
            }
            Some(other) => other,
            None => b'\\',
        };
        bytes.push(escaped);
    }
    Some(bytes)
}

/// Removes control characters and invisible characters: bidirectional overrides, and characters that can hide
/// instructions from users. Line breaks become `\n`. A variation selector stays after a non-ASCII character, and a
/// joiner between two of them.
///
/// ```
/// use toolhost_sdk::text::clean;
///
/// assert_eq!(clean("one\r\ntwo\u{202e} \u{1b}[1mbold"), "one\ntwo [1mbold");
/// ```
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut before = ' ';
    let is_removed = |c: char| is_hidden(c) || matches!(c, '\u{fe0e}' | '\u{fe0f}');
    let is_visible = |c: char| !c.is_ascii() && !is_removed(c);
    while let Some(c) = characters.next() {
        let after = characters.peek().copied().unwrap_or(' ');
        let replacement = match c {
            '\r' if after == '\n' => continue,
            '\r' | '\u{2028}' | '\u{2029}' => '\n',
            '\n' | '\t' => c,
            '\u{fe0e}' | '\u{fe0f}' if is_visible(before) || before.is_ascii_digit() => c,
            '\u{200c}' | '\u{200d}'
                if (is_visible(before) || before == '\u{fe0f}') && is_visible(after) =>
            {
                c
            }
            c if is_removed(c) => continue,
            c => c,
        };
        clean.push(replacement);
        before = replacement;
    }
    clean
}

/// Control characters, bidirectional overrides and invisible characters, which can disguise text. The same characters
/// as escaped by the host (`toolhost_contract::text`), except for line separators and variation selectors of emoji.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The first `most` characters and the number of omitted ones.
///
/// ```
/// use toolhost_sdk::text::truncate;
///
/// assert_eq!(truncate("äöü", 3), "äöü");
/// assert_eq!(truncate("äöü", 1), "ä… [+2 characters]");
/// ```
pub fn truncate(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            let left = text[end..].chars().count();
            format!("{}… [+{left} characters]", &text[..end])
        }
    }
}

/// The first `most` names, each on one line of at most 64 characters, and the number of the others.
///
/// ```
/// assert_eq!(toolhost_sdk::text::list(["a", "b", "c"], 2), "a, b and 1 more");
/// ```
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let names: Vec<String> = names.into_iter().map(|name| inline(name, 64)).collect();
    let shown = names[..names.len().min(most)].join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        left => format!("{shown} and {left} more"),
    }
}

/// A number with its noun, whose plural ends in `s`. For other plurals see [`plural`].
///
/// ```
/// use toolhost_sdk::text::count;
///
/// assert_eq!(count(1, "task"), "1 task");
/// assert_eq!(count(0, "task"), "0 tasks");
/// ```
pub fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let ending = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// A number with the singular or plural of a noun.
///
/// ```
/// assert_eq!(toolhost_sdk::text::plural(2, "entry", "entries"), "2 entries");
/// ```
pub fn plural<N: Display + PartialEq + From<u8>>(number: N, one: &str, many: &str) -> String {
    let noun = if number == N::from(1) { one } else { many };
    format!("{number} {noun}")
}

/// The entry of `known` that is most similar to `input`, regardless of case. `None` if no entry is similar.
///
/// ```
/// use toolhost_sdk::text::nearest;
///
/// assert_eq!(nearest("comit", ["review", "commit"]), Some("commit"));
/// assert_eq!(nearest("xyz", ["review", "commit"]), None);
/// ```
pub fn nearest<'a>(input: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let input = input.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&input, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Whether the first 8 KiB contain a NUL or more than 30 % control characters that do not occur in text.
pub fn is_binary(bytes: &[u8]) -> bool {
    const HEAD: usize = 8 << 10;
    let head = &bytes[..bytes.len().min(HEAD)];
    let is_odd = |byte: &&u8| matches!(**byte, 0x01..=0x06 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    head.contains(&0) || head.iter().filter(is_odd).count() * 10 > head.len() * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        for (text, line) in [
            (" a\nb\u{1b}c\u{202e} ", r"a b\u{1b}c\u{202e}"),
            ("x\u{2028}y\u{e0041}", r"x\u{2028}y\u{e0041}"),
            ("äöü", "äöü"),
        ] {
            assert_eq!(inline(text, 20), line);
        }
        assert_eq!(inline("äöü", 2), "äö…");
    }

    #[test]
    fn m_04_every_character_that_is_not_seen_is_escaped() {
        let unseen = "\u{34f}\u{115f}\u{17b4}\u{180b}\u{2065}\u{3164}\u{fe00}\u{ffa0}\u{fff0}\u{1bca0}\u{1d173}\u{e0100}";
        assert!(inline(unseen, 100).is_ascii());
        assert_eq!(inline("✂\u{fe0f}", 100), "✂\u{fe0f}");
    }

    #[test]
    fn an_escaped_line_is_one_line() {
        for (text, most, expected) in [
            ("ls \"a b\"", 20, "ls \"a b\""),
            ("a\nb\u{1b}[31m", 20, r"a\nb\u{1b}[31m"),
            ("abcdef", 3, "abc…"),
        ] {
            assert_eq!(escape(text, most), expected);
        }
    }

    #[test]
    fn a_file_name_is_one_line() {
        for (name, shown) in [
            ("a b/ä's.rs", "a b/ä's.rs"),
            (r"a\b", r"a\b"),
            ("a\n--- b ---\r\t", r#""a\n--- b ---\r\t""#),
            ("\"a\"\\\n", r#""\"a\"\\\n""#),
            ("\"a\"", r#""\"a\"""#),
            ("\u{85}\u{2028}\u{7f}", r#""\302\205\342\200\250\177""#),
        ] {
            assert_eq!(file_name(name), shown);
        }
    }

    #[test]
    fn invisible_characters_are_removed() {
        assert_eq!(clean("a\r\nb\rc\td\u{0}\u{1b}[1m"), "a\nb\nc\td[1m");
        assert_eq!(clean("\u{feff}x\u{202e}y\u{e0041}z"), "xyz");
        assert_eq!(
            clean("a\u{200b}\u{2060}\u{e0100}\u{fe0f}\u{3164}b\u{2028}c"),
            "ab\nc"
        );
        assert_eq!(
            clean("⚠\u{fe0f}\u{fe0f} 👩\u{200d}💻 1\u{fe0f}"),
            "⚠\u{fe0f} 👩\u{200d}💻 1\u{fe0f}"
        );
    }

    #[test]
    fn omitted_characters_are_counted() {
        assert_eq!(truncate("äöü", 3), "äöü");
        assert_eq!(truncate("äöü", 1), "ä… [+2 characters]");
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(list(["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(
            (&*count(1, "file"), &*count(0, "file")),
            ("1 file", "0 files")
        );
        assert_eq!(nearest("comit", ["review", "commit"]), Some("commit"));
        assert_eq!(
            nearest("relase.md", ["api.md", "release.md"]),
            Some("release.md")
        );
        assert_eq!(nearest("xyz", ["review", "commit"]), None);
    }
}
