//! Nullable schemas, for optional members.

use serde_json::{Value, json};

use crate::model::keywords::{resolve_reference, schemas, single_type, strings};

/// Maximum number of schemas visited per check. Few checks need more than three.
const MAX_STEPS: usize = 500;

/// Returns the strict schema extended by null.
pub(super) fn nullable(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else {
        return schema;
    };
    if schema.contains_key("$ref") {
        return json!({"anyOf": [schema, {"type": "null"}]});
    }
    if let Some(Value::Array(alternatives)) = schema.get_mut("anyOf") {
        alternatives.push(json!({"type": "null"}));
        return Value::Object(schema);
    }
    let mut kinds: Vec<Value> = match single_type(&schema) {
        Some(kind) => vec![json!(kind)],
        None => strings(schema.get("type"))
            .map(|kind| json!(kind))
            .collect(),
    };
    let null = json!("null");
    if !kinds.contains(&null) {
        kinds.push(null);
    }
    schema.insert("type".to_owned(), Value::Array(kinds));
    if let Some(value) = schema.shift_remove("const") {
        schema.insert("enum".to_owned(), json!([value]));
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    Value::Object(schema)
}

/// Returns whether the schema accepts null. True if the limit is reached, so that a null is not removed by mistake.
pub(crate) fn accepts_null(document: &Value, schema: &Value) -> bool {
    let mut steps = MAX_STEPS;
    accepts_within(document, schema, &Value::Null, &mut steps)
}

/// Returns whether the schema accepts null or a string, apart from the length and the pattern of a string. True if the
/// limit is reached, so that the value is not changed by mistake. Deducts the visited schemas from `left`.
pub(crate) fn accepts_within(
    document: &Value,
    schema: &Value,
    value: &Value,
    left: &mut usize,
) -> bool {
    let steps = MAX_STEPS.min(*left);
    let mut check = ValueCheck {
        document,
        value,
        left: steps,
    };
    let accepts = check.accepts(schema);
    *left -= steps - check.left;
    accepts
}

struct ValueCheck<'a> {
    document: &'a Value,
    /// Null or a string.
    value: &'a Value,
    left: usize,
}

impl ValueCheck<'_> {
    fn accepts(&mut self, schema: &Value) -> bool {
        let schema = match schema {
            Value::Bool(all) => return *all,
            Value::Object(schema) => schema,
            _ => return false,
        };
        let Some(left) = self.left.checked_sub(1) else {
            return true;
        };
        self.left = left;
        let own_kind = if self.value.is_null() {
            "null"
        } else {
            "string"
        };
        let by_kind = match schema.get("type") {
            Some(Value::String(kind)) => kind == own_kind,
            Some(kinds) => strings(Some(kinds)).any(|kind| kind == own_kind),
            None => true,
        };
        let by_value = match (schema.get("const"), schema.get("enum")) {
            (Some(value), _) => value == self.value,
            (None, Some(Value::Array(values))) => values.contains(self.value),
            (None, _) => true,
        };
        let is_excluded = schema.get("not").is_some_and(|not| not["type"] == own_kind);
        if !by_kind || !by_value || is_excluded {
            return false;
        }
        let reference = schema.get("$ref").and_then(Value::as_str);
        let found = reference.and_then(|reference| resolve_reference(self.document, reference));
        found.is_none_or(|found| self.accepts(found))
            && schemas(schema.get("allOf")).all(|one| self.accepts(one))
            && ["anyOf", "oneOf"].iter().all(|keyword| {
                !schema.contains_key(*keyword)
                    || schemas(schema.get(*keyword)).any(|one| self.accepts(one))
            })
    }
}
