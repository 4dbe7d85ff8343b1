//! Inputs of calls, with a cached preview and memory size.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::{mask_value, memory_size};

/// The input of a call, shared by all records of the call. The masked preview and the memory size are computed once, on
/// first use.
#[derive(Debug, Clone)]
pub struct CallInput(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    value: Value,
    preview: OnceLock<Value>,
    weight: OnceLock<usize>,
}

impl CallInput {
    /// Returns the input with secrets masked and long texts truncated.
    pub fn preview(&self) -> &Value {
        self.0.preview.get_or_init(|| mask_value(&self.0.value))
    }

    /// Returns the approximate memory size in bytes.
    pub fn memory_size(&self) -> usize {
        *self.0.weight.get_or_init(|| memory_size(&self.0.value))
    }
}

impl From<Value> for CallInput {
    fn from(value: Value) -> Self {
        Self(Arc::new(Inner {
            value,
            preview: OnceLock::new(),
            weight: OnceLock::new(),
        }))
    }
}

impl Deref for CallInput {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.value
    }
}

impl PartialEq for CallInput {
    fn eq(&self, other: &Self) -> bool {
        self.0.value == other.0.value
    }
}
