//! `json_parse` and `json_stringify`: JSON parsing and serialization.

use std::borrow::Cow;

use toolhost_sdk::prelude::*;
use toolhost_sdk::serde::Serialize as _;
use toolhost_sdk::serde_json;
use toolhost_sdk::serde_json::ser::{PrettyFormatter, Serializer};

use crate::lenient::plain;

/// Levels of a value. The host reads at most 127 levels, and the result is an object around the value.
const MOST_LEVELS: usize = 126;

/// Parsed JSON.
#[data]
pub struct Parsed {
    /// Parsed value.
    data: Value,
}

/// JSON text.
#[data]
pub struct JsonText {
    /// JSON text.
    text: String,
}

/// Parse JSON text. Errors state line, column and what was found.
#[tool(
    pure,
    plain_text,
    category = "data",
    kind = "other",
    icon = "braces",
    tags = ["json"],
    output = Parsed,
    example(description = "An object", input = r#"{"text": "{\"a\": [1, 2]}"}"#),
)]
pub fn json_parse(
    /// JSON text.
    text: String,
    /// `false` allows comments, trailing commas and a code fence.
    #[arg(default = true)]
    strict: bool,
) -> Result<Parsed> {
    let plain = if strict {
        Cow::Borrowed(text.trim_start_matches('\u{feff}'))
    } else {
        Cow::Owned(plain(&text))
    };
    match serde_json::from_str(&plain) {
        Ok(data) if levels(&data) > MOST_LEVELS => Err(too_deep()),
        Ok(data) => {
            check_integers(&plain)?;
            Ok(Parsed { data })
        }
        Err(error) if error.to_string().starts_with("recursion limit") => Err(too_deep()),
        Err(error) => Err(syntax_error(&error, &plain, strict)),
    }
}

/// Serialize a value as JSON text.
#[tool(
    pure,
    plain_text,
    category = "data",
    kind = "other",
    icon = "braces",
    tags = ["json"],
    output = JsonText,
    example(description = "Indented", input = r#"{"data": {"a": [1, 2]}, "pretty": true}"#),
)]
pub fn json_stringify(
    /// Any JSON value.
    data: Value,
    /// Indent the output.
    #[arg(default = false)]
    pretty: bool,
    /// Spaces per level, default 2; more than 0 implies `pretty`.
    #[arg(max = 8)]
    indent: Option<u8>,
) -> Result<Outcome> {
    let text = if indent.map_or(pretty, |indent| indent > 0) {
        let indent = " ".repeat(usize::from(indent.unwrap_or(2)));
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(indent.as_bytes());
        data.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
        String::from_utf8(bytes)?
    } else {
        data.to_string()
    };
    Ok(Outcome::text(&*text).structured(&JsonText { text }))
}

/// The nested arrays and objects of a value.
fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or_default(),
        _ => 0,
    }
}

fn too_deep() -> Error {
    let message = format!("the text is nested more than {MOST_LEVELS} levels deep");
    Error::invalid_input(message).code("invalid_json")
}

/// Refuses integers of more than 64 bits, which would silently become floating-point numbers. `text` is valid JSON.
fn check_integers(text: &str) -> Result<()> {
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = &rest[at..];
        let length = if rest.starts_with('"') {
            end_of_string(rest)
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
            let number = &rest[..end.unwrap_or(rest.len())];
            let is_integer = !number.contains(['.', 'e', 'E']);
            if is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                return Err(out_of_range(text, text.len() - rest.len(), number));
            }
            number.len()
        };
        rest = &rest[length..];
    }
    Ok(())
}

/// The length of the string literal at the start of `text`.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

fn out_of_range(text: &str, at: usize, number: &str) -> Error {
    let line = text[..at].matches('\n').count() + 1;
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let column = text[start..at].chars().count() + 1;
    let shown: String = number.chars().take(40).collect();
    let dots = if shown.len() < number.len() {
        "…"
    } else {
        ""
    };
    Error::invalid_input(format!(
        "the integer {shown}{dots} at line {line}, column {column} has more than 64 bits and would be rounded"
    ))
    .code("number_out_of_range")
    .recommend("put it in quotes, or write it with an exponent if it may be rounded")
}

