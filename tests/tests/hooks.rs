//! Hooks as components: shipped hooks and misbehaving guests.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::{root, target};
use serde_json::{Value, json};
use toolhost_contract::hook::{PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::{
    Backend as _, Call, CallError, Descriptor, ErrorClass, Limits, Outcome, ToolName,
};
use toolhost_runtime::{
    Compiler, HookCall, HookOrigin, Plugin, PluginGrants, Runtime, RuntimeSettings,
};
use toolhost_vfs::{Access, PathGrant, Scope};

const TIMEOUT: Duration = Duration::from_secs(20);

fn guest(name: &str) -> PathBuf {
    target().join(format!("guests/{name}.wasm"))
}

fn shipped(name: &str) -> PathBuf {
    root().join(format!("plugins/{name}.wasm"))
}

async fn load(path: &Path, scope: Scope) -> Plugin {
    let settings = RuntimeSettings {
        cache_dir: Some(target().join("test-cache")),
        compiler: Compiler::InProcess,
        max_concurrent: 2,
        environment: Vec::new(),
    };
    let loaded = Runtime::new(settings).unwrap().load(path).await.unwrap();
    assert!(loaded.has_hooks(), "{}", path.display());
    let mut limits = Limits::default();
    loaded.manifest().limits.apply(&mut limits);
    let env = vec![("SECRET".to_owned(), "x".to_owned())];
    loaded
        .grant(PluginGrants {
            session_dirs: None,
            // What its tools may call, its hooks may not.
            capabilities: toolhost_runtime::Capabilities {
                tools: vec!["*".to_owned()].into(),
                ..toolhost_runtime::Capabilities::default()
            },
            scope,
            env,
            limits,
            staging: None,
        })
        .unwrap()
}

fn call(input: Value) -> (Call, Descriptor) {
    let mut tool = Descriptor::new(ToolName::parse("shell").unwrap(), "Run a command.");
    tool.aliases = vec!["bash".to_owned()];
    (Call::new("1", tool.name.clone(), input), tool)
}

fn in_plan_mode((call, tool): &(Call, Descriptor)) -> HookCall<'_> {
    HookCall {
        call,
        tool,
        mode: "plan",
        origin: HookOrigin::Configured,
    }
}

async fn before(path: &Path, input: Value) -> Result<PreHookResponse, CallError> {
    let plugin = load(path, Scope::empty()).await;
    plugin
        .run_pre_hook(in_plan_mode(&call(input)), TIMEOUT)
        .await
}

/// The outcome as the hook leaves it, and whether it changed it.
async fn after(path: &Path, outcome: Outcome) -> Result<(bool, Outcome), CallError> {
    let plugin = load(path, Scope::empty()).await;
    let after = plugin
        .run_post_hook(in_plan_mode(&call(json!({}))), &outcome, TIMEOUT)
        .await?;
    Ok((after != PostHookResponse::Keep, after.apply(outcome)))
}

#[tokio::test]
async fn a_hook_reads_what_was_granted_and_reaches_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f.txt"), "inside").unwrap();
    let grant = PathGrant {
        host: dir.path().canonicalize().unwrap(),
        guest: "/workspace".to_owned(),
        access: Access::ReadWrite,
        dangerous: false,
        exclude: Vec::new(),
    };
    let scope = Scope::open(&[grant], &[]).unwrap();
    let plugin = load(&guest("hook_witness"), scope).await;
    assert_eq!(plugin.tools().len(), 1);
    let response = plugin
        .run_pre_hook(in_plan_mode(&call(json!({"a": 1}))), TIMEOUT)
        .await;
    let response = response.unwrap();
    assert_eq!(response.updated_input, Some(json!({"seen": true})));
    let observations = json!({
        "call": r#"HookCall { tool: "shell", input: Object {"a": Number(1)}, aliases: ["bash"], version: "0.0.0", kind: "other", effect: "destroys" }"#,
        "event": "PreToolUse",
        "mode": "plan",
        "roots": ["/workspace ro"],
        "variables": 0,
        "read": "inside",
        "written": false,
        "called": "service_not_granted",
    });
    let reason = Some("look at what I saw".to_owned());
    let meta = Some(observations);
    assert_eq!(response.decision, PreHookDecision::Ask { reason, meta });
    assert!(!dir.path().join("made.txt").exists());
}

#[tokio::test]
async fn a_hook_without_a_grant_sees_no_file() {
    let response = before(&guest("hook_witness"), json!({})).await.unwrap();
    let PreHookDecision::Ask {
        meta: Some(observations),
        ..
    } = response.decision
    else {
        panic!("{response:?}");
    };
    assert_eq!(
        (&observations["roots"], &observations["read"]),
        (&json!([]), &json!(null))
    );
}

// R-211
#[tokio::test]
async fn r_211_a_hook_may_put_another_outcome_in_the_place_of_one() {
    let (changed, outcome) = after(&guest("hook_witness"), Outcome::text("x"))
        .await
        .unwrap();
    assert!(changed);
    let expected = Outcome {
        summary: Some("1 parts".to_owned()),
        ..Outcome::text("x")
    };
    assert_eq!(outcome, expected);
}

