//! Masks secrets in responses: a server that echoes a request, or redirects to a URL that contains the key, would
//! reveal the value to the guest. Values are overwritten with `*`, which preserves lengths.
//!
//! A server can still hide a value (by compressing or encoding it). A secret's hosts are trusted with it in any case.

use std::fmt;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use memchr::memmem;

/// Shorter values would mask unrelated text.
const MIN_MASKED_LEN: usize = 6;

/// Overwrites values in a stream, including those that span two chunks.
#[derive(Default)]
pub(crate) struct SecretMask {
    values: Vec<Vec<u8>>,
    /// The end of the last chunk as it was received, if it can be the beginning of a value.
    held: BytesMut,
    /// How many of these bytes belong to a value that began before them.
    carried: usize,
}

impl fmt::Debug for SecretMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({} values)", self.values.len())
    }
}

impl SecretMask {
    pub(crate) fn new(values: Vec<String>) -> Self {
        let mut values: Vec<Vec<u8>> = values
            .into_iter()
            .map(String::into_bytes)
            .filter(|value| value.len() >= MIN_MASKED_LEN)
            .collect();
        values.sort();
        values.dedup();
        Self {
            values,
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Takes a chunk and returns the bytes that can be released.
    pub(crate) fn push(&mut self, piece: Bytes) -> Bytes {
        if self.values.is_empty() {
            return piece;
        }
        self.held.extend_from_slice(&piece);
        let open = self
            .values
            .iter()
            .map(|value| partial_match_len(&self.held, value))
            .max()
            .unwrap_or(0);
        self.release(self.held.len() - open)
    }

    /// Returns the remaining bytes at the end of the stream.
    pub(crate) fn finish(&mut self) -> Bytes {
        self.release(self.held.len())
    }

    pub(crate) fn mask_headers(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            let mut whole = Self {
                values: self.values.clone(),
                held: BytesMut::from(value.as_bytes()),
                carried: 0,
            };
            let masked = whole.finish();
            if masked != value.as_bytes() {
                *value = HeaderValue::from_bytes(&masked).expect("`*` is allowed in a header");
            }
        }
    }

    /// Takes bytes from the front. Values are found before anything is overwritten, because they can overlap.
    fn release(&mut self, length: usize) -> Bytes {
        let found: Vec<Range<usize>> = self
            .values
            .iter()
            .flat_map(|value| occurrences(&self.held, value))
            .chain(std::iter::once(0..self.carried))
            .collect();
        let mut released = self.held.split_to(length);
        self.carried = 0;
        for Range { start, end } in found.into_iter().filter(|range| range.start < length) {
            released[start..end.min(length)].fill(b'*');
            self.carried = self.carried.max(end.saturating_sub(length));
        }
        released.freeze()
    }
}

/// All occurrences, including those that overlap.
fn occurrences(text: &[u8], value: &[u8]) -> Vec<Range<usize>> {
    let finder = memmem::Finder::new(value);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = finder.find(&text[from..]) {
        found.push(from + at..from + at + value.len());
        from += at + 1;
    }
    found
}

/// The number of bytes at the end of `text` that are a beginning of `value`.
fn partial_match_len(text: &[u8], value: &[u8]) -> usize {
    (1..value.len().min(text.len() + 1))
        .rev()
        .find(|length| text.ends_with(&value[..*length]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], expected: &str) {
        let mut mask = SecretMask::new(vec![
            "hunter22".to_owned(),
            "abcabcabd".to_owned(),
            "no".to_owned(),
        ]);
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(&mask.push(Bytes::copy_from_slice(piece.as_bytes())));
        }
        out.extend_from_slice(&mask.finish());
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{pieces:?}");
    }

    #[test]
    fn values_are_masked_across_chunks() {
        check(&["no hunter22!"], "no ********!");
        check(&["hun", "ter", "22"], "********");
        check(&["hunter2", "3 hunter", "22"], "hunter23 ********");
        check(&["abcabcabcab", "d"], "abc*********");
        check(&["hunter"], "hunter");
        check(&[], "");
    }

    #[test]
    fn values_that_overlap_are_masked_as_a_whole() {
        let values = ["hunter22", "hunter22xyz", "z-token", "aaaaaa"];
        let text = "a hunter22xyz-token hunter22xy aaaaaaaa hunter22-";
        let expected = "a ***************** ********xy ******** ********-";
        for size in 1..=text.len() {
            let mut mask = SecretMask::new(values.map(str::to_owned).to_vec());
            let mut out = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                out.extend_from_slice(&mask.push(Bytes::copy_from_slice(piece)));
            }
            out.extend_from_slice(&mask.finish());
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn a_long_stream_is_not_held_back() {
        let mut mask = SecretMask::new(vec!["hunter22".to_owned()]);
        assert_eq!(
            mask.push(Bytes::from_static(b"plain text h")),
            "plain text "
        );
    }
}