/// Reports the error and shows its line, cut around the column, with a marker below.
fn syntax_error(error: &serde_json::Error, text: &str, strict: bool) -> Error {
    const AROUND: usize = 40;
    // Serde counts bytes from 1. Column 0 is the position after the end of the previous line.
    let (line, column) = match (error.line(), error.column()) {
        (line @ 2.., 0) => (line - 1, usize::MAX),
        (line, column) => (line, column),
    };
    let content = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let at = content.floor_char_boundary(column.saturating_sub(1));
    let start = content.floor_char_boundary(at.saturating_sub(AROUND));
    let end = content.ceil_char_boundary((at + AROUND).min(content.len()));
    let mark = " ".repeat(content[start..at].chars().count());
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    let location = format!("line {line}, column {}", content[..at].chars().count() + 1);
    let message = format!(
        "the text is not JSON: {reason} at {location}:\n{}\n{mark}^",
        &content[start..end]
    );
    let error = Error::invalid_input(message).code("invalid_json");
    if strict {
        error.recommend("if it has comments or trailing commas, set `strict` to false")
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use toolhost_sdk::testing;

    use super::*;

    fn check<T: Tool>(input: Value, expected: Expect) {
        expected.assert_eq(&testing::data::<T>(&Context::test(), input));
    }

    // R-374
    #[test]
    fn values() {
        check::<json_parse>(
            json!({"text": " {\"b\": 1, \"a\": [true, null, 1.5, \"\\u00e9\"]} "}),
            expect![[r#"{"data":{"b":1,"a":[true,null,1.5,"é"]}}"#]],
        );
        check::<json_parse>(json!({"text": "\u{feff}3"}), expect![[r#"{"data":3}"#]]);
    }

    #[test]
    fn an_error_shows_its_place() {
        check::<json_parse>(
            json!({"text": "{\n  \"ä\": 1,\n  \"b\": tru\n}"}),
            expect![[r#"
                InvalidInput invalid_json: the text is not JSON: expected ident at line 3, column 11:
                  "b": tru
                          ^"#]],
        );
        check::<json_parse>(
            json!({"text": "{\"a\": 1,}"}),
            expect![[r#"
            InvalidInput invalid_json: the text is not JSON: trailing comma at line 1, column 9:
            {"a": 1,}
                    ^"#]],
        );
        check::<json_parse>(
            json!({"text": ""}),
            expect![[r#"
            InvalidInput invalid_json: the text is not JSON: EOF while parsing a value at line 1, column 1:

            ^"#]],
        );
        check::<json_parse>(
            json!({"text": "[1] 2"}),
            expect![[r#"
            InvalidInput invalid_json: the text is not JSON: trailing characters at line 1, column 5:
            [1] 2
                ^"#]],
        );
        check::<json_parse>(
            json!({"text": format!("[{}x]", "1, ".repeat(50))}),
            expect![[r#"
                InvalidInput invalid_json: the text is not JSON: expected value at line 1, column 152:
                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, x]
                                                        ^"#]],
        );
    }

    #[test]
    fn a_result_has_at_most_as_many_levels_as_the_host_reads() {
        let nested = |open: &str, close: &str, levels: usize| {
            let text = format!("{}1{}", open.repeat(levels), close.repeat(levels));
            testing::data::<json_parse>(&Context::test(), json!({"text": text}))
        };
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let whole = nested(open, close, 126);
            assert!(serde_json::from_str::<Value>(&whole).is_ok(), "{whole}");
            for levels in [127, 128, 200] {
                expect!["InvalidInput invalid_json: the text is nested more than 126 levels deep"]
                    .assert_eq(&nested(open, close, levels));
            }
        }
        check::<json_parse>(
            json!({"text": "[".repeat(200)}),
            expect!["InvalidInput invalid_json: the text is nested more than 126 levels deep"],
        );
    }

    #[test]
    fn lenient_json_is_accepted_without_strict() {
        let text =
            "```json\n{\n  // one\n  \"a\": 1, /* two */\n  \"b\": \"// no comment\",\n}\n```";
        check::<json_parse>(
            json!({"text": text, "strict": false}),
            expect![[r#"{"data":{"a":1,"b":"// no comment"}}"#]],
        );
        check::<json_parse>(
            json!({"text": "{a: 1}", "strict": false}),
            expect![[r#"
            InvalidInput invalid_json: the text is not JSON: key must be a string at line 1, column 2:
            {a: 1}
             ^"#]],
        );
    }

    // R-375
    #[test]
    fn texts() {
        let data = json!({"b": [1, {}], "a": "é\n"});
        check::<json_stringify>(
            json!({"data": data}),
            expect![[r#"{"text":"{\"b\":[1,{}],\"a\":\"é\\n\"}"}"#]],
        );
        check::<json_stringify>(
            json!({"data": data, "pretty": true}),
            expect![[r#"{"text":"{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": \"é\\n\"\n}"}"#]],
        );
        check::<json_stringify>(
            json!({"data": [1], "indent": 4}),
            expect![[r#"{"text":"[\n    1\n]"}"#]],
        );
        check::<json_stringify>(
            json!({"data": [1], "indent": 0, "pretty": true}),
            expect![[r#"{"text":"[1]"}"#]],
        );
        check::<json_stringify>(json!({"data": null}), expect![[r#"{"text":"null"}"#]]);
        check::<json_stringify>(
            json!({"data": 1, "indent": 9}),
            expect!["InvalidInput invalid_input: `indent`: 9 is more than the maximum of 8"],
        );
        check::<json_stringify>(
            json!({}),
            expect!["InvalidInput invalid_input: `data` is missing"],
        );
    }

    #[test]
    fn examples_are_inputs() {
        testing::check_examples::<json_parse>().unwrap();
        testing::check_examples::<json_stringify>().unwrap();
    }
}
