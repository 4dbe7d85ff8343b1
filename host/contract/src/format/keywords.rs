//! What each keyword of JSON Schema holds, so that a walk over a schema takes no data for a schema.

use serde_json::{Map, Value};

/// Levels that are looked at. Deeper than any tool's author goes, and far from the end of a stack.
pub(super) const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Schema,
    Schemas,
    /// Schemas under names of the author's choice.
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

/// Is this keyword for us alone, or for tools that work on schemas? Some APIs refuse a list that has one.
fn is_private(keyword: &str) -> bool {
    keyword.starts_with("x-") || matches!(keyword, "$schema" | "$id" | "$comment")
}

/// The schema without keywords that are not for a model.
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

/// What a reference within the same document names.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// The name of the schema's kind, when it has exactly one.
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

/// A schema that says what the others say, too: what stands in it already wins.
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
