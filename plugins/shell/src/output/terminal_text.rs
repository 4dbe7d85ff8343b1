//! Terminal emulation: removes escape sequences and keeps the final state of each line.

use vte::{Params, Parser, Perform};

/// The text of each line, without line ends.
///
/// Each line has its own parser, so that an unterminated sequence affects only the rest of its line.
pub fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = bytes.split(|byte| *byte == b'\n').map(line).collect();
    // Output that ends in a line break has no further line.
    if bytes.is_empty() || bytes.ends_with(b"\n") {
        lines.pop();
    }
    lines
}

fn line(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
        return bytes.iter().copied().map(char::from).collect();
    }
    // The parser would drop an incomplete character; the replacement character shows it.
    let text = String::from_utf8_lossy(bytes);
    let mut row = TerminalLine::default();
    Parser::new().advance(&mut row, text.as_bytes());
    row.text
}

#[derive(Default)]
struct TerminalLine {
    text: String,
    /// The last byte was a carriage return: further output replaces the line.
    returned: bool,
}

impl TerminalLine {
    fn begin(&mut self) {
        if self.returned {
            self.returned = false;
            self.text.clear();
        }
    }
}

impl Perform for TerminalLine {
    fn print(&mut self, c: char) {
        if c != '\u{7f}' {
            self.begin();
            self.text.push(c);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' => self.returned = true,
            b'\t' => {
                self.begin();
                self.text.push('\t');
            }
            // Backspace, which manual pages use for bold.
            0x08 if !self.returned => {
                self.text.pop();
            }
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, _: &[u8], _: bool, action: char) {
        // "Erase line", which spinners send last. Without a parameter it erases from the cursor, which is the whole
        // line only at the start.
        let first = params.iter().next().and_then(|values| values.first());
        if action == 'K' && (self.returned || first.is_some_and(|mode| *mode != 0)) {
            self.text.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: &[&str]) {
        assert_eq!(lines(bytes), expected, "{}", bytes.escape_ascii());
    }

    #[test]
    fn a_line_break_ends_a_line() {
        check(b"", &[]);
        check(b"\n", &[""]);
        check(b"a", &["a"]);
        check(b"a\n", &["a"]);
        check(b"a\r\nb\r\n", &["a", "b"]);
        check(b"\n\na\tb", &["", "", "a\tb"]);
    }

    #[test]
    fn colours_titles_and_links_are_gone() {
        check(b"\x1b[1;31merror\x1b[0m: no", &["error: no"]);
        check(b"\x1b]0;title\x07text", &["text"]);
        check(
            b"\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\",
            &["link"],
        );
        check(b"a\0b\x07c\x7f", &["abc"]);
        check("a\u{9b}31mb".as_bytes(), &["a31mb"]);
    }

    #[test]
    fn a_sequence_without_an_end_swallows_one_line() {
        check(b"a\x1b]0;never closed\nb\x1b[3", &["a", "b"]);
        check(b"\x1bPnever closed\nb", &["", "b"]);
    }

    #[test]
    fn of_progress_the_last_state_is_left() {
        check(b"10%\r50%\r100%\ndone\n", &["100%", "done"]);
        check(b"working...\r", &["working..."]);
        check(b"working...\r\x1b[K", &[""]);
        check(b"working...\x1b[2K", &[""]);
        check(b"kept\x1b[K", &["kept"]);
        check(b"b\x08bo\x08ol\x08ld\x08d", &["bold"]);
    }

    #[test]
    fn what_is_not_utf_8_is_replaced() {
        check(
            b"\xff\xfeA\xc3\nb\xe2\x82",
            &["\u{fffd}\u{fffd}A\u{fffd}", "b\u{fffd}"],
        );
        check("é€\u{1f600}".as_bytes(), &["é€\u{1f600}"]);
    }
}
