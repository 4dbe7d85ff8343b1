//! Classification of JSON Schema keywords by their values, so that schema traversal does not mistake data for schemas.

use serde_json::{Map, Value, json};

/// Maximum nesting depth that is traversed. Larger than in real tools, and small enough for the stack.
pub(super) const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordValue {
    Schema,
    Schemas,
    /// A map from author-defined names to schemas.
    Named,
    Data,
}

pub(super) fn keyword_value(keyword: &str) -> KeywordValue {
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
        | "unevaluatedProperties" => KeywordValue::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => KeywordValue::Schemas,
        "$defs" | "definitions" | "dependentSchemas" | "patternProperties" | "properties" => {
            KeywordValue::Named
        }
        _ => KeywordValue::Data,
    }
}

/// Returns whether the keyword is for the host or for schema tools. Some APIs refuse lists that contain one.
fn is_private(keyword: &str) -> bool {
    keyword.starts_with("x-") || matches!(keyword, "$schema" | "$id" | "$comment")
}

/// Returns whether a keyword gives a model more information than its absence does. The host enforces all keywords of
/// the schema, whether they are listed or not, and explains what an input violates.
fn informs_model(keyword: &str, value: &Value) -> bool {
    match keyword {
        "additionalProperties" => value != &Value::Bool(false),
        "default" => !is_empty(value),
        // Counts and positions.
        "minimum" => !matches!(value.as_i64(), Some(0 | 1)),
        "minLength" => value.as_u64() != Some(1),
        "maxLength" => value.as_u64().is_some_and(|limit| limit < LONG_TEXT),
        _ => true,
    }
}

/// A model does not reach a limit of this many characters by accident.
const LONG_TEXT: u64 = 1_000;

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Returns the schema without keywords that are not for a model.
pub(super) fn without_private_keywords(schema: &Value) -> Value {
    retain_keywords(schema, 0, |keyword, _| !is_private(keyword))
}

/// Returns the schema without keywords that give a model no information.
pub(super) fn for_model(schema: Map<String, Value>) -> Map<String, Value> {
    match retain_keywords(&Value::Object(schema), 0, informs_model) {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn retain_keywords(schema: &Value, depth: usize, keep: fn(&str, &Value) -> bool) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    if depth > MAX_DEPTH {
        return Value::Object(Map::new());
    }
    let inner = |schema: &Value| retain_keywords(schema, depth + 1, keep);
    members
        .iter()
        .filter(|(keyword, value)| keep(keyword, value))
        .map(|(keyword, value)| {
            let value = match (keyword_value(keyword), value) {
                // `items` may be a list in older drafts.
                (KeywordValue::Schema | KeywordValue::Schemas, Value::Array(schemas)) => {
                    schemas.iter().map(inner).collect()
                }
                (KeywordValue::Schema | KeywordValue::Schemas, schema) => inner(schema),
                (KeywordValue::Named, Value::Object(named)) => named
                    .iter()
                    .map(|(name, schema)| (name.clone(), inner(schema)))
                    .collect::<Map<_, _>>()
                    .into(),
                (KeywordValue::Named | KeywordValue::Data, value) => value.clone(),
            };
            (keyword.clone(), value)
        })
        .collect::<Map<_, _>>()
        .into()
}

/// Adds `items` to lists without it, and moves a list of schemas in `items` of older drafts to `prefixItems`.
pub(super) fn add_missing_items(schema: &mut Value) {
    let Value::Object(members) = schema else {
        return;
    };
    for (keyword, value) in members.iter_mut() {
        match (keyword_value(keyword), value) {
            (KeywordValue::Schema | KeywordValue::Schemas, Value::Array(schemas)) => {
                schemas.iter_mut().for_each(add_missing_items);
            }
            (KeywordValue::Schema | KeywordValue::Schemas, schema) => add_missing_items(schema),
            (KeywordValue::Named, Value::Object(named)) => {
                named.values_mut().for_each(add_missing_items);
            }
            (KeywordValue::Named | KeywordValue::Data, _) => {}
        }
    }
    let kind = members.get("type");
    let is_list =
        kind.is_some_and(|kind| kind == "array") || strings(kind).any(|kind| kind == "array");
    let is_tuple = members.get("items").is_some_and(Value::is_array);
    if is_tuple && let Some(items) = members.shift_remove("items") {
        members.entry("prefixItems").or_insert(items);
    }
    if is_list || is_tuple {
        members.entry("items").or_insert_with(|| json!({}));
    }
}

/// Returns the target of a reference within the document.
pub(super) fn resolve_reference<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// Returns the type of a schema if it has exactly one.
pub(super) fn single_type(schema: &Map<String, Value>) -> Option<&str> {
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
pub(super) fn merge_schema(into: &mut Map<String, Value>, from: &Map<String, Value>) {
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
