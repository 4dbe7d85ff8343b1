//! What a call was given.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::{masked, weight};

/// An input, shared by all that is known of its call: masking it and weighing it are done once, when somebody asks.
#[derive(Debug, Clone)]
pub struct Input(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    value: Value,
    preview: OnceLock<Value>,
    weight: OnceLock<usize>,
}

impl Input {
    /// With secrets masked and long texts cut.
    pub fn preview(&self) -> &Value {
        self.0.preview.get_or_init(|| masked(&self.0.value))
    }

    /// About what it takes in memory.
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
