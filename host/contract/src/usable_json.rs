//! Replacement of JSON values that a call cannot have, so that a turn with such a value can be parsed and only the calls
//! that contain it fail: integers beyond 64 bits, and lists and objects that are nested too deeply.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::exact_integers::{InexactInteger, check_number, end_of_number, end_of_string};
use crate::text;

/// Maximum nesting of lists and objects. The JSON library refuses a text with more.
const MAX_DEPTH: usize = 127;

/// Texts in place of the values. No tool has a use for a text that begins with a null character, and a model that writes
/// one only prevents its own call.
const INTEGER_MARK: &str = "\0integer ";
const DEPTH_MARK: &str = "\0depth";

/// A JSON text without values that a call cannot have.
pub struct UsableJson<'a> {
    pub text: Cow<'a, [u8]>,
    /// The problem of the first value that was replaced.
    pub problem: Option<String>,
}

/// Replaces the values that a call cannot have. Invalid JSON is left to the parser.
pub fn replace_unusable(json: &[u8]) -> UsableJson<'_> {
    let (mut text, mut problem) = (Vec::new(), None);
    let (mut at, mut copied, mut depth) = (0, 0, 0_usize);
    while let Some(&byte) = json.get(at) {
        let start = at;
        let mark = match byte {
            b'"' => {
                at = end_of_string(json, at + 1);
                None
            }
            b'-' | b'0'..=b'9' => {
                at = end_of_number(json, at);
                let inexact = check_number(&json[start..at]).err();
                inexact.map(|integer| format!("{INTEGER_MARK}{}", integer.shown))
            }
            b'[' | b'{' if depth == MAX_DEPTH => {
                at = end_of_container(json, at);
                Some(DEPTH_MARK.to_owned())
            }
            _ => {
                match byte {
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                at += 1;
                None
            }
        };
        if let Some(mark) = mark {
            text.extend_from_slice(&json[copied..start]);
            let mark = json!(mark);
            text.extend_from_slice(mark.to_string().as_bytes());
            problem = problem.or_else(|| unusable_problem(&mark));
            copied = at;
        }
    }
    let text = if problem.is_some() {
        text.extend_from_slice(&json[copied..]);
        Cow::Owned(text)
    } else {
        Cow::Borrowed(json)
    };
    UsableJson { text, problem }
}

/// Returns the problem of a value that [`replace_unusable`] replaced in this value.
pub fn unusable_problem(value: &Value) -> Option<String> {
    match value {
        Value::String(mark) => problem_of_text(mark),
        Value::Array(items) => items.iter().find_map(unusable_problem),
        Value::Object(members) => members
            .iter()
            .find_map(|(name, value)| problem_of_text(name).or_else(|| unusable_problem(value))),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn problem_of_text(mark: &str) -> Option<String> {
    if let Some(shown) = mark.strip_prefix(INTEGER_MARK) {
        let shown = text::escape_line(shown, 40);
        return Some(InexactInteger { shown }.to_string());
    }
    (mark == DEPTH_MARK)
        .then(|| format!("a value is nested more than {MAX_DEPTH} levels deep; use fewer levels"))
}

/// Returns the end of the list or object that begins at this position.
fn end_of_container(json: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                at = end_of_string(json, at + 1);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "123456789012345678901234567890";

    fn check(json: &str, expected: Option<&str>) {
        let usable = replace_unusable(json.as_bytes());
        assert_eq!(usable.problem.as_deref(), expected, "{json}");
        let value = serde_json::from_slice(&usable.text).unwrap_or_else(|error| {
            panic!("{error}: {json}");
        });
        assert_eq!(unusable_problem(&value).as_deref(), expected, "{json}");
        if expected.is_none() {
            assert_eq!(usable.text, json.as_bytes());
        }
    }

    #[test]
    fn values_that_a_call_cannot_have_are_replaced() {
        let long = format!(
            "the integer {LONG} does not fit into 64 bits and would lose precision; send it as a string"
        );
        let nested = |depth: usize, inner: &str| {
            format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth))
        };
        let deep = "a value is nested more than 127 levels deep; use fewer levels";
        for (json, expected) in [
            (r#"{"a": [1, -1.5e3, "x\" [", true]}"#.to_owned(), None),
            (format!("\"{LONG}\""), None),
            (LONG.to_owned(), Some(long.as_str())),
            (format!(r#"{{"a": [1, {LONG}], "b": 2}}"#), Some(&long)),
            (nested(127, "1"), None),
            (nested(128, "1"), Some(deep)),
            (nested(126, r#"[{"]": ["]", "\"]"]}], 1"#), Some(deep)),
            (nested(100_000, LONG), Some(deep)),
        ] {
            check(&json, expected);
        }
        // Not JSON.
        for json in ["", "\"\\", "[[", "]]", "-"] {
            assert_eq!(*replace_unusable(json.as_bytes()).text, *json.as_bytes());
        }
        let open = "[".repeat(200);
        assert!(serde_json::from_slice::<Value>(&replace_unusable(open.as_bytes()).text).is_err());
    }
}
