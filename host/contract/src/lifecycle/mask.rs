//! Masking of secrets, and truncation, in values that are logged, shown or saved.
//!
//! Secrets are recognized by member names and by patterns in texts. Masking protects logs; it does not replace keeping
//! secrets away from tools.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use crate::text;

const MASK: &str = "***";
/// Limits of a preview: characters per text, members per list or object, and nesting depth.
const MAX_TEXT_CHARS: usize = 200;
const MAX_MEMBERS: usize = 50;
const MAX_DEPTH: usize = 8;

static SECRET_NAMES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?ix) pass(word|wd|phrase|code)? $ | secret | token $ | api[_-]?key | private[_-]?key | access[_-]?key
            | credential | authorization | ^cookie | ^bearer | client[_-]?secret | connection[_-]?string",
    )
    .expect("a fixed pattern")
});

/// Patterns: `name=value`, `Bearer …`, well-known token prefixes, passwords in URLs, private keys.
static SECRET_TEXTS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?xi)
        (?P<keep>
            \b (?: [a-z0-9_-]* (?: password | passwd | passphrase | secret | api[_-]?key | access[_-]?key | token ) )
            ["']? \s* [=:] \s* ["']?
          | \b (?: bearer | basic ) \s+
        )
        (?P<value> [^\s"',;&@]{3,} )
        | (?P<login> :// [^\s/:@]* : ) [^\s"'@]+ @
        | (?P<whole>
            \b gh[pousr]_[a-z0-9]{20,} | \b github_pat_[a-z0-9_]{20,} | \b glpat-[a-z0-9_-]{16,}
          | \b sk-[a-z0-9_-]{16,} | \b [rs]k_(?: live | test )_[a-z0-9]{10,} | \b npm_[a-z0-9]{30,}
          | \b (?: AKIA | ASIA )[0-9A-Z]{16} \b | \b AIza[0-9a-z_-]{30,} | \b ya29\.[a-z0-9_-]{16,}
          | \b xox[abeoprs]-[a-z0-9-]{10,} | \b eyJ[a-z0-9_-]{8,}\.[a-z0-9_-]{8,}\.[a-z0-9_-]*
          | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY----- (?s: .*? ) (?: -----END\ [A-Z\ ]*PRIVATE\ KEY----- | $ )
        )"#,
    )
    .expect("a fixed pattern")
});

/// Returns the value with secrets masked and long parts truncated.
pub fn mask_value(value: &Value) -> Value {
    preview(value, MAX_DEPTH)
}

/// Returns the text with likely secrets masked.
pub fn mask_text(text: &str) -> String {
    // Computing captures is much slower than testing for a match.
    if !SECRET_TEXTS.is_match(text) {
        return text.to_owned();
    }
    SECRET_TEXTS
        .replace_all(text, |found: &Captures<'_>| {
            match (found.name("keep"), found.name("login")) {
                (Some(keep), _) => format!("{}{MASK}", keep.as_str()),
                // Without the `@`, the match would be a host with its port.
                (None, Some(login)) => format!("{}{MASK}@", login.as_str()),
                (None, None) => MASK.to_owned(),
            }
        })
        .into_owned()
}

/// Returns the body of a diff with likely secrets masked. A private key is masked up to its last line, or to the end of
/// its hunk if the hunk has only a part of it.
pub fn mask_diff(diff: &str) -> String {
    let lines: Vec<&str> = text::diff_lines(diff).collect();
    let mut is_key = mark_key_lines(lines.iter().copied(), "BEGIN ");
    // The first lines of a hunk can be the end of a key.
    let ends = mark_key_lines(lines.iter().rev().copied(), "END ");
    for (is_key, is_end) in is_key.iter_mut().zip(ends.iter().rev()) {
        *is_key |= is_end;
    }
    let mut shown = String::with_capacity(diff.len());
    for (line, is_key) in lines.iter().zip(is_key) {
        if is_key {
            shown.push_str(text::head(line, 1));
            shown.push_str(MASK);
        } else {
            shown.push_str(line);
        }
        shown.push('\n');
    }
    mask_text(&shown)
}

/// Marks the lines of private keys. `first` is the word of the first line of a key in this order.
fn mark_key_lines<'a>(lines: impl Iterator<Item = &'a str>, first: &str) -> Vec<bool> {
    let is_edge = |line: &str| line.contains("PRIVATE KEY-----");
    // Base64, and the headers of an encrypted key. The sign of the line comes first.
    let is_content = |line: &str| {
        let text = line.get(1..).unwrap_or_default().trim();
        let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
        text.chars().all(is_base64)
            || text.starts_with("Proc-Type:")
            || text.starts_with("DEK-Info:")
    };
    let mut within = false;
    let mark = |line: &str| {
        if is_edge(line) {
            within = line.contains(&format!("-----{first}"));
            return true;
        }
        within &= !line.starts_with('@') && is_content(line);
        within
    };
    lines.map(mark).collect()
}

