//! Engine tests with hostile code: hand-written core modules, wrapped as components of our world.

mod contract;
mod leftovers;
mod pool;
mod wasi_testsuite;

use std::io::Cursor;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use toolhost_contract::{CallError, ErrorClass, Limits};
use wasmtime::{Engine, Precompiled};

use crate::api::v0_1::{PluginPre, types};
use crate::export::Export;
use crate::instance::{self, CallEnvironment};
use crate::state::State;
use crate::{Compiler, LoadError, Loaded, Runtime, RuntimeSettings, engine, pack, scan};

/// A component of world `plugin` with `body` as `call`, and `extra` items.
pub fn component(body: &str, extra: &str) -> Vec<u8> {
    let wat = format!(
        r#"(module
            (memory (export "memory") 1)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
            (func (export "toolhost:plugin/tool@0.1.0#describe") (param i32 i32) (result i32) (i32.const 0))
            (func $call (export "toolhost:plugin/tool@0.1.0#call") (param i32) (result i32) {body})
            {extra})"#
    );
    wrap("plugin", &wat)
}

/// A component that only has hooks.
pub fn hooks_component() -> Vec<u8> {
    let wat = r#"(module
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (unreachable))
        (func (export "toolhost:plugin/hooks@0.1.0#pre-tool-use") (param i32) (result i32) (unreachable))
        (func (export "toolhost:plugin/hooks@0.1.0#post-tool-use") (param i32) (result i32) (unreachable)))"#;
    wrap("hook", wat)
}

pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Runtime::new(RuntimeSettings {
            cache_dir: None,
            compiler: Compiler::InProcess,
            max_concurrent: 8,
            environment: Vec::new(),
        })
        .unwrap()
    })
}

async fn tools(component: &[u8]) -> Tools {
    runtime()
        .link(Path::new("test.wasm"), component)
        .await
        .unwrap()
}

/// Calls `body` with one second of time and 1 MiB of memory; returns the error.
async fn call(body: &str, extra: &str) -> CallError {
    let tools = tools(&component(body, extra)).await;
    let limits = Limits {
        memory: 1 << 20,
        ..Limits::default()
    };
    run(&tools, &limits, Duration::from_millis(200)).await
}

pub type Tools = Export<PluginPre<State>>;

async fn run(tools: &Tools, limits: &Limits, timeout: Duration) -> CallError {
    let outcome = call_tool(tools, limits, timeout, &request()).await;
    outcome.map(drop).unwrap_err()
}

/// Calls the tool without grants.
pub async fn call_tool(
    tools: &Tools,
    limits: &Limits,
    timeout: Duration,
    request: &types::Request,
) -> Result<Result<types::Outcome, types::ToolError>, CallError> {
    let environment = CallEnvironment::without_grants(limits, timeout);
    let outcome = tools.run(environment, async |store, plugin| {
        let plugin = plugin.toolhost_plugin_tool();
        plugin.call_call(store, request).await
    });
    outcome.await
}

pub fn request() -> types::Request {
    types::Request {
        call_id: "1".to_owned(),
        tool: "test".to_owned(),
        input: "{}".to_owned(),
        context: types::Context {
            agent_id: String::new(),
            parent_agent_id: None,
            session_id: String::new(),
            task_id: String::new(),
            user_id: None,
            mode: String::new(),
            roots: Vec::new(),
            extra: None,
        },
    }
}

const LOOP: &str = "(loop $l (br $l)) (unreachable)";

#[tokio::test]
async fn an_infinite_loop_ends_at_its_deadline() {
    assert_eq!(call(LOOP, "").await.class, ErrorClass::TimedOut);
}

#[tokio::test]
async fn a_loop_in_the_start_function_ends_at_the_deadline() {
    let error = call(
        "(unreachable)",
        "(func $start (loop $l (br $l))) (start $start)",
    )
    .await;
    assert_eq!(error.class, ErrorClass::TimedOut);
}

#[tokio::test]
async fn a_loop_in_realloc_ends_at_the_deadline() {
    let bytes = {
        let spinning = "(func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (loop $l (br $l)) (unreachable))";
        let wat = format!(
            r#"(module (memory (export "memory") 1) {spinning}
                (func (export "toolhost:plugin/tool@0.1.0#describe") (param i32 i32) (result i32) (i32.const 0))
                (func (export "toolhost:plugin/tool@0.1.0#call") (param i32) (result i32) (unreachable)))"#
        );
        wrap("plugin", &wat)
    };
    let tools = tools(&bytes).await;
    assert_eq!(
        run(&tools, &Limits::default(), Duration::from_millis(200))
            .await
            .class,
        ErrorClass::TimedOut
    );
}

pub fn wrap(world: &str, wat: &str) -> Vec<u8> {
    let mut module = wat::parse_str(wat).unwrap();
    let mut resolve = wit_parser::Resolve::default();
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v0.1");
    let (package, _) = resolve.push_path(wit).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    wit_component::embed_component_metadata(
        &mut module,
        &resolve,
        world,
        wit_component::StringEncoding::UTF8,
    )
    .unwrap();
    wit_component::ComponentEncoder::default()
        .module(&module)
        .unwrap()
        .encode()
        .unwrap()
}

