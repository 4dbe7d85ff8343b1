//! File names in patches as written by git and `diff -u`.

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::unquoted_file_name;

use crate::edit::errors;

/// Prefixes of the old and new name: git's default and those of `diff.mnemonicPrefix`.
const PREFIXES: [(&str, &str); 7] = [
    ("a/", "b/"),
    ("i/", "w/"),
    ("c/", "i/"),
    ("c/", "w/"),
    ("o/", "w/"),
    ("w/", "i/"),
    ("b/", "a/"),
];

/// The name after `--- ` or `+++ `, without timestamp and quotes; `None` for `/dev/null`.
pub fn of_file(text: &str) -> Result<Option<String>> {
    // A tab ends a name that contains spaces.
    let name = match text.split_once('\t') {
        Some((name, _)) => name,
        None => text.trim_end(),
    };
    if name == "/dev/null" {
        return Ok(None);
    }
    unquoted(name).map(Some)
}

/// The common name after `diff --git`, without prefixes; `None` if old and new names differ.
pub fn git_names(text: &str) -> Result<Option<String>> {
    let text = text.trim_end_matches('\r');
    let (old, new) = if let Some(rest) = text.strip_prefix('"') {
        let Some(end) = closing(rest) else {
            return Ok(None);
        };
        (
            unquoted(&text[..end + 2])?,
            unquoted(rest[end + 1..].trim_start())?,
        )
    } else {
        // Both names have the same length and may contain spaces.
        let middle = text.len() / 2;
        if text.as_bytes().get(middle) != Some(&b' ') {
            return Ok(None);
        }
        (text[..middle].to_owned(), text[middle + 1..].to_owned())
    };
    let (Some(old), Some(new)) = without_prefixes(Some(old), Some(new)) else {
        return Ok(None);
    };
    Ok((old == new).then_some(new))
}

/// Decodes a C-quoted name, which git uses for unusual bytes.
pub fn unquoted(text: &str) -> Result<String> {
    let text = text.trim_end_matches('\r');
    let Some(bytes) = unquoted_file_name(text) else {
        return Ok(text.to_owned());
    };
    String::from_utf8(bytes).map_err(|_| {
        errors::invalid_edit(format!(
            "the name {text} in the patch is not UTF-8; rename the file first"
        ))
    })
}

/// Position of the closing quote.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// Removes git's `a/` and `b/` or equivalent prefixes if both sides have them.
pub fn without_prefixes(
    old: Option<String>,
    new: Option<String>,
) -> (Option<String>, Option<String>) {
    let has = |name: &Option<String>, prefix: &str| {
        name.as_ref().is_none_or(|name| name.starts_with(prefix))
    };
    // With only one name, a prefix other than git's default cannot be distinguished from a directory.
    let known = if old.is_some() && new.is_some() {
        &PREFIXES[..]
    } else {
        &PREFIXES[..1]
    };
    if known.iter().any(|(a, b)| has(&old, a) && has(&new, b)) {
        let strip = |name: String| name[2..].to_owned();
        return (old.map(strip), new.map(strip));
    }
    (old, new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_git_writes_them() {
        for (text, expected) in [
            ("a/src/a.rs b/src/a.rs", Some("src/a.rs")),
            ("a/a b c b/a b c", Some("a b c")),
            ("i/x w/x", Some("x")),
            ("x x", Some("x")),
            (
                r#""a/\303\244 \"q\".txt" "b/\303\244 \"q\".txt""#,
                Some("ä \"q\".txt"),
            ),
            ("a/x b/y", None),
            ("a/x b/xy", None),
            ("\"a/x", None),
        ] {
            assert_eq!(git_names(text).unwrap().as_deref(), expected, "{text}");
        }
        for (text, expected) in [
            ("a/x\t2026-01-01", Some("a/x")),
            ("a/x y \t", Some("a/x y ")),
            ("a/x\r", Some("a/x")),
            (r#""a/\ttab""#, Some("a/\ttab")),
            ("/dev/null", None),
        ] {
            assert_eq!(of_file(text).unwrap().as_deref(), expected, "{text}");
        }
        assert!(unquoted(r#""\377""#).is_err());
    }
}
