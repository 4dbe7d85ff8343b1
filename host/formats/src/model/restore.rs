//! Conversion of inputs that a model wrote for a converted schema back to the tool's own schema.

use serde_json::{Map, Value};

use super::keywords::{MAX_DEPTH, resolve_reference, schemas, single_type, strings};
use super::strict::accepts_within;

/// Maximum number of pairs of schema and value to visit. A list of 100,000 items needs as many.
const MAX_STEPS: usize = 500_000;

/// Removes null for optional members that do not accept null, and converts the text of an enumerated value back to that
/// value. Values that satisfy the schema are unchanged.
///
/// If the limit on steps is reached, the rest of the input is left unchanged for the input validation to reject.
pub fn restore(schema: &Value, input: &mut Value) {
    let mut walk = Restorer {
        root: schema,
        left: MAX_STEPS,
    };
    walk.restore_value(schema, input, 0);
}

struct Restorer<'a> {
    root: &'a Value,
    /// Remaining pairs of schema and value to visit.
    left: usize,
}

impl<'a> Restorer<'a> {
    fn restore_value(&mut self, schema: &'a Value, value: &mut Value, depth: usize) {
        let root = self.root;
        let Some(members) = schema.as_object() else {
            return;
        };
        if depth > MAX_DEPTH || self.left == 0 {
            return;
        }
        self.left -= 1;
        if let Some(found) = members
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|reference| resolve_reference(root, reference))
        {
            self.restore_value(found, value, depth + 1);
        }
        for part in schemas(members.get("allOf")) {
            self.restore_value(part, value, depth + 1);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(meant) = self.matching_alternative(members.get(keyword), value) {
                self.restore_value(meant, value, depth + 1);
            }
        }
        if let Value::String(text) = value
            && let Some(listed) = enum_value(members, text)
        {
            *value = listed;
            return;
        }
        match value {
            Value::Object(given) => {
                let Some(properties) = members.get("properties").and_then(Value::as_object) else {
                    return;
                };
                let required: Vec<&str> = strings(members.get("required")).collect();
                let left = &mut self.left;
                given.retain(|name, value| {
                    !value.is_null()
                        || required.contains(&name.as_str())
                        || properties.get(name).is_none_or(|property| {
                            accepts_within(root, property, &Value::Null, left)
                        })
                });
                for (name, value) in given {
                    if let Some(property) = properties.get(name) {
                        self.restore_value(property, value, depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema @ Value::Object(_)) = members.get("items") {
                    for item in items {
                        self.restore_value(schema, item, depth + 1);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Returns the alternative that the value was written for: the one that has all its members and matches its
    /// constants. `None` for a string that an alternative accepts as it is.
    fn matching_alternative(
        &mut self,
        alternatives: Option<&'a Value>,
        value: &Value,
    ) -> Option<&'a Value> {
        let root = self.root;
        let left = &mut self.left;
        if value.is_string()
            && schemas(alternatives).any(|schema| accepts_within(root, schema, value, left))
        {
            return None;
        }
        let follow = |schema: &'a Value| {
            let reference = schema.get("$ref").and_then(Value::as_str);
            reference
                .and_then(|reference| resolve_reference(root, reference))
                .unwrap_or(schema)
        };
        schemas(alternatives)
            .map(follow)
            .find(|schema| is_matching(schema, value))
    }
}

/// Returns the enumerated value with this JSON text. Returns `None` if the text itself is one of the values.
fn enum_value(schema: &Map<String, Value>, text: &str) -> Option<Value> {
    let values = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => values.as_slice(),
        (None, Some(value)) => std::slice::from_ref(value),
        _ => return None,
    };
    if values.iter().any(|value| value == text) {
        return None;
    }
    let found = values.iter().find(|value| is_json_text(value, text));
    found.cloned()
}

fn is_matching(schema: &Value, value: &Value) -> bool {
    let Some(schema) = schema.as_object() else {
        return false;
    };
    match value {
        Value::Object(given) => {
            if single_type(schema).is_some_and(|kind| kind != "object") {
                return false;
            }
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return true;
            };
            let needed = strings(schema.get("required")).all(|name| given.contains_key(name));
            needed
                && given.iter().all(|(name, value)| {
                    properties
                        .get(name)
                        .is_some_and(|property| can_match(property, value))
                })
        }
        Value::Array(_) => single_type(schema) == Some("array") || schema.contains_key("items"),
        Value::String(text) => enum_value(schema, text).is_some(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether the constants and the type of the property allow the value.
fn can_match(property: &Value, value: &Value) -> bool {
    if value.is_null() {
        return true;
    }
    let Some(property) = property.as_object() else {
        return true;
    };
    let kinds = match single_type(property) {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        // Enumerated values may be written as text.
        Some("boolean") => value.is_boolean() || value.is_string(),
        Some("integer" | "number") => value.is_number() || value.is_string(),
        _ => true,
    };
    let values = match (property.get("enum"), property.get("const")) {
        (Some(Value::Array(values)), _) => values.as_slice(),
        (None, Some(one)) => std::slice::from_ref(one),
        _ => return kinds,
    };
    let text = value.as_str().unwrap_or_default();
    kinds
        && values
            .iter()
            .any(|one| one == value || is_json_text(one, text))
}

/// Returns whether `text` is the JSON of a value that is not a string.
fn is_json_text(value: &Value, text: &str) -> bool {
    let written = value.to_string();
    !value.is_string() && written == text
}
