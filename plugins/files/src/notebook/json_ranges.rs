//! Byte ranges in JSON text, so that a cell can be replaced without changing the others: parsing and serializing the
//! whole file would change the notation of numbers and characters.

use std::ops::Range;

use toolhost_sdk::serde_json;

/// The range of the member `name` of the object `text`, which must be valid JSON. If the name occurs twice, the last
/// one counts, as for other parsers.
pub fn member(text: &str, name: &str) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = skip_space(bytes, 0);
    if bytes.get(at) != Some(&b'{') {
        return None;
    }
    let mut found = None;
    loop {
        at = skip_space(bytes, at + 1);
        if bytes.get(at) != Some(&b'"') {
            return found;
        }
        let key_end = end_of_value(bytes, at);
        let is_wanted =
            serde_json::from_str::<String>(&text[at..key_end]).is_ok_and(|key| key == name);
        let colon = skip_space(bytes, key_end);
        let start = skip_space(bytes, colon + 1);
        let end = end_of_value(bytes, start);
        if is_wanted {
            found = Some(start..end);
        }
        at = skip_space(bytes, end);
        if bytes.get(at) != Some(&b',') {
            return found;
        }
    }
}

/// The ranges of the elements of the list that starts at `open`. The text must be valid JSON.
pub fn elements(text: &str, open: usize) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = open;
    loop {
        let start = skip_space(bytes, at + 1);
        if matches!(bytes.get(start), None | Some(b']')) {
            return found;
        }
        let end = end_of_value(bytes, start);
        found.push(start..end);
        at = skip_space(bytes, end);
        if bytes.get(at) != Some(&b',') {
            return found;
        }
    }
}

fn skip_space(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let spaces = rest.iter().take_while(|byte| byte.is_ascii_whitespace());
    from + spaces.count()
}

/// The end (exclusive) of the value that starts at `from`.
fn end_of_value(bytes: &[u8], from: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at) - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' | b':' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            byte if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
        at += 1;
        if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
            return at;
        }
    }
    at
}

fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    loop {
        match bytes.get(at) {
            None => return at,
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&[&str]>) {
        let found = member(text, "cells").map(|list| {
            let cells = elements(text, list.start);
            cells
                .into_iter()
                .map(|span| &text[span])
                .collect::<Vec<_>>()
        });
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    #[test]
    fn cells_are_found_wherever_they_stand_and_whatever_is_in_them() {
        check(r#"{"cells":[]}"#, Some(&[]));
        check(r#" { "cells" : [ ] } "#, Some(&[]));
        check(
            r#"{"a":{"cells":[0]},"cells":[{"x":"]}\""}, [1,2] ,"é", -1.5e3]}"#,
            Some(&[r#"{"x":"]}\""}"#, "[1,2]", "\"é\"", "-1.5e3"]),
        );
        check(
            "{\n \"n\": 4,\n \"c\\u0065lls\": [\n  1\n ]\n}\n",
            Some(&["1"]),
        );
        check(r#"{"cells":[1],"cells":[2,3]}"#, Some(&["2", "3"]));
    }

    #[test]
    fn where_there_are_none_nothing_is_found() {
        check("{}", None);
        check("[1]", None);
        check(r#"{"a":"cells","b":{"cells":[]}}"#, None);
    }
}
