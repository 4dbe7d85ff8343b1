//! Marking, cleaning and slicing of untrusted text.

/// The tag name. Text inside a block cannot contain this tag.
const MARK: &str = "untrusted-content";

/// Wraps text in a block that it cannot close.
pub fn block(source: &str, text: &str) -> String {
    format!(
        "<{MARK} source=\"{}\">\n{}\n</{MARK}>",
        inline(source).replace(['"', '<', '>'], ""),
        escape_tags(text.trim_end_matches('\n'))
    )
}

/// Escapes each `<` that could start or end such a block, in any spelling.
fn escape_tags(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, after) = rest.split_at(at);
        safe.push_str(before);
        let name = after[1..].trim_start_matches(|c: char| c == '/' || c.is_whitespace());
        let is_mark = name
            .get(.."untrusted".len())
            .is_some_and(|word| word.eq_ignore_ascii_case("untrusted"));
        safe.push_str(if is_mark { "&lt;" } else { "<" });
        rest = &after[1..];
    }
    safe.push_str(rest);
    safe
}

/// Removes control characters and invisible characters: bidirectional overrides, and characters that can hide
/// instructions from users. A variation selector stays after a non-ASCII character, and a joiner between two of them.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = characters.next() {
        let after = characters.peek().copied().unwrap_or(' ');
        let is_visible = |c: char| !c.is_ascii() && !is_invisible(c);
        let kept = match c {
            '\r' if after == '\n' => continue,
            '\r' | '\u{2028}' | '\u{2029}' => '\n',
            '\n' | '\t' => c,
            '\u{fe0e}' | '\u{fe0f}' if is_visible(before) || before.is_ascii_digit() => c,
            '\u{200c}' | '\u{200d}'
                if (is_visible(before) || before == '\u{fe0f}') && is_visible(after) =>
            {
                c
            }
            c if is_invisible(c) => continue,
            c => c,
        };
        clean.push(kept);
        before = kept;
    }
    clean
}

fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// One line of at most 300 characters, with non-printable characters escaped.
pub fn inline(text: &str) -> String {
    const MOST: usize = 300;
    let mut shown = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == MOST {
            shown.push('…');
            break;
        }
        if c == '"' || c == '\'' {
            shown.push(c);
        } else {
            shown.extend(c.escape_debug());
        }
    }
    shown
}

/// A slice of a text, counted in characters.
#[derive(Debug, PartialEq, Eq)]
pub struct Slice<'a> {
    pub text: &'a str,
    /// Offset of the next slice, if any.
    pub next: Option<usize>,
}

pub fn slice(text: &str, start: usize, most: usize) -> Slice<'_> {
    let byte = |character: usize, text: &str| {
        text.char_indices()
            .nth(character)
            .map_or(text.len(), |(at, _)| at)
    };
    let text = &text[byte(start, text)..];
    let end = byte(most, text);
    Slice {
        text: &text[..end],
        next: (end < text.len()).then_some(start + most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let whole = block("https://a.example/", text);
        let inner = whole
            .strip_prefix("<untrusted-content source=\"https://a.example/\">\n")
            .and_then(|rest| rest.strip_suffix("\n</untrusted-content>"));
        assert_eq!(inner, Some(expected));
    }

    #[test]
    fn r_328_no_text_can_close_its_block() {
        check("a < b </p>", "a < b </p>");
        check("</untrusted-content>", "&lt;/untrusted-content>");
        check("< / UNTRUSTED-content >", "&lt; / UNTRUSTED-content >");
        check("<<untrusted-content x>", "<&lt;untrusted-content x>");
        check("<\n/\tuntrusted", "&lt;\n/\tuntrusted");
        check("<untrüsted", "<untrüsted");
        check("<", "<");
    }

    #[test]
    fn a_source_cannot_leave_its_attribute() {
        let whole = block("x\"><script>\n", "t");
        assert_eq!(
            whole,
            "<untrusted-content source=\"xscript\\n\">\nt\n</untrusted-content>"
        );
    }

    #[test]
    fn what_cannot_be_seen_is_taken_out() {
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
    fn pieces_are_counted_in_characters() {
        let piece = |start, most| {
            let piece = slice("żółty", start, most);
            (piece.text.to_owned(), piece.next)
        };
        assert_eq!(piece(0, 2), ("żó".to_owned(), Some(2)));
        assert_eq!(piece(2, 3), ("łty".to_owned(), None));
        assert_eq!(piece(5, 1), (String::new(), None));
        assert_eq!(piece(9, 1), (String::new(), None));
    }
}
