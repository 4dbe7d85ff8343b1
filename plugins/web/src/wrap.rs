//! Shows text that strangers wrote: marked as theirs, without what cannot be seen, and cut to what was asked for.

/// The mark. Its name is reserved: no text inside can write it.
const MARK: &str = "untrusted-content";

/// The text in a block that it cannot close.
pub fn block(source: &str, text: &str) -> String {
    format!(
        "<{MARK} source=\"{}\">\n{}\n</{MARK}>",
        inline(source).replace(['"', '<', '>'], ""),
        disarm(text.trim_end_matches('\n'))
    )
}

/// Writes `&lt;` for each `<` that could begin or end such a block, however it is spelt.
fn disarm(text: &str) -> String {
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

/// Without control characters, without characters that turn the direction of writing round, and without the invisible
/// alphabet in which instructions can be hidden from people.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => clean.push('\n'),
            '\n' | '\t' => clean.push(c),
            '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{e0000}'..='\u{e007f}'
            | '\u{feff}' => {}
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    clean
}

/// One line of at most 300 characters, with what is not printable escaped.
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

/// A piece of a text, counted in characters.
#[derive(Debug, PartialEq, Eq)]
pub struct Slice<'a> {
    pub text: &'a str,
    /// Where the next piece begins, if there is one.
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
