//! Tests of input validation and repair.

mod errors;

use expect_test::{Expect, expect};
use serde_json::json;
use toolhost_contract::{Failure, ToolName};

use super::*;

#[derive(Clone, Copy)]
enum Mode {
    Strict,
    Lenient,
}
use Mode::{Lenient, Strict};

fn tool(mode: Mode, schema: Value) -> Descriptor {
    let mut tool = Descriptor::new(ToolName::parse("sample").unwrap(), "a sample");
    tool.strict = matches!(mode, Strict);
    tool.input_schema = schema;
    tool
}

/// Checks the input for the tool and the repairs, or the refusal with its recommendations.
fn check(mode: Mode, schema: Value, input: Value, expected: Expect) {
    check_bytes(mode, schema, input, 10_000, expected);
}

fn check_bytes(mode: Mode, schema: Value, input: Value, max_bytes: u64, expected: Expect) {
    let tool = tool(mode, schema);
    let mut repairs = Vec::new();
    let checked = ToolSchemas::compile(&tool)
        .unwrap()
        .check(&tool, input, max_bytes, &mut repairs);
    let mut lines = vec![match checked {
        Ok(input) => input.to_string(),
        Err(error) => format!("[{}] {}", error.code, error.for_model()),
    }];
    lines.extend(repairs);
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn schemas_that_were_checked_before_are_compiled_when_they_are_used() {
    let check = |tool: &Descriptor, input| {
        let checked = ToolSchemas::default().check(tool, input, 1_000, &mut Vec::new());
        checked.map_err(|error| (error.class, error.message))
    };
    let known = tool(Strict, read_file());
    assert!(check(&known, json!({"path": "a"})).is_ok());
    let (class, _) = check(&known, json!({})).unwrap_err();
    assert_eq!(class, ErrorClass::InvalidInput);
    let invalid = tool(Strict, json!({"type": "strnig"}));
    let (class, message) = check(&invalid, json!({})).unwrap_err();
    assert_eq!(class, ErrorClass::Internal);
    assert!(
        message.contains("the input schema is not valid"),
        "{message}"
    );
}

fn read_file() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "a file", "x-aliases": ["file_path", "filePath"]},
            "limit": {"type": "integer", "minimum": 1, "default": 100},
            "ratio": {"type": "number"},
            "hidden": {"type": "boolean"},
            "globs": {"type": "array", "items": {"type": "string"}},
            "range": {
                "type": "object",
                "properties": {"from": {"type": "integer", "default": 1}, "to": {"type": "integer"}},
                "required": ["to"],
                "additionalProperties": false,
            },
            "mode": {"enum": ["text", "raw"]},
            "note": {"type": ["string", "null"]},
        },
        "required": ["path"],
        "additionalProperties": false,
    })
}

fn read(input: Value, expected: Expect) {
    check(Strict, read_file(), input, expected);
}

