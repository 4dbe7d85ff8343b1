//! Truncation of long strings in structured content.
//!
//! Clients validate structured content against the tool's output schema. Therefore a string is truncated only if no
//! schema that applies to it has a keyword that a shorter string could violate.

use serde_json::Value;

/// Maximum number of schemas that apply to one value, and maximum depth of references between them.
const MOST: usize = 200;
const DEEP: usize = 16;
/// Keywords that a truncated string can violate.
const OF_TEXTS: [&str; 7] = [
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "format",
    "maxLength",
    "minLength",
    "pattern",
];
/// Keywords that any change of a value or its content can violate.
const OF_VALUES: [&str; 2] = ["const", "enum"];
/// References whose target depends on the dynamic scope. They are not resolved.
const UNKNOWN: [&str; 2] = ["$dynamicRef", "$recursiveRef"];

#[derive(Clone)]
enum Step {
    Name(String),
    At(usize),
}

/// Applies `cut` to the strings over `long` bytes that may be truncated.
pub(crate) fn cut_texts(
    value: &mut Value,
    schema: Option<&Value>,
    long: usize,
    mut cut: impl FnMut(String) -> String,
) {
    let mut places = Vec::new();
    find(value, long, &mut Vec::new(), &mut places);
    for place in places {
        if schema.is_none_or(|schema| says_nothing(schema, &place).is_some())
            && let Some(Value::String(text)) = at(value, &place)
        {
            *text = cut(std::mem::take(text));
        }
    }
}

fn find(value: &Value, long: usize, way: &mut Vec<Step>, places: &mut Vec<Vec<Step>>) {
    let mut within = |step, value| {
        way.push(step);
        find(value, long, way, places);
        way.pop();
    };
    match value {
        Value::String(text) if text.len() > long => places.push(way.clone()),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                if is_large(item) {
                    within(Step::At(at), item);
                }
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                if is_large(member) {
                    within(Step::Name(name.clone()), member);
                }
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Other values are skipped before their names are copied.
fn is_large(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_))
}

fn at<'a>(value: &'a mut Value, place: &[Step]) -> Option<&'a mut Value> {
    place.iter().try_fold(value, |value, step| match step {
        Step::Name(name) => value.get_mut(name),
        Step::At(at) => value.get_mut(at),
    })
}

/// Returns `None` if a schema constrains this value or cannot be resolved.
fn says_nothing(root: &Value, place: &[Step]) -> Option<()> {
    let mut here = Vec::new();
    gather(root, root, 0, &mut here)?;
    for step in place {
        says_none_of(&here, &OF_VALUES)?;
        let mut next = Vec::new();
        for schema in here {
            for within in below(schema, step) {
                gather(root, within, 0, &mut next)?;
            }
        }
        here = next;
    }
    says_none_of(&here, &OF_VALUES)?;
    says_none_of(&here, &OF_TEXTS)
}

fn says_none_of(schemas: &[&Value], words: &[&str]) -> Option<()> {
    let says = |schema: &&Value| words.iter().any(|word| schema.get(word).is_some());
    (!schemas.iter().any(says)).then_some(())
}

/// Collects the schema and its subschemas for the same value, whether they match or not. `None` if one cannot be
/// resolved or a limit is exceeded.
fn gather<'a>(
    root: &'a Value,
    schema: &'a Value,
    depth: usize,
    all: &mut Vec<&'a Value>,
) -> Option<()> {
    let Value::Object(words) = schema else {
        return Some(());
    };
    if depth > DEEP || all.len() >= MOST || UNKNOWN.iter().any(|word| words.contains_key(*word)) {
        return None;
    }
    all.push(schema);
    if let Some(to) = words.get("$ref") {
        let place = to.as_str()?.strip_prefix('#')?;
        gather(root, root.pointer(place)?, depth + 1, all)?;
    }
    for word in ["if", "then", "else", "not"] {
        if let Some(other) = words.get(word) {
            gather(root, other, depth + 1, all)?;
        }
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        for other in words
            .get(word)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            gather(root, other, depth + 1, all)?;
        }
    }
    let depends = words.get("dependentSchemas").and_then(Value::as_object);
    for other in depends.into_iter().flat_map(|depends| depends.values()) {
        gather(root, other, depth + 1, all)?;
    }
    Some(())
}

/// Returns the schemas that can apply to a member or element. May return more than apply, never fewer.
fn below<'a>(schema: &'a Value, step: &Step) -> Vec<&'a Value> {
    let mut all = Vec::new();
    let mut add = |words: &[&str]| all.extend(words.iter().filter_map(|word| schema.get(word)));
    match step {
        Step::Name(name) => {
            add(&["additionalProperties", "unevaluatedProperties"]);
            let members = schema.get("properties");
            all.extend(members.and_then(|members| members.get(name)));
            let patterns = schema.get("patternProperties").and_then(Value::as_object);
            all.extend(patterns.into_iter().flat_map(|patterns| patterns.values()));
        }
        Step::At(_) => {
            add(&["additionalItems", "unevaluatedItems", "contains", "items"]);
            for word in ["items", "prefixItems"] {
                all.extend(
                    schema
                        .get(word)
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
        cut_texts(&mut cut, schema.as_ref(), 4, |text| {
            format!("{}…", &text[..1])
        });
        assert_eq!(cut, expected, "{value} by {schema:?}");
    }

    #[test]
    fn texts_are_cut_wherever_they_are() {
        let value = json!({"a": "long text", "b": ["text", "other", {"c": "third"}], "n": 1});
        let expected = json!({"a": "l…", "b": ["text", "o…", {"c": "t…"}], "n": 1});
        check(None, value.clone(), expected.clone());
        check(Some(json!(true)), value.clone(), expected.clone());
        check(Some(json!({"type": "object"})), value, expected);
    }

    #[test]
    fn a_text_is_cut_only_where_its_schema_says_nothing_of_it() {
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
        for word in ["additionalProperties", "unevaluatedProperties"] {
            check(Some(json!({word: {"maxLength": 9}})), long(), long());
        }
        let patterns = json!({"patternProperties": {"^a": {"maxLength": 9}}});
        check(Some(patterns), long(), long());
    }

    #[test]
    fn references_are_followed_and_never_for_ever() {
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
