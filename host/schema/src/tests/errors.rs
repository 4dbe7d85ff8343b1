//! Error messages for invalid inputs and schemas.

use expect_test::{Expect, expect};

use super::*;

#[test]
fn an_error_names_the_field_and_the_expectation() {
    let one = |schema: Value, value: Value, expected: Expect| {
        check(
            Strict,
            json!({"properties": {"x": schema}}),
            json!({"x": value}),
            expected,
        );
    };
    read(
        json!({}),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: path: is required
        - schema of path: {"type":"string","description":"a file"}"#]],
    );
    read(
        json!({"path": "a", "limit": 0}),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: limit: expected at least 1, got 0
        - schema of limit: {"type":"integer","minimum":1,"default":100}"#]],
    );
    read(
        json!({"path": "a", "globs": ["*", 5]}),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: globs[1]: expected string, got 5
        - schema of globs[1]: {"type":"string"}"#]],
    );
    one(
        json!({"type": ["integer", "null"]}),
        json!("a\u{1b}[2J"),
        expect![[r#"
            [invalid_tool_params] Parameter validation failed: x: expected null or integer, got "a\u{1b}[2J"
            - schema of x: {"type":["integer","null"]}"#]],
    );
    one(
        json!({"enum": ["text", "raw", 3]}),
        json!("txt"),
        expect![[r#"
            [invalid_tool_params] Parameter validation failed: x: expected one of "text", "raw", 3, got "txt"
            - schema of x: {"enum":["text","raw",3]}"#]],
    );
    one(
        json!({"const": "a"}),
        json!("b"),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected "a", got "b"
        - schema of x: {"const":"a"}"#]],
    );
    one(
        json!({"maximum": 3}),
        json!(4),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected at most 3, got 4
        - schema of x: {"maximum":3}"#]],
    );
    one(
        json!({"exclusiveMinimum": 3}),
        json!(3),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected more than 3, got 3
        - schema of x: {"exclusiveMinimum":3}"#]],
    );
    one(
        json!({"exclusiveMaximum": 3}),
        json!(3),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected less than 3, got 3
        - schema of x: {"exclusiveMaximum":3}"#]],
    );
    one(
        json!({"multipleOf": 3}),
        json!(4),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected a multiple of 3, got 4
        - schema of x: {"multipleOf":3}"#]],
    );
    one(
        json!({"minLength": 2}),
        json!("é"),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected at least 2 characters, got 1
        - schema of x: {"minLength":2}"#]],
    );
    one(
        json!({"maxLength": 2}),
        json!("abc"),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected at most 2 characters, got 3
        - schema of x: {"maxLength":2}"#]],
    );
    one(
        json!({"minItems": 1}),
        json!([]),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected at least 1 items, got 0
        - schema of x: {"minItems":1}"#]],
    );
    one(
        json!({"maxItems": 1}),
        json!([1, 2]),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected at most 1 items, got 2
        - schema of x: {"maxItems":1}"#]],
    );
    one(
        json!({"minProperties": 1}),
        json!({}),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected at least 1 members, got 0
        - schema of x: {"minProperties":1}"#]],
    );
    one(
        json!({"maxProperties": 1}),
        json!({"a": 1, "b": 2}),
        expect![[r#"
            [invalid_tool_params] Parameter validation failed: x: expected at most 1 members, got 2
            - schema of x: {"maxProperties":1}"#]],
    );
    one(
        json!({"uniqueItems": true}),
        json!([1, 1]),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected unique items
        - schema of x: {"uniqueItems":true}"#]],
    );
    one(
        json!({"pattern": "^[a-z]+$"}),
        json!("A"),
        expect![[r#"
        [invalid_tool_params] Parameter validation failed: x: expected text that matches the pattern ^[a-z]+$, got "A"
        - schema of x: {"pattern":"^[a-z]+$"}"#]],
    );
    one(
        json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}),
        json!([]),
        expect![[r#"
            [invalid_tool_params] Parameter validation failed: x: matches none of the forms that its schema allows, got an array
            - schema of x: {"anyOf":[{"type":"integer"},{"type":"boolean"}]}"#]],
    );
    one(
        json!({"oneOf": [{"type": "integer"}, {"minimum": 1}]}),
        json!(3),
        expect![[r#"
            [invalid_tool_params] Parameter validation failed: x: matches more than one of the forms in `oneOf`
            - schema of x: {"oneOf":[{"type":"integer"},{"minimum":1}]}"#]],
    );
    one(
        json!(false),
        json!(1),
        expect![[r#"[invalid_tool_params] Parameter validation failed: x: is not allowed"#]],
    );
    one(
        json!({"not": {"type": "integer"}}),
        json!(1),
        expect![[r#"
            [invalid_tool_params] Parameter validation failed: x: matches a form that its schema forbids, got 1
            - schema of x: {"not":{"type":"integer"}}"#]],
    );
    one(
        json!({"contains": {"type": "integer"}}),
        json!(["a"]),
        expect![[r#"
            [invalid_tool_params] Parameter validation failed: x: expected an item that matches `contains` in its schema
            - schema of x: {"contains":{"type":"integer"}}"#]],
    );
    one(
        json!({"propertyNames": {"maxLength": 1}}),
        json!({"ab": 1}),
        expect![[r#"
            [invalid_tool_params] Parameter validation failed: x: "ab" is longer than 1 character
            - schema of x: {"maxLength":1}"#]],
    );
    one(
        json!({"dependentRequired": {"a": ["b"]}}),
        json!({"a": 1}),
        expect![[r#"[invalid_tool_params] Parameter validation failed: x.b: is required"#]],
    );
    one(
        json!({"additionalProperties": false, "patternProperties": {"^a": {}}}),
        json!({"b c": 1}),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: x["b c"]: unknown parameter"#
        ]],
    );
    check(
        Strict,
        json!({"minProperties": 2}),
        json!({"a": 1}),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: input: expected at least 2 members, got 1"#
        ]],
    );
}

#[test]
fn at_most_five_problems_are_reported() {
    let names = ["a", "b", "c", "d", "e", "f"];
    check(
        Strict,
        json!({"type": "object", "required": names}),
        json!({}),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: a: is required; b: is required; c: is required; d: is required; e: is required; and more"#
        ]],
    );
}

#[test]
fn a_recommendation_is_shortened() {
    let schema =
        json!({"properties": {"x": {"type": "integer", "description": "long ".repeat(200)}}});
    let tool = tool(Strict, schema);
    let error = ToolSchemas::compile(&tool)
        .unwrap()
        .check(&tool, json!({"x": []}), 100, &mut Vec::new())
        .unwrap_err();
    assert!(error.recommendations[0].chars().count() < 550);
}

fn refused(input: Value, output: Option<Value>, expected: Expect) {
    let mut tool = tool(Strict, input);
    tool.output_schema = output;
    expected.assert_eq(&ToolSchemas::compile(&tool).err().unwrap().to_string());
}

#[test]
fn an_invalid_schema_is_rejected_with_its_location() {
    refused(
        json!({"properties": {"x": {"type": "int"}}}),
        None,
        expect![[
            r#"the input schema is not valid: /properties/x/type: "int" is not a type; use array, boolean, integer, null, number, object or string"#
        ]],
    );
    refused(
        json!({"properties": {"x": {"pattern": "("}}}),
        None,
        expect![[r#"the input schema is not valid: /properties/x/pattern: "(" is not a "regex""#]],
    );
    refused(
        json!({"properties": {"x": {"$ref": "https://example.org/schema.json"}}}),
        None,
        expect![[
            r#"the input schema is not valid: the reference "https://example.org/schema.json" does not exist in it; use `#/$defs/NAME`"#
        ]],
    );
    refused(
        json!({"properties": {"x": {"$ref": "file:///etc/passwd"}}}),
        None,
        expect![[
            r#"the input schema is not valid: the reference "file:///etc/passwd" does not exist in it; use `#/$defs/NAME`"#
        ]],
    );
    refused(
        json!({"properties": {"x": {"$ref": "#/$defs/missing"}}}),
        None,
        expect![[
            r##"the input schema is not valid: the reference "#/$defs/missing" does not exist in it; use `#/$defs/NAME`"##
        ]],
    );
    refused(
        json!({"type": "string"}),
        None,
        expect![[
            r#"the input schema is not valid: it must accept objects, as `{"type": "object"}` does"#
        ]],
    );
    refused(
        json!(false),
        None,
        expect![[
            r#"the input schema is not valid: it must accept objects, as `{"type": "object"}` does"#
        ]],
    );
    refused(
        json!({"type": "object"}),
        Some(json!({"type": 5})),
        expect![
            "the output schema is not valid: /type: 5 is not a type; use array, boolean, integer, null, number, object or string"
        ],
    );
}

#[test]
fn a_schema_with_unbounded_cost_is_rejected() {
    refused(
        json!({"$ref": "#"}),
        None,
        expect![[
            r#"the input schema is not valid: its references and alternatives grow exponentially or are circular"#
        ]],
    );
    let circle = json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
    refused(
        circle,
        None,
        expect![[
            r#"the input schema is not valid: its references and alternatives grow exponentially or are circular"#
        ]],
    );
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let next = |level| json!({"$ref": format!("#/$defs/d{}", level + 1)});
        let mut definitions: Map<_, _> = (0..15)
            .map(|level| {
                (
                    format!("d{level}"),
                    json!({keyword: [next(level), next(level)]}),
                )
            })
            .collect();
        definitions.insert("d15".to_owned(), json!({"required": ["b"]}));
        let expected = expect![[
            r#"the input schema is not valid: its references and alternatives grow exponentially or are circular"#
        ]];
        refused(
            json!({"$ref": "#/$defs/d0", "$defs": definitions}),
            None,
            expected,
        );
    }
    refused(
        json!({"properties": {"x": {"$id": "x"}}}),
        None,
        expect![[r#"the input schema is not valid: only its root may have an `$id`"#]],
    );
    refused(
        json!({"properties": {"x": {"$dynamicRef": "#x"}}}),
        None,
        expect![[r#"the input schema is not valid: `$dynamicRef` is not supported; use `$ref`"#]],
    );
    let parts: Map<_, _> = (0..6_000).map(|n| (format!("p{n}"), json!({}))).collect();
    refused(
        json!({"properties": parts}),
        None,
        expect![[r#"the input schema is not valid: it has more than 5000 parts"#]],
    );
}

#[test]
fn a_schema_with_exponential_cost_accepts_only_flat_values() {
    let twice = json!({"properties": {"x": {"$ref": "#/$defs/t"}}});
    let schema = json!({"$ref": "#/$defs/t", "$defs": {"t": {"allOf": [twice, twice]}}});
    let deep = |levels| (0..levels).fold(json!({}), |value, _| json!({"x": value}));
    check(
        Strict,
        schema.clone(),
        deep(3),
        expect![[r#"{"x":{"x":{"x":{}}}}"#]],
    );
    check(
        Strict,
        schema,
        deep(60),
        expect![[
            r#"[invalid_tool_params] Parameter validation failed: input: is too large or too deep to be validated against this schema"#
        ]],
    );
    let mut tool = tool(Strict, json!({"type": "object"}));
    let again =
        json!({"additionalProperties": {"$ref": "#"}, "unevaluatedProperties": {"$ref": "#"}});
    tool.output_schema = Some(again);
    let outcome = Outcome {
        structured: Some(deep(60)),
        ..Outcome::default()
    };
    let error = ToolSchemas::compile(&tool)
        .unwrap()
        .check_output(&tool, &outcome)
        .unwrap_err();
    expect![[r#"the structured result of `sample` does not fit its output schema: input: is too large or too deep to be validated against this schema"#]].assert_eq(&error.message);
}

#[test]
fn a_recursive_schema_accepts_values_of_any_depth() {
    let tree = json!({"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}, "additionalProperties": false});
    let tool = tool(Strict, tree);
    let schema = ToolSchemas::compile(&tool).unwrap();
    let deep = (1..MAX_DEPTH).fold(json!({}), |value, _| json!({"l": {}, "r": value}));
    assert!(schema.check(&tool, deep, 1 << 20, &mut Vec::new()).is_ok());
}

#[test]
fn the_deepest_value_and_the_longest_chains_do_not_overflow_the_stack() {
    let mut definitions: Map<_, _> = (0..14)
        .map(|n| {
            (
                format!("d{n}"),
                json!({"allOf": [{"$ref": format!("#/$defs/d{}", n + 2)}]}),
            )
        })
        .collect();
    definitions.insert(
        "d14".to_owned(),
        json!({"properties": {"x": {"$ref": "#/$defs/d0"}}}),
    );
    definitions.insert("d15".to_owned(), json!({}));
    let tool = tool(
        Strict,
        json!({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}),
    );
    let schema = ToolSchemas::compile(&tool).unwrap();
    let deep = |end: Value| (1..MAX_DEPTH).fold(end, |value, _| json!({"x": value}));
    assert!(
        schema
            .check(&tool, deep(json!({})), 1 << 20, &mut Vec::new())
            .is_ok()
    );
    let mut chain: Map<_, _> = (0..4_000)
        .map(|n| {
            (
                format!("d{n}"),
                json!({"properties": {"x": {"$ref": format!("#/$defs/d{}", n + 1)}}}),
            )
        })
        .collect();
    chain.insert("d4000".to_owned(), json!({}));
    let tool = super::tool(
        Strict,
        json!({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": chain}),
    );
    assert!(ToolSchemas::compile(&tool).is_ok());
}

#[test]
fn references_may_be_percent_encoded() {
    let schema = json!({"properties": {"x": {"$ref": "#/$defs/a%3Cb%3E"}}, "$defs": {"a<b>": {"type": "integer"}}});
    check(
        Strict,
        schema,
        json!({"x": "1"}),
        expect![[r#"
        {"x":1}
        x: text read as 1"#]],
    );
}
