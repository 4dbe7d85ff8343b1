//! Alternatives in strict mode. Strict mode supports only `anyOf`, which is equivalent to `oneOf` if no value matches
//! two alternatives.

use serde_json::{Map, Value};

use crate::model::keywords::{schemas, single_type, strings};

pub(super) struct Alternatives<'a> {
    pub schemas: Vec<&'a Value>,
    /// Whether at most one alternative matches any value, or it does not matter.
    pub is_exclusive: bool,
}

pub(super) fn alternatives(schema: &Map<String, Value>) -> Option<Alternatives<'_>> {
    if let Some(any) = schema.get("anyOf") {
        return Some(Alternatives {
            schemas: schemas(Some(any)).collect(),
            is_exclusive: !schema.contains_key("oneOf"),
        });
    }
    let one: Vec<&Value> = schemas(Some(schema.get("oneOf")?)).collect();
    let is_exclusive = one
        .iter()
        .enumerate()
        .all(|(index, left)| one[..index].iter().all(|right| are_disjoint(left, right)));
    Some(Alternatives {
        schemas: one,
        is_exclusive,
    })
}

/// Returns whether it is certain that no value matches both schemas.
fn are_disjoint(left: &Value, right: &Value) -> bool {
    let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else {
        return false;
    };
    match (single_type(left), single_type(right)) {
        (Some("object"), Some("object")) => {}
        (Some("integer"), Some("number")) | (Some("number"), Some("integer")) => return false,
        (Some(one), Some(other)) if one != other => return true,
        _ => {}
    }
    let values = |schema: &Map<String, Value>| match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    };
    let apart = |left: &Map<String, Value>, right: &Map<String, Value>| {
        let (Some(left), Some(right)) = (values(left), values(right)) else {
            return false;
        };
        !left.iter().any(|value| right.contains(value))
    };
    if apart(left, right) {
        return true;
    }
    // A required property with distinct constants identifies the alternative.
    let needed: Vec<&str> = strings(right.get("required")).collect();
    strings(left.get("required"))
        .filter(|name| needed.contains(name))
        .any(|name| {
            let property = |schema: &Map<String, Value>| {
                let property = schema.get("properties")?.get(name)?;
                property.as_object().cloned()
            };
            let (Some(left), Some(right)) = (property(left), property(right)) else {
                return false;
            };
            apart(&left, &right)
        })
}
