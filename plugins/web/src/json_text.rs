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
            Token::Text(decoded) => text.push_str(&serde_json::to_string(&decoded).ok()?),
            Token::Raw(token @ ("{" | "[")) => {
                text.push_str(token);
                let is_end = |next: &Token| matches!(next, Token::Raw("}" | "]"));
                if let Some(Token::Raw(end)) = tokens.next_if(is_end) {
                    text.push_str(end);
                } else {
                    depth += 1;
                    break_line(&mut text, depth);
                }
            }
            Token::Raw(token @ ("}" | "]")) => {
                depth = depth.saturating_sub(1);
                break_line(&mut text, depth);
                text.push_str(token);
            }
            Token::Raw(",") => {
                text.push(',');
                break_line(&mut text, depth);
            }
            Token::Raw(":") => text.push_str(": "),
            Token::Raw(token) => text.push_str(token),
        }
    }
    Some(text)
}

fn break_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

enum Token<'a> {
    /// A string, decoded.
    Text(String),
    /// Any other token, as it is written.
    Raw(&'a str),
}

/// The tokens of valid JSON.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let rest = self.0.trim_start_matches([' ', '\t', '\n', '\r']);
        let end = match rest.as_bytes().first()? {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => {
                let mut strings = serde_json::Deserializer::from_str(rest).into_iter();
                let text = strings.next()?.ok()?;
                self.0 = &rest[strings.byte_offset()..];
                return Some(Token::Text(text));
            }
            _ => rest
                .find(|c: char| " \t\n\r,:]}".contains(c))
                .unwrap_or(rest.len()),
        };
        let (token, rest) = rest.split_at(end);
        self.0 = rest;
        Some(Token::Raw(token))
    }
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
