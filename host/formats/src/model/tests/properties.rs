//! Property tests of schema conversion and turn reading.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::model::{Format, gemini, restore, root, strict};

/// Arbitrary JSON, mostly not a useful schema.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        select(
            &[
                "string",
                "object",
                "array",
                "null",
                "#",
                "#/$defs/a",
                "#/$defs/b",
                "uri",
                "",
                "a"
            ][..]
        )
        .prop_map(Value::from),
    ];
    let keyword = select(
        &[
            "type",
            "properties",
            "items",
            "anyOf",
            "oneOf",
            "allOf",
            "$ref",
            "$defs",
            "enum",
            "const",
            "required",
            "default",
            "additionalProperties",
            "format",
            "not",
            "nullable",
            "description",
            "minimum",
            "x-a",
            "a",
            "b",
        ][..],
    );
    leaf.prop_recursive(5, 60, 5, move |inner| {
        let object = vec((keyword.clone(), inner.clone()), 0..5);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::from),
            object.prop_map(|members| {
                let members = members.into_iter();
                Value::Object(
                    members
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

/// A useful schema, mostly within strict mode.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        select(&["string", "integer", "boolean", "null"][..])
            .prop_map(|kind| json!({"type": kind})),
        Just(json!({"type": ["string", "null"]})),
        Just(json!({"enum": ["a", "b"]})),
        Just(json!({"enum": ["a", 1, null]})),
        Just(json!({"const": 7})),
        Just(json!({"type": "integer", "minimum": 2, "maximum": 9, "default": 3})),
        select(&["#", "#/$defs/a", "#/$defs/b"][..]).prop_map(|to| json!({"$ref": to})),
        Just(json!({"type": "object"})),
        Just(json!({})),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            4 => object(inner.clone()),
            1 => inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            1 => inner.clone().prop_map(|one| json!({"anyOf": [one, {"type": "null"}]})),
            1 => inner.clone().prop_map(|one| json!({"allOf": [one], "description": "d"})),
            1 => inner.prop_map(|one| json!({"oneOf": [one, {"type": "boolean"}]})),
        ]
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let property = (select(&["a", "b", "c"][..]), inner, any::<bool>());
    (vec(property, 0..4), select(&[0, 1, 2][..])).prop_map(|(all, closed)| {
        let mut properties = Map::new();
        let mut required: Vec<&str> = Vec::new();
        for (name, property, needed) in all {
            if properties.insert(name.to_owned(), property).is_none() && needed {
                required.push(name);
            }
        }
        let mut object = json!({"type": "object", "properties": properties, "required": required});
        if closed < 2 {
            object["additionalProperties"] = json!(false);
        }
        object
    })
}

fn whole() -> impl Strategy<Value = Value> {
    (object(schema()), schema(), schema()).prop_map(|(mut root, a, b)| {
        root["$defs"] = json!({"a": a, "b": b});
        root
    })
}

/// Generates a value that satisfies a strict schema, or none if generation fails.
fn sample(root: &Value, schema: &Value, seed: &mut u64, depth: usize) -> Option<Value> {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    let dice = usize::try_from(*seed % 1_000).unwrap();
    let depth = depth.checked_sub(1)?;
    if let Some(reference) = schema["$ref"].as_str() {
        return sample(root, root.pointer(&reference[1..])?, seed, depth);
    }
    if let Some(all) = schema["anyOf"].as_array() {
        return (0..all.len())
            .find_map(|turn| sample(root, &all[(dice + turn) % all.len()], seed, depth));
    }
    if let Some(value) = schema.get("const") {
        return Some(value.clone());
    }
    if let Some(values) = schema["enum"].as_array() {
        return Some(values[dice % values.len()].clone());
    }
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        kinds => kinds.as_array()?.iter().filter_map(Value::as_str).collect(),
    };
    let kind = if depth < 3 && kinds.contains(&"null") {
        "null"
    } else {
        kinds[dice % kinds.len()]
    };
    Some(match kind {
        "string" => json!("text"),
        "integer" => json!(2 + dice % 8),
        "number" => json!(1.5),
        "boolean" => json!(dice % 2 == 0),
        "array" => {
            let item = sample(root, &schema["items"], seed, depth);
            item.filter(|_| dice % 3 > 0).into_iter().collect()
        }
        "object" => {
            let mut object = Map::new();
            for (name, property) in schema["properties"].as_object()? {
                object.insert(name.clone(), sample(root, property, seed, depth)?);
            }
            Value::Object(object)
        }
        _ => Value::Null,
    })
}

fn is_gemini(schema: &Value) {
    let known = [
        "type",
        "title",
        "description",
        "nullable",
        "format",
        "enum",
        "items",
        "properties",
        "required",
        "anyOf",
        "default",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ];
    let members = schema.as_object().unwrap();
    for keyword in members.keys() {
        assert!(known.contains(&keyword.as_str()), "{keyword}: {schema}");
    }
    if let Some(all) = members.get("anyOf") {
        assert_eq!(members.len(), 1, "{schema}");
        all.as_array().unwrap().iter().for_each(is_gemini);
        return;
    }
    assert!(members["type"].is_string(), "{schema}");
    if let Some(values) = members.get("enum") {
        assert_eq!(members["type"], "string");
        assert!(values.as_array().unwrap().iter().all(Value::is_string));
        assert!(!values.as_array().unwrap().contains(&json!("")));
    }
    assert_eq!(members["type"] == "array", members.contains_key("items"));
    if let Some(items) = members.get("items") {
        is_gemini(items);
    }
    let properties = members.get("properties").and_then(Value::as_object);
    for name in members
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        assert!(
            properties.unwrap().contains_key(name.as_str().unwrap()),
            "{schema}"
        );
    }
    properties
        .into_iter()
        .flatten()
        .for_each(|(_, property)| is_gemini(property));
}

