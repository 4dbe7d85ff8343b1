//! Event format of Sema: permission requests and responses, and ends of executions.

use serde_json::{Value, json};

use super::answer::{IncomingEvent, note_text, wrong};
use super::snapshot_view::{
    SnapshotView, changes_text, choice, escape_text, escape_value, masked_result,
    object_without_nulls,
};
use super::{
    AnswerError, AnswerTarget, ApprovalCoverage, EventFormat, FrontEndAnswer, FrontEndDecision,
};
use toolhost_contract::bus::{BusEvent, EventKind};
use toolhost_contract::policy::ApprovalScope;
use toolhost_contract::{ChangeSet, text};

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

    /// `tool:permission:response` with `toolId`, `toolName` or both. `selected` is a name of the options of the
    /// request, or a text of the user that denies the call and is passed to the model.
    fn parse_answer(&self, event: &Value) -> Result<FrontEndAnswer, AnswerError> {
        let event = IncomingEvent::read(event, &[RESPONSE], "`tool:permission:response`")?;
        let target = AnswerTarget {
            call: event.optional_name("toolId")?.map(str::to_owned),
            tool: event.optional_name("toolName")?.map(str::to_owned),
        };
        if target == AnswerTarget::default() {
            return Err(wrong("toolName", "is missing; `toolId` is missing too"));
        }
        let selected = event.get("selected").as_str().unwrap_or_default();
        let allow = |scope| FrontEndDecision::Allow {
            scope,
            coverage: ApprovalCoverage::Subject,
            note: None,
        };
        let decision = match selected {
            "agree" => allow(ApprovalScope::Once),
            "allow" => allow(ApprovalScope::Project),
            // A refusal stops the turn of Sema; a text does not.
            "refuse" => FrontEndDecision::Cancel,
            note => match note_text(note) {
                note if note.is_empty() => {
                    let problem = "is not `agree`, `allow`, `refuse` or a text for the model";
                    return Err(wrong("selected", problem));
                }
                note => FrontEndDecision::Deny { note: Some(note) },
            },
        };
        Ok(FrontEndAnswer { target, decision })
    }
}

const RESPONSE: &str = "tool:permission:response";

fn convert(event: &BusEvent, call: SnapshotView<'_>) -> Option<Value> {
    let (kind, members) = match &event.kind {
        EventKind::PermissionRequest {
            title,
            summary,
            content,
            changes,
        } => (
            "tool:permission:request",
            vec![
                ("title", json!(escape_text(title))),
                ("summary", json!(escape_text(summary))),
                ("content", request_content(content, changes.as_deref())),
                ("options", options(content)),
            ],
        ),
        EventKind::PermissionDecided {
            decision,
            scope,
            note,
            ..
        } => (
            RESPONSE,
            vec![
                ("selected", json!(selected(decision, *scope))),
                ("note", json!(note)),
            ],
        ),
        // A logical failure is also complete, because Sema has no other event for it.
        EventKind::CallCompleted {
            title,
            summary,
            result,
            ..
        } => (
            "tool:execution:complete",
            vec![
                ("title", json!(title)),
                ("summary", json!(summary.as_deref().unwrap_or_default())),
                (
                    "content",
                    result.as_ref().map(masked_result).unwrap_or_default(),
                ),
            ],
        ),
        EventKind::CallFailed
        | EventKind::CallDenied
        | EventKind::CallCancelled
        | EventKind::CallSealed => (
            "tool:execution:error",
            vec![
                ("title", json!(call.name())),
                ("summary", json!(call.code())),
                ("content", json!(call.message())),
            ],
        ),
        EventKind::CallCreated
        | EventKind::CallState(_)
        | EventKind::Call(_)
        | EventKind::BatchCompleted { .. }
        | EventKind::BatchSubmitted { .. }
        | EventKind::RegistryChanged
        | EventKind::PolicyUpdated => return None,
    };
    let common = [
        ("type", json!(kind)),
        ("agentId", json!(event.caller.agent)),
        ("toolId", json!(call.id())),
        ("toolName", json!(call.name())),
    ];
    Some(object_without_nulls(common.into_iter().chain(members)))
}

/// The content of the prompt, with the diff of the changes.
fn request_content(content: &Value, changes: Option<&ChangeSet>) -> Value {
    let mut shown = escape_value(content);
    if let Some(diff) = changes_text(changes)
        && shown.is_object()
    {
        shown["diff"] = json!(diff);
    }
    shown
}

/// The possible values of `selected`, each with its text for the user. `allow` is missing if no approval can be saved.
fn options(content: &Value) -> Value {
    let offered = |scope| choice(content, scope, None).map(|text| text::escape_line(text, 300));
    object_without_nulls([
        (
            "agree",
            json!(offered("once").unwrap_or_else(|| "Allow this once".to_owned())),
        ),
        ("allow", json!(offered("project"))),
        ("refuse", json!("Refuse and stop")),
    ])
}

/// Sema's `allow` is saved, its `agree` applies once (C-25).
fn selected(decision: &str, scope: Option<ApprovalScope>) -> &'static str {
    match (decision, scope) {
        ("allow", None | Some(ApprovalScope::Once)) => "agree",
        ("allow", Some(_)) => "allow",
        _ => "refuse",
    }
}

/// Sema stores permissions for tools of MCP servers under names without the prefix.
pub fn permission_key(tool: &str) -> &str {
    toolhost_contract::McpToolName::without_prefix(tool)
}
