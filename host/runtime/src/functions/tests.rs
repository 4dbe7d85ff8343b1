//! Schemas, values, names and outcomes of exported functions. Types are those of imports in component text, so that no
//! code is needed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolhost_contract::{
    Call, CallError, CallId, Digest, ErrorClass, Limits, Manifest, Outcome, Principal, ToolName,
};
use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, Type};

use super::docs::Docs;
use super::{call, describe, exported, json_schema, no_tools, values};
use crate::instance::CallEnvironment;
use crate::linked_code::Tools;
use crate::tests::runtime;
use crate::{LoadError, Loaded, Runtime, pack, side_manifest_path};

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
    check_schema("s64", expect![[r#"{"anyOf":[{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991},{"type":"string","pattern":"^-?[0-9]{1,19}$"}]}"#]]);
    check_schema("u64", expect![[r#"{"anyOf":[{"type":"integer","minimum":0,"maximum":9007199254740991},{"type":"string","pattern":"^[0-9]{1,20}$"}]}"#]]);
    check_schema("f32", expect![[r#"
        {"type":"number"}
        output: {"anyOf":[{"type":"number"},{"enum":["NaN","Infinity","-Infinity"]}]}"#]]);
    check_schema("char", expect![[r#"{"type":"string","minLength":1,"maxLength":1}"#]]);
    check_schema("string", expect![[r#"{"type":"string"}"#]]);
    check_schema("(list u8)", expect![[r#"{"type":"string","contentEncoding":"base64"}"#]]);
    check_schema("(list string)", expect![[r#"{"type":"array","items":{"type":"string"}}"#]]);
    check_schema("(tuple u8 string)", expect![[r#"{"type":"array","prefixItems":[{"type":"integer","minimum":0,"maximum":255},{"type":"string"}],"minItems":2,"maxItems":2}"#]]);
    check_schema("(option u8)", expect![[r#"
        {"type":"integer","minimum":0,"maximum":255}
        output: {"anyOf":[{"type":"integer","minimum":0,"maximum":255},{"type":"null"}]}"#]]);
    check_schema("(list (option u8))", expect![[r#"{"type":"array","items":{"anyOf":[{"type":"integer","minimum":0,"maximum":255},{"type":"null"}]}}"#]]);
    check_schema("(list (option (option u8)))", expect![[r#"{"type":"array","items":{"anyOf":[{"type":"object","properties":{"some":{"anyOf":[{"type":"integer","minimum":0,"maximum":255},{"type":"null"}]}},"required":["some"],"additionalProperties":false},{"type":"null"}]}}"#]]);
    check_schema("(result u8 (error string))", expect![[r#"{"oneOf":[{"type":"object","properties":{"ok":{"type":"integer","minimum":0,"maximum":255}},"required":["ok"],"additionalProperties":false},{"type":"object","properties":{"err":{"type":"string"}},"required":["err"],"additionalProperties":false}]}"#]]);
    check_schema("(result)", expect![[r#"{"oneOf":[{"type":"object","properties":{"ok":{"type":"null"}},"required":["ok"],"additionalProperties":false},{"type":"object","properties":{"err":{"type":"null"}},"required":["err"],"additionalProperties":false}]}"#]]);
    check_schema("$record", expect![[r#"{"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":4294967295},"note":{"type":"string"}},"required":["id"],"additionalProperties":false}"#]]);
    check_schema("$shape", expect![[r#"
        {"oneOf":[{"type":"object","properties":{"tag":{"type":"string","const":"none"}},"required":["tag"],"additionalProperties":false},{"type":"object","properties":{"tag":{"type":"string","const":"circle"},"val":{"type":"number"}},"required":["tag","val"],"additionalProperties":false},{"type":"object","properties":{"tag":{"type":"string","const":"named"},"val":{"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":4294967295},"note":{"type":"string"}},"required":["id"],"additionalProperties":false}},"required":["tag","val"],"additionalProperties":false}]}
        output: {"oneOf":[{"type":"object","properties":{"tag":{"type":"string","const":"none"}},"required":["tag"],"additionalProperties":false},{"type":"object","properties":{"tag":{"type":"string","const":"circle"},"val":{"anyOf":[{"type":"number"},{"enum":["NaN","Infinity","-Infinity"]}]}},"required":["tag","val"],"additionalProperties":false},{"type":"object","properties":{"tag":{"type":"string","const":"named"},"val":{"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":4294967295},"note":{"type":"string"}},"required":["id"],"additionalProperties":false}},"required":["tag","val"],"additionalProperties":false}]}"#]]);
    check_schema("$color", expect![[r#"{"type":"string","enum":["red","green"]}"#]]);
    check_schema("$perm", expect![[r#"{"type":"array","items":{"type":"string","enum":["read","write","exec"]}}"#]]);
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
    let many = json!(vec![0; values::MAX_VALUES + 1]);
    check(
        "(list u16)",
        many,
        "v[199999]: the input has more than 200000 values or bytes",
    );
}

#[test]
fn results_that_json_lacks_are_text() {
    use wasmtime::component::Val;
    for (value, expected) in [
        (Val::Float64(f64::NAN), json!("NaN")),
        (Val::Float32(f32::NEG_INFINITY), json!("-Infinity")),
        (Val::U64(1 << 53), json!("9007199254740992")),
        (Val::U64((1 << 53) - 1), json!(9_007_199_254_740_991_u64)),
    ] {
        assert_eq!(values::to_json(value, &Type::U64), Some(expected));
    }
}

/// A component of this WIT, whose core module is `wat`.
fn component(wit: &str, wat: &str) -> Vec<u8> {
    let mut module = wat::parse_str(wat).unwrap();
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_str("test.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some("w")).unwrap();
    let encoding = wit_component::StringEncoding::UTF8;
    wit_component::embed_component_metadata(&mut module, &resolve, world, encoding).unwrap();
    let encoder = wit_component::ComponentEncoder::default().module(&module);
    encoder.unwrap().encode().unwrap()
}

const WIT: &str = r#"
    package my:pkg@0.1.0;
    interface math {
        resource counter { constructor(); }
        record failure { message: string, code: u32 }
        add-all: func(x: u32, y: u32) -> u32;
        check: func(fails: bool) -> result<string, failure>;
        trap: func();
        count: func(c: borrow<counter>);
    }
    world w { export math; export now: func() -> u32; }"#;

const WAT: &str = r#"(module
    (memory (export "memory") 1)
    (data (i32.const 64) "done")
    (data (i32.const 80) "it failed")
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func (export "my:pkg/math@0.1.0#add-all") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
    (func (export "my:pkg/math@0.1.0#check") (param i32) (result i32)
        (i32.store (i32.const 16) (local.get 0))
        (i32.store (i32.const 20) (select (i32.const 80) (i32.const 64) (local.get 0)))
        (i32.store (i32.const 24) (select (i32.const 9) (i32.const 4) (local.get 0)))
        (i32.store (i32.const 28) (i32.const 7))
        (i32.const 16))
    (func (export "my:pkg/math@0.1.0#trap") (unreachable))
    (func (export "my:pkg/math@0.1.0#[constructor]counter") (result i32) (i32.const 0))
    (func (export "my:pkg/math@0.1.0#count") (param i32))
    (func (export "now") (result i32) (i32.const 9)))"#;

const MANIFEST: &str = "name = \"calc\"\nversion = \"1.0.0\"\ndescription = \"Calculates\"\n";

struct Setup {
    dir: tempfile::TempDir,
}

impl Setup {
    fn new(component: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("calc.wasm"), component).unwrap();
        Self { dir }
    }

    fn with_side_manifest(self, text: &str) -> Self {
        let path = side_manifest_path(&self.dir.path().join("calc.wasm"));
        fs::write(path, text).unwrap();
        self
    }

    async fn load_in(&self, runtime: &Runtime) -> Result<Loaded, LoadError> {
        runtime.load(&self.dir.path().join("calc.wasm")).await
    }

    async fn load(&self) -> Result<Loaded, LoadError> {
        self.load_in(runtime()).await
    }

    async fn error(&self) -> String {
        let error = self.load().await.err().unwrap().to_string();
        error.replace(&self.dir.path().display().to_string(), "DIR")
    }
}

#[tokio::test]
async fn exported_functions_are_tools() {
    let loaded = Setup::new(&component(WIT, WAT)).load().await.unwrap();
    let tools: Vec<_> = loaded.tools().iter().collect();
    let shown: Vec<String> = tools
        .iter()
        .map(|tool| {
            format!(
                "{} {:?} {}",
                tool.name,
                tool.aliases,
                tool.effect().as_str()
            )
        })
        .collect();
    expect![[r#"
        now ["now"] destroys
        math_add_all ["math.add-all"] destroys
        math_check ["math.check"] destroys
        math_trap ["math.trap"] destroys"#]]
    .assert_eq(&shown.join("\n"));
    let skipped = loaded.skipped_functions().iter();
    let skipped: Vec<String> = skipped
        .map(|one| format!("{}: {}", one.id, one.reason))
        .collect();
    expect![[r#"
        math.[constructor]counter: it belongs to a resource
        math.count: it uses a resource, which JSON cannot represent"#]]
    .assert_eq(&skipped.join("\n"));
    assert_eq!(loaded.manifest().name.as_str(), "calc");
}

async fn call_tool(loaded: &Loaded, tool: &str, input: Value) -> Result<Outcome, CallError> {
    let Some(Tools::Functions(functions)) = &loaded.code().await.unwrap().tools else {
        panic!("the component has our interface")
    };
    let limits = Limits::default();
    let environment = CallEnvironment::without_grants(&limits, Duration::from_secs(60));
    let call_of = Call {
        id: CallId("c".to_owned()),
        tool: ToolName::parse(tool).unwrap(),
        input,
        caller: Principal::default(),
    };
    let called = call(
        functions,
        environment,
        &call_of,
        loaded.manifest(),
        limits.output,
    )
    .await;
    called.map(|(outcome, _)| outcome)
}

#[tokio::test]
async fn results_errors_and_traps_are_outcomes() {
    let loaded = Setup::new(&component(WIT, WAT)).load().await.unwrap();
    let sum = call_tool(&loaded, "math_add_all", json!({"x": 2, "y": 40}))
        .await
        .unwrap();
    assert_eq!(sum.structured, Some(json!({"result": 42})));
    let text = call_tool(&loaded, "math_check", json!({"fails": false}))
        .await
        .unwrap();
    assert_eq!((text.structured, text.error), (None, None));
    let failed = call_tool(&loaded, "math_check", json!({"fails": true}))
        .await
        .unwrap();
    let failure = failed.error.unwrap();
    assert_eq!(failure.message, "it failed");
    let error = json!({"error": {"message": "it failed", "code": 7}});
    assert_eq!(failure.details, Some(error));
    let trapped = call_tool(&loaded, "math_trap", json!({}))
        .await
        .unwrap_err();
    assert_eq!(trapped.class, ErrorClass::Trapped);
    let invalid = call_tool(&loaded, "math_add_all", json!({"x": -1, "y": 0}))
        .await
        .unwrap_err();
    assert_eq!(invalid.class, ErrorClass::InvalidInput);
    let unknown = call_tool(&loaded, "math_count", json!({}))
        .await
        .unwrap_err();
    assert_eq!(unknown.class, ErrorClass::NotRegistered);
}

#[tokio::test]
async fn a_manifest_beside_the_component_names_and_restricts_its_functions() {
    let manifest = format!(
        "{MANIFEST}[[functions]]\nfunction = \"math.add-all\"\nname = \"add\"\ndescription = \"Adds.\"\neffect = \"pure\"\n"
    );
    let bytes = component(WIT, WAT);
    let beside = Setup::new(&bytes)
        .with_side_manifest(&manifest)
        .load()
        .await
        .unwrap();
    let mut tools = beside.tools().iter();
    let tool = tools.find(|tool| tool.name.as_str() == "add").unwrap();
    assert_eq!(
        (tool.name.as_str(), tool.effect().as_str()),
        ("add", "pure")
    );
    assert_eq!(tool.description, "Adds.");
    let sum = call_tool(&beside, "add", json!({"x": 1, "y": 1}))
        .await
        .unwrap();
    assert_eq!(sum.structured, Some(json!({"result": 2})));
    // The same for the host as a packed file.
    let parsed = Manifest::parse("plugin.toml", &manifest).unwrap();
    let packed = pack(
        Path::new("calc.wasm"),
        &bytes,
        "plugin.toml",
        &manifest,
        None,
    )
    .unwrap();
    let packed_in = Setup::new(&packed);
    let loaded = packed_in.load().await.unwrap();
    assert_eq!(loaded.digest(), beside.digest());
    assert_ne!(loaded.digest(), Digest(Sha256::digest(&bytes).into()));
    // And with the descriptions in the file.
    let section = runtime().packed_tools(Path::new("calc.wasm"), &bytes, &parsed, &[]);
    let section = section.await.unwrap().unwrap();
    let described = pack(
        Path::new("calc.wasm"),
        &bytes,
        "plugin.toml",
        &manifest,
        Some(&section),
    );
    let described = Setup::new(&described.unwrap()).load().await.unwrap();
    assert_eq!(described.tools(), beside.tools());
    let error = packed_in.with_side_manifest(&manifest).error().await;
    expect!["DIR/calc.wasm is not valid: it has two `toolhost:manifest` sections; a manifest beside it is only for a component without one"].assert_eq(&error);
}

#[tokio::test]
async fn errors_of_manifests_and_components() {
    let bytes = component(WIT, WAT);
    let entry = |text: &str| format!("{MANIFEST}[[functions]]\n{text}\n");
    for (manifest, expected) in [
        (
            entry("function = \"math.sub\""),
            expect![
                "DIR/calc.wasm: function `math.sub` in the manifest: the component exports no such function"
            ],
        ),
        (
            entry("function = \"math.count\""),
            expect![
                "DIR/calc.wasm: function `math.count` in the manifest: it uses a resource, which JSON cannot represent"
            ],
        ),
        (
            entry("function = \"now\"\nname = \"math_trap\""),
            expect![
                "none of its functions can be a tool: `math.[constructor]counter`: it belongs to a resource; `math.count`: it uses a resource, which JSON cannot represent; `math.trap`: another function has the same name as a tool; set its `name` in the manifest"
            ],
        ),
        (
            entry("function = \"now\"\neffect = \"none\""),
            expect![
                "DIR/calc.wasm: plugin.toml:6: unknown value `none`; expected one of: pure, reads, writes, destroys"
            ],
        ),
        (
            entry("function = \"now\"\n[[functions]]\nfunction = \"now\""),
            expect!["DIR/calc.wasm: plugin.toml:6: there are two entries for the function `now`"],
        ),
        (
            "name = ".to_owned(),
            expect![
                "DIR/calc.wasm: plugin.toml:1: string values must be quoted, expected literal string"
            ],
        ),
        (
            "#".repeat(70_000),
            expect!["DIR/calc.plugin.toml: it is larger than 65536 bytes"],
        ),
    ] {
        let setup = Setup::new(&bytes).with_side_manifest(&manifest);
        match setup.load().await {
            Ok(loaded) => expected.assert_eq(&no_tools(loaded.skipped_functions())),
            Err(error) => {
                let dir = setup.dir.path().display().to_string();
                expected.assert_eq(&error.to_string().replace(&dir, "DIR"));
            }
        }
    }
    let setup = Setup::new(&bytes);
    let side = side_manifest_path(&setup.dir.path().join("calc.wasm"));
    std::os::unix::fs::symlink("/etc/passwd", side).unwrap();
    expect!["cannot read DIR/calc.plugin.toml: a symbolic link; specify the file itself"]
        .assert_eq(&setup.error().await);
}

#[tokio::test]
async fn large_types_are_refused_without_the_other_functions() {
    let mut levels = String::new();
    for level in 1..10 {
        let before = level - 1;
        levels.push_str(&format!(
            "type t{level} = tuple<t{before}, t{before}, t{before}>;"
        ));
    }
    let wit = format!(
        "package my:pkg; interface big {{ type t0 = u8; {levels} bomb: func() -> t9; small: func() -> u8; }} world w {{ export big; }}"
    );
    let wat = r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (unreachable))
        (func (export "my:pkg/big#bomb") (result i32) (i32.const 0))
        (func (export "my:pkg/big#small") (result i32) (i32.const 1)))"#;
    let loaded = Setup::new(&component(&wit, wat)).load().await.unwrap();
    assert_eq!(loaded.tools().len(), 1);
    let skipped = &loaded.skipped_functions()[0];
    assert_eq!(skipped.reason, "its types have more than 500 parts");
}

#[test]
fn descriptions_are_the_doc_comments() {
    let text = br#"{"interfaces": {"math": {"funcs": {"add-all": " Adds two numbers. ", "trap": {"docs": "Fails."}}}},
        "worlds": {"w": {"func_exports": {"now": {"docs": "The time."}}}}}"#;
    let section = |version: u8| [&[version], text.as_slice()].concat();
    let (engine, _) = runtime().engine_and_linker();
    let component = Component::new(engine, component(WIT, WAT)).unwrap();
    let manifest = Manifest::parse("plugin.toml", MANIFEST).unwrap();
    let described = |docs: &[u8]| {
        let (tools, _) = describe(&component, &manifest, &Docs::parse(docs)).unwrap();
        let tools = tools
            .into_iter()
            .map(|tool| format!("{}: {}", tool.name, tool.description));
        tools.collect::<Vec<_>>().join("\n")
    };
    expect![[r#"
        now: The time.
        math_add_all: Adds two numbers.
        math_check: The function `math.check`; its author did not describe it.
        math_trap: Fails."#]]
    .assert_eq(&described(&section(1)));
    assert_eq!(described(&section(0)), described(&section(1)));
    // An unknown version, and no JSON.
    assert_eq!(described(&section(2)), described(b""));
    assert_eq!(described(b"\x01{"), described(b""));
    assert_eq!(exported(&component).0.len(), 4);
}
