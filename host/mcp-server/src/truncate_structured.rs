//! Truncation of long strings in structured content.
//!
//! Clients validate structured content against the tool's output schema. Therefore a string is truncated only if no
//! schema that applies to it has a keyword that a shorter string could violate.

use serde_json::Value;

/// Maximum number of schemas that apply to one value, and maximum depth of references between them.
const MAX_SCHEMAS: usize = 200;
const MAX_DEPTH: usize = 16;
/// Keywords that a truncated string can violate.
const STRING_KEYWORDS: [&str; 7] = [
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "format",
    "maxLength",
    "minLength",
    "pattern",
];
/// Keywords that any change of a value or its content can violate.
const VALUE_KEYWORDS: [&str; 2] = ["const", "enum"];
/// References whose target depends on the dynamic scope. They are not resolved.
const DYNAMIC_REFERENCES: [&str; 2] = ["$dynamicRef", "$recursiveRef"];

#[derive(Clone)]
enum PathSegment {
    Member(String),
    Element(usize),
}

/// Applies `cut` to the strings over `long` bytes that may be truncated.
pub(crate) fn truncate_strings(
    value: &mut Value,
    schema: Option<&Value>,
    long: usize,
    mut cut: impl FnMut(String) -> String,
) {
    let mut paths = Vec::new();
    find_long_strings(value, long, &mut Vec::new(), &mut paths);
    for path in paths {
        if schema.is_none_or(|schema| check_unconstrained(schema, &path).is_some())
            && let Some(Value::String(text)) = value_at(value, &path)
        {
            *text = cut(std::mem::take(text));
        }
    }
}

fn find_long_strings(
    value: &Value,
    long: usize,
    way: &mut Vec<PathSegment>,
    paths: &mut Vec<Vec<PathSegment>>,
) {
    let mut descend = |step, value| {
        way.push(step);
        find_long_strings(value, long, way, paths);
        way.pop();
    };
    match value {
        Value::String(text) if text.len() > long => paths.push(way.clone()),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                if can_contain_text(item) {
                    descend(PathSegment::Element(at), item);
                }
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                if can_contain_text(member) {
                    descend(PathSegment::Member(name.clone()), member);
                }
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Other values are skipped before their names are copied.
fn can_contain_text(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_))
}

fn value_at<'a>(value: &'a mut Value, path: &[PathSegment]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        PathSegment::Member(name) => value.get_mut(name),
        PathSegment::Element(at) => value.get_mut(at),
    })
}

/// Returns `None` if a schema constrains this value or cannot be resolved.
fn check_unconstrained(root: &Value, path: &[PathSegment]) -> Option<()> {
    let mut here = Vec::new();
    collect_subschemas(root, root, 0, &mut here)?;
    for step in path {
        check_has_none_of(&here, &VALUE_KEYWORDS)?;
        let mut next = Vec::new();
        for schema in here {
            for child in child_schemas(schema, step) {
                collect_subschemas(root, child, 0, &mut next)?;
            }
        }
        here = next;
    }
    check_has_none_of(&here, &VALUE_KEYWORDS)?;
    check_has_none_of(&here, &STRING_KEYWORDS)
}

fn check_has_none_of(schemas: &[&Value], keywords: &[&str]) -> Option<()> {
    let has_keyword =
        |schema: &&Value| keywords.iter().any(|keyword| schema.get(keyword).is_some());
    (!schemas.iter().any(has_keyword)).then_some(())
}

/// Collects the schema and its subschemas for the same value, whether they match or not. `None` if one cannot be
/// resolved or a limit is exceeded.
fn collect_subschemas<'a>(
    root: &'a Value,
    schema: &'a Value,
    depth: usize,
    all: &mut Vec<&'a Value>,
) -> Option<()> {
    let Value::Object(members) = schema else {
        return Some(());
    };
    if depth > MAX_DEPTH
        || all.len() >= MAX_SCHEMAS
        || DYNAMIC_REFERENCES
            .iter()
            .any(|keyword| members.contains_key(*keyword))
    {
        return None;
    }
    all.push(schema);
    if let Some(to) = members.get("$ref") {
        let pointer = to.as_str()?.strip_prefix('#')?;
        collect_subschemas(root, root.pointer(pointer)?, depth + 1, all)?;
    }
    for keyword in ["if", "then", "else", "not"] {
        if let Some(other) = members.get(keyword) {
            collect_subschemas(root, other, depth + 1, all)?;
        }
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for other in members
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            collect_subschemas(root, other, depth + 1, all)?;
        }
    }
    let depends = members.get("dependentSchemas").and_then(Value::as_object);
    for other in depends.into_iter().flat_map(|depends| depends.values()) {
        collect_subschemas(root, other, depth + 1, all)?;
    }
    Some(())
}

