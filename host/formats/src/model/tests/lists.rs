//! Tests of tool lists in each format.

use serde_json::{Value, json};

use super::fixture::{listed, tool};
use crate::model::{Format, keywords};
use toolhost_contract::{EffectBounds, ToolHints};

fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "a file", "x-aliases": ["file"], "minLength": 1},
            "limit": {"type": "integer", "description": "lines", "default": 100, "minimum": 1},
        },
        "required": ["path"],
        "additionalProperties": false,
    })
}

fn check(format: Format, strict: bool, expected: &Value) {
    let (tools, notes) = listed(format, schema(), strict);
    assert_eq!(&tools, expected, "{format}");
    assert_eq!(notes, Vec::<String>::new());
}

fn full() -> Value {
    let mut schema = schema();
    schema.as_object_mut().unwrap().shift_remove("$schema");
    let path = schema["properties"]["path"].as_object_mut().unwrap();
    path.shift_remove("x-aliases");
    schema
}

/// A schema without keywords that the host enforces and that give a model no information.
fn plain() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "a file"},
            "limit": {"type": "integer", "description": "lines", "default": 100},
        },
        "required": ["path"],
    })
}

#[test]
fn keywords_that_state_a_default_are_not_listed() {
    let property = |schema: Value| {
        let schema = json!({"type": "object", "properties": {"default": schema}});
        let (tools, _) = listed(Format::Anthropic, schema, false);
        tools[0]["input_schema"]["properties"]["default"].clone()
    };
    for (schema, expected) in [
        (
            json!({"default": false, "type": "boolean"}),
            json!({"type": "boolean"}),
        ),
        (
            json!({"default": true, "type": "boolean"}),
            json!({"default": true, "type": "boolean"}),
        ),
        (json!({"default": "", "minLength": 1}), json!({})),
        (
            json!({"default": 0, "minLength": 2}),
            json!({"default": 0, "minLength": 2}),
        ),
        (json!({"minimum": 1}), json!({})),
        (json!({"minimum": 2}), json!({"minimum": 2})),
        (json!({"maxLength": 999}), json!({"maxLength": 999})),
        (json!({"items": {"maxLength": 1000}}), json!({"items": {}})),
        (
            json!({"additionalProperties": {"type": "string"}}),
            json!({"additionalProperties": {"type": "string"}}),
        ),
    ] {
        assert_eq!(property(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn anthropic_lists_name_description_and_input_schema() {
    check(
        Format::Anthropic,
        false,
        &json!([{"name": "look", "description": "Does look.", "input_schema": plain()}]),
    );
}

#[test]
fn openai_lists_functions_with_a_strict_flag() {
    check(
        Format::OpenAi,
        false,
        &json!([{"type": "function", "function": {
            "name": "look", "description": "Does look.", "parameters": plain(), "strict": false,
        }}]),
    );
    check(
        Format::OpenAiResponses,
        false,
        &json!([{
            "type": "function", "name": "look", "description": "Does look.",
            "parameters": plain(), "strict": false,
        }]),
    );
}

#[test]
fn strict_schemas_are_closed_and_optional_members_nullable() {
    check(
        Format::OpenAi,
        true,
        &json!([{"type": "function", "function": {
            "name": "look", "description": "Does look.", "strict": true,
            "parameters": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "a file"},
                    "limit": {"type": ["integer", "null"], "description": "lines (null means 100)", "minimum": 1},
                },
                "required": ["path", "limit"],
                "additionalProperties": false,
            },
        }}]),
    );
}

#[test]
fn gemini_lists_function_declarations_in_one_tool() {
    check(
        Format::Gemini,
        false,
        &json!([{"functionDeclarations": [{
            "name": "look", "description": "Does look.",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "a file", "minLength": 1},
                    "limit": {"type": "integer", "description": "lines", "default": 100, "minimum": 1},
                },
                "required": ["path"],
            },
        }]}]),
    );
}

#[test]
fn mcp_lists_tools_like_tools_list() {
    check(
        Format::Mcp,
        false,
        &json!([{
            "name": "look", "title": "Look", "description": "Does look.", "inputSchema": full(),
            "annotations": {
                "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
            },
        }]),
    );
}

