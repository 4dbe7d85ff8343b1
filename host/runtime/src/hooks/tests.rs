//! Misbehaving hooks, as hand-written core modules, and one well-behaved hook.

use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::json;
use toolhost_contract::hook::PreHookDecision;
use toolhost_contract::{Limits, ToolName};
use toolhost_vfs::Scope;

use super::*;
use crate::PluginGrants;
use crate::tests::{runtime, wrap};

/// A component of world `hook` with `body` as both functions.
fn component(body: &str, extra: &str) -> Vec<u8> {
    let wat = format!(
        r#"(module
            (memory (export "memory") 1)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 16384))
            (func (export "toolhost:plugin/hooks@0.1.0#pre-tool-use") (param i32) (result i32) {body})
            (func (export "toolhost:plugin/hooks@0.1.0#post-tool-use") (param i32) (result i32) {body})
            {extra})"#
    );
    wrap("hook", &wat)
}

async fn load(component: &[u8], limits: Limits) -> Plugin {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hook.wasm");
    std::fs::write(&path, component).unwrap();
    let loaded = runtime().load(&path).await.unwrap();
    assert!(loaded.has_hooks() && loaded.tools().is_empty());
    let scope = Scope::empty();
    let env = Vec::new();
    loaded
        .grant(PluginGrants {
            session_dirs: None,
            capabilities: crate::Capabilities::default(),
            scope,
            env,
            limits,
            staging: None,
        })
        .unwrap()
}

struct TestCall {
    call: Call,
    tool: Descriptor,
}

impl TestCall {
    fn new() -> Self {
        let tool = Descriptor::new(ToolName::parse("shell").unwrap(), "Run.");
        let call = Call::new("1", tool.name.clone(), json!({}));
        Self { call, tool }
    }

    fn from(&self, origin: HookOrigin) -> HookCall<'_> {
        HookCall {
            call: &self.call,
            tool: &self.tool,
            mode: "default",
            origin,
        }
    }
}

/// Runs the hook before and after; returns both results, in one line if they are equal.
async fn check(body: &str, extra: &str, expected: Expect) {
    let limits = Limits {
        memory: 1 << 20,
        output: 64 << 10,
        ..Limits::default()
    };
    let plugin = load(&component(body, extra), limits).await;
    let timeout = Duration::from_millis(200);
    let shown = |error: CallError| format!("{:?} {}: {}", error.class, error.code, error.message);
    let before = plugin
        .run_pre_hook(TestCall::new().from(HookOrigin::Configured), timeout)
        .await;
    let before = before.map_or_else(shown, |before| format!("{before:?}"));
    let after = plugin
        .run_post_hook(
            TestCall::new().from(HookOrigin::Configured),
            &Outcome::text("x"),
            timeout,
        )
        .await;
    let after = after.map_or_else(shown, |after| format!("{after:?}"));
    if before == after {
        expected.assert_eq(&before);
    } else {
        expected.assert_eq(&format!("before {before}\nafter {after}"));
    }
}

/// The string at 16 is the hook's decision; the record at 64 points to it and is otherwise empty.
fn decision_data(decision: &str) -> String {
    format!(
        r#"(data (i32.const 16) "{decision}") (data (i32.const 64) "\10\00\00\00\{:02x}\00\00\00")"#,
        decision.len()
    )
}

#[tokio::test]
async fn a_hook_that_loops_ends_at_its_deadline() {
    let expected = expect!["TimedOut timeout: Tool execution timed out after 200ms"];
    check("(loop $l (br $l)) (unreachable)", "", expected).await;
}

#[tokio::test]
async fn a_crashing_hook_is_an_error() {
    let expected = expect![
        "Trapped trap: the tool crashed: wasm trap: wasm `unreachable` instruction executed"
    ];
    check("(unreachable)", "", expected).await;
}

#[tokio::test]
async fn a_hook_has_no_more_memory_than_its_plugin() {
    let expected =
        expect!["LimitExceeded out_of_memory: the tool needs more than 1048576 bytes of memory"];
    let body = "(loop $l (drop (memory.grow (i32.const 1))) (br $l)) (unreachable)";
    check(body, "", expected).await;
}