/// Returns the schemas that can apply to a member or element. May return more than apply, never fewer.
fn child_schemas<'a>(schema: &'a Value, step: &PathSegment) -> Vec<&'a Value> {
    let mut all = Vec::new();
    let mut add =
        |keywords: &[&str]| all.extend(keywords.iter().filter_map(|keyword| schema.get(keyword)));
    match step {
        PathSegment::Member(name) => {
            add(&["additionalProperties", "unevaluatedProperties"]);
            let members = schema.get("properties");
            all.extend(members.and_then(|members| members.get(name)));
            let patterns = schema.get("patternProperties").and_then(Value::as_object);
            all.extend(patterns.into_iter().flat_map(|patterns| patterns.values()));
        }
        PathSegment::Element(_) => {
            add(&["additionalItems", "unevaluatedItems", "contains", "items"]);
            for keyword in ["items", "prefixItems"] {
                all.extend(
                    schema
                        .get(keyword)
                        .and_then(Value::as_array)
                        .into_iter()
                        .flatten(),
                );
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tables read better")]
    fn check(schema: Option<Value>, value: Value, expected: Value) {
        let mut cut = value.clone();
        truncate_strings(&mut cut, schema.as_ref(), 4, |text| {
            format!("{}…", &text[..1])
        });
        assert_eq!(cut, expected, "{value} by {schema:?}");
    }

    #[test]
    fn strings_are_truncated_at_any_depth() {
        let value = json!({"a": "long text", "b": ["text", "other", {"c": "third"}], "n": 1});
        let expected = json!({"a": "l…", "b": ["text", "o…", {"c": "t…"}], "n": 1});
        check(None, value.clone(), expected.clone());
        check(Some(json!(true)), value.clone(), expected.clone());
        check(Some(json!({"type": "object"})), value, expected);
    }

    #[test]
    fn only_unconstrained_strings_are_truncated() {
        let long = || json!({"a": "long text"});
        let of = |a: Value| Some(json!({"type": "object", "properties": {"a": a}}));
        let cut = || json!({"a": "l…"});
        for free in [
            json!({"type": "string", "description": "pattern", "title": "enum"}),
            json!(true),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"type": ["string", "null"], "x-ours": {"pattern": 1}}),
        ] {
            check(of(free), long(), cut());
        }
        for held in [
            json!({"type": "string", "maxLength": 10}),
            json!({"pattern": "^long"}),
            json!({"format": "uri"}),
            json!({"enum": ["long text"]}),
            json!({"const": "long text"}),
            json!({"minLength": 9}),
            json!({"contentEncoding": "base64"}),
            json!({"anyOf": [{"type": "null"}, {"allOf": [{"pattern": "x"}]}]}),
            json!({"not": {"pattern": "…"}}),
            json!({"$ref": "https://example.org/schema"}),
            json!({"$ref": "#/$defs/gone"}),
            json!({"$dynamicRef": "#a"}),
        ] {
            check(of(held), long(), long());
        }
        check(Some(json!({"enum": [long()]})), long(), long());
        for keyword in ["additionalProperties", "unevaluatedProperties"] {
            check(Some(json!({keyword: {"maxLength": 9}})), long(), long());
        }
        let patterns = json!({"patternProperties": {"^a": {"maxLength": 9}}});
        check(Some(patterns), long(), long());
    }

    #[test]
    fn references_are_resolved_without_endless_recursion() {
        let schema = json!({
            "properties": {"all": {"items": {"$ref": "#/$defs/one"}}},
            "$defs": {"one": {"properties": {
                "free": {"type": "string"}, "held": {"maxLength": 99}, "more": {"$ref": "#/$defs/one"},
            }}},
        });
        let one = |free: &str| json!({"free": free, "held": "long text", "more": {"free": free, "held": "long text"}});
        let all = |free: &str| json!({"all": [one(free), one(free)]});
        check(Some(schema), all("long text"), all("l…"));
        let round = json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}});
        check(
            Some(round),
            json!({"a": "long text"}),
            json!({"a": "long text"}),
        );
        let first = json!({"prefixItems": [{"maxLength": 9}], "items": {"type": "string"}});
        check(Some(first), json!(["long text"]), json!(["long text"]));
    }
}