#[test]
fn a_tool_without_parameters_is_listed_as_each_api_requires() {
    let none = json!({"type": "object", "additionalProperties": false});
    let parameters = |format, strict, path: &str| {
        let (tools, _) = listed(format, none.clone(), strict);
        tools.pointer(path).cloned()
    };
    let empty = json!({"type": "object", "properties": {}});
    let strict =
        json!({"type": "object", "additionalProperties": false, "properties": {}, "required": []});
    for (format, is_strict, path, expected) in [
        (
            Format::Anthropic,
            false,
            "/0/input_schema",
            Some(json!({"type": "object"})),
        ),
        (Format::OpenAi, false, "/0/function/parameters", Some(empty)),
        (Format::OpenAi, true, "/0/function/parameters", Some(strict)),
        // The API refuses an object without properties.
        (
            Format::Gemini,
            false,
            "/0/functionDeclarations/0/parameters",
            None,
        ),
    ] {
        assert_eq!(parameters(format, is_strict, path), expected, "{format}");
    }
}

#[test]
fn an_empty_registry_is_an_empty_list() {
    for format in Format::ALL {
        assert_eq!(format.tool_list(&[], true).tools, json!([]), "{format}");
    }
}

#[test]
fn schemas_without_strict_form_are_listed_as_they_are_with_a_note() {
    for (property, reason) in [
        (json!({}), "`p` accepts any value"),
        (json!(true), "`p` accepts any value or none"),
        (
            json!({"type": "object"}),
            "`p` accepts members with any name",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "`p` accepts members with any name",
        ),
        (json!({"type": "array"}), "`p` is a list of any values"),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"q": {"not": {}}}}}),
            "`p[].q` uses `not`",
        ),
        (
            json!({"allOf": [{"type": "string"}, {"type": "string"}]}),
            "`p` uses `allOf`",
        ),
        (
            json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}),
            "`p` uses `oneOf` with alternatives that can both match",
        ),
        (
            json!({"$ref": "#/properties/p"}),
            "`p` refers to something that is not a definition",
        ),
        (
            json!({"$ref": "#/$defs/gone"}),
            "the definition `gone` is missing",
        ),
        (
            json!({"type": "object", "properties": {}, "required": ["x"]}),
            "`p` requires `x` without defining it",
        ),
    ] {
        let schema = json!({"type": "object", "properties": {"p": property}});
        let mut closed = schema.clone();
        closed["additionalProperties"] = json!(false);
        let (tools, notes) = listed(Format::OpenAi, closed, true);
        assert_eq!(notes, [format!("`look` cannot be strict: {reason}")]);
        assert_eq!(tools[0]["function"]["strict"], false);
        let mut shown = schema;
        keywords::add_missing_items(&mut shown);
        assert_eq!(tools[0]["function"]["parameters"], shown);
    }
    let (_, notes) = listed(
        Format::OpenAiResponses,
        json!({"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}}]}),
        true,
    );
    assert_eq!(
        notes,
        ["`look` cannot be strict: its schema has `anyOf` at the root"]
    );
}

#[test]
fn root_alternatives_become_optional_properties() {
    let (tools, _) = listed(
        Format::Anthropic,
        json!({
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "oneOf": [{"properties": {"b": {"type": "string"}}, "required": ["b"]}, {"$ref": "#/$defs/c"}],
            "$defs": {"c": {"type": "object", "properties": {"c": {"type": "integer"}}}},
        }),
        false,
    );
    assert_eq!(
        tools[0]["input_schema"],
        json!({
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "integer"}},
            "$defs": {"c": {"type": "object", "properties": {"c": {"type": "integer"}}}},
        })
    );
}

#[test]
fn a_property_of_several_root_alternatives_accepts_the_values_of_each() {
    let check = |schema: Value, expected: Value| {
        for (format, path) in [
            (Format::Anthropic, "/0/input_schema/properties"),
            (Format::OpenAi, "/0/function/parameters/properties"),
            (Format::OpenAiResponses, "/0/parameters/properties"),
        ] {
            let (tools, _) = listed(format, schema.clone(), false);
            assert_eq!(tools.pointer(path), Some(&expected), "{format}");
        }
    };
    let action = |name: &str| json!({"properties": {"action": {"type": "string", "const": name}}});
    let create = json!({"properties": {"action": {"const": "create"}, "at": {"type": "string"}}});
    let delete = json!({"properties": {"action": {"const": "delete"}, "at": {"type": "integer"}}});
    let at = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
    check(
        json!({"oneOf": [create, delete, create]}),
        json!({"action": {"enum": ["create", "delete"]}, "at": at}),
    );
    check(
        json!({"anyOf": [action("a"), action("b"), {"properties": {"action": {"enum": ["b", "c"], "type": "string"}}}]}),
        json!({"action": {"type": "string", "enum": ["a", "b", "c"]}}),
    );
    // Differently described values stay apart, and nested alternatives are flattened.
    let a = json!({"const": "a", "description": "x"});
    let b = json!({"const": "b", "description": "y"});
    check(
        json!({"oneOf": [
            {"properties": {"p": a}}, {"properties": {"p": b}},
            {"properties": {"p": {"anyOf": [b, {"type": "null"}]}}},
        ]}),
        json!({"p": {"anyOf": [a, b, {"type": "null"}]}}),
    );
    // A property of the schema itself applies to all alternatives.
    let own = json!({"action": {"type": "string", "description": "d"}});
    check(
        json!({"properties": own, "oneOf": [action("a"), action("b")]}),
        json!({"action": {"type": "string", "description": "d", "enum": ["a", "b"]}}),
    );
    check(
        json!({"properties": own, "oneOf": [action("a"), {"properties": {}}]}),
        own.clone(),
    );
    // Parts of `allOf` apply together, so the first schema of a property stays.
    check(
        json!({"allOf": [action("a"), action("b")]}),
        json!({"action": {"type": "string", "const": "a"}}),
    );
    let many: Vec<Value> = (0..200)
        .map(|size| json!({"properties": {"p": {"maxLength": size}}}))
        .collect();
    check(json!({"anyOf": many}), json!({"p": {}}));
}

