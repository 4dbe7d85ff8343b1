//! The head and the tail of a stream of any length, in bounded memory.

use std::collections::VecDeque;

/// The kept parts of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    pub head: Vec<u8>,
    /// Directly follows the head if nothing was omitted.
    pub tail: Vec<u8>,
    /// Bytes written in total.
    pub total: u64,
}

impl CapturedOutput {
    /// Bytes omitted between head and tail.
    pub fn omitted(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// The whole stream, or `None` if a part was omitted.
    pub fn whole(&self) -> Option<Vec<u8>> {
        (self.omitted() == 0).then(|| [&self.head[..], &self.tail].concat())
    }

    /// Head and tail as text, with a marker where bytes were omitted.
    pub fn lossy(&self) -> String {
        match self.omitted() {
            0 => String::from_utf8_lossy(&[&self.head[..], &self.tail].concat()).into_owned(),
            omitted => format!(
                "{}\n[… {omitted} bytes …]\n{}",
                String::from_utf8_lossy(&self.head),
                String::from_utf8_lossy(&self.tail)
            ),
        }
    }
}

#[derive(Debug)]
pub struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Maximum size of the head, and of the tail, in bytes.
    most: usize,
    total: u64,
}

impl HeadTail {
    pub fn new(most: usize) -> HeadTail {
        HeadTail {
            head: Vec::new(),
            tail: VecDeque::new(),
            most,
            total: 0,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.most - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.most)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.most);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// Position of the first byte of the tail.
    pub fn tail_start(&self) -> u64 {
        self.total - self.tail.len() as u64
    }

    /// Up to `max` bytes from `after` on, as far as they are available without a gap.
    pub fn slice(&self, after: u64, max: usize) -> Vec<u8> {
        let at = |start: u64| usize::try_from(after - start).unwrap_or(usize::MAX);
        if after < self.head.len() as u64 {
            self.head.iter().skip(at(0)).take(max).copied().collect()
        } else if after >= self.tail_start() && after < self.total {
            self.tail
                .iter()
                .skip(at(self.tail_start()))
                .take(max)
                .copied()
                .collect()
        } else {
            Vec::new()
        }
    }

    pub fn captured(&self) -> CapturedOutput {
        CapturedOutput {
            head: self.head.clone(),
            tail: self.tail.iter().copied().collect(),
            total: self.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parts: &[&str], head: &str, tail: &str, omitted: u64) {
        let mut both = HeadTail::new(4);
        for part in parts {
            both.push(part.as_bytes());
        }
        let captured = both.captured();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(
            (text(&captured.head).as_str(), text(&captured.tail).as_str()),
            (head, tail),
            "{parts:?}"
        );
        assert_eq!(captured.omitted(), omitted, "{parts:?}");
        assert_eq!(captured.whole().is_some(), omitted == 0);
    }

    #[test]
    fn head_and_tail_do_not_depend_on_chunks() {
        check(&[], "", "", 0);
        check(&["ab", "cd"], "abcd", "", 0);
        check(&["abcdefgh"], "abcd", "efgh", 0);
        check(&["abc", "defg", "h"], "abcd", "efgh", 0);
        check(&["abcdefghi"], "abcd", "fghi", 1);
        check(&["abcd", "efgh", "ijklmnop", "q"], "abcd", "nopq", 9);
    }

    #[test]
    fn a_slice_never_crosses_the_gap() {
        let mut both = HeadTail::new(4);
        both.push(b"abcdefghijkl");
        for (after, max, expected) in [
            (0, 10, "abcd"),
            (2, 1, "c"),
            (4, 10, ""),
            (7, 10, ""),
            (8, 10, "ijkl"),
            (11, 10, "l"),
            (12, 10, ""),
            (99, 10, ""),
        ] {
            assert_eq!(both.slice(after, max), expected.as_bytes(), "{after}+{max}");
        }
    }
}