#[tokio::test]
async fn an_unknown_decision_is_an_error() {
    let expected = expect![[r#"
        before Failed invalid_output: the hook returned an invalid result: `maybe` is not a decision; use continue, ask, deny or result
        after Failed invalid_output: the hook returned an invalid result: `maybe` is not an action; use keep, update or replace"#]];
    check("(i32.const 64)", &decision_data("maybe"), expected).await;
    let expected = expect![[r#"
        before Failed invalid_output: the hook returned an invalid result: a component may not return `allow`; write an allow rule, or return `continue`
        after Failed invalid_output: the hook returned an invalid result: `allow` is not an action; use keep, update or replace"#]];
    check("(i32.const 64)", &decision_data("allow"), expected).await;
}

#[tokio::test]
async fn an_invalid_pointer_is_a_trap() {
    let expected = expect!["Trapped trap: the tool crashed in a call to the host"];
    check("(i32.const 0x7ffffff8)", "", expected).await;
}

#[tokio::test]
async fn a_hook_answers() {
    let expected = expect![[r#"
        before PreHookResponse { decision: Continue, updated_input: None }
        after Failed invalid_output: the hook returned an invalid result: `continue` is not an action; use keep, update or replace"#]];
    check("(i32.const 64)", &decision_data("continue"), expected).await;
    let expected = expect![[r#"
        before Failed invalid_output: the hook returned an invalid result: `keep` is not a decision; use continue, ask, deny or result
        after Keep"#]];
    check("(i32.const 64)", &decision_data("keep"), expected).await;
}

#[tokio::test]
async fn an_outcome_beyond_the_limit_is_an_error() {
    // The verdict's outcome begins at byte 40 with a summary: present, at address 0, 65,537 bytes long.
    let outcome = r#"(data (i32.const 96) "\01\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\01\00\01\00")
        (func $grow (drop (memory.grow (i32.const 4)))) (start $grow)"#;
    let extra = format!("{} {outcome}", decision_data("result"));
    let plugin = load(&component("(i32.const 64)", &extra), Limits::default()).await;
    let before = plugin
        .run_pre_hook(
            TestCall::new().from(HookOrigin::Configured),
            Duration::from_secs(5),
        )
        .await;
    let PreHookDecision::Result(outcome) = before.unwrap().decision else {
        panic!("no result");
    };
    assert_eq!(outcome.summary.map(|text| text.len()), Some(65_537));

    let limits = Limits {
        output: 64 << 10,
        ..Limits::default()
    };
    let plugin = load(&component("(i32.const 64)", &extra), limits).await;
    let error = plugin
        .run_pre_hook(
            TestCall::new().from(HookOrigin::Configured),
            Duration::from_secs(5),
        )
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.class, ErrorClass::OutputLimit, "{error}");
    // The outcome of the call can be too large as well.
    let outcome = Outcome::text("x".repeat(65_537));
    let call = TestCall::new();
    let error = plugin
        .run_post_hook(
            call.from(HookOrigin::Configured),
            &outcome,
            Duration::from_secs(5),
        )
        .await;
    assert_eq!(error.unwrap_err().class, ErrorClass::LimitExceeded);
}

#[tokio::test]
async fn only_hooks_for_the_plugin_s_own_tools_share_the_instance_of_a_call() {
    // The second function of an instance traps.
    let body = "(if (global.get $used) (then (unreachable))) (global.set $used (i32.const 1)) (i32.const 64)";
    let extra = format!(
        "(global $used (mut i32) (i32.const 0)) {}",
        decision_data("continue")
    );
    let plugin = load(&component(body, &extra), Limits::default()).await;
    let runs = async |call: HookCall<'_>| {
        let ended = plugin.run_pre_hook(call, Duration::from_secs(5)).await;
        ended.map_err(|error| error.code)
    };
    let call = TestCall::new();
    let (own, configured) = (
        call.from(HookOrigin::OwnTool),
        call.from(HookOrigin::Configured),
    );
    assert!(runs(own).await.is_ok());
    assert!(
        runs(TestCall::new().from(HookOrigin::OwnTool))
            .await
            .is_ok()
    );
    assert!(runs(configured).await.is_ok());
    assert_eq!(runs(own).await, Err("trap".to_owned()));
    // An instance that failed is not used again.
    assert!(runs(own).await.is_ok());
    // The call waits.
    call.call.state.clear();
    assert!(runs(own).await.is_ok());
}

#[tokio::test]
async fn a_component_with_hooks_only_is_not_a_plugin_of_tools() {
    let path = Path::new("test.wasm");
    let hook = component("(unreachable)", "");
    assert!(runtime().link(path, &hook).await.is_err());
    let plugin = load(&hook, Limits::default()).await;
    assert!(toolhost_contract::Backend::tools(&plugin).is_empty());
}

#[test]
fn extra_fields_of_a_request() {
    let mut tool = TestCall::new().tool;
    tool.aliases = vec!["bash".to_owned()];
    expect![[r#"{"event":"PreToolUse","aliases":["bash"],"version":"0.0.0","kind":"other","effect":"destroys"}"#]]
        .assert_eq(&extra(&tool, HookPoint::Before));
}