#[test]
fn properties_with_names_that_anthropic_refuses_are_not_listed() {
    let long = "x".repeat(65);
    let schema = |required: Value| {
        let properties = json!({"a.b-c_1": {}, "$top": {}, long.as_str(): {}});
        json!({"type": "object", "properties": properties, "required": required})
    };
    let (tools, notes) = listed(Format::Anthropic, schema(json!(["a.b-c_1"])), false);
    let expected = json!({"a.b-c_1": {}});
    assert_eq!(tools[0]["input_schema"]["properties"], expected);
    let unsupported = "the format `anthropic` does not support the property name";
    assert_eq!(
        notes,
        [
            format!("`look` is listed without a property: {unsupported} `$top`"),
            format!("`look` is listed without a property: {unsupported} `{long}`"),
        ]
    );
    let (tools, notes) = listed(Format::Anthropic, schema(json!(["$top"])), false);
    assert_eq!(tools, json!([]));
    assert_eq!(
        notes,
        [format!("`look` is not listed: {unsupported} `$top`")]
    );
    for format in [Format::OpenAi, Format::OpenAiResponses, Format::Mcp] {
        let (tools, notes) = listed(format, schema(json!(["$top"])), false);
        assert_eq!((tools.as_array().unwrap().len(), notes), (1, Vec::new()));
    }
}

#[test]
fn every_list_has_items_for_openai() {
    for (property, expected) in [
        (
            json!({"type": "array"}),
            json!({"type": "array", "items": {}}),
        ),
        (
            json!({"type": ["array", "null"]}),
            json!({"type": ["array", "null"], "items": {}}),
        ),
        (
            json!({"type": "array", "items": {"anyOf": [{"type": "array"}]}}),
            json!({"type": "array", "items": {"anyOf": [{"type": "array", "items": {}}]}}),
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "array"}]}),
            json!({"type": "array", "prefixItems": [{"type": "array", "items": {}}], "items": {}}),
        ),
        (
            json!({"items": [{"type": "string"}]}),
            json!({"prefixItems": [{"type": "string"}], "items": {}}),
        ),
        // Data is not a schema.
        (
            json!({"enum": [{"type": "array"}]}),
            json!({"enum": [{"type": "array"}]}),
        ),
    ] {
        let schema = json!({"properties": {"type": property}});
        for (format, path) in [
            (Format::OpenAi, "/0/function/parameters/properties/type"),
            (Format::OpenAiResponses, "/0/parameters/properties/type"),
        ] {
            let (tools, _) = listed(format, schema.clone(), false);
            assert_eq!(tools.pointer(path), Some(&expected), "{format}: {property}");
        }
    }
}

#[test]
fn an_invalid_schema_is_listed_as_an_object_schema() {
    for schema in [
        json!(true),
        json!(null),
        json!([1]),
        json!({"type": "string"}),
    ] {
        for format in Format::ALL {
            let tool = tool("look", schema.clone());
            let tools = [crate::model::ListedTool {
                name: "look",
                tool: &tool,
                hints: ToolHints::new(&tool, EffectBounds::UNBOUNDED),
            }];
            let listed = format.tool_list(&tools, true).tools.to_string();
            let has_schema = listed.contains(r#""type":"object""#);
            assert!(has_schema || format == Format::Gemini, "{listed}");
        }
    }
}