#[test]
fn valid_input_is_unchanged_except_for_defaults() {
    read(
        json!({"path": "a"}),
        expect![[r#"{"path":"a","limit":100}"#]],
    );
    read(
        json!({"path": "a", "limit": 2, "note": null, "range": {"to": 3}}),
        expect![[r#"{"path":"a","limit":2,"note":null,"range":{"to":3,"from":1}}"#]],
    );
}

#[test]
fn an_input_must_be_an_object_or_text_containing_one() {
    read(
        json!("{\"path\": \"a\", \"limit\": 1}"),
        expect![[r#"
        {"path":"a","limit":1}
        input: text read as an object"#]],
    );
    check(
        Strict,
        json!({"type": "object"}),
        json!(null),
        expect![[r#"
        {}
        input: null read as {}"#]],
    );
    read(
        json!("[1]"),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: input: expected an object, got text that holds an array"#
        ]],
    );
    read(
        json!("path=a"),
        expect![[
            r#"[invalid_json] Parameter validation failed: input: expected an object, got text that is not JSON (expected value at line 1 column 1)"#
        ]],
    );
    read(
        json!([1]),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: input: expected an object, got an array"#
        ]],
    );
    read(
        json!(7),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: input: expected an object, got 7"#
        ]],
    );
}

#[test]
fn size_and_depth_have_limits() {
    let free = || json!({"type": "object"});
    check_bytes(
        Strict,
        free(),
        json!({"a": "bcd"}),
        11,
        expect![[r#"{"a":"bcd"}"#]],
    );
    check_bytes(
        Strict,
        free(),
        json!({"a": "bcd"}),
        10,
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: input: 11 B exceed the limit of 10 B
        - split the input into several calls"#]],
    );
    check_bytes(
        Strict,
        free(),
        json!("{\"a\": \"bcd\"}"),
        10,
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: input: 12 B exceed the limit of 10 B
        - split the input into several calls"#]],
    );
    let deep = |levels| (1..levels).fold(json!({}), |value, _| json!({"a": value}));
    assert!(super::bounds(deep(MAX_DEPTH).as_object().unwrap(), 10_000).is_ok());
    check(
        Strict,
        free(),
        deep(MAX_DEPTH + 1),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: input: nested deeper than 128 levels"#
        ]],
    );
    // Text inside text does not get deeper either.
    let nested = json!({"type": "object", "properties": {"a": {"type": "array"}}});
    let text = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    check(
        Strict,
        nested.clone(),
        json!({"a": text(3)}),
        expect![[r#"
        {"a":[[[]]]}
        a: text read as an array"#]],
    );
    let mut repairs = Vec::new();
    let tool = tool(Strict, nested);
    let schema = ToolSchemas::compile(&tool).unwrap();
    assert!(
        schema
            .check(&tool, json!({"a": text(MAX_DEPTH)}), 10_000, &mut repairs)
            .is_err()
    );
    assert!(
        schema
            .check(
                &tool,
                json!({"a": text(MAX_DEPTH - 1)}),
                10_000,
                &mut repairs
            )
            .is_ok()
    );
}

#[test]
fn extra_parameters_are_stripped_unless_the_tool_has_them() {
    let extras =
        json!({"path": "a", "limit": 1, "wait_for_previous": true, "description": "read it"});
    read(
        extras.clone(),
        expect![[r#"
        {"path":"a","limit":1}
        wait_for_previous: removed, the tool has no such parameter
        description: removed, the tool has no such parameter"#]],
    );
    let own = json!({"properties": {"path": {}, "limit": {}, "description": {"type": "string"}}});
    check(
        Strict,
        own,
        extras,
        expect![[r#"
        {"path":"a","limit":1,"description":"read it"}
        wait_for_previous: removed, the tool has no such parameter"#]],
    );
    check(
        Strict,
        json!({"type": "object"}),
        json!({"description": "x"}),
        expect![[r#"{"description":"x"}"#]],
    );
}

#[test]
fn aliases_are_renamed_and_keep_their_position() {
    read(
        json!({"file_path": "a", "limit": 1}),
        expect![[r#"
        {"path":"a","limit":1}
        path: renamed from its alias `file_path`"#]],
    );
    read(
        json!({"file_path": "a", "path": "b"}),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: path: is given twice, once as its alias `file_path`; use one of the two"#
        ]],
    );
    read(
        json!({"path": "b", "filePath": "a"}),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: path: is given twice, once as its alias `filePath`; use one of the two"#
        ]],
    );
    read(
        json!({"file_path": "a", "filePath": "b"}),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: path: is given twice, once as its alias `filePath`; use one of the two
        path: renamed from its alias `file_path`"#]],
    );
}

#[test]
fn text_is_parsed_where_no_string_is_accepted() {
    read(
        json!({"path": "5", "limit": "5", "ratio": " 0.5 ", "hidden": "True", "globs": "[\"*.rs\"]", "range": "{\"to\": \"9\"}"}),
        expect![[r#"
            {"path":"5","limit":5,"ratio":0.5,"hidden":true,"globs":["*.rs"],"range":{"to":9,"from":1}}
            limit: text read as 5
            ratio: text read as 0.5
            hidden: text read as true
            globs: text read as an array
            range: text read as an object
            range.to: text read as 9"#]],
    );
    read(
        json!({"path": "a", "limit": 5.0}),
        expect![[r#"
        {"path":"a","limit":5}
        limit: fraction read as 5"#]],
    );
    read(
        json!({"path": "a", "limit": "5.0"}),
        expect![[r#"
        {"path":"a","limit":5}
        limit: text read as 5"#]],
    );
    for (kind, text) in [
        ("integer", "5.5"),
        ("integer", "five"),
        ("boolean", "yes"),
        ("array", "{}"),
        ("integer", "null"),
    ] {
        let tool = tool(Strict, json!({"properties": {"x": {"type": kind}}}));
        let input = json!({"x": text});
        let mut repairs = Vec::new();
        assert!(
            ToolSchemas::compile(&tool)
                .unwrap()
                .check(&tool, input, 100, &mut repairs)
                .is_err(),
            "{kind} {text}"
        );
        assert!(repairs.is_empty());
    }
}

#[test]
fn strings_are_never_changed() {
    for kind in [
        json!({"type": "string"}),
        json!({"type": ["string", "integer"]}),
        json!({}),
        json!({"enum": ["5", 5]}),
    ] {
        let tool = tool(Strict, json!({"properties": {"x": kind}}));
        let schema = ToolSchemas::compile(&tool).unwrap();
        let mut repairs = Vec::new();
        assert_eq!(
            schema
                .check(&tool, json!({"x": "5"}), 100, &mut repairs)
                .unwrap(),
            json!({"x": "5"})
        );
        assert!(repairs.is_empty());
    }
    read(
        json!({"path": 5}),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: path: expected string, got 5
        - schema of path: {"type":"string","description":"a file"}"#]],
    );
}

#[test]
fn null_is_removed_where_a_property_may_be_absent() {
    read(
        json!({"path": "a", "limit": null, "mode": null, "note": null}),
        expect![[r#"
            {"path":"a","note":null,"limit":100}
            limit: null removed
            mode: null removed"#]],
    );
    read(
        json!({"path": null}),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: path: expected string, got null
        - schema of path: {"type":"string","description":"a file"}"#]],
    );
}

#[test]
fn references_and_optional_forms_are_resolved() {
    let schema = json!({
        "type": "object",
        "properties": {
            "one": {"$ref": "#/$defs/Point"},
            "maybe": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}], "default": null},
            "many": {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/Point"}]}},
            "named": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Point"}},
        },
        "$defs": {"Point": {
            "type": "object",
            "properties": {"x": {"type": "integer", "x-aliases": ["left"]}, "y": {"type": "integer", "default": 0}},
            "required": ["x"],
        }},
    });
    check(
        Strict,
        schema.clone(),
        json!({"one": {"x": "1"}, "maybe": "{\"left\": 2}", "many": ["{\"x\": 3}"], "named": {"n": {"x": 4}}}),
        expect![[r#"
            {"one":{"x":1,"y":0},"maybe":{"x":2,"y":0},"many":[{"x":3,"y":0}],"named":{"n":{"x":4,"y":0}}}
            maybe: text read as an object
            one.x: text read as 1
            maybe.x: renamed from its alias `left`
            many[0]: text read as an object"#]],
    );
    check(
        Strict,
        schema,
        json!({"one": {"x": "a"}, "many": [{"x": 1}, {}]}),
        expect![[r#"
            [invalid_tool_params] Parameter validation failed: one.x: expected integer, got "a"; many[1].x: is required
            - schema of one.x: {"type":"integer"}
            - schema of many[1].x: {"type":"integer"}"#]],
    );
}

#[test]
fn defaults_are_filled_inside_defaults_up_to_a_limit() {
    let nested = json!({"properties": {"o": {"type": "object", "default": {}, "properties": {"i": {"default": [1]}}}}});
    check(Strict, nested, json!({}), expect![[r#"{"o":{"i":[1]}}"#]]);
    let endless = json!({"properties": {"l": {"$ref": "#", "default": {}}, "r": {"$ref": "#", "default": {}}}});
    check_bytes(
        Strict,
        endless,
        json!({}),
        1_000,
        expect![
            "[invalid_tool_params] Parameter validation failed: l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l.l: its default makes the input too large"
        ],
    );
}

#[test]
fn unknown_members_are_rejected_or_removed() {
    read(
        json!({"path": "a", "limt": 3}),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: limt: unknown parameter; did you mean `limit`?"#
        ]],
    );
    read(
        json!({"pth": "a"}),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: pth: unknown parameter; did you mean `path`?; path: is required
        - schema of path: {"type":"string","description":"a file"}"#]],
    );
    read(
        json!({"path": "a", "\u{202e}qqq": 1}),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: ["\u{202e}qqq"]: unknown parameter; expected one of path, limit, ratio, hidden, globs, range, mode, note"#
        ]],
    );
    read(
        json!({"path": "a", "range": {"to": 1, "form": 2}}),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: range.form: unknown parameter; did you mean `from`?"#
        ]],
    );
    check(
        Strict,
        Descriptor::new(ToolName::parse("x").unwrap(), "").input_schema,
        json!({"a": 1}),
        expect![
            "[invalid_tool_params] Parameter validation failed: a: unknown parameter; the tool takes none"
        ],
    );
    check(
        Lenient,
        read_file(),
        json!({"path": "a", "limt": 3, "range": {"to": 1, "form": 2}}),
        expect![[r#"
            {"path":"a","range":{"to":1,"from":1},"limit":100}
            limt: unknown parameter removed
            range.form: unknown parameter removed"#]],
    );
    let open = |more: Value| {
        let mut schema = json!({"properties": {"a": {"type": "integer"}}});
        schema
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        schema
    };
    for mode in [Strict, Lenient] {
        for more in [
            json!({"additionalProperties": true}),
            json!({"additionalProperties": {"type": "integer"}}),
            json!({"patternProperties": {"^b": {}}, "additionalProperties": false}),
            json!({"anyOf": [{"properties": {"b": {}}}, {}]}),
            json!({"$ref": "#/$defs/b", "$defs": {"b": {}}}),
        ] {
            check(
                mode,
                open(more),
                json!({"a": 1, "b": 2}),
                expect![[r#"{"a":1,"b":2}"#]],
            );
        }
    }
    check(
        Strict,
        open(json!({"anyOf": [{"required": ["a"]}, {}]})),
        json!({"a": 1, "b": 2}),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: b: unknown parameter; expected one of a"#
        ]],
    );
}

/// Both texts match. The search finds that for a long one only after much backtracking.
#[test]
fn patterns_have_a_backtracking_limit() {
    const PATTERN: &str = r"^(?:(a|a)*\1b|a*c)$";
    let check = |schema: &Value, text: fn(String) -> Value, expected: [Expect; 2]| {
        for (count, expected) in [3, 14].into_iter().zip(expected) {
            let input = text("a".repeat(count) + "c");
            check(Strict, schema.clone(), input, expected);
        }
    };
    check(
        &json!({"properties": {"text": {"type": "string", "pattern": PATTERN}}}),
        |text| json!({ "text": text }),
        [
            expect![[r#"{"text":"aaac"}"#]],
            expect![[r#"
            [invalid_tool_params] Parameter validation failed: text: Error executing regex: Max limit for backtracking count exceeded
            - schema of text: {"type":"string","pattern":"^(?:(a|a)*\\1b|a*c)$"}"#]],
        ],
    );
    check(
        &json!({"patternProperties": {PATTERN: {"type": "integer"}}, "additionalProperties": false}),
        |text| json!({ text: 1 }),
        [
            expect![[r#"{"aaac":1}"#]],
            expect![[r#"
            [invalid_tool_params] Parameter validation failed: input: Error executing regex: Max limit for backtracking count exceeded
            - schema of input: {"^(?:(a|a)*\\1b|a*c)$":{"type":"integer"}}"#]],
        ],
    );
}

#[test]
fn a_structured_result_is_validated_against_its_schema() {
    let mut tool = tool(Strict, json!({"type": "object"}));
    let output =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    tool.output_schema = Some(output);
    let schema = ToolSchemas::compile(&tool).unwrap();
    let outcome = |structured| Outcome {
        structured,
        ..Outcome::default()
    };
    assert_eq!(
        schema.check_output(&tool, &outcome(Some(json!({"n": 1})))),
        Ok(())
    );
    let nothing = schema.check_output(&tool, &outcome(None)).unwrap_err();
    assert_eq!(
        nothing.message,
        "`sample` has an output schema and returned no structured result"
    );
    let failure = Outcome {
        error: Some(Failure::new("no", "no")),
        ..outcome(Some(json!({})))
    };
    assert_eq!(schema.check_output(&tool, &failure), Ok(()));
    let error = schema
        .check_output(&tool, &outcome(Some(json!({"n": "1"}))))
        .unwrap_err();
    expect![[r#"
        Failed [invalid_output] the structured result of `sample` does not fit its output schema: n: expected integer, got "1"
        - schema of n: {"type":"integer"}"#]].assert_eq(&format!("{:?} [{}] {error}", error.class, error.code));
}