fn preview(value: &Value, depth: usize) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(truncate(text)),
        Value::Array(_) | Value::Object(_) if depth == 0 => Value::String("…".to_owned()),
        Value::Array(items) => {
            let mut shown: Vec<Value> = items
                .iter()
                .take(MAX_MEMBERS)
                .map(|item| preview(item, depth - 1))
                .collect();
            if items.len() > MAX_MEMBERS {
                shown.push(Value::String(format!("… (+{})", items.len() - MAX_MEMBERS)));
            }
            Value::Array(shown)
        }
        Value::Object(members) => {
            let mut shown: Map<String, Value> = members
                .iter()
                .take(MAX_MEMBERS)
                .map(|(name, member)| {
                    let is_secret = SECRET_NAMES.is_match(text::head(name, MAX_TEXT_CHARS));
                    let member = if is_secret && !member.is_null() {
                        Value::String(MASK.to_owned())
                    } else {
                        preview(member, depth - 1)
                    };
                    // An object can have secrets as names.
                    (truncate(name), member)
                })
                .collect();
            if members.len() > MAX_MEMBERS {
                shown.insert("…".to_owned(), Value::from(members.len() - MAX_MEMBERS));
            }
            Value::Object(shown)
        }
    }
}

fn truncate(value: &str) -> String {
    // Mask before truncating, because otherwise part of a secret could remain. Only the head is masked, to bound the
    // cost.
    let head = mask_text(text::head(value, MAX_TEXT_CHARS * 8));
    let end = head.char_indices().nth(MAX_TEXT_CHARS).map(|(end, _)| end);
    match end {
        Some(end) => format!("{}…", &head[..end]),
        None if head.len() < value.len() && value.len() > MAX_TEXT_CHARS * 8 => format!("{head}…"),
        None => head,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r_147_secrets_are_masked_by_name_and_by_pattern() {
        for (value, shown) in [
            (
                json!({"password": "x", "path": "a"}),
                json!({"password": "***", "path": "a"}),
            ),
            (
                json!({"apiKey": 7, "token": null}),
                json!({"apiKey": "***", "token": null}),
            ),
            (json!({"max_tokens": 7}), json!({"max_tokens": 7})),
            (json!("PASSWORD=hunter2 ls"), json!("PASSWORD=*** ls")),
            (json!("db_password: 'abc' x"), json!("db_password: '***' x")),
            (
                json!("Authorization: Bearer abc.def"),
                json!("Authorization: Bearer ***"),
            ),
            (
                json!("https://me:pw12@host/x"),
                json!("https://me:***@host/x"),
            ),
            (json!("key ghp_abcdefghijklmnopqrstuv!"), json!("key ***!")),
            (json!("AKIAABCDEFGHIJKLMNOP"), json!("***")),
            (json!("ASIAABCDEFGHIJKLMNOP"), json!("***")),
            (json!("glpat-abcdefghijklmnopqrst"), json!("***")),
            (json!("sk_live_abcdefghijklmnop"), json!("***")),
            (
                json!("npm_abcdefghijklmnopqrstuvwxyz0123456789"),
                json!("***"),
            ),
            (json!("ya29.abcdefghijklmnopqrst"), json!("***")),
            (json!({"ghp_abcdefghijklmnopqrstuv": 1}), json!({"***": 1})),
            (
                json!("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- rest"),
                json!("*** rest"),
            ),
            (json!("src/token.rs"), json!("src/token.rs")),
            // A host with a port.
            (
                json!("at http://127.0.0.1:3000/x: refused"),
                json!("at http://127.0.0.1:3000/x: refused"),
            ),
            (
                json!("redis://:pw12@host:6379"),
                json!("redis://:***@host:6379"),
            ),
        ] {
            assert_eq!(mask_value(&value), shown);
        }
    }

    #[test]
    fn r_147_long_inputs_are_truncated() {
        let long = "ä".repeat(300);
        assert_eq!(
            mask_value(&json!(long)),
            json!(format!("{}…", "ä".repeat(200)))
        );
        let huge = "x".repeat(1 << 20);
        assert!(mask_value(&json!(huge)).to_string().len() < 300);
        let many: Vec<u32> = (0..60).collect();
        assert_eq!(mask_value(&json!(many)).as_array().unwrap().len(), 51);
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert_eq!(mask_value(&deep), json!([[[[[[[["…"]]]]]]]]));
    }

    #[test]
    fn masking_is_idempotent() {
        for text in [
            "password=abc token: x1y2z3",
            "Bearer abcdef",
            "https://a:bcd@c/",
        ] {
            let once = mask_text(text);
            assert_eq!(mask_text(&once), once);
        }
    }

    #[test]
    fn only_the_lines_of_a_private_key_are_masked_in_a_diff() {
        let check = |diff: &str, expected: &str| assert_eq!(mask_diff(diff), expected);
        check(
            "@@ -1,6 +1,6 @@\n a\n+-----BEGIN RSA PRIVATE KEY-----\n+Proc-Type: 4,ENCRYPTED\n+\n+MIIabc+/=\n\
             +-----END RSA PRIVATE KEY-----\n b\n-password=hunter22\n",
            "@@ -1,6 +1,6 @@\n a\n+***\n+***\n+***\n+***\n+***\n b\n-password=***\n",
        );
        // The hunks have the start and the end of a key only.
        check(
            "@@ -1 +1 @@\n -----BEGIN PRIVATE KEY-----\n-MIIabc\n+MIIxyz\n@@ -9 +9 @@\n MIIdef\n -----END PRIVATE KEY-----\n let b = 1;\n",
            "@@ -1 +1 @@\n ***\n-***\n+***\n@@ -9 +9 @@\n ***\n ***\n let b = 1;\n",
        );
        // A text about keys.
        check(
            "@@ -1 +1 @@\n+if line == \"-----BEGIN PRIVATE KEY-----\" {\n+    let found = true;\n",
            "@@ -1 +1 @@\n+***\n+    let found = true;\n",
        );
    }
}
