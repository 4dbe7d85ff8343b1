//! Event format of Sema: permission requests and responses, and ends of executions.

use serde_json::{Value, json};

use super::View;
use super::shown::{Shown, object, spelled};
use crate::bus::{BusEvent, Happening};
use crate::life::masked;

/// `tool:permission:request`, `tool:permission:response`, `tool:execution:complete`, `tool:execution:error`.
///
/// Sema identifies a call by its tool name; `toolId` is for front ends that run several calls at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sema;

impl View for Sema {
    fn take(&mut self, event: &BusEvent) -> Vec<Value> {
        Shown::of(event)
            .and_then(|call| said(event, call))
            .into_iter()
            .collect()
    }
}

fn said(event: &BusEvent, call: Shown<'_>) -> Option<Value> {
    let named = |kind: &str, members: [(&str, Value); 3]| {
        let [first, second, third] = members;
        object([
            ("type", json!(kind)),
            ("agentId", json!(event.caller.agent)),
            ("toolId", json!(call.id())),
            ("toolName", json!(call.name())),
            first,
            second,
            third,
        ])
    };
    match &event.happening {
        //
        Happening::PermissionRequest {
            title,
            summary,
            content,
        } => Some(named(
            "tool:permission:request",
            [
                ("title", spelled(&json!(title))),
                ("summary", spelled(&json!(summary))),
                ("content", spelled(content)),
            ],
        )),
        Happening::PermissionDecided { decision, note, .. } => Some(named(
            "tool:permission:response",
            [
                ("selected", json!(selected(decision, call))),
                ("note", json!(note)),
                ("", Value::Null),
            ],
        )),
        // A logical failure is also complete, because Sema has no other event for it.
        Happening::CallCompleted {
            title,
            summary,
            result,
        } => Some(named(
            "tool:execution:complete",
            [
                ("title", json!(title)),
                ("summary", json!(summary.as_deref().unwrap_or_default())),
                ("content", result.as_ref().map(masked).unwrap_or_default()),
            ],
        )),
        Happening::CallFailed
        | Happening::CallDenied
        | Happening::CallCancelled
        | Happening::CallSealed => Some(named(
            "tool:execution:error",
            [
                ("title", json!(call.name())),
                ("summary", json!(call.code())),
                ("content", json!(call.message())),
            ],
        )),
        Happening::CallCreated
        | Happening::CallState(_)
        | Happening::Call(_)
        | Happening::BatchCompleted { .. }
        | Happening::BatchSubmitted { .. }
        | Happening::RegistryChanged
        | Happening::PolicyUpdated => None,
    }
}

/// Sema's `allow` is saved, its `agree` applies once (C-25).
fn selected(decision: &str, call: Shown<'_>) -> &'static str {
    match (decision, call.approval("scope").as_str()) {
        ("allow", None | Some("once")) => "agree",
        ("allow", Some(_)) => "allow",
        _ => "refuse",
    }
}

/// Sema stores permissions for tools of MCP servers under names without the prefix.
pub fn permission_key(tool: &str) -> &str {
    tool.strip_prefix("mcp__").unwrap_or(tool)
}