#[tokio::test]
async fn spinning_guests_yield() {
    // One executor thread and four spinning calls: each yields at every tick.
    let tools = tools(&component(LOOP, "")).await;
    let limits = Limits::default();
    let timeout = Duration::from_millis(300);
    let ended = futures::future::join_all((0..4).map(|_| run(&tools, &limits, timeout))).await;
    assert!(
        ended
            .iter()
            .all(|error| error.class == ErrorClass::TimedOut)
    );
}

#[tokio::test]
async fn exceeding_the_memory_limit_ends_the_call() {
    let error = call(
        "(loop $l (drop (memory.grow (i32.const 1))) (br $l)) (unreachable)",
        "",
    )
    .await;
    assert_eq!(
        (error.class, error.code.as_str()),
        (ErrorClass::LimitExceeded, "out_of_memory")
    );
}

#[tokio::test]
async fn memories_are_summed() {
    let memories = "(memory 6) (memory 6) (memory 6)";
    let error = call("(unreachable)", memories).await;
    assert_eq!(
        (error.class, error.code.as_str()),
        (ErrorClass::LimitExceeded, "out_of_memory")
    );
}

#[tokio::test]
async fn a_table_stops_growing_at_the_limit() {
    // Grows until the result is -1, then divides by zero if the table is within the limit, and loops otherwise.
    let body = "(loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))
                (if (i32.gt_u (table.size $t) (i32.const 20000)) (then (loop $l (br $l))))
                (i32.div_s (i32.const 1) (i32.const 0))";
    assert_eq!(
        call(body, "(table $t 1 funcref)").await.class,
        ErrorClass::Trapped
    );
}

#[tokio::test]
async fn deep_recursion_is_a_stack_overflow() {
    let error = call(
        "(call $deep (i32.const 0))",
        "(func $deep (param i32) (result i32) (call $deep (local.get 0)))",
    )
    .await;
    assert_eq!(error.class, ErrorClass::StackOverflow);
}

