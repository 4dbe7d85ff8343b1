//! Table-driven tests of arguments and the resulting inputs.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn parse_words(arguments: &[&str], stdin: &str) -> String {
    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "$defs": {"mode": {"enum": ["fast", "slow"]}, "loop": {"$ref": "#/$defs/loop"}},
        "properties": {
            "path": {"type": "string"},
            "depth": {"type": "integer", "x-aliases": ["max_depth"]},
            "ratio": {"type": "number"},
            "all": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
            "limit": {"type": ["integer", "null"]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "mode": {"$ref": "#/$defs/mode"},
            "loop": {"$ref": "#/$defs/loop"},
            "any": {},
            "level": {"enum": [1, 2]},
        },
    });
    let arguments: Vec<String> = arguments
        .iter()
        .map(|argument| (*argument).to_owned())
        .collect();
    match parse(&arguments, Some(&schema), stdin.as_bytes(), 64) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

fn check(arguments: &[&str], expect: &Expect) {
    expect.assert_eq(&parse_words(arguments, r#"{"from": "stdin"}"#));
}

#[test]
fn the_schema_determines_the_type_of_a_value() {
    check(&[], &expect!["{}"]);
    check(
        &["path=5", "depth=5", "ratio=0.5", "all=true"],
        &expect![[r#"{"path":"5","depth":5,"ratio":0.5,"all":true}"#]],
    );
    check(
        &["path=a=b", "names=[\"x\",\"y\"]"],
        &expect![[r#"{"path":"a=b","names":["x","y"]}"#]],
    );
    check(&["path="], &expect![[r#"{"path":""}"#]]);
    check(
        &["limit=null", "maybe=3", "either=7", "mode=fast", "level=2"],
        &expect![[r#"{"limit":null,"maybe":3,"either":"7","mode":"fast","level":2}"#]],
    );
    check(&["any=5", "loop=x"], &expect![[r#"{"any":5,"loop":"x"}"#]]);
    check(&["depth=2.0"], &expect![[r#"{"depth":2.0}"#]]);
    check(
        &["max_depth=3", "other=3"],
        &expect![[r#"{"max_depth":3,"other":"3"}"#]],
    );
}

#[test]
fn json_values_are_passed_unchanged() {
    check(
        &["path:=\"x\"", "either:=7", "names:=[]"],
        &expect![[r#"{"path":"x","either":7,"names":[]}"#]],
    );
    check(
        &["{\"anything\": [1, null]}"],
        &expect![[r#"{"anything":[1,null]}"#]],
    );
    check(&["-"], &expect![[r#"{"from":"stdin"}"#]]);
}

#[test]
fn errors_state_the_value() {
    check(
        &["path=x", "path"],
        &expect!["error: `path` is not `key=value`; use `key=value`, `key:=JSON` or a JSON object"],
    );
    check(
        &["path=x", "=x"],
        &expect!["error: `=x` is not `key=value`; use `key=value`, `key:=JSON` or a JSON object"],
    );
    check(
        &["depth=abc"],
        &expect!["error: `depth=abc` is not an integer"],
    );
    check(
        &["depth=1.5"],
        &expect!["error: `depth=1.5` is not an integer"],
    );
    check(&["all=yes"], &expect!["error: `all=yes` is not a boolean"]);
    check(
        &["names={}"],
        &expect!["error: `names={}` is not a JSON array; use `names:=[…]`"],
    );
    check(
        &["depth:=abc"],
        &expect!["error: `abc` is not JSON; for text use `depth=abc`"],
    );
    check(
        &["limit=x"],
        &expect!["error: `limit=x` is not an integer or null"],
    );
    check(
        &["depth=12345678901234567890123"],
        &expect![
            "error: `depth=12345678901234567890123` cannot be passed on: the integer 12345678901234567890123 does not fit into 64 bits and would lose precision; send it as a string"
        ],
    );
    check(
        &["path=x", "path=y"],
        &expect![[r#"error: `path` is given twice; to pass a list, use `path:=["a","b"]`"#]],
    );
    check(
        &["[1]"],
        &expect!["error: the input is a list; expected a JSON object"],
    );
    check(
        &["{oops"],
        &expect!["error: the input is not JSON: key must be a string at line 1 column 2"],
    );
    check(
        &["path=x", "-"],
        &expect!["error: `-` is not `key=value`; use `key=value`, `key:=JSON` or a JSON object"],
    );
}

#[test]
fn an_overlong_input_is_not_read_completely() {
    let endless = format!("{{\"x\": \"{}", "a".repeat(1000));
    expect!["error: the input is longer than 64 bytes"].assert_eq(&parse_words(&["-"], &endless));
}

#[test]
fn without_a_schema_all_values_are_strings() {
    let input = parse(&["n=5".to_owned()], None, std::io::empty(), 64).unwrap();
    assert_eq!(input, json!({"n": "5"}));
    for wrong in ["README.md", "{oops", "n:=x"] {
        let input = parse(&[wrong.to_owned()], None, std::io::empty(), 64);
        assert_eq!(input, Ok(json!({})), "the tool is reported, not {wrong}");
    }
}

#[test]
fn a_single_required_parameter_needs_no_name() {
    let one = json!({"required": ["path"], "properties": {
        "path": {"type": "string"}, "limit": {"type": "integer"},
    }});
    let only = json!({"properties": {"count": {"type": "integer"}}});
    let listing = json!({"properties": {
        "depth": {"type": "integer"}, "path": {"type": "string"}, "url": {"type": "string"},
    }});
    let optional = json!({"properties": {
        "id": {"type": "string"}, "path": {"type": "array"}, "to": {"type": "string"},
    }});
    let two = json!({"required": ["path", "content"], "properties": {"path": {}, "content": {}}});
    let parsed = |schema: &Value, words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&words, Some(schema), std::io::empty(), 1_000)
            .map(|input| input.to_string())
            .map_err(|error| error.to_string())
    };
    for (schema, words, expected) in [
        (&one, &["README.md"][..], Ok(r#"{"path":"README.md"}"#)),
        (
            &one,
            &["a b=c", "limit=3"],
            Ok(r#"{"path":"a b=c","limit":3}"#),
        ),
        (&one, &["path=x"], Ok(r#"{"path":"x"}"#)),
        (
            &listing,
            &["src", "depth=2"],
            Ok(r#"{"path":"src","depth":2}"#),
        ),
        (
            &optional,
            &["src"],
            Err("`src` has no name; write `id=src` (parameters: id, path, to)"),
        ),
        (&only, &["3"], Ok(r#"{"count":3}"#)),
        (
            &one,
            &["a", "b"],
            Err("`b` is not `key=value`; use `key=value`, `key:=JSON` or a JSON object"),
        ),
        (
            &one,
            &["a", "path=b"],
            Err("`path` is given twice; to pass a list, use `path:=[\"a\",\"b\"]`"),
        ),
        (
            &two,
            &["a.txt"],
            Err("`a.txt` has no name; write `path=a.txt` (parameters: path, content)"),
        ),
        (&only, &["x"], Err("`count=x` is not an integer")),
    ] {
        let expected = expected.map(ToOwned::to_owned).map_err(ToOwned::to_owned);
        assert_eq!(parsed(schema, words), expected, "{words:?}");
    }
}
