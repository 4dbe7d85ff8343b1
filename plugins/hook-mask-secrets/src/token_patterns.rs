//! Secrets that are recognized by shape, at any position.

use std::ops::Range;

use crate::secret_finder::{count, is_blank, is_credential};

/// Token prefixes of known issuers, with the minimum number of characters that follow.
const TOKEN_PREFIXES: [(&str, usize); 17] = [
    ("sk-", 16),
    ("sk_", 16),
    ("pk_live_", 16),
    ("rk_live_", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghs_", 20),
    ("ghu_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxs-", 10),
    ("AIza", 30),
    ("npm_", 30),
];
/// Prefixes of access key ids, which are followed by 16 capital letters and digits.
const KEY_IDS: [&str; 2] = ["AKIA", "ASIA"];
/// Shorter words after `bearer` are prose.
const SHORTEST_BEARER: usize = 16;

/// Characters of a token.
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

/// The secrets among the words of a text, ascending.
pub fn tokens(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut last = 0..0;
    let mut at = 0;
    while at < bytes.len() {
        let length = count(&bytes[at..], is_token);
        if length == 0 {
            at += 1;
            continue;
        }
        let word = at..at + length;
        if is_scheme(&text[last.clone()]) && bytes[last.end..at].iter().all(|byte| is_blank(*byte))
        {
            let length = count(&bytes[at..], is_credential);
            let long = length >= SHORTEST_BEARER && has_digit(&text[at..at + length]);
            found.extend(long.then(|| at..at + length));
        }
        found.extend(in_word(&text[word.clone()]).map(|secret| at + secret.start..at + secret.end));
        at = word.end;
        last = word;
    }
    found
}

fn is_scheme(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic")
}

/// A token starts at the start of a word or after a dot.
fn in_word(word: &str) -> Option<Range<usize>> {
    if let Some(length) = signed(word) {
        return Some(0..length);
    }
    let mut start = 0;
    for piece in word.split('.') {
        let known = TOKEN_PREFIXES.iter().any(|(prefix, least)| {
            let rest = piece.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.len() >= *least && has_digit(rest))
        });
        let key_id = KEY_IDS.iter().any(|prefix| {
            let rest = piece.strip_prefix(prefix);
            rest.is_some_and(|rest| {
                rest.len() == 16 && !rest.contains(|letter: char| letter.is_ascii_lowercase())
            })
        });
        if known || key_id {
            return Some(start..start + piece.len());
        }
        start += piece.len() + 1;
    }
    None
}

/// A signed web token (JWT): three parts, the first of which is the start of a JSON object.
fn signed(word: &str) -> Option<usize> {
    let mut pieces = word.split('.');
    let (head, body, signature) = (pieces.next()?, pieces.next()?, pieces.next()?);
    let is_one = head.starts_with("eyJ") && head.len() > 10 && body.len() >= 8;
    is_one.then(|| head.len() + body.len() + signature.len() + 2)
}

fn has_digit(text: &str) -> bool {
    text.contains(|letter: char| letter.is_ascii_digit())
}
