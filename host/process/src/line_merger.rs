//! Merges two streams without splitting lines.

use crate::Stream;

/// Maximum bytes of an unfinished line, and of the bytes that wait for its end. Beyond that, bytes are passed on
/// immediately.
const MAX_LINE: usize = 64 << 10;

/// Passes the bytes of two streams on in the order of arrival, except that while a line of one stream is unfinished,
/// bytes of the other stream wait for its end. The wait is bounded by size here, and by time by the caller of
/// [`LineMerger::release`].
#[derive(Debug, Default)]
pub struct LineMerger {
    /// The stream whose unfinished line was passed on last, and the length of that line so far.
    open: Option<(Stream, usize)>,
    /// Bytes of the other stream since then.
    waiting: Vec<u8>,
}

impl LineMerger {
    /// Calls `pass` with the bytes that can be passed on now.
    pub fn push(&mut self, stream: Stream, bytes: &[u8], pass: &mut dyn FnMut(&[u8])) {
        match self.open {
            Some((open, length)) if open != stream => {
                self.waiting.extend_from_slice(bytes);
                if self.waiting.len() > MAX_LINE || length > MAX_LINE {
                    self.release(pass);
                }
            }
            Some(_) if !self.waiting.is_empty() => {
                let end = bytes.iter().position(|&byte| byte == b'\n');
                let end = end.map_or(bytes.len(), |end| end + 1);
                let (line, rest) = bytes.split_at(end);
                self.pass(stream, line, pass);
                if self.open.is_none() {
                    self.release_from(stream.other(), pass);
                }
                if !rest.is_empty() {
                    self.push(stream, rest, pass);
                }
            }
            _ => self.pass(stream, bytes, pass),
        }
    }

    /// Passes on the waiting bytes, whether or not the line before them has ended.
    pub fn release(&mut self, pass: &mut dyn FnMut(&[u8])) {
        if let Some((open, _)) = self.open {
            self.release_from(open.other(), pass);
        }
    }

    /// Marks a stream as closed.
    pub fn close(&mut self, stream: Stream, pass: &mut dyn FnMut(&[u8])) {
        if self.open.is_some_and(|(open, _)| open == stream) {
            self.release(pass);
        }
    }

    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn release_from(&mut self, stream: Stream, pass: &mut dyn FnMut(&[u8])) {
        let waiting = std::mem::take(&mut self.waiting);
        self.pass(stream, &waiting, pass);
    }

    fn pass(&mut self, stream: Stream, bytes: &[u8], pass: &mut dyn FnMut(&[u8])) {
        if bytes.is_empty() {
            return;
        }
        pass(bytes);
        let unfinished = bytes
            .iter()
            .rev()
            .take_while(|&&byte| byte != b'\n')
            .count();
        self.open = match (unfinished, self.open) {
            (0, _) => None,
            (_, Some((open, length))) if open == stream && unfinished == bytes.len() => {
                Some((stream, length.saturating_add(unfinished)))
            }
            _ => Some((stream, unfinished)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `o` and `e` before each piece select its stream; `!` releases, and `-o` closes a stream.
    fn check(pieces: &[&str], expected: &str, waits: bool) {
        let (mut lines, mut text) = (LineMerger::default(), Vec::new());
        let mut pass = |bytes: &[u8]| text.extend_from_slice(bytes);
        for piece in pieces {
            match piece.split_at(1) {
                ("!", _) => lines.release(&mut pass),
                ("-", "o") => lines.close(Stream::Stdout, &mut pass),
                ("-", _) => lines.close(Stream::Stderr, &mut pass),
                ("o", rest) => lines.push(Stream::Stdout, rest.as_bytes(), &mut pass),
                (_, rest) => lines.push(Stream::Stderr, rest.as_bytes(), &mut pass),
            }
        }
        assert_eq!(String::from_utf8(text).unwrap(), expected, "{pieces:?}");
        assert_eq!(lines.is_waiting(), waits, "{pieces:?}");
    }

    #[test]
    fn c_14_a_line_is_not_cut_by_the_other_stream() {
        check(&["oa\n", "eb\n", "oc\n"], "a\nb\nc\n", false);
        check(
            &["ecat: ", "oended\n", "ex: denied\n"],
            "cat: x: denied\nended\n",
            false,
        );
        check(&["ecat: ", "oended\n"], "cat: ", true);
        // A single stream never waits, so a prompt is shown immediately.
        check(&["oname: ", "ome\n", "e"], "name: me\n", false);
        check(
            &["ea", "o1\n2", "eb\nc", "o3\n", "ed\n"],
            "ab\n1\n23\ncd\n",
            false,
        );
        check(&["ea", "o1\n", "eb\nc\nd", "o2\n"], "ab\n1\nc\nd", true);
    }

    #[test]
    fn c_14_the_wait_for_a_line_end_is_bounded() {
        check(
            &["oname: ", "ewarning\n", "!", "ome\n"],
            "name: warning\nme\n",
            false,
        );
        check(&["oname: ", "ewarning\n", "-o"], "name: warning\n", false);
        check(&["oname: ", "ewarning\n", "-e"], "name: ", true);
        check(&["-o", "-e", "!"], "", false);
        let long = "x".repeat(MAX_LINE + 1);
        check(&[&format!("o{long}"), "ey\n"], &format!("{long}y\n"), false);
        check(&["oa", &format!("e{long}")], &format!("a{long}"), false);
        check(&["oa", "eb", "!", "oc"], "ab", true);
    }
}
