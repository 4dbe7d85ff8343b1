//! Inputs of calls, with a cached preview and memory size.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::{masked, weight};

/// The input of a call, shared by all records of the call. The masked preview and the memory size are computed once, on
/// first use.
#[derive(Debug, Clone)]
pub struct Input(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    value: Value,
    preview: OnceLock<Value>,
    weight: OnceLock<usize>,
}

impl Input {
    /// Returns the input with secrets masked and long texts truncated.
    pub fn preview(&self) -> &Value {
        self.0.preview.get_or_init(|| masked(&self.0.value))
    }

    /// Returns the approximate memory size in bytes.
    pub fn weight(&self) -> usize {
        *self.0.weight.get_or_init(|| weight(&self.0.value))
    }
}

impl From<Value> for Input {
    fn from(value: Value) -> Self {
        Self(Arc::new(Inner {
            value,
            preview: OnceLock::new(),
            weight: OnceLock::new(),
        }))
    }
}

impl Deref for Input {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.value
    }
}

impl PartialEq for Input {
    fn eq(&self, other: &Self) -> bool {
        self.0.value == other.0.value
    }
}
