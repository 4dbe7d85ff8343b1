//! Indentation of JSON. The text is not rendered from parsed values, which would round large numbers and drop members
//! with the same name.

use toolhost_sdk::prelude::*;
use toolhost_sdk::serde_json;

/// The JSON text with one member or element per line and decoded escapes in strings; `None` if it is not valid JSON.
pub fn indented(json: &str) -> Option<String> {
    serde_json::from_str::<Value>(json).ok()?;
    let mut text = String::with_capacity(json.len() + json.len() / 2);
    let mut depth = 0_usize;
    let mut tokens = Tokens(json).peekable();
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                text.push_str(token);
                if let Some(end) = tokens.next_if(|next| matches!(*next, "}" | "]")) {
                    text.push_str(end);
                } else {
                    depth += 1;
                    break_line(&mut text, depth);
                }
            }
            "}" | "]" => {
                depth = depth.saturating_sub(1);
                break_line(&mut text, depth);
                text.push_str(token);
            }
            "," => {
                text.push(',');
                break_line(&mut text, depth);
            }
            ":" => text.push_str(": "),
            token if token.starts_with('"') => {
                let decoded = serde_json::from_str::<String>(token).ok()?;
                text.push_str(&serde_json::to_string(&decoded).ok()?);
            }
            token => text.push_str(token),
        }
    }
    Some(text)
}

fn break_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

/// The tokens of valid JSON.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0.trim_start_matches([' ', '\t', '\n', '\r']);
        let end = match rest.as_bytes().first()? {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => end_of_string(rest),
            _ => rest
                .find(|c: char| " \t\n\r,:]}".contains(c))
                .unwrap_or(rest.len()),
        };
        let (token, rest) = rest.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

/// The position after the quotation mark that ends the string at the start of `text`.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check(json: &str, expected: Expect) {
        expected.assert_eq(indented(json).as_deref().unwrap_or("-"));
    }

    #[test]
    fn every_member_and_number_stays() {
        check(
            r#"{"id":12345678901234567890123,"x":1.10,"id":2}"#,
            expect![[r#"
                {
                  "id": 12345678901234567890123,
                  "x": 1.10,
                  "id": 2
                }"#]],
        );
    }

    #[test]
    fn ordinary_json_is_rendered_like_by_serde_json() {
        for json in [
            r#"{"a":[1,{"b":[],"c":{}},null],"d \"q\" \\":"a,b]}:"}"#,
            " [ ] ",
            "\t{\"a\" : [ true , -1.5 ] }\r\n",
            "1",
            r#""\u00e9\/""#,
            r#"["\\", "x"]"#,
        ] {
            let value: Value = serde_json::from_str(json).unwrap();
            let expected = serde_json::to_string_pretty(&value).unwrap();
            assert_eq!(indented(json).as_deref(), Some(expected.as_str()), "{json}");
        }
    }

    #[test]
    fn other_text_is_not_json() {
        for text in ["", "{", "1E400", "{\"a\":}", "1 2", r#""\ud800""#] {
            assert_eq!(indented(text), None, "{text}");
        }
    }
}
