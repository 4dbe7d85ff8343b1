//! Counts the values of a JSON message before it is parsed. A limit of bytes alone does not bound memory: a value of
//! three bytes, `[],`, takes more than a hundred bytes when parsed, and a message can contain millions of them.

/// Maximum number of values of one message, including nested ones. Ordinary results have a few thousand.
pub const MAX_VALUES: usize = 100_000;
/// Approximate memory of a value, in addition to its text.
const VALUE_SIZE: usize = 64;

/// Counts the values of one message incrementally, up to [`MAX_VALUES`]; chunk boundaries do not matter.
#[derive(Debug, Default)]
pub struct ValueCounter {
    values: usize,
    /// Names of object members.
    names: usize,
    state: ScanState,
}

#[derive(Debug, Default, Clone, Copy)]
enum ScanState {
    #[default]
    Outside,
    Text,
    /// After a `\` in a string.
    Escape,
}

impl ValueCounter {
    /// Counts these bytes up to the limit. Returns an error with the number of bytes before the first value above the
    /// limit.
    ///
    /// Each value is the first one, or follows a `[`, a `{` or a `,` outside of strings. So the count is never too low,
    /// and for JSON it is at most twice too high. Text that is not JSON is counted wrongly after its first error, but
    /// is not parsed beyond it.
    pub fn count(&mut self, bytes: &[u8]) -> Result<(), usize> {
        self.count_up_to(MAX_VALUES, bytes)
    }

    fn count_up_to(&mut self, limit: usize, bytes: &[u8]) -> Result<(), usize> {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                ScanState::Text => {
                    match bytes[at..].iter().position(|&b| matches!(b, b'"' | b'\\')) {
                        None => return Ok(()),
                        Some(more) => {
                            at += more;
                            self.state = match bytes[at] {
                                b'"' => ScanState::Outside,
                                _ => ScanState::Escape,
                            };
                        }
                    }
                }
                ScanState::Escape => self.state = ScanState::Text,
                ScanState::Outside => match bytes[at] {
                    b'"' => self.state = ScanState::Text,
                    b':' => self.names += 1,
                    b'[' | b'{' | b',' => {
                        self.values += 1;
                        if self.values > limit {
                            return Err(at);
                        }
                    }
                    _ => {}
                },
            }
            at += 1;
        }
        Ok(())
    }
}

fn count_all(message: &[u8]) -> ValueCounter {
    let mut counter = ValueCounter::default();
    let _ = counter.count_up_to(usize::MAX, message);
    counter
}

/// An upper bound of the number of values and member names of a complete message.
pub fn count_values_and_names(message: &[u8]) -> usize {
    let counter = count_all(message);
    1 + counter.values + counter.names
}

/// Whether a complete message has at most [`MAX_VALUES`] values.
pub fn is_within_limit(message: &[u8]) -> bool {
    ValueCounter::default().count(message).is_ok()
}

/// Whether complete messages together have at most [`MAX_VALUES`] values.
pub fn are_within_limit<'a>(messages: impl IntoIterator<Item = &'a str>) -> bool {
    let mut counter = ValueCounter::default();
    messages.into_iter().all(|message| {
        // The message before this one can end within a string.
        counter.state = ScanState::Outside;
        counter.count(message.as_bytes()).is_ok()
    })
}

/// Approximate memory of a parsed message, in bytes.
pub fn parsed_size(message: &[u8]) -> usize {
    message.len() + VALUE_SIZE * count_all(message).values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of values and names that serde creates, a lower bound of the count.
    fn parsed_values_and_names(value: &serde_json::Value) -> usize {
        use serde_json::Value;

        1 + match value {
            Value::Array(elements) => elements.iter().map(parsed_values_and_names).sum::<usize>(),
            Value::Object(members) => {
                let members = members.values();
                members
                    .map(|value| 1 + parsed_values_and_names(value))
                    .sum()
            }
            _ => 0,
        }
    }

    #[test]
    fn the_values_of_several_messages_are_counted_together() {
        let half = "[],".repeat(MAX_VALUES / 4 - 1);
        assert!(are_within_limit([&*half, &half]));
        assert!(!are_within_limit([&*half, &half, "[[[]]]", "[[[]]]"]));
        let all = "[],".repeat(MAX_VALUES);
        assert!(!are_within_limit(["\"unfinished", &all]));
    }

    #[test]
    fn values_and_names_are_counted_outside_of_strings() {
        for (text, values, with_names) in [
            ("", 0, 1),
            ("7", 0, 1),
            ("{}", 1, 2),
            ("[1,2,3]", 3, 4),
            ("[[0],[0]]", 4, 5),
            (r#"{"a": 1}"#, 1, 3),
            (r#"{"a":1,"b":[2]}"#, 3, 6),
            ("[[],[],{}]", 6, 7),
            (r#"{"a":"[[,,{","b":2}"#, 2, 5),
            (r#"["[,,,:{",1]"#, 2, 3),
            (r#"["\"[,,,",1]"#, 2, 3),
            (r#"["\\",[1]]"#, 3, 4),
            (r#"["\"[,", "\\", ",\\\",["]"#, 3, 4),
            (r#"["é,[", 1]"#, 2, 3),
            (r#"{"\\\":[":[[]]}"#, 3, 5),
        ] {
            assert_eq!(count_all(text.as_bytes()).values, values, "{text}");
            assert_eq!(
                count_values_and_names(text.as_bytes()),
                with_names,
                "{text}"
            );
            // The count does not depend on chunk boundaries.
            let mut bytewise = ValueCounter::default();
            for byte in text.bytes() {
                bytewise.count(&[byte]).unwrap();
            }
            assert_eq!(bytewise.values, values, "{text}");
            if let Ok(value) = serde_json::from_str(text) {
                assert!(parsed_values_and_names(&value) <= with_names, "{text}");
            }
        }
    }

    #[test]
    fn long_strings_are_one_value() {
        assert!(is_within_limit(
            format!(r#"{{"text":"{}"}}"#, "[,".repeat(1 << 20)).as_bytes()
        ));
        let at_most = format!("[{}1]", "1,".repeat(MAX_VALUES - 1));
        assert!(is_within_limit(at_most.as_bytes()));
        let above = format!("[{}1]", "1,".repeat(MAX_VALUES));
        assert!(!is_within_limit(above.as_bytes()));
        assert_eq!(parsed_size(b"[1,[]]"), 6 + 3 * VALUE_SIZE);
        // The error contains the number of bytes that can be passed on.
        assert_eq!(
            ValueCounter::default().count(above.as_bytes()),
            Err(2 * MAX_VALUES)
        );
    }
}
