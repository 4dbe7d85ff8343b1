//! Marking and slicing of untrusted text.

use toolhost_sdk::text::escape;

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

/// One line of at most 300 characters, with non-printable characters escaped.
pub fn inline(text: &str) -> String {
    escape(text, 300)
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
