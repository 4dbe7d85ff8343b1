//! Detection of numbers that JSON cannot represent. Serde writes NaN and infinity as `null`.

use serde_json::Value;

use crate::{Error, Result};

/// Whether there is anything to check. Building a schema costs more than this.
pub(super) fn contains_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(contains_null),
        Value::Object(members) => members.values().any(contains_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Refuses a `null` where the schema has a number.
pub(super) fn check_finite(schema: &Value, value: &Value) -> Result<()> {
    match not_finite(schema, value, String::new()) {
        Some(path) => Err(Error::failed(format!(
            "the tool's data cannot be written as JSON: `{path}` is NaN or infinite"
        ))
        .code("bad_output")),
        None => Ok(()),
    }
}

fn not_finite(schema: &Value, value: &Value, path: String) -> Option<String> {
    match value {
        Value::Null => (schema["type"] == "number").then_some(path),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            not_finite(&schema["items"], item, format!("{path}[{index}]"))
        }),
        Value::Object(members) => members.iter().find_map(|(name, member)| {
            let property = schema["properties"].get(name);
            let schema = property.unwrap_or(&schema["additionalProperties"]);
            let dot = if path.is_empty() { "" } else { "." };
            not_finite(schema, member, format!("{path}{dot}{name}"))
        }),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
