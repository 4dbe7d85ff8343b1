//! Counts the values of a message before it is parsed. A limit of bytes alone does not bound memory: a value of three
//! bytes, `[],`, takes more than a hundred bytes when parsed, and a message can contain millions of them.

/// Maximum number of values of one message. Ordinary results have a few thousand.
pub const MAX_VALUES: usize = 100_000;
/// Approximate memory of a value, in addition to its text.
const SIZE: usize = 64;

/// Counts the values of one message incrementally; chunk boundaries do not matter.
#[derive(Debug, Default)]
pub struct Shape {
    values: usize,
    place: Place,
}

#[derive(Debug, Default, Clone, Copy)]
enum Place {
    #[default]
    Outside,
    Text,
    /// After a `\` in a string.
    Escape,
}

impl Shape {
    /// Counts these bytes up to the limit. Returns an error with the number of bytes before the first value above the
    /// limit.
    ///
    /// Each value is the first one, or follows a `[`, a `{` or a `,` outside of strings. So the count is never too low,
    /// and for JSON it is at most twice too high. Text that is not JSON is counted wrongly after its first error, but
    /// is not parsed beyond it.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let mut at = 0;
        while at < bytes.len() {
            match self.place {
                Place::Text => match bytes[at..].iter().position(|&b| matches!(b, b'"' | b'\\')) {
                    None => return Ok(()),
                    Some(more) => {
                        at += more;
                        self.place = match bytes[at] {
                            b'"' => Place::Outside,
                            _ => Place::Escape,
                        };
                    }
                },
                Place::Escape => self.place = Place::Text,
                Place::Outside => match bytes[at] {
                    b'"' => self.place = Place::Text,
                    b'[' | b'{' | b',' => {
                        self.values += 1;
                        if self.values > MAX_VALUES {
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

/// Whether a complete message has at most [`MAX_VALUES`] values.
pub fn fits(message: &[u8]) -> bool {
    Shape::default().take(message).is_ok()
}

/// Approximate memory of a parsed message, in bytes.
pub fn weight(message: &[u8]) -> usize {
    let mut shape = Shape::default();
    let _ = shape.take(message);
    message.len() + SIZE * shape.values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> usize {
        let mut shape = Shape::default();
        shape.take(text.as_bytes()).unwrap();
        // The count does not depend on chunk boundaries.
        let mut bytewise = Shape::default();
        for byte in text.bytes() {
            bytewise.take(&[byte]).unwrap();
        }
        assert_eq!(shape.values, bytewise.values, "{text}");
        shape.values
    }

    #[test]
    fn values_are_counted_and_texts_are_not_looked_into() {
        for (text, expected) in [
            ("", 0),
            ("7", 0),
            (r#"{"a": 1}"#, 1),
            ("[[],[],{}]", 6),
            (r#"{"a":"[[,,{","b":2}"#, 2),
            (r#"["\"[,", "\\", ",\\\",["]"#, 3),
            (r#"["é,[", 1]"#, 2),
        ] {
            assert_eq!(values(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_of_any_length_is_one_value_and_many_small_ones_are_too_many() {
        assert!(fits(
            format!(r#"{{"text":"{}"}}"#, "[,".repeat(1 << 20)).as_bytes()
        ));
        let at_most = format!("[{}1]", "1,".repeat(MAX_VALUES - 1));
        assert!(fits(at_most.as_bytes()));
        let above = format!("[{}1]", "1,".repeat(MAX_VALUES));
        assert!(!fits(above.as_bytes()));
        assert_eq!(weight(b"[1,[]]"), 6 + 3 * SIZE);
        // The error contains the number of bytes that can be passed on.
        assert_eq!(Shape::default().take(above.as_bytes()), Err(2 * MAX_VALUES));
    }
}
