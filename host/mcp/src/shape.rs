//! How large a message is once it is read, told before it is.

/// Values of one message: members, elements, and what is in them. Each costs some hundred bytes once it is read, however few
/// it has in the body.
pub(crate) const MOST_VALUES: usize = 100_000;

/// How many values there are, never too few. Counts what stands between them, so that nothing is made of any; what is no
/// JSON is found out later.
pub(crate) fn values(body: &[u8]) -> usize {
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

    /// The least that the count may be: what serde makes of it.
    fn made(value: &serde_json::Value) -> usize {
        use serde_json::Value;

        1 + match value {
            Value::Array(elements) => elements.iter().map(made).sum::<usize>(),
            Value::Object(members) => members.values().map(|value| 1 + made(value)).sum(),
            _ => 0,
        }
    }

    #[test]
    fn values_are_counted_outside_of_texts_and_never_too_few() {
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
            assert_eq!(values(body.as_bytes()), expected, "{body}");
            let value = serde_json::from_str(body).unwrap();
            assert!(made(&value) <= expected, "{body}");
        }
    }
}
