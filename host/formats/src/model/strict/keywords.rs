//! Keywords of strict schemas, and defaults described in text.

use serde_json::{Map, Value, json};

/// Checks the value's type, which differs in older drafts of JSON Schema.
pub(super) fn has_valid_type(keyword: &str, value: &Value) -> bool {
    match keyword {
        "description" | "title" => value.is_string(),
        "maxItems" | "minItems" => value.is_u64(),
        _ => value.is_number(),
    }
}

/// Returns the default of a property, which can be in the only schema of an `allOf`.
pub(super) fn default_value(property: &Value) -> Option<&Value> {
    let [only] = property["allOf"].as_array().map_or(&[][..], Vec::as_slice) else {
        return property.get("default");
    };
    property.get("default").or_else(|| only.get("default"))
}

/// Adds the default to the description of an optional property, whose null means the default. The API does not support defaults, and a model that knows them writes null more
/// often.
pub(super) fn describe_default(strict: &mut Value, default: Option<&Value>) {
    let Some(default) = default.filter(|value| !value.is_null()) else {
        return;
    };
    let shown = default.to_string();
    if shown.len() > 80 {
        return;
    }
    let note = format!("(null means {shown})");
    let described = match strict.get("description").and_then(Value::as_str) {
        Some(description) => format!("{description} {note}"),
        None => note,
    };
    strict["description"] = json!(described);
}

pub(super) fn type_of_values(strict: &Map<String, Value>) -> Option<Value> {
    let values = match (strict.get("enum"), strict.get("const")) {
        (Some(Value::Array(values)), _) => values.as_slice(),
        (_, Some(value)) => std::slice::from_ref(value),
        _ => return None,
    };
    let mut kinds: Vec<&str> = Vec::new();
    for value in values {
        let kind = match value {
            Value::String(_) => "string",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            _ => "null",
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    match kinds.as_slice() {
        [] => None,
        [only] => Some(json!(only)),
        several => Some(json!(several)),
    }
}
