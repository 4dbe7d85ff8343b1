//! Tests of schema conversion for Gemini and strict mode, and of restoring inputs.

use serde_json::{Value, json};

use super::fixture::listed;
use crate::model::{Format, restore};

/// Checks the property `p` converted for Gemini.
fn gemini(property: &Value, expected: &Value) {
    gemini_with(property, &json!({}), expected);
}

fn gemini_with(property: &Value, defs: &Value, expected: &Value) {
    let schema = json!({"type": "object", "properties": {"p": property}, "$defs": defs});
    let (tools, _) = listed(Format::Gemini, schema, false);
    let shown = &tools[0]["functionDeclarations"][0]["parameters"]["properties"]["p"];
    assert_eq!(shown, expected, "{property}");
}

//
#[test]
fn r_090_a_default_beside_any_of_is_dropped() {
    gemini(
        &json!({"anyOf": [{"type": "string"}, {"type": "integer"}], "default": "x", "description": "d"}),
        &json!({"anyOf": [{"type": "string", "description": "d"}, {"type": "integer", "description": "d"}]}),
    );
}

//
#[test]
fn r_091_enum_values_are_strings() {
    gemini(
        &json!({"type": "integer", "enum": [1, 2], "default": 2}),
        &json!({"type": "string", "enum": ["1", "2"], "default": "2"}),
    );
    gemini(
        &json!({"const": true}),
        &json!({"type": "string", "enum": ["true"]}),
    );
    gemini(
        &json!({"enum": ["a", null]}),
        &json!({"type": "string", "enum": ["a"], "nullable": true}),
    );
    gemini(
        &json!({"type": "string", "enum": ["", "a"], "default": ""}),
        &json!({"type": "string", "enum": ["a"]}),
    );
    gemini(&json!({"enum": [""]}), &json!({"type": "string"}));
}

//
#[test]
fn r_092_string_formats_are_only_enum_and_date_time() {
    for (format, stays) in [
        ("enum", true),
        ("date-time", true),
        ("uri", false),
        ("email", false),
        ("date", false),
    ] {
        let mut expected = json!({"type": "string"});
        if stays {
            expected["format"] = json!(format);
        }
        gemini(&json!({"type": "string", "format": format}), &expected);
    }
    gemini(
        &json!({"type": "integer", "format": "int64"}),
        &json!({"type": "integer", "format": "int64"}),
    );
}

