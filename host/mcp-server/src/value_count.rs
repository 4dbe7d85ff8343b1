//! Number of JSON values in a message, counted without parsing it.

/// Maximum number of values in a message, including nested ones. A parsed value takes some hundred bytes of memory,
/// however short it is in the message.
pub(crate) const MAX_VALUES: usize = 100_000;

/// Returns an upper bound of the number of values. Counts separators and brackets; does not validate the JSON.
pub(crate) fn count_values(body: &[u8]) -> usize {
    let (mut count, mut is_text) = (1, false);
    let mut bytes = body.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_text = !is_text,
            b'\\' if is_text => {
                bytes.next();
            }
            b',' | b':' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of values that serde creates, a lower bound of the count.
    fn parsed_values(value: &serde_json::Value) -> usize {
        use serde_json::Value;

        1 + match value {
            Value::Array(elements) => elements.iter().map(parsed_values).sum::<usize>(),
            Value::Object(members) => members.values().map(|value| 1 + parsed_values(value)).sum(),
            _ => 0,
        }
    }

    #[test]
    fn the_count_ignores_strings_and_is_an_upper_bound() {
        for (body, expected) in [
            ("1", 1),
            ("[1,2,3]", 4),
            ("[[0],[0]]", 5),
            ("{}", 2),
            (r#"{"a":1,"b":[2]}"#, 6),
            (r#"["[,,,:{",1]"#, 3),
            (r#"["\"[,,,",1]"#, 3),
            (r#"["\\",[1]]"#, 4),
            (r#"{"\\\":[":[[]]}"#, 5),
        ] {
            assert_eq!(count_values(body.as_bytes()), expected, "{body}");
            let value = serde_json::from_str(body).unwrap();
            assert!(parsed_values(&value) <= expected, "{body}");
        }
    }
}
