//! Edits of a call's input, in an editor or inline after `e`.

use serde_json::{Map, Value};
use toolhost_contract::exact_integers::parse_exact;
use toolhost_contract::text;

use super::untrusted_text;
use crate::shell_words;

/// The text to open in the editor.
pub fn to_text(input: &Value) -> String {
    untrusted_text::format_json(input) + "\n"
}

/// Parses the text that was saved in the editor.
pub fn from_text(edited: &str) -> Result<Value, String> {
    let input: Value = parse_exact(edited).map_err(|error| format!("not JSON: {error}"))?;
    match input {
        Value::Object(_) => Ok(input),
        _ => Err("the input must be a JSON object, {…}".to_owned()),
    }
}

/// Applies an inline edit: `{…}` replaces the input, `key=text` and `key:=JSON` change one member each.
pub fn apply_inline(input: &Value, line: &str) -> Result<Value, String> {
    if line.starts_with('{') {
        return from_text(line);
    }
    let mut members: Map<String, Value> = input.as_object().cloned().unwrap_or_default();
    for word in shell_words::split_prompt_line(line)? {
        let shown = text::escape_line(&word, 80);
        let (key, value) = word
            .split_once('=')
            .filter(|(key, _)| !key.is_empty() && *key != ":")
            .ok_or_else(|| {
                format!("`{shown}` is not key=value; quote text with spaces as in key='a b'")
            })?;
        let (key, as_json) = match key.strip_suffix(':') {
            Some(key) => (key, true),
            None => (key, false),
        };
        // A number stays a number without `:=`.
        let is_text = members.get(key).is_none_or(Value::is_string);
        let value = if is_text && !as_json {
            Value::from(value)
        } else {
            parse_exact(value).map_err(|error| format!("`{shown}` is not JSON: {error}"))?
        };
        members.insert(key.to_owned(), value);
    }
    Ok(Value::Object(members))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pairs_change_members_and_json_replaces_the_input() {
        let input = json!({"path": "a", "size": 1});
        for (line, expected) in [
            ("path=b", Ok(json!({"path": "b", "size": 1}))),
            ("path='b c' size=2", Ok(json!({"path": "b c", "size": 2}))),
            (
                "path:=null x=1",
                Ok(json!({"path": null, "size": 1, "x": "1"})),
            ),
            (r#"{"path": "it's"}"#, Ok(json!({"path": "it's"}))),
            (
                "path",
                Err("`path` is not key=value; quote text with spaces as in key='a b'"),
            ),
            (
                "size=big",
                Err("`size=big` is not JSON: expected value at line 1 column 1"),
            ),
            ("path='b", Err("unclosed `'`")),
            (
                "size=12345678901234567890123",
                Err(
                    "`size=12345678901234567890123` is not JSON: the integer 12345678901234567890123 does not fit into 64 bits and would lose precision; send it as a string",
                ),
            ),
            (
                "{",
                Err("not JSON: EOF while parsing an object at line 1 column 1"),
            ),
        ] {
            let expected = expected.map_err(ToOwned::to_owned);
            assert_eq!(apply_inline(&input, line), expected, "{line}");
        }
        assert_eq!(from_text(&to_text(&input)), Ok(input));
        assert!(from_text("[1]").is_err());
    }
}