fn is_strict(schema: &Value) {
    let members = schema.as_object().unwrap();
    if let Some(Value::Object(properties)) = members.get("properties") {
        assert_eq!(members["additionalProperties"], false);
        let names: Vec<&String> = properties.keys().collect();
        assert_eq!(members["required"], json!(names));
        properties.values().for_each(is_strict);
    }
    for all in ["anyOf", "items", "$defs"]
        .iter()
        .filter_map(|keyword| members.get(*keyword))
    {
        match all {
            Value::Array(all) => all.iter().for_each(is_strict),
            Value::Object(named) if members.contains_key("$defs") && all == &members["$defs"] => {
                named.values().for_each(is_strict);
            }
            one => is_strict(one),
        }
    }
}

/// Invariants for any value that a plugin declares as a schema.
fn check_invariants(own: &Value) {
    if let Some(once) = gemini::schema::parameters(own) {
        is_gemini(&once);
        assert_eq!(
            gemini::schema::parameters(&once).as_ref(),
            Some(&once),
            "{own}"
        );
    }
    if let Ok(once) = strict::schema(own) {
        let once = Value::Object(once);
        is_strict(&once);
        assert_eq!(strict::schema(&once).map(Value::Object), Ok(once), "{own}");
    }
    let once = Value::Object(root::object(own));
    assert_eq!(Value::Object(root::object(&once)), once, "{own}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    //
    #[test]
    fn r_093_conversion_of_any_schema_is_valid(schema in any_json(), value in any_json()) {
        check_invariants(&schema);
        let mut restored = value;
        restore(&schema, &mut restored);
        let once = restored.clone();
        restore(&schema, &mut restored);
        prop_assert_eq!(restored, once);
    }

    #[test]
    fn conversion_of_a_useful_schema_is_valid(schema in whole()) {
        check_invariants(&schema);
    }

    #[test]
    fn values_of_the_strict_schema_satisfy_the_original(own in whole(), seed in 1_u64..) {
        let Ok(strict) = strict::schema(&own) else {
            return Ok(());
        };
        let strict = Value::Object(strict);
        // Circular references are not a valid schema.
        let (Ok(theirs), Ok(ours)) = (jsonschema::validator_for(&strict), jsonschema::validator_for(&own)) else {
            return Ok(());
        };
        let mut seed = seed;
        for _ in 0..8 {
            let Some(mut value) = sample(&strict, &strict, &mut seed, 24) else {
                continue;
            };
            prop_assert!(theirs.is_valid(&value), "{} does not fit {}", value, strict);
            let written = value.clone();
            restore(&own, &mut value);
            prop_assert!(ours.is_valid(&value), "{} was {} and does not fit {}", value, written, own);
        }
    }

    #[test]
    fn any_turn_is_read_or_refused(turn in any_json()) {
        for format in Format::ALL {
            let _ = format.read_turn(&turn);
            for body in [
                json!({"content": turn}), json!({"choices": [{"message": turn}]}), json!({"tool_calls": turn}),
                json!({"output": turn}), json!({"candidates": [{"content": {"parts": turn}}]}),
                json!([{"type": "tool_use", "name": turn, "input": turn, "id": turn}]),
            ] {
                let _ = format.read_turn(&body);
            }
        }
    }
}
