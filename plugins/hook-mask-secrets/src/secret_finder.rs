//! Detection of secrets in text by preceding name, position and shape.
//!
//! Written by hand for speed, because the hook runs with every call: a single pass without compiled patterns. All
//! patterns are ASCII, so it works on bytes.

use std::ops::Range;

use crate::token_patterns::{self, is_token};

/// Suffixes of secret names, without `_` and `-`.
const NAMES: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "accesskeyid",
    "secretkey",
    "secretkeybase",
    "privatekey",
    "credential",
    "credentials",
];
const LONGEST_NAME: usize = 100;
const SCHEMES: [&[u8]; 5] = [b"bearer", b"basic", b"token", b"digest", b"apikey"];

/// The ranges of all secrets, ascending and disjoint.
pub fn secrets(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut run = 0..0;
    for (at, byte) in bytes.iter().enumerate() {
        let inside = found.last().is_some_and(|last| at < last.end);
        if matches!(byte, b':' | b'=') && !inside {
            found.extend(named(text, at, &mut run));
        }
    }
    found.extend(
        text.match_indices("://")
            .filter_map(|(at, _)| in_address(bytes, at + 3)),
    );
    found.extend(token_patterns::tokens(text));
    found.sort_by_key(|range| (range.start, range.end));
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for range in found {
        match apart.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// Whether the name denotes a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let name: String = name
        .chars()
        .filter(|letter| !matches!(letter, '_' | '-'))
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    NAMES.iter().any(|end| name.ends_with(end))
}

/// The secret after the `=` or `:` at `at`, if the preceding name denotes one. `run` caches the last value, so that a
/// long `pwd:pwd:pwd:…` is scanned once.
fn named(text: &str, at: usize, run: &mut Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let name = name_before(text, at);
    let is_header = name.to_ascii_lowercase().ends_with("authorization");
    if !is_header && !is_secret_name(name) {
        return None;
    }
    // `:=` and `=>` assign values as well; `==` and `::` do not.
    let (mut from, needs_quotes) = match (bytes[at], bytes.get(at + 1)) {
        (b':', Some(b'=')) | (b'=', Some(b'>')) => (at + 2, true),
        (b'=', Some(b'=')) | (b':', Some(b':')) => return None,
        _ => (at + 1, false),
    };
    from += count(&bytes[from..], is_blank);
    // Quotes inside JSON text are escaped.
    let escaped = bytes.get(from) == Some(&b'\\');
    from += usize::from(escaped);
    let quote = bytes
        .get(from)
        .copied()
        .filter(|byte| matches!(byte, b'"' | b'\''));
    from += usize::from(quote.is_some());
    if is_header {
        return after_scheme(bytes, from);
    }
    if let Some(quote) = quote {
        let length = quoted(&bytes[from..], quote, escaped);
        return (length > 0).then(|| from..from + length);
    }
    if !run.contains(&from) {
        let length = count(&bytes[from..], |byte| {
            !(byte.is_ascii_whitespace() || b"\"',;&<>(){}[]\\".contains(&byte))
        });
        *run = from..from + length;
    }
    let secret = from..run.end;
    let close = bytes[at] == b'=' && from == at + 1 && text[..at].ends_with(name);
    let is_value =
        !secret.is_empty() && !needs_quotes && is_plain(text, name, secret.clone(), close);
    is_value.then_some(secret)
}

fn name_before(text: &str, at: usize) -> &str {
    let bytes = text.as_bytes();
    let before = |end: usize| end.checked_sub(1).map(|last| bytes[last]);
    let mut end = at;
    while at - end < LONGEST_NAME && before(end).is_some_and(is_blank) {
        end -= 1;
    }
    if before(end).is_some_and(|byte| matches!(byte, b'"' | b'\'')) {
        end -= 1;
        end -= usize::from(before(end) == Some(b'\\'));
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let mut start = end;
    while end - start < LONGEST_NAME && before(start).is_some_and(is_name) {
        start -= 1;
    }
    &text[start..end]
}

/// Without quotes, code resembles secrets: a type after a colon, a call after an equals sign. A value directly after
/// its equals sign is accepted, and so is a word that is unlikely to be an identifier.
fn is_plain(text: &str, name: &str, secret: Range<usize>, close: bool) -> bool {
    let after = text.as_bytes().get(secret.end);
    let secret = &text[secret];
    // `PWD=/home/ann` is not a password, and `$TOKEN` is only a reference.
    let is_folder = name.to_ascii_lowercase().ends_with("pwd") && secret.starts_with('/');
    let is_variable = secret.strip_prefix('$').is_some_and(|variable| {
        variable.starts_with(|letter: char| letter.is_ascii_uppercase() || letter == '_')
            || variable.is_empty() && matches!(after, Some(b'{' | b'('))
    });
    let is_code = matches!(after, Some(b'(' | b'<' | b'>'));
    let unlike_a_name = || {
        let head = secret.bytes().take(LONGEST_NAME);
        secret.len() >= 6 && head.into_iter().any(|byte| byte.is_ascii_digit())
    };
    !(is_folder || is_variable || is_code) && (close || unlike_a_name())
}

/// The length of a quoted text, up to its end, the end of the line or of the text.
fn quoted(bytes: &[u8], quote: u8, escaped: bool) -> usize {
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\n' => return at,
            b'\\' if escaped => return at,
            b'\\' => at += 1,
            _ if byte == quote => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The credentials of an `Authorization` header after a scheme name.
fn after_scheme(bytes: &[u8], from: usize) -> Option<Range<usize>> {
    let length = count(&bytes[from..], |byte| byte.is_ascii_alphabetic());
    let scheme = bytes[from..from + length].to_ascii_lowercase();
    let blanks = count(&bytes[from + length..], is_blank);
    let start = from + length + blanks;
    let length = count(&bytes[start..], |byte| {
        !(byte.is_ascii_whitespace() || b"\"',\\".contains(&byte))
    });
    let is_secret = blanks > 0 && length > 0 && SCHEMES.contains(&scheme.as_slice());
    is_secret.then(|| start..start + length)
}

/// The password in `//user:password@host`.
fn in_address(bytes: &[u8], from: usize) -> Option<Range<usize>> {
    let rest = &bytes[from..];
    let length = count(rest, |byte| {
        !(byte.is_ascii_whitespace() || b"/\"'<>\\?#".contains(&byte))
    });
    let authority = &rest[..length];
    let end = authority.iter().rposition(|byte| *byte == b'@')?;
    let start = authority[..end].iter().position(|byte| *byte == b':')? + 1;
    (start < end).then(|| from + start..from + end)
}

/// The number of leading bytes that satisfy `is`.
pub fn count(bytes: &[u8], is: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is(**byte)).count()
}

pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Characters of credentials in a header.
pub fn is_credential(byte: u8) -> bool {
    is_token(byte) || b"~+/=".contains(&byte)
}
