//! Event format of Sema: permission requests and responses, and ends of executions.

use serde_json::{Value, json};

use super::EventFormat;
use super::snapshot_view::{SnapshotView, escape_value, object_without_nulls};
use toolhost_contract::bus::{BusEvent, EventKind};
use toolhost_contract::lifecycle::mask_value;

/// `tool:permission:request`, `tool:permission:response`, `tool:execution:complete`, `tool:execution:error`.
///
/// Sema identifies a call by its tool name; `toolId` is for front ends that run several calls at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct SemaEvents;

impl EventFormat for SemaEvents {
    fn convert(&mut self, event: &BusEvent) -> Vec<Value> {
        SnapshotView::of(event)
            .and_then(|call| convert(event, call))
            .into_iter()
            .collect()
    }
}

fn convert(event: &BusEvent, call: SnapshotView<'_>) -> Option<Value> {
    let named = |kind: &str, members: [(&str, Value); 3]| {
        let [first, second, third] = members;
        object_without_nulls([
            ("type", json!(kind)),
            ("agentId", json!(event.caller.agent)),
            ("toolId", json!(call.id())),
            ("toolName", json!(call.name())),
            first,
            second,
            third,
        ])
    };
    match &event.kind {
        EventKind::PermissionRequest {
            title,
            summary,
            content,
        } => Some(named(
            "tool:permission:request",
            [
                ("title", escape_value(&json!(title))),
                ("summary", escape_value(&json!(summary))),
                ("content", escape_value(content)),
            ],
        )),
        EventKind::PermissionDecided { decision, note, .. } => Some(named(
            "tool:permission:response",
            [
                ("selected", json!(selected(decision, call))),
                ("note", json!(note)),
                ("", Value::Null),
            ],
        )),
        // A logical failure is also complete, because Sema has no other event for it.
        EventKind::CallCompleted {
            title,
            summary,
            result,
        } => Some(named(
            "tool:execution:complete",
            [
                ("title", json!(title)),
                ("summary", json!(summary.as_deref().unwrap_or_default())),
                (
                    "content",
                    result.as_ref().map(mask_value).unwrap_or_default(),
                ),
            ],
        )),
        EventKind::CallFailed
        | EventKind::CallDenied
        | EventKind::CallCancelled
        | EventKind::CallSealed => Some(named(
            "tool:execution:error",
            [
                ("title", json!(call.name())),
                ("summary", json!(call.code())),
                ("content", json!(call.message())),
            ],
        )),
        EventKind::CallCreated
        | EventKind::CallState(_)
        | EventKind::Call(_)
        | EventKind::BatchCompleted { .. }
        | EventKind::BatchSubmitted { .. }
        | EventKind::RegistryChanged
        | EventKind::PolicyUpdated => None,
    }
}

/// Sema's `allow` is saved, its `agree` applies once (C-25).
fn selected(decision: &str, call: SnapshotView<'_>) -> &'static str {
    match (decision, call.approval("scope").as_str()) {
        ("allow", None | Some("once")) => "agree",
        ("allow", Some(_)) => "allow",
        _ => "refuse",
    }
}

/// Sema stores permissions for tools of MCP servers under names without the prefix.
pub fn permission_key(tool: &str) -> &str {
    toolhost_contract::McpToolName::without_prefix(tool)
}