#[tokio::test]
async fn a_trap_is_reported() {
    let error = call("(i32.div_s (i32.const 1) (i32.const 0))", "").await;
    assert_eq!(error.class, ErrorClass::Trapped);
    assert!(
        error.message.contains("divide by zero"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn an_invalid_result_is_a_trap() {
    // A pointer beyond memory, and an invalid discriminant.
    for body in [
        "(i32.const 0x7fffffff)",
        "(i32.store8 (i32.const 64) (i32.const 77)) (i32.const 64)",
    ] {
        assert_eq!(call(body, "").await.class, ErrorClass::Trapped, "{body}");
    }
}

async fn load_bytes(name: &str, bytes: &[u8]) -> Result<Loaded, LoadError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    runtime().load(&path).await
}

async fn load_error(name: &str, bytes: &[u8]) -> LoadError {
    match load_bytes(name, bytes).await {
        Ok(_) => panic!("{name} loads"),
        Err(error) => error,
    }
}

async fn check(name: &str, bytes: &[u8], expect: expect_test::Expect) {
    let error = load_error(name, bytes).await.to_string();
    // The path of the temporary directory varies.
    let start = error.find(name).unwrap_or_default();
    expect.assert_eq(&error[start..]);
}

#[tokio::test]
async fn invalid_plugins_are_explained() {
    use expect_test::expect;
    let wasm = |text: &str| wat::parse_str(text).unwrap();
    check(
        "empty.wasm",
        b"",
        expect!["empty.wasm is not a WebAssembly component: it is empty"],
    )
    .await;
    check(
        "text.wasm",
        b"hello",
        expect!["text.wasm is not a WebAssembly component: it does not start with the WebAssembly magic number"],
    )
    .await;
    check(
        "elf.wasm",
        b"\x7fELF\x02\x01\x01",
        expect!["elf.wasm is not a WebAssembly component: it is native code (ELF); precompiled plugins are not supported"],
    )
    .await;
    check(
        "wat.wasm",
        b"(component)",
        expect!["wat.wasm is not a WebAssembly component: it is WebAssembly text; assemble it with `wasm-tools parse`"],
    )
    .await;
    check("core.wasm", &wasm("(module)"), expect!["core.wasm is a core WebAssembly module, not a component; build it for the target wasm32-wasip2, or wrap it with `wasm-tools component new`"]).await;
    check("none.wasm", &wasm("(component)"), expect!["none.wasm: it does not export `toolhost:plugin/tool@0.1.0`, so it is not a plugin for this host; its exports are: none"]).await;
    check(
        "keyvalue.wasm",
        &wasm(r#"(component (import "wasi:keyvalue/store@0.2.0" (instance)))"#),
        expect!["keyvalue.wasm: it imports `wasi:keyvalue/store@0.2.0`, which this host does not provide; available are toolhost:plugin@0.1.0 and cli, clocks, filesystem, http, io, random, sockets of WASI 0.2"],
    )
    .await;
    check(
        "future.wasm",
        &wasm(r#"(component (import "toolhost:plugin/process@0.2.0" (instance)))"#),
        expect!["future.wasm: built for tool-api 0.2.0, host has 0.1.0; missing import `toolhost:plugin/process@0.2.0`; rebuild it with an SDK for 0.1.0"],
    )
    .await;
    check(
        "newer.wasm",
        &wasm(r#"(component (import "toolhost:plugin/host@0.1.0" (instance (export "teleport" (func)))))"#),
        expect!["newer.wasm: built for a newer revision of tool-api 0.1.0 than this host's; missing import `toolhost:plugin/host@0.1.0` function `teleport`"],
    )
    .await;
    check(
        "toolless.wasm",
        &component("(unreachable)", ""),
        expect!["toolless.wasm cannot describe its tools: it has no tools"],
    )
    .await;
}

#[tokio::test]
async fn precompiled_code_is_refused_under_any_name() {
    let engine = engine::compiling().unwrap();
    let plugin = component("(unreachable)", "");
    let module = wat::parse_str("(module)").unwrap();
    for (kind, code) in [
        (
            Precompiled::Component,
            engine.precompile_component(&plugin).unwrap(),
        ),
        (
            Precompiled::Module,
            engine.precompile_module(&module).unwrap(),
        ),
    ] {
        assert_eq!(Engine::detect_precompiled(&code), Some(kind));
        for name in ["plugin.cwasm", "plugin.wasm"] {
            let error = load_error(name, &code).await;
            assert!(
                matches!(&error, LoadError::NotAComponent { found, .. } if found.contains("native code")),
                "{name}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn truncations_and_bit_flips_are_errors() {
    let good = component("(unreachable)", "");
    for cut in (0..good.len()).step_by(7) {
        load_error("cut.wasm", &good[..cut]).await;
    }
    for (index, bit) in (0..good.len()).step_by(5).map(|index| (index, index % 8)) {
        let mut bytes = good.clone();
        bytes[index] ^= 1 << bit;
        // With a bit of its name changed, the interface is another one, whose functions are tools.
        if let Ok(loaded) = load_bytes("flip.wasm", &bytes).await {
            let exports = loaded.exports();
            assert!(
                !exports.contains(&"toolhost:plugin/tool@0.1.0".to_owned()),
                "{index}"
            );
        }
    }
}

#[tokio::test]
async fn disabled_proposals_are_named_in_errors() {
    for (module, expected) in [
        ("(module (memory 1 10 shared))", "threads"),
        ("(module (memory i64 1))", "memory64"),
        ("(module (type (struct)))", "gc"),
        ("(module (tag))", "exceptions"),
        (
            "(module (func (drop (i32x4.relaxed_trunc_f32x4_s (v128.const i32x4 0 0 0 0)))))",
            "relaxed SIMD",
        ),
    ] {
        let component = wat::parse_str(format!("(component (core {}", &module[1..]) + ")").unwrap();
        let error = load_error("proposal.wasm", &component).await.to_string();
        assert!(
            error.contains("cannot compile") && error.contains(expected),
            "{expected}: {error}"
        );
    }
}

#[test]
fn compilation_bombs_are_refused_by_the_scan() {
    let path = Path::new("bomb.wasm");
    let bomb = |core: &str| wat::parse_str(format!("(component (core module {core}))")).unwrap();
    for (core, expected) in [
        ("(func) ".repeat(50_001), "functions"),
        ("(type (func)) ".repeat(50_001), "types"),
        (
            format!(
                "(func $f) (table 2000000 funcref) (elem (i32.const 1500000) {})",
                "$f ".repeat(10)
            ),
            "table index",
        ),
        (
            "(memory 1) ".to_owned() + &"(data (i32.const 0) \"x\") ".repeat(20_001),
            "data segments",
        ),
    ] {
        let error = scan::check(path, &bomb(&core)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_manifest_is_embedded_in_the_component() {
    let manifest = "name = \"loop\"\nversion = \"1.2.3\"\ndescription = \"Loops\"\n";
    let packed = pack(
        Path::new("x.wasm"),
        &component(LOOP, ""),
        "plugin.toml",
        manifest,
        None,
    )
    .unwrap();
    assert_eq!(
        scan::outline(Path::new("x.wasm"), &mut Cursor::new(&packed))
            .unwrap()
            .manifest,
        Some(manifest.to_owned())
    );
    let again = pack(Path::new("x.wasm"), &packed, "plugin.toml", manifest, None)
        .unwrap_err()
        .to_string();
    assert!(again.contains("already contains a manifest"), "{again}");
    let bad = pack(
        Path::new("x.wasm"),
        &component(LOOP, ""),
        "plugin.toml",
        "nam = 1",
        None,
    )
    .unwrap_err()
    .to_string();
    assert!(
        bad.contains("plugin.toml:1: unknown key `nam`; did you mean `name`?"),
        "{bad}"
    );
}
