//! Tests of results in the forms of Kode and Pegasus.

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::events::{kode, pegasus};
use toolhost_contract::{CallError, CallId, ErrorClass, Failure, Outcome};

type Answer = Result<Outcome, CallError>;

fn error(class: ErrorClass, code: &str, message: &str) -> Answer {
    Err(CallError::new(class, message).code(code))
}

fn denied(code: &str, message: &str) -> Answer {
    error(ErrorClass::Denied, code, message)
}

fn structured(value: Value) -> Outcome {
    Outcome {
        structured: Some(value),
        ..Outcome::default()
    }
}

fn failure() -> Outcome {
    let mut failure = Failure::new("no_match", "nothing matches `x`");
    failure.recommendations.push("try `y`".to_owned());
    Outcome {
        error: Some(failure),
        ..Outcome::default()
    }
}

fn kode(answer: Answer, note: Option<&str>, expected: Expect) {
    let block = kode::tool_result(&CallId("c1".to_owned()), "x", &answer, note);
    assert_eq!(block["type"], "tool_result");
    assert_eq!(block["tool_use_id"], "c1");
    let shown = format!("is_error={} {}", block["is_error"], block["content"]);
    expected.assert_eq(&shown);
}

// R-125, R-126, R-127, R-128, R-406
#[test]
fn r_125_kode_results() {
    kode(
        Ok(structured(json!({"content": "hi"}))),
        None,
        expect![[r#"is_error=false {"content":"hi"}"#]],
    );
    kode(
        Ok(Outcome::text("plain")),
        None,
        expect![[r#"is_error=false "plain""#]],
    );
    kode(
        Ok(failure()),
        None,
        expect![[
            r#"is_error=true {"ok":false,"error":"nothing matches `x`","recommendations":["try `y`"]}"#
        ]],
    );
    kode(
        Ok(structured(json!({"ok": false, "error": "gone"}))),
        None,
        expect![[r#"is_error=true {"ok":false,"error":"gone"}"#]],
    );
}

#[test]
fn r_202_kode_denials_name_their_source() {
    kode(
        denied("user_denied", "Permission denied: no"),
        Some("use just"),
        expect![[
            r#"is_error=true {"ok":false,"error":"Permission denied by user","note":"use just"}"#
        ]],
    );
    kode(
        denied(
            "user_denied",
            "Permission denied: the user rejected `erase`: keep `a`: it is mine",
        ),
        None,
        expect![[
            r#"is_error=true {"ok":false,"error":"Permission denied by user","note":"keep `a`: it is mine"}"#
        ]],
    );
    kode(
        denied("policy_violation", "Permission denied: rule 2"),
        None,
        expect![[r#"is_error=true {"ok":false,"error":"Permission denied by policy"}"#]],
    );
    kode(
        denied("hook_denied", "Permission denied: sensitive file"),
        None,
        expect![[r#"is_error=true {"ok":false,"error":"sensitive file"}"#]],
    );
    kode(
        denied("hook_denied", ""),
        None,
        expect![[r#"is_error=true {"ok":false,"error":"Denied by hook"}"#]],
    );
    kode(
        denied("host_not_allowed", "Permission denied: a.example"),
        None,
        expect![[r#"is_error=true {"ok":false,"error":"Permission denied: a.example"}"#]],
    );
}

// R-130, R-405
#[test]
fn r_405_an_unknown_tool_comes_with_recommendations() {
    kode(
        error(
            ErrorClass::NotRegistered,
            "tool_not_registered",
            "Tool \"x\" not found",
        ),
        None,
        expect![[
            r#"is_error=true {"ok":false,"error":"Tool not found: x","recommendations":["check that the tool is registered","check the tools of the agent's template"]}"#
        ]],
    );
    kode(
        error(
            ErrorClass::InvalidInput,
            "invalid_tool_params",
            "Parameter validation failed: a: no",
        ),
        None,
        expect![[
            r#"is_error=true {"ok":false,"error":"Parameter validation failed: a: no","recommendations":["check the arguments against the tool's schema","correct them and call again"]}"#
        ]],
    );
}

// R-400, R-401, R-402, R-403, R-404, R-407
#[test]
fn r_400_pegasus_errors() {
    let mut shown = String::new();
    let unavailable = CallError {
        retryable: true,
        ..CallError::new(ErrorClass::Unavailable, "the server is busy").cause("connection refused")
    };
    for error in [
        CallError::new(
            ErrorClass::NotRegistered,
            "Tool \"x\" not found. Did you mean: y?",
        ),
        CallError::new(ErrorClass::NotRegistered, "no such thing"),
        CallError::new(
            ErrorClass::InvalidInput,
            "Parameter validation failed: path: is required",
        ),
        CallError::new(ErrorClass::InvalidInput, "no JSON").code("invalid_json"),
        CallError::timed_out(Duration::from_secs(30)),
        CallError::new(ErrorClass::TimedOut, "silent for 5s").code("inactivity_timeout"),
        CallError::new(ErrorClass::Denied, "Permission denied: rule 2").code("policy_violation"),
        CallError::new(ErrorClass::Denied, "sensitive file").code("hook_denied"),
        CallError::new(ErrorClass::NotFound, "a.txt: not found").code("file_not_found"),
        CallError::new(ErrorClass::Trapped, "the tool crashed"),
        CallError::new(ErrorClass::Cancelled, "cancelled by user"),
        unavailable,
    ] {
        let verdict = pegasus::reflector_action(&error).as_str();
        let _ = writeln!(
            shown,
            "{verdict}: {}",
            pegasus::tool_error("x", &error).to_json()
        );
    }
    expect![[r#"
        replan: {"name":"ToolNotFoundError","toolName":"x","message":"Tool \"x\" not found. Did you mean: y?"}
        replan: {"name":"ToolNotFoundError","toolName":"x","message":"Tool \"x\" not found"}
        continue: {"name":"ToolValidationError","toolName":"x","message":"Parameter validation failed: path: is required","cause":"path: is required"}
        continue: {"name":"ToolValidationError","toolName":"x","message":"Parameter validation failed: no JSON"}
        replan: {"name":"ToolTimeoutError","toolName":"x","message":"Tool execution timed out after 30000ms"}
        replan: {"name":"ToolTimeoutError","toolName":"x","message":"Tool execution timed out: silent for 5s"}
        replan: {"name":"ToolPermissionError","toolName":"x","message":"Permission denied: rule 2"}
        replan: {"name":"ToolPermissionError","toolName":"x","message":"Permission denied: sensitive file"}
        replan: {"name":"ToolError","toolName":"x","message":"a.txt: not found"}
        replan: {"name":"ToolError","toolName":"x","message":"the tool crashed"}
        complete: {"name":"ToolError","toolName":"x","message":"cancelled by user"}
        continue: {"name":"ToolError","toolName":"x","message":"the server is busy","cause":"connection refused"}
    "#]].assert_eq(&shown);
}
