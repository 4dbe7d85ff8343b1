//! Names, descriptions, manifests and outcomes of exported functions.

mod types;

use std::fs;
use std::path::Path;
use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolhost_contract::{
    Call, CallError, Digest, ErrorClass, Limits, Manifest, Outcome, ToolName, side_manifest_path,
};
use wasmtime::component::Component;

use super::{FunctionsPre, call, describe};
use crate::export::Bindings as _;
use crate::instance::CallEnvironment;
use crate::linked_code::Tools;
use crate::tests::runtime;
use crate::{LoadError, Loaded, Runtime, pack};

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
        now [] destroys
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
    let call_of = Call::new("c", ToolName::parse(tool).unwrap(), input);
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
    assert_eq!(beside.tools().len(), 1, "the others are not listed");
    let error = packed_in.with_side_manifest(&manifest).error().await;
    expect!["DIR/calc.wasm is not valid: it has two `toolhost:manifest` sections; a manifest beside it is only for a component without one"].assert_eq(&error);
}

#[tokio::test]
async fn errors_of_manifests_and_components() {
    let bytes = component(WIT, WAT);
    let entry = |text: &str| format!("{MANIFEST}[[functions]]\n{text}\n");
    let mut errors = String::new();
    for manifest in [
        entry("function = \"math.sub\""),
        entry("function = \"math.count\""),
        entry("function = \"now\"\neffect = \"none\""),
        entry("function = \"now\"\nrequires = [\"net\"]"),
        entry("function = \"now\"\n[[functions]]\nfunction = \"now\""),
        entry(
            "function = \"now\"\nname = \"x\"\n[[functions]]\nfunction = \"math.trap\"\nname = \"x\"",
        ),
        "name = ".to_owned(),
        "#".repeat(70_000),
    ] {
        let setup = Setup::new(&bytes).with_side_manifest(&manifest);
        errors += &setup.error().await;
        errors.push('\n');
    }
    expect![[r#"
        DIR/calc.wasm: function `math.sub` in the manifest: the component exports no such function
        DIR/calc.wasm: function `math.count` in the manifest: it uses a resource, which JSON cannot represent
        DIR/calc.wasm: calc.plugin.toml:6: unknown value `none`; expected one of: pure, reads, writes, destroys
        DIR/calc.wasm: calc.plugin.toml:4: `requires` lists `net`, which is not in `[[needs]]`
        DIR/calc.wasm: calc.plugin.toml:6: `now` and `now` are the same function or have the same name
        DIR/calc.wasm: calc.plugin.toml:7: `now` and `math.trap` are the same function or have the same name
        DIR/calc.wasm: calc.plugin.toml:1: string values must be quoted, expected literal string
        DIR/calc.plugin.toml: it is larger than 65536 bytes
    "#]].assert_eq(&errors);
    let setup = Setup::new(&bytes);
    let side = side_manifest_path(&setup.dir.path().join("calc.wasm"));
    std::os::unix::fs::symlink("/etc/passwd", side).unwrap();
    expect!["cannot read DIR/calc.plugin.toml: a symbolic link; specify the file itself"]
        .assert_eq(&setup.error().await);
}

#[tokio::test]
async fn large_types_are_refused_without_the_other_functions() {
    let level = |level| {
        let before = level - 1;
        format!("type t{level} = tuple<t{before}, t{before}, t{before}>;")
    };
    let levels = (1..10).map(level).collect::<Vec<_>>().join(" ");
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
    let (engine, linker) = runtime().engine_and_linker();
    let component = Component::new(engine, component(WIT, WAT)).unwrap();
    let linked = linker.instantiate_pre(&component).unwrap();
    let functions = FunctionsPre::new(linked).unwrap();
    let manifest = Manifest::parse("plugin.toml", MANIFEST).unwrap();
    let described = |docs: &[u8]| {
        let path = Path::new("calc.wasm");
        let (tools, _) = describe(path, &functions, &manifest, Some(docs)).unwrap();
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
    assert_eq!(functions.functions.len(), 4);
}

/// Renamed functions, so that default names and names of the manifest cross.
#[tokio::test]
async fn a_tool_runs_the_function_that_it_describes() {
    let wit = "package my:pkg; interface i { alpha: func() -> u32; beta: func() -> u32; } world w { export i; }";
    let wat = r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (unreachable))
        (func (export "my:pkg/i#alpha") (result i32) (i32.const 1))
        (func (export "my:pkg/i#beta") (result i32) (i32.const 2)))"#;
    let manifest = format!(
        "{MANIFEST}[[functions]]\nfunction = \"i.alpha\"\nname = \"i_beta\"\n[[functions]]\nfunction = \"my:pkg/i.beta\"\nname = \"i_alpha\"\n"
    );
    let setup = Setup::new(&component(wit, wat)).with_side_manifest(&manifest);
    let loaded = setup.load().await.unwrap();
    for (tool, expected) in [("i_beta", 1), ("i_alpha", 2)] {
        let outcome = call_tool(&loaded, tool, json!({})).await.unwrap();
        assert_eq!(
            outcome.structured,
            Some(json!({"result": expected})),
            "{tool}"
        );
    }
}

#[tokio::test]
async fn a_manifest_beside_a_component_cannot_be_hidden_or_ignored() {
    let bytes = component(WIT, WAT);
    let beside = format!("{MANIFEST}[[functions]]\nfunction = \"now\"\n");
    // A section whose length covers the manifest that the host appends.
    let own = crate::pack::custom_section("toolhost:manifest", MANIFEST.as_bytes());
    let appended = crate::pack::custom_section("toolhost:manifest", beside.as_bytes());
    let covered = crate::pack::custom_section("x", &appended);
    let header = &covered[..covered.len() - appended.len()];
    let hiding = [&bytes[..], &own, header].concat();
    let error = Setup::new(&hiding)
        .with_side_manifest(&beside)
        .error()
        .await;
    expect!["DIR/calc.wasm is not valid: its last section is longer than the file"]
        .assert_eq(&error);
    // The descriptions of the tools were stored before the manifest was added.
    let manifest = Manifest::parse("plugin.toml", MANIFEST).unwrap();
    let section = runtime().packed_tools(Path::new("calc.wasm"), &bytes, &manifest, &[]);
    let section = section.await.unwrap().unwrap();
    let section = crate::pack::custom_section("toolhost:tools", &section);
    let described = Setup::new(&[&bytes[..], &section].concat()).with_side_manifest(&beside);
    expect!["DIR/calc.wasm is not valid: its `toolhost:tools` section precedes its manifest; pack the component again"].assert_eq(&described.error().await);
    // A plugin that describes its own tools.
    let plugin = crate::tests::component("(unreachable)", "");
    let error = Setup::new(&plugin)
        .with_side_manifest(&beside)
        .error()
        .await;
    expect!["DIR/calc.wasm: `[[functions]]` in the manifest are for components without the plugin interface; this one describes its own tools"].assert_eq(&error);
}

#[tokio::test]
async fn long_names_deep_types_and_many_functions_are_skipped() {
    let long = "x".repeat(65);
    let tuple = "tuple<".repeat(13) + "u8" + &">".repeat(13);
    let many: String = (0..260)
        .map(|number| format!("run{number}: func();"))
        .collect::<Vec<_>>()
        .join(" ");
    let wit = format!(
        "package my:pkg; interface i {{ {many} long: func({long}: u8); deep: func() -> {tuple}; }} world w {{ export i; }}"
    );
    let empty = |number| format!("(func (export \"my:pkg/i#run{number}\"))");
    let functions = (0..260).map(empty).collect::<Vec<_>>().join(" ");
    let wat = format!(
        r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (unreachable))
        (func (export "my:pkg/i#long") (param i32))
        (func (export "my:pkg/i#deep") (result i32) (i32.const 0)) {functions})"#
    );
    let loaded = Setup::new(&component(&wit, &wat)).load().await.unwrap();
    assert_eq!(loaded.tools().len(), 256);
    let skipped = loaded.skipped_functions().iter();
    let reasons: std::collections::BTreeSet<&str> =
        skipped.map(|one| one.reason.as_str()).collect();
    expect![[r#"
        {
            "a component has at most 256 tools",
            "it uses a name that is longer than 64 bytes",
            "its types are nested deeper than 12 levels",
        }"#]]
    .assert_eq(&format!("{reasons:#?}"));
}
