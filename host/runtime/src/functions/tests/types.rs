//! JSON Schemas of WIT types, and conversion of values. The types are those of imports in component text, so that no code
//! is needed.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, Type, Val};

use crate::functions::{json_schema, values};
use crate::tests::runtime;

/// Named types of the tests.
const TYPES: &str = r#"
    (type $record' (record (field "id" u32) (field "note" (option string))))
    (import "record" (type $record (eq $record')))
    (type $shape' (variant (case "none") (case "circle" f32) (case "named" $record)))
    (import "shape" (type $shape (eq $shape')))
    (type $color' (enum "red" "green"))
    (import "color" (type $color (eq $color')))
    (type $perm' (flags "read" "write" "exec"))
    (import "perm" (type $perm (eq $perm')))"#;

/// A function with one parameter `v` of this type, which it returns.
fn function_of(ty: &str) -> ComponentFunc {
    let text = format!(r#"(component {TYPES} (import "f" (func (param "v" {ty}) (result {ty}))))"#);
    let (engine, _) = runtime().engine_and_linker();
    let component = Component::new(engine, wat::parse_str(text).unwrap()).unwrap();
    let kind = component.component_type();
    let mut found = kind.imports(engine).filter_map(|(_, item)| match item.ty {
        ComponentItem::ComponentFunc(function) => Some(function),
        _ => None,
    });
    found.next().unwrap()
}

fn parameter(ty: &str) -> Type {
    function_of(ty).params().next().unwrap().1
}

fn check_schema(ty: &str, expected: Expect) {
    let ty = parameter(ty);
    let input = json_schema::of_parameters([("v", &ty)].into_iter()).unwrap();
    let output = json_schema::of_result(&ty).unwrap();
    let (input, output) = (&input["properties"]["v"], &output["properties"]["result"]);
    let shown = if input == output {
        input.to_string()
    } else {
        format!("{input}\noutput: {output}")
    };
    expected.assert_eq(&shown);
}

#[test]
fn schemas_of_types() {
    check_schema("bool", expect![[r#"{"type":"boolean"}"#]]);
    check_schema(
        "s8",
        expect![[r#"{"type":"integer","minimum":-128,"maximum":127}"#]],
    );
    check_schema(
        "u32",
        expect![[r#"{"type":"integer","minimum":0,"maximum":4294967295}"#]],
    );
    check_schema(
        "s64",
        expect![[
            r#"{"anyOf":[{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991},{"type":"string","pattern":"^-?[0-9]{1,19}$"}]}"#
        ]],
    );
    check_schema(
        "u64",
        expect![[
            r#"{"anyOf":[{"type":"integer","minimum":0,"maximum":9007199254740991},{"type":"string","pattern":"^[0-9]{1,20}$"}]}"#
        ]],
    );
    check_schema(
        "f32",
        expect![[r#"
        {"type":"number"}
        output: {"anyOf":[{"type":"number"},{"enum":["NaN","Infinity","-Infinity"]}]}"#]],
    );
    check_schema(
        "char",
        expect![[r#"{"type":"string","minLength":1,"maxLength":1}"#]],
    );
    check_schema("string", expect![[r#"{"type":"string"}"#]]);
    check_schema(
        "(list u8)",
        expect![[r#"{"type":"string","contentEncoding":"base64"}"#]],
    );
    check_schema(
        "(list string)",
        expect![[r#"{"type":"array","items":{"type":"string"}}"#]],
    );
    check_schema(
        "(tuple u8 string)",
        expect![[
            r#"{"type":"array","prefixItems":[{"type":"integer","minimum":0,"maximum":255},{"type":"string"}],"minItems":2,"maxItems":2}"#
        ]],
    );
    check_schema(
        "(option u8)",
        expect![[r#"
        {"type":"integer","minimum":0,"maximum":255}
        output: {"anyOf":[{"type":"integer","minimum":0,"maximum":255},{"type":"null"}]}"#]],
    );
    check_schema(
        "(list (option u8))",
        expect![[
            r#"{"type":"array","items":{"anyOf":[{"type":"integer","minimum":0,"maximum":255},{"type":"null"}]}}"#
        ]],
    );
    check_schema(
        "(list (option (option u8)))",
        expect![[
            r#"{"type":"array","items":{"anyOf":[{"type":"object","properties":{"some":{"anyOf":[{"type":"integer","minimum":0,"maximum":255},{"type":"null"}]}},"required":["some"],"additionalProperties":false},{"type":"null"}]}}"#
        ]],
    );
    check_schema(
        "(result u8 (error string))",
        expect![[
            r#"{"oneOf":[{"type":"object","properties":{"ok":{"type":"integer","minimum":0,"maximum":255}},"required":["ok"],"additionalProperties":false},{"type":"object","properties":{"err":{"type":"string"}},"required":["err"],"additionalProperties":false}]}"#
        ]],
    );
    check_schema(
        "(result)",
        expect![[
            r#"{"oneOf":[{"type":"object","properties":{"ok":{"type":"null"}},"required":["ok"],"additionalProperties":false},{"type":"object","properties":{"err":{"type":"null"}},"required":["err"],"additionalProperties":false}]}"#
        ]],
    );
    check_schema(
        "$record",
        expect![[
            r#"{"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":4294967295},"note":{"type":"string"}},"required":["id"],"additionalProperties":false}"#
        ]],
    );
    check_schema(
        "$shape",
        expect![[r#"
        {"oneOf":[{"type":"object","properties":{"tag":{"type":"string","const":"none"}},"required":["tag"],"additionalProperties":false},{"type":"object","properties":{"tag":{"type":"string","const":"circle"},"val":{"type":"number"}},"required":["tag","val"],"additionalProperties":false},{"type":"object","properties":{"tag":{"type":"string","const":"named"},"val":{"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":4294967295},"note":{"type":"string"}},"required":["id"],"additionalProperties":false}},"required":["tag","val"],"additionalProperties":false}]}
        output: {"oneOf":[{"type":"object","properties":{"tag":{"type":"string","const":"none"}},"required":["tag"],"additionalProperties":false},{"type":"object","properties":{"tag":{"type":"string","const":"circle"},"val":{"anyOf":[{"type":"number"},{"enum":["NaN","Infinity","-Infinity"]}]}},"required":["tag","val"],"additionalProperties":false},{"type":"object","properties":{"tag":{"type":"string","const":"named"},"val":{"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":4294967295},"note":{"type":"string"}},"required":["id"],"additionalProperties":false}},"required":["tag","val"],"additionalProperties":false}]}"#]],
    );
    check_schema(
        "$color",
        expect![[r#"{"type":"string","enum":["red","green"]}"#]],
    );
    check_schema(
        "$perm",
        expect![[r#"{"type":"array","items":{"type":"string","enum":["read","write","exec"]}}"#]],
    );
}

/// Converts the JSON value of a parameter of this type to a WIT value and back.
fn convert(ty: &str, value: Value) -> Result<Value, String> {
    let ty = parameter(ty);
    let input = json!({"v": value});
    let arguments = values::arguments(&input, [("v", &ty)].into_iter());
    let mut arguments = arguments.map_err(|error| error.to_string())?;
    Ok(values::to_json(arguments.remove(0), &ty).unwrap())
}

#[test]
fn values_are_the_same_after_both_conversions() {
    let large = (1_i64 << 53).to_string();
    for (ty, value) in [
        ("bool", json!(true)),
        ("s8", json!(-128)),
        ("u8", json!(255)),
        ("s16", json!(-32768)),
        ("u16", json!(65535)),
        ("s32", json!(i32::MIN)),
        ("u32", json!(u32::MAX)),
        ("s64", json!((1_i64 << 53) - 1)),
        ("s64", json!(large)),
        ("s64", json!(i64::MIN.to_string())),
        ("u64", json!(u64::MAX.to_string())),
        ("f32", json!(0.1)),
        ("f64", json!(-1.5e300)),
        ("char", json!("😀")),
        ("string", json!("é\u{0}")),
        ("(list u8)", json!("")),
        ("(list u8)", json!("AP8=")),
        ("(list (list string))", json!([[], ["a"]])),
        ("(tuple u8 string)", json!([1, "a"])),
        ("(list (option u8))", json!([null, 1])),
        (
            "(list (option (option u8)))",
            json!([null, {"some": null}, {"some": 1}]),
        ),
        ("(result u8 (error string))", json!({"err": "no"})),
        ("(result)", json!({"ok": null})),
        ("$record", json!({"id": 1})),
        ("$record", json!({"id": 1, "note": "a"})),
        ("$shape", json!({"tag": "none"})),
        ("$shape", json!({"tag": "named", "val": {"id": 1}})),
        ("$color", json!("green")),
        ("$perm", json!(["read", "exec"])),
    ] {
        assert_eq!(convert(ty, value.clone()), Ok(value), "{ty}");
    }
    for (ty, value, converted) in [
        ("s64", json!("5"), json!(5)),
        ("(list u8)", json!("AP8"), json!("AP8=")),
        ("$record", json!({"id": 1, "note": null}), json!({"id": 1})),
        (
            "$perm",
            json!(["exec", "read", "read"]),
            json!(["read", "exec"]),
        ),
    ] {
        assert_eq!(convert(ty, value), Ok(converted), "{ty}");
    }
}

#[test]
fn invalid_values_are_named_with_their_path() {
    let check = |ty: &str, value: Value, expected: &str| {
        assert_eq!(convert(ty, value), Err(expected.to_owned()), "{ty}");
    };
    check("u8", json!(256), "v: the integer is too large for its type");
    check("u8", json!(-1), "v: the integer is too large for its type");
    check("u8", json!(1.5), "v: expected an integer");
    check("u64", json!("1e3"), "v: expected an integer");
    check(
        "f32",
        json!(1e300),
        "v: the number is too large for its type",
    );
    check("char", json!("ab"), "v: expected one character");
    check("(list string)", json!(["a", 1]), "v[1]: expected text");
    check("(tuple u8 string)", json!([1]), "v: expected 2 items");
    check(
        "(list $record)",
        json!([{"id": 1}, {"note": "a"}]),
        "v[1].id: is required",
    );
    check(
        "$shape",
        json!({"tag": "square"}),
        "v: expected an object whose `tag` names a case",
    );
    check(
        "$shape",
        json!({"tag": "circle"}),
        "v: expected `val`, the value of the case",
    );
    check(
        "$shape",
        json!({"tag": "named", "val": {"id": "x"}}),
        "v.val.id: expected an integer",
    );
    check("$color", json!("blue"), "v: expected a case");
    check("$perm", json!(["fly"]), "v: contains an unknown flag");
    check(
        "(result u8 (error string))",
        json!({"ok": 1, "err": "a"}),
        "v: expected an object with `ok` or `err`",
    );
    let absent = json!(vec![json!({"id": 1}); values::MAX_VALUES / 3 + 1]);
    check(
        "(list $record)",
        absent,
        "v[66666].id: the input has more than 200000 values or bytes",
    );
    let many = json!(vec![0; values::MAX_VALUES + 1]);
    check(
        "(list u16)",
        many,
        "v[199999]: the input has more than 200000 values or bytes",
    );
}

#[test]
fn results_that_json_lacks_are_text() {
    for (value, expected) in [
        (Val::Float64(f64::NAN), json!("NaN")),
        (Val::Float32(f32::NEG_INFINITY), json!("-Infinity")),
        (Val::U64(1 << 53), json!("9007199254740992")),
        (Val::U64((1 << 53) - 1), json!(9_007_199_254_740_991_u64)),
    ] {
        assert_eq!(values::to_json(value, &Type::U64), Some(expected));
    }
}
