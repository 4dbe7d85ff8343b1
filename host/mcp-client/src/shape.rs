//! How many values a message has, counted before it is parsed. A limit of bytes alone does not bound memory: a value
//! of three bytes, `[],`, takes more than a hundred when it is parsed, and a message may hold millions of them.

/// Of one message. Results that people and models read have a few thousand.
pub const MAX_VALUES: usize = 100_000;
/// What a value takes in memory, beside its text.
const SIZE: usize = 64;

/// Counts as the bytes of one message come; where they are cut does not matter.
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
    /// After a `\` in a text.
    Escape,
}

impl Shape {
    /// Takes these bytes in, as far as the limit goes. Where one begins that is above it, the number of bytes before it.
    ///
    /// Each value is the first one, or stands after a `[`, a `{` or a `,` outside of texts. So the count is never too
    /// low, and for JSON it is at most twice too high. What is not JSON is counted wrongly from its first error on, and
    /// is parsed no further than that.
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

/// Has this whole message no more values than one may have?
pub fn fits(message: &[u8]) -> bool {
    Shape::default().take(message).is_ok()
}

/// What a message takes in memory when it is parsed, about.
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
        // However it is cut, it comes to the same.
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
        // It says where: what is before that may be passed on.
        assert_eq!(Shape::default().take(above.as_bytes()), Err(2 * MAX_VALUES));
    }
}
