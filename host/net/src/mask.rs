//! Masks secrets in responses: a server that echoes a request, or redirects to a URL that contains the key, would
//! reveal the value to the guest. Values are overwritten with `*`, which preserves lengths.
//!
//! A server can still hide a value (by compressing or encoding it). A secret's hosts are trusted with it in any case.

use std::fmt;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use memchr::memmem;

/// Shorter values would mask unrelated text.
const MIN_MASKED_LEN: usize = 6;

/// Overwrites values in a stream, including those that span two chunks.
#[derive(Default)]
pub(crate) struct SecretMask {
    values: Vec<Vec<u8>>,
    /// The end of the last chunk, if it can be the beginning of a value.
    held: BytesMut,
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
            held: BytesMut::new(),
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
        self.overwrite();
        let open = self
            .values
            .iter()
            .map(|value| partial_match_len(&self.held, value))
            .max()
            .unwrap_or(0);
        let shown = self.held.len() - open;
        self.held.split_to(shown).freeze()
    }

    /// Returns the remaining bytes at the end of the stream.
    pub(crate) fn finish(&mut self) -> Bytes {
        self.held.split().freeze()
    }

    pub(crate) fn mask_headers(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            let mut whole = Self {
                values: self.values.clone(),
                held: BytesMut::from(value.as_bytes()),
            };
            whole.overwrite();
            if whole.held != value.as_bytes() {
                *value = HeaderValue::from_bytes(&whole.held).expect("`*` is allowed in a header");
            }
        }
    }

    fn overwrite(&mut self) {
        for value in &self.values {
            let found: Vec<usize> = memmem::find_iter(&self.held, value).collect();
            for start in found {
                self.held[start..start + value.len()].fill(b'*');
            }
        }
    }
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
    fn a_long_stream_is_not_held_back() {
        let mut mask = SecretMask::new(vec!["hunter22".to_owned()]);
        assert_eq!(
            mask.push(Bytes::from_static(b"plain text h")),
            "plain text "
        );
    }
}
