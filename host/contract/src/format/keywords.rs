//! Classification of JSON Schema keywords by their values, so that schema traversal does not mistake data for schemas.

use serde_json::{Map, Value};

/// Maximum nesting depth that is traversed. Larger than in real tools, and small enough for the stack.
pub(super) const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Schema,
    Schemas,
    /// A map from author-defined names to schemas.
    Named,
    Data,
}

pub(super) fn holds(keyword: &str) -> Holds {
    match keyword {
        "additionalItems"
        | "additionalProperties"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "items"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Holds::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::Schemas,
        "$defs" | "definitions" | "dependentSchemas" | "patternProperties" | "properties" => {
            Holds::Named
        }
        _ => Holds::Data,
    }
}

/// Returns whether the keyword is for the host or for schema tools. Some APIs refuse lists that contain one.
fn is_private(keyword: &str) -> bool {
    keyword.starts_with("x-") || matches!(keyword, "$schema" | "$id" | "$comment")
}

/// Returns the schema without keywords that are not for a model.
pub(super) fn clean(schema: &Value, depth: usize) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    if depth > MAX_DEPTH {
        return Value::Object(Map::new());
    }
    let inner = |schema: &Value| clean(schema, depth + 1);
    members
        .iter()
        .filter(|(keyword, _)| !is_private(keyword))
        .map(|(keyword, value)| {
            let value = match (holds(keyword), value) {
                // `items` may be a list in older drafts.
                (Holds::Schema | Holds::Schemas, Value::Array(schemas)) => {
                    schemas.iter().map(inner).collect()
                }
                (Holds::Schema | Holds::Schemas, schema) => inner(schema),
                (Holds::Named, Value::Object(named)) => named
                    .iter()
                    .map(|(name, schema)| (name.clone(), inner(schema)))
                    .collect::<Map<_, _>>()
                    .into(),
                (Holds::Named | Holds::Data, value) => value.clone(),
            };
            (keyword.clone(), value)
        })
        .collect::<Map<_, _>>()
        .into()
}

/// Returns the target of a reference within the document.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// Returns the type of a schema if it has exactly one.
pub(super) fn kind(schema: &Map<String, Value>) -> Option<&str> {
    schema.get("type").and_then(Value::as_str)
}

pub(super) fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = list.and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

pub(super) fn schemas(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// Merges `from` into `into`. Existing keywords take precedence.
pub(super) fn absorb(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (keyword, value) in from {
        match (into.get_mut(keyword), value) {
            (None, value) => {
                into.insert(keyword.clone(), value.clone());
            }
            (Some(Value::Object(own)), Value::Object(more)) if keyword == "properties" => {
                for (name, schema) in more {
                    if !own.contains_key(name) {
                        own.insert(name.clone(), schema.clone());
                    }
                }
            }
            (Some(Value::Array(own)), Value::Array(more)) if keyword == "required" => {
                for name in more {
                    if !own.contains(name) {
                        own.push(name.clone());
                    }
                }
            }
            (Some(_), _) => {}
        }
    }
}
