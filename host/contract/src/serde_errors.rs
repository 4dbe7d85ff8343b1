//! Messages for serde errors in files written by users.

use crate::{nearest, text};

/// Maximum number of characters of a value that are shown.
const MAX_VALUE_CHARS: usize = 80;
/// Maximum number of characters of a message. A list of all known keys is the longest.
const MAX_MESSAGE_CHARS: usize = 4_000;

/// Rewrites the message of a parser in terms of the file format, without its position. The result is escaped and
/// bounded, because it quotes the file.
pub fn describe_serde_error(message: &str) -> String {
    let message = message.lines().next().unwrap_or(message);
    let rewritten = unknown_name(message)
        .or_else(|| wrong_type(message))
        .or_else(|| missing_key(message));
    text::escape_line(rewritten.as_deref().unwrap_or(message), MAX_MESSAGE_CHARS)
}

/// Rewrites the error for an unknown key or value, and suggests the nearest known name.
fn unknown_name(message: &str) -> Option<String> {
    let noun = match message.split_once(" `")?.0 {
        "unknown field" => "key",
        "unknown variant" => "value",
        _ => return None,
    };
    let mut ticks = message.split('`').skip(1).step_by(2);
    let name = ticks.next()?;
    let known: Vec<&str> = ticks.collect();
    let near = nearest(name, known.iter().copied(), 1);
    let name = text::escape_line(name, MAX_VALUE_CHARS);
    Some(match near.first() {
        Some(near) => format!("unknown {noun} `{name}`; did you mean `{near}`?"),
        None => format!(
            "unknown {noun} `{name}`; expected one of: {}",
            known.join(", ")
        ),
    })
}

/// Rewrites the error for a value of the wrong type.
fn wrong_type(message: &str) -> Option<String> {
    let rest = ["invalid type: ", "invalid value: "]
        .iter()
        .find_map(|start| message.strip_prefix(start))?;
    // Split at the last occurrence, because the quoted value may contain this text.
    let (found, wanted) = rest.rsplit_once(", expected ")?;
    let shown = describe_value(found);
    let (wanted, written) = match wanted {
        "a string" | "a borrowed string" | "a character" => ("a string", None),
        "a sequence" => ("a list", quoted(found).map(|text| format!("[{text}]"))),
        "a boolean" => ("`true` or `false`", None),
        "a map" => ("a table", None),
        _ if wanted.starts_with("struct ") => ("a table", None),
        "f32" | "f64" => ("a number", None),
        _ if is_integer(wanted) => ("a non-negative integer", None),
        _ if wanted.strip_prefix("a nonzero ").is_some_and(is_integer) => {
            ("a positive integer", None)
        }
        "i8" | "i16" | "i32" | "i64" | "isize" => ("an integer", None),
        _ => (wanted, None),
    };
    let written = written.filter(|written| written.len() <= MAX_VALUE_CHARS);
    let written = written.map_or_else(String::new, |written| format!("; write `{written}`"));
    Some(format!("expected {wanted}, found {shown}{written}"))
}

fn missing_key(message: &str) -> Option<String> {
    let key = message.strip_prefix("missing field ")?;
    Some(format!("missing key {key}"))
}

fn is_integer(kind: &str) -> bool {
    matches!(kind, "u8" | "u16" | "u32" | "u64" | "u128" | "usize")
}

/// Returns the quoted string of a serde description of a value.
fn quoted(found: &str) -> Option<&str> {
    found.strip_prefix("string ")
}

/// Returns the number of a serde description of a value.
fn number(found: &str) -> Option<&str> {
    let number = ["integer `", "floating point `"]
        .iter()
        .find_map(|start| found.strip_prefix(start))?;
    number.strip_suffix('`')
}

fn describe_value(found: &str) -> String {
    if let Some(number) = number(found) {
        return format!("the number {number}");
    }
    match found {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        "null" | "unit value" | "Option value" => "no value".to_owned(),
        _ => {
            let found = found.strip_prefix("boolean ").unwrap_or(found);
            let found =
                quoted(found).map_or_else(|| found.to_owned(), |text| format!("the string {text}"));
            text::escape_line(&found, MAX_VALUE_CHARS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_messages_are_rewritten() {
        for (message, expected) in [
            (
                "unknown field `tols`, expected one of `tools`, `mcp`",
                "unknown key `tols`; did you mean `tools`?",
            ),
            (
                "unknown variant `x`, expected `one` or `two`",
                "unknown value `x`; expected one of: one, two",
            ),
            (
                "invalid type: integer `3`, expected a sequence",
                "expected a list, found the number 3",
            ),
            (
                "invalid type: string \"src\", expected a sequence",
                "expected a list, found the string \"src\"; write `[\"src\"]`",
            ),
            (
                "invalid type: integer `30`, expected a string",
                "expected a string, found the number 30",
            ),
            (
                "invalid type: boolean `true`, expected a map",
                "expected a table, found `true`",
            ),
            (
                "invalid type: map, expected a boolean",
                "expected `true` or `false`, found a table",
            ),
            (
                "invalid type: sequence, expected struct Tools",
                "expected a table, found a list",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "expected a non-negative integer, found the number -1",
            ),
            (
                "invalid value: integer `0`, expected a nonzero usize",
                "expected a positive integer, found the number 0",
            ),
            (
                "invalid type: floating point `1.5`, expected i64",
                "expected an integer, found the number 1.5",
            ),
            (
                "invalid type: null, expected a path",
                "expected a path, found no value",
            ),
            (
                "invalid type: string \"a, expected b\", expected f64",
                "expected a number, found the string \"a, expected b\"",
            ),
            ("missing field `name`", "missing key `name`"),
            (
                "`fast` is not a duration\nand more",
                "`fast` is not a duration",
            ),
        ] {
            assert_eq!(describe_serde_error(message), expected);
        }
    }

    #[test]
    fn long_values_are_truncated() {
        let message = format!(
            "invalid type: string \"{}\", expected a sequence",
            "x".repeat(5000)
        );
        assert!(
            describe_serde_error(&message).chars().count() < 200,
            "{}",
            describe_serde_error(&message)
        );
    }
}
