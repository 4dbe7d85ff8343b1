//! Conversion of the root schema, which APIs require to be an object schema without alternatives.

use serde_json::{Map, Value, json};

use super::alternative_properties::merge_properties;
use super::keywords::{merge_schema, resolve_reference, schemas, without_private_keywords};

/// Maximum length of a chain of references.
const MAX_REFERENCE_CHAIN: usize = 8;

/// Keywords that APIs do not support at the root.
const UNSUPPORTED: &[&str] = &[
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const",
];

/// Returns an object schema for the root of a tool's input. Properties of its alternatives become optional properties;
/// the host validates the call against the tool's own schema.
pub(super) fn object(schema: &Value) -> Map<String, Value> {
    let document = without_private_keywords(schema);
    let mut root = members(&document, &document);
    let parts = root.shift_remove("allOf");
    for part in schemas(parts.as_ref()) {
        let mut part = members(&document, part);
        part.retain(|keyword, _| matches!(keyword.as_str(), "properties" | "required"));
        merge_schema(&mut root, &part);
    }
    for keyword in ["anyOf", "oneOf"] {
        let alternatives = root.shift_remove(keyword);
        let alternatives: Vec<Map<String, Value>> = schemas(alternatives.as_ref())
            .map(|alternative| members(&document, alternative))
            .collect();
        merge_properties(&mut root, &alternatives);
    }
    root.retain(|keyword, _| !UNSUPPORTED.contains(&keyword.as_str()));
    root.insert("type".to_owned(), json!("object"));
    root
}

/// Returns the first keyword at the root that is not supported.
pub(super) fn unsupported_keyword(schema: &Value) -> Option<&'static str> {
    let members = members(schema, schema);
    UNSUPPORTED
        .iter()
        .copied()
        .find(|keyword| members.contains_key(*keyword))
}

/// Returns the members of a schema, with references resolved.
fn members(document: &Value, schema: &Value) -> Map<String, Value> {
    let mut members = schema.as_object().cloned().unwrap_or_default();
    for _ in 0..MAX_REFERENCE_CHAIN {
        let Some(Value::String(reference)) = members.shift_remove("$ref") else {
            break;
        };
        if let Some(Value::Object(more)) = resolve_reference(document, &reference) {
            merge_schema(&mut members, more);
        }
    }
    members.shift_remove("$ref");
    members
}