//
#[test]
fn r_093_nested_schemas_are_converted() {
    gemini(
        &json!({
            "type": "array", "uniqueItems": true,
            "items": {
                "type": "object", "additionalProperties": false, "patternProperties": {"^x": {}},
                "properties": {"u": {"type": "string", "format": "uri", "x-aliases": ["v"]}},
                "required": ["u", "gone"],
            },
        }),
        &json!({
            "type": "array",
            "items": {"type": "object", "properties": {"u": {"type": "string"}}, "required": ["u"]},
        }),
    );
    gemini(
        &json!({"anyOf": [{"type": "array"}, {"type": "string", "format": "uri"}]}),
        &json!({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
    );
}

//
#[test]
fn r_093_recursive_schemas_end_at_the_first_repetition() {
    let defs = json!({"node": {
        "type": "object", "description": "a node",
        "properties": {"next": {"$ref": "#/$defs/node"}, "value": {"type": "integer"}},
    }});
    gemini_with(
        &json!({"$ref": "#/$defs/node", "description": "the first"}),
        &defs,
        &json!({
            "type": "object", "description": "the first",
            "properties": {
                "next": {"type": "object", "description": "a node"},
                "value": {"type": "integer"},
            },
        }),
    );
    gemini(
        &json!({"$ref": "#/properties/p"}),
        &json!({"type": "object"}),
    );
    gemini(&json!({"$ref": "#/nothing"}), &json!({"type": "string"}));
}

#[test]
fn exponential_references_are_bounded() {
    let mut defs = serde_json::Map::new();
    for level in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        let two = json!({"type": "object", "properties": {"a": next, "b": next}});
        defs.insert(format!("d{level}"), two);
    }
    let schema = json!({
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/d0"}, "q": {"type": "string"}},
        "$defs": defs,
    });
    let (tools, _) = listed(Format::Gemini, schema.clone(), false);
    let parameters = &tools[0]["functionDeclarations"][0]["parameters"];
    assert_eq!(
        parameters["properties"],
        json!({"p": {"type": "object"}, "q": {"type": "string"}})
    );
    for format in Format::ALL {
        assert!(listed(format, schema.clone(), true).0.to_string().len() < 20_000);
    }
}

#[test]
fn mutually_recursive_schemas_terminate() {
    let level = |level: usize| {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        let list: Vec<Value> = (0..40).map(|_| next.clone()).collect();
        let all = json!({"allOf": [next, next], "properties": {"v": {"allOf": [next, next]}}});
        [
            all,
            json!({"anyOf": list, "oneOf": list}),
            json!({"type": ["object", "object", "OBJECT", "x", "array"], "properties": {"v": next}, "items": next}),
        ]
    };
    for kind in 0..3 {
        let mut defs = serde_json::Map::new();
        for step in 0..40 {
            defs.insert(format!("d{step}"), level(step)[kind].clone());
        }
        let schema = json!({
            "type": "object", "properties": {"v": {"$ref": "#/$defs/d0"}}, "$defs": defs,
        });
        for format in Format::ALL {
            listed(format, schema.clone(), true);
        }
        let mut input = json!({"v": {"v": {"v": {"v": {"v": null}}}}});
        restore(&schema, &mut input);
    }
    // The same without references.
    let mut schema = json!({"type": "string"});
    for _ in 0..40 {
        schema = json!({
            "type": ["object", "object", "object", "OBJECT", "x", "array"],
            "properties": {"v": schema}, "items": {"type": ["x", "y"], "items": {}},
        });
    }
    listed(Format::Gemini, schema, false);
}

#[test]
fn type_lists_become_alternatives_or_nullable() {
    gemini(
        &json!({"type": ["string", "null"], "maxLength": 3}),
        &json!({"type": "string", "maxLength": 3, "nullable": true}),
    );
    gemini(
        &json!({"type": ["string", "integer", "null"], "minLength": 1, "minimum": 1}),
        &json!({"anyOf": [
            {"type": "string", "minLength": 1, "nullable": true},
            {"type": "integer", "minimum": 1, "nullable": true},
        ]}),
    );
    gemini(
        &json!({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": null, "description": "d"}),
        &json!({"type": "integer", "minimum": 0, "nullable": true, "description": "d"}),
    );
    gemini(
        &json!({"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {}}, "required": ["b"]}]}),
        &json!({
            "type": "object", "required": ["b"],
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        }),
    );
}

#[test]
fn properties_of_alternatives_beside_properties_are_optional() {
    let defs = json!({
        "base": {"properties": {"id": {"type": "integer"}}},
        "box": {"properties": {"shape": {"const": "box"}, "in": {"$ref": "#/$defs/box"}}},
    });
    gemini_with(
        &json!({
            "type": "object",
            "properties": {"x": {"type": "number"}},
            "required": ["x"],
            "oneOf": [
                {"properties": {"shape": {"const": "dot"}}, "allOf": [{"$ref": "#/$defs/base"}], "required": ["id"]},
                {"$ref": "#/$defs/box"},
                {"type": "null"},
            ],
        }),
        &defs,
        &json!({
            "type": "object", "required": ["x"], "nullable": true,
            "properties": {
                "x": {"type": "number"},
                "shape": {"type": "string", "enum": ["dot", "box"]},
                "id": {"type": "integer"},
                "in": {"type": "object"},
            },
        }),
    );
}

/// Checks an optional property `p` converted for strict mode.
fn strict(property: &Value, expected: &Value) {
    let schema =
        json!({"type": "object", "properties": {"p": property}, "additionalProperties": false});
    let (tools, notes) = listed(Format::OpenAi, schema, true);
    let shown = &tools[0]["function"]["parameters"]["properties"]["p"];
    assert_eq!((shown, notes), (expected, Vec::new()), "{property}");
}

#[test]
fn optional_members_are_nullable_in_strict_mode() {
    for (property, expected) in [
        (
            json!({"type": "string", "maxLength": 5}),
            json!({"type": ["string", "null"]}),
        ),
        (
            json!({"type": ["string", "null"]}),
            json!({"type": ["string", "null"]}),
        ),
        (
            json!({"type": "string", "enum": ["a"]}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        ),
        (
            json!({"const": 3}),
            json!({"type": ["number", "null"], "enum": [3, null]}),
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}], "default": 3}),
            json!({
                "anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}],
                "description": "(null means 3)",
            }),
        ),
        (
            json!({"allOf": [{"type": "boolean"}], "description": "d"}),
            json!({"type": ["boolean", "null"], "description": "d"}),
        ),
        (
            json!({"type": "string", "format": "uri", "pattern": "^(?!x)"}),
            json!({"type": ["string", "null"]}),
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
            json!({"anyOf": [
                {"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"},
            ]}),
        ),
    ] {
        strict(&property, &expected);
    }
}

#[test]
fn only_a_null_that_means_the_default_is_described() {
    strict(
        &json!({"type": ["integer", "null"], "default": 3}),
        &json!({"type": ["integer", "null"]}),
    );
    strict(
        &json!({"allOf": [{"type": "integer", "default": 3}]}),
        &json!({"type": ["integer", "null"], "description": "(null means 3)"}),
    );
    strict(
        &json!({"type": "array", "items": {"type": "integer", "default": 3}}),
        &json!({"type": ["array", "null"], "items": {"type": "integer"}}),
    );
    let schema = json!({
        "type": "object", "properties": {"p": {"type": "integer", "default": 3}}, "required": ["p"],
        "additionalProperties": false,
    });
    let (tools, _) = listed(Format::OpenAi, schema, true);
    let shown = &tools[0]["function"]["parameters"]["properties"]["p"];
    assert_eq!(shown, &json!({"type": "integer"}));
}

#[test]
fn strict_mode_keeps_used_references_and_drops_unused_definitions() {
    let (tools, notes) = listed(
        Format::OpenAi,
        json!({
            "type": "object",
            "properties": {"tree": {"$ref": "#/definitions/tree", "description": "the tree"}},
            "required": ["tree"],
            "definitions": {
                "tree": {"type": "object", "properties": {
                    "left": {"$ref": "#/definitions/tree"}, "name": {"type": "string"},
                }},
                "unused": {"type": "object", "additionalProperties": true},
            },
        }),
        true,
    );
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(
        tools[0]["function"]["parameters"],
        json!({
            "type": "object",
            "properties": {"tree": {"description": "the tree", "anyOf": [{"$ref": "#/$defs/tree"}]}},
            "required": ["tree"],
            "additionalProperties": false,
            "$defs": {"tree": {
                "type": "object",
                "properties": {
                    "left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
                    "name": {"type": ["string", "null"]},
                },
                "required": ["left", "name"],
                "additionalProperties": false,
            }},
        })
    );
}

fn back(schema: &Value, written: &Value, expected: &Value) {
    let mut input = written.clone();
    restore(schema, &mut input);
    assert_eq!(&input, expected, "{schema}");
    restore(schema, &mut input);
    assert_eq!(&input, expected, "twice");
}

#[test]
fn only_nulls_of_omitted_members_are_removed() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": ["string", "null"]},
            "c": {"type": "string"},
            "d": {"$ref": "#/$defs/d"},
            "e": {"type": "array", "items": {"$ref": "#/$defs/d"}},
            "f": {"anyOf": [
                {"type": "object", "properties": {"kind": {"const": "x"}, "x": {"type": "string"}}},
                {"type": "object", "properties": {"kind": {"const": "y"}, "y": {"type": "string"}}},
            ]},
        },
        "required": ["c"],
        "$defs": {"d": {"type": "object", "properties": {"d": {"$ref": "#/$defs/d"}, "n": {"type": "integer"}}}},
    });
    for (written, expected) in [
        (
            json!({"a": null, "b": null, "c": null, "unknown": null}),
            json!({"b": null, "c": null, "unknown": null}),
        ),
        (
            json!({"c": "x", "d": {"d": {"d": null, "n": null}, "n": 1}}),
            json!({"c": "x", "d": {"d": {}, "n": 1}}),
        ),
        (
            json!({"e": [{"d": null, "n": 2}, null]}),
            json!({"e": [{"n": 2}, null]}),
        ),
        (
            json!({"f": {"kind": "y", "y": null}}),
            json!({"f": {"kind": "y"}}),
        ),
        (json!("not an object"), json!("not an object")),
        (json!([null]), json!([null])),
    ] {
        back(&schema, &written, &expected);
    }
    // A schema that only refers to itself.
    back(
        &json!({"$ref": "#"}),
        &json!({"a": null}),
        &json!({"a": null}),
    );
}

#[test]
fn text_of_enum_values_is_restored() {
    let schema = json!({"properties": {
        "n": {"enum": [1, 2]}, "s": {"enum": ["1", 1]}, "b": {"const": true},
    }});
    back(
        &schema,
        &json!({"n": "2", "s": "1", "b": "true"}),
        &json!({"n": 2, "s": "1", "b": true}),
    );
    back(&schema, &json!({"n": "3"}), &json!({"n": "3"}));
    for (alternatives, expected) in [
        (json!([{"const": 1}, {"type": "string"}]), json!("1")),
        (json!([{"const": 1}, {"$ref": "#/$defs/s"}]), json!("1")),
        (json!([{"const": 1}, {"enum": ["1"]}]), json!("1")),
        (
            json!([{"const": 1}, {"enum": ["2"]}, {"type": "boolean"}]),
            json!(1),
        ),
    ] {
        let schema = json!({"properties": {"p": {"anyOf": alternatives}}, "$defs": {"s": {"type": ["string", "null"]}}});
        back(&schema, &json!({"p": "1"}), &json!({ "p": expected }));
    }
}
