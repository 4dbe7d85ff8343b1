//! Size and depth of a JSON value, without serializing it unless it is close to a limit.

use std::io;

use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Size {
    /// Upper bound of the serialized size in bytes.
    pub(super) at_most: u64,
    pub(super) values: u64,
    /// Nesting depth of arrays and objects, including the outermost.
    pub(super) depth: usize,
}

/// Returns `None` if the value is nested deeper than `max_depth`.
pub(super) fn size(value: &Value, max_depth: usize) -> Option<Size> {
    let mut size = Size::default();
    size.add(value, 0, max_depth)?;
    Some(size)
}

pub(super) fn size_of_object(object: &Map<String, Value>, max_depth: usize) -> Option<Size> {
    let mut size = Size::default();
    size.add_object(object, 0, max_depth)?;
    Some(size)
}

impl Size {
    fn add(&mut self, value: &Value, depth: usize, max_depth: usize) -> Option<()> {
        match value {
            Value::Null | Value::Bool(_) => self.one(5),
            // The longest form of a number is a double such as -1.2345678901234567e-308.
            Value::Number(_) => self.one(25),
            Value::String(string) => self.one(text(string)),
            Value::Array(items) => {
                self.enter(depth, max_depth)?;
                for item in items {
                    self.at_most += 1;
                    self.add(item, depth + 1, max_depth)?;
                }
            }
            Value::Object(object) => self.add_object(object, depth, max_depth)?,
        }
        Some(())
    }

    fn add_object(&mut self, object: &Map<String, Value>, depth: usize, max: usize) -> Option<()> {
        self.enter(depth, max)?;
        for (name, value) in object {
            self.at_most += text(name) + 2;
            self.add(value, depth + 1, max)?;
        }
        Some(())
    }

    fn enter(&mut self, depth: usize, max_depth: usize) -> Option<()> {
        self.one(2);
        self.depth = self.depth.max(depth + 1);
        (depth < max_depth).then_some(())
    }

    fn one(&mut self, bytes: u64) {
        self.values += 1;
        self.at_most += bytes;
    }
}

/// Upper bound for text: every byte may be escaped as `\u001f`.
fn text(text: &str) -> u64 {
    6 * text.len() as u64 + 2
}

pub(super) fn serialized_size(object: &Map<String, Value>) -> u64 {
    let mut count = ByteCounter(0);
    serde_json::to_writer(&mut count, object).expect("counting cannot fail, and keys are strings");
    count.0
}

struct ByteCounter(u64);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
