//! Merges the properties of alternatives into their schema, for APIs that support no alternatives beside properties.

use std::collections::HashMap;
use std::mem;

use serde_json::{Map, Value, json};

use super::keywords::merge_schema;

/// Maximum number of alternatives of a merged property. A property with more accepts any value.
const MAX_ALTERNATIVES: usize = 100;
/// Maximum number of values of a merged enumeration.
const MAX_VALUES: usize = 1_000;

/// Adds the properties of the alternatives to those of the schema, as optional ones. Such a property accepts what it
/// accepts in any alternative. A property that the schema itself has is narrowed if all alternatives have it.
pub(super) fn merge_properties(
    schema: &mut Map<String, Value>,
    alternatives: &[Map<String, Value>],
) {
    let mut merged: Map<String, Value> = Map::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let properties = alternatives
        .iter()
        .filter_map(|one| one.get("properties")?.as_object());
    for (name, property) in properties.flatten() {
        *counts.entry(name).or_default() += 1;
        match merged.get_mut(name) {
            Some(own) => unite(own, property),
            None => {
                merged.insert(name.clone(), property.clone());
            }
        }
    }
    if merged.is_empty() {
        return;
    }
    let own = schema.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(own) = own else {
        return;
    };
    for (name, property) in merged {
        let in_all = counts.get(name.as_str()) == Some(&alternatives.len());
        match (own.get_mut(&name), property) {
            (None, property) => {
                own.insert(name, property);
            }
            (Some(Value::Object(own)), Value::Object(more)) if in_all => merge_schema(own, &more),
            (Some(_), _) => {}
        }
    }
}

/// Extends the schema `own` by the values that `more` accepts.
fn unite(own: &mut Value, more: &Value) {
    if own == more || *own == json!({}) {
        return;
    }
    if let Some(values) = united_values(own, more) {
        *own = values;
        return;
    }
    let mut all = alternatives(mem::take(own));
    for one in alternatives(more.clone()) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    *own = if all.len() > MAX_ALTERNATIVES {
        json!({})
    } else {
        json!({"anyOf": all})
    };
}

/// Returns one enumeration for two schemas with values, unless they are described differently.
fn united_values(own: &Value, more: &Value) -> Option<Value> {
    let (own, more) = (own.as_object()?, more.as_object()?);
    if own.get("description") != more.get("description") {
        return None;
    }
    let mut all = values(own)?.to_vec();
    for value in values(more)? {
        if !all.contains(value) {
            all.push(value.clone());
        }
    }
    if all.len() > MAX_VALUES {
        return None;
    }
    let mut united = own.clone();
    united.retain(|keyword, value| more.get(keyword) == Some(value));
    united.shift_remove("const");
    united.insert("enum".to_owned(), Value::Array(all));
    Some(Value::Object(united))
}

fn values(schema: &Map<String, Value>) -> Option<&[Value]> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(std::slice::from_ref(value)),
        (None, Some(Value::Array(values))) => Some(values),
        (None, _) => None,
    }
}

/// Returns the schemas of an `anyOf` without other keywords, otherwise the schema itself.
fn alternatives(mut schema: Value) -> Vec<Value> {
    match schema.as_object_mut() {
        Some(members) if members.len() == 1 => match members.get_mut("anyOf") {
            Some(Value::Array(all)) => mem::take(all),
            _ => vec![schema],
        },
        _ => vec![schema],
    }
}