#[tokio::test]
async fn a_hook_that_spins_is_stopped() {
    let plugin = load(&guest("hook_spin"), Scope::empty()).await;
    let short = Duration::from_millis(300);
    let error = plugin
        .run_pre_hook(in_plan_mode(&call(json!({}))), short)
        .await
        .unwrap_err();
    assert_eq!(error.class, ErrorClass::TimedOut);
    // It has no opinion on what comes out.
    let after = after(&guest("hook_spin"), Outcome::text("x")).await;
    assert_eq!(after.unwrap(), (false, Outcome::text("x")));
}

#[tokio::test]
async fn a_hook_that_panics_is_an_error_with_its_last_words() {
    let error = after(&guest("hook_panic"), Outcome::text("x"))
        .await
        .unwrap_err();
    assert_eq!(error.class, ErrorClass::Trapped);
    let stderr = error.stderr.unwrap_or_default();
    assert!(stderr.contains("no idea what shell is"), "{stderr}");
}

#[tokio::test]
async fn hook_decisions_are_limited_in_size() {
    let response = before(&guest("hook_flood"), json!({})).await.unwrap();
    let PreHookDecision::Deny {
        reason: Some(reason),
        outcome: None,
    } = response.decision
    else {
        panic!("no denial");
    };
    assert_eq!(reason.len(), 16 << 10);
    let error = after(&guest("hook_flood"), Outcome::text("x"))
        .await
        .unwrap_err();
    let classes = [ErrorClass::OutputLimit, ErrorClass::LimitExceeded];
    assert!(classes.contains(&error.class), "{error:?}");
}

// R-213
#[tokio::test]
async fn r_213_dangerous_commands_need_approval() {
    let hook = shipped("hook-dangerous-commands");
    let response = before(&hook, json!({"command": "sudo rm -rf /"}))
        .await
        .unwrap();
    let reason = "`rm` deletes directories recursively without confirmation";
    let expected = PreHookDecision::Ask {
        reason: Some(reason.to_owned()),
        meta: Some(json!({"risk": "high", "reason": reason})),
    };
    assert_eq!(response.decision, expected);
    let response = before(&hook, json!({"command": "ls"})).await;
    assert_eq!(response, Ok(PreHookResponse::default()));
}

// R-214
#[tokio::test]
async fn r_214_sensitive_files_are_denied() {
    let hook = shipped("hook-sensitive-files");
    let response = before(&hook, json!({"path": "/etc/passwd"})).await.unwrap();
    let PreHookDecision::Deny {
        outcome: Some(outcome),
        ..
    } = response.decision
    else {
        panic!("{response:?}");
    };
    let text = "Access to /etc/passwd is denied: it may contain secrets.";
    assert_eq!(outcome.model_text(), text);
    assert!(outcome.is_error());
    let response = before(&hook, json!({"path": "/etc/hosts"})).await.unwrap();
    assert!(
        matches!(response.decision, PreHookDecision::Ask { .. }),
        "{response:?}"
    );
}

// R-215
#[tokio::test]
async fn r_215_long_results_are_cut() {
    let hook = shipped("hook-truncate");
    let long = Outcome::text("ä".repeat(200_000));
    let (_, outcome) = after(&hook, long).await.unwrap();
    let text = outcome.model_text();
    assert_eq!(text.matches('ä').count(), 10_000);
    assert!(text.ends_with("[the result is 200000 characters long; these are its first 10000]"));
    let truncated = outcome.truncated.unwrap();
    assert!(
        (truncated.original_bytes - 400_000.0).abs() < 0.5,
        "{truncated:?}"
    );
    let short = after(&hook, Outcome::text("x")).await;
    assert_eq!(short, Ok((false, Outcome::text("x"))));
}

// R-216
#[tokio::test]
async fn r_216_secrets_are_masked() {
    let hook = shipped("hook-mask-secrets");
    let (changed, outcome) = after(&hook, Outcome::text("password=hunter2\nok"))
        .await
        .unwrap();
    assert!(changed);
    assert_eq!(outcome, Outcome::text("password=***\nok"));
    assert_eq!(after(&hook, outcome.clone()).await, Ok((false, outcome)));
    // As much as any tool of ours returns, all of it worth a look.
    let lines = "the key of it all, password=hunter2 and more words\n".repeat(80_000);
    let (_, outcome) = after(&hook, Outcome::text(lines)).await.unwrap();
    assert!(!outcome.model_text().contains("hunter2"));
}

/// A plugin directory may contain hooks. Without a configuration they are not used.
#[test]
fn a_hook_in_the_folder_of_plugins_adds_no_tool() {
    let hook = shipped("hook-truncate");
    let listed = e2e::run(&["plugins", "--json", "--plugins", &hook.to_string_lossy()]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["plugins"][0]["name"], "hook-truncate");
    assert_eq!(listed["plugins"][0]["tools"], json!([]));
}
