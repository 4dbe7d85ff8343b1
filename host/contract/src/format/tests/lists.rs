//! Tests of tool lists in each format.

use serde_json::{Value, json};

use super::fixture::{listed, tool};
use crate::format::Format;
use crate::{Hints, Reach};

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

fn plain() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "a file", "minLength": 1},
            "limit": {"type": "integer", "description": "lines", "default": 100, "minimum": 1},
        },
        "required": ["path"],
        "additionalProperties": false,
    })
}

#[test]
fn anthropic_gets_name_description_and_input_schema() {
    check(
        Format::Anthropic,
        false,
        &json!([{"name": "look", "description": "Does look.", "input_schema": plain()}]),
    );
}

#[test]
fn openai_gets_functions_and_is_told_whether_they_are_strict() {
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
fn a_strict_schema_is_closed_and_what_may_be_left_out_may_be_null() {
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
fn gemini_gets_function_declarations_in_one_tool() {
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
fn mcp_gets_what_tools_list_has() {
    check(
        Format::Mcp,
        false,
        &json!([{
            "name": "look", "title": "Look", "description": "Does look.", "inputSchema": plain(),
            "annotations": {
                "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
            },
        }]),
    );
}

#[test]
fn a_tool_without_parameters_is_listed_as_each_api_wants_it() {
    let none = json!({"type": "object", "additionalProperties": false});
    let parameters = |format, strict, path: &str| {
        let (tools, _) = listed(format, none.clone(), strict);
        tools.pointer(path).cloned()
    };
    let empty = json!({"type": "object", "additionalProperties": false, "properties": {}});
    let strict =
        json!({"type": "object", "additionalProperties": false, "properties": {}, "required": []});
    for (format, is_strict, path, expected) in [
        (
            Format::Anthropic,
            false,
            "/0/input_schema",
            Some(none.clone()),
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
fn no_tools_are_an_empty_list() {
    for format in Format::ALL {
        assert_eq!(format.tools(&[], true).tools, json!([]), "{format}");
    }
}

#[test]
fn what_cannot_be_strict_says_why_and_stays_as_it_is() {
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
        let schema =
            json!({"type": "object", "properties": {"p": property}, "additionalProperties": false});
        let (tools, notes) = listed(Format::OpenAi, schema.clone(), true);
        assert_eq!(notes, [format!("`look` cannot be strict: {reason}")]);
        assert_eq!(tools[0]["function"]["strict"], false);
        assert_eq!(tools[0]["function"]["parameters"], schema);
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
fn alternatives_at_the_root_become_properties_that_may_be_left_out() {
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
fn a_schema_that_is_none_is_listed_as_that_of_an_object() {
    for schema in [
        json!(true),
        json!(null),
        json!([1]),
        json!({"type": "string"}),
    ] {
        for format in Format::ALL {
            let tool = tool("look", schema.clone());
            let tools = [crate::format::Tool {
                name: "look",
                tool: &tool,
                hints: Hints::of(&tool, Reach::ANYTHING),
            }];
            let listed = format.tools(&tools, true).tools.to_string();
            let has_schema = listed.contains(r#""type":"object""#);
            assert!(has_schema || format == Format::Gemini, "{listed}");
        }
    }
}
