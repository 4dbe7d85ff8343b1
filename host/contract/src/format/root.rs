//! The outermost schema. APIs want that of an object there, and nothing that chooses between several.

use serde_json::{Map, Value, json};

use super::keywords::{absorb, clean, schemas, target};

/// References that lead to references.
const HOPS: usize = 8;

/// Keywords that no API takes at the root.
const REFUSED: &[&str] = &[
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const",
];

/// The schema of an object, for the root of a tool's input. What its alternatives would take are properties that may
/// be left out; the host checks the call against the tool's own schema.
pub(super) fn object(schema: &Value) -> Map<String, Value> {
    let document = clean(schema, 0);
    let mut root = members(&document, &document);
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let parts = root.shift_remove(keyword);
        for part in schemas(parts.as_ref()) {
            let mut part = members(&document, part);
            if keyword != "allOf" {
                part.shift_remove("required");
            }
            part.retain(|keyword, _| matches!(keyword.as_str(), "properties" | "required"));
            absorb(&mut root, &part);
        }
    }
    root.retain(|keyword, _| !REFUSED.contains(&keyword.as_str()));
    root.insert("type".to_owned(), json!("object"));
    root
}

/// Does the root choose between several schemas?
pub(super) fn refused(schema: &Value) -> Option<&'static str> {
    let members = members(schema, schema);
    REFUSED
        .iter()
        .copied()
        .find(|keyword| members.contains_key(*keyword))
}

/// The members of a schema and of what it refers to.
fn members(document: &Value, schema: &Value) -> Map<String, Value> {
    let mut members = schema.as_object().cloned().unwrap_or_default();
    for _ in 0..HOPS {
        let Some(Value::String(reference)) = members.shift_remove("$ref") else {
            break;
        };
        if let Some(Value::Object(more)) = target(document, &reference) {
            absorb(&mut members, more);
        }
    }
    members.shift_remove("$ref");
    members
}
