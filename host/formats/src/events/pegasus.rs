//! Event format of Pegasus: three events, and the classes of errors.

mod errors;

use serde_json::{Value, json};

use super::snapshot_view::{SnapshotView, failure_message, masked_result, object_without_nulls};
use super::{AnswerError, EventFormat, FrontEndAnswer};
use toolhost_contract::bus::{BusEvent, EventKind};
use toolhost_contract::lifecycle::CallState;

pub use errors::{
    PegasusErrorName, PegasusToolError, ReflectorAction, reflector_action, tool_error,
};

/// `TOOL_CALL_REQUESTED`, `TOOL_CALL_COMPLETED`, `TOOL_CALL_FAILED`.
#[derive(Debug, Clone, Copy, Default)]
pub struct PegasusEvents;

impl EventFormat for PegasusEvents {
    fn convert(&mut self, event: &BusEvent) -> Vec<Value> {
        SnapshotView::of(event)
            .and_then(|call| convert(event, call))
            .into_iter()
            .collect()
    }

    /// Pegasus does not ask: its tools run within `allowedPaths`, and it has no event for a question or an answer.
    fn parse_answer(&self, _event: &Value) -> Result<FrontEndAnswer, AnswerError> {
        Err(AnswerError::NoAnswers { system: "Pegasus" })
    }
}

fn convert(event: &BusEvent, call: SnapshotView<'_>) -> Option<Value> {
    let (kind, payload) = match &event.kind {
        EventKind::CallCreated => (
            "TOOL_CALL_REQUESTED",
            json!({"toolName": call.name(), "params": call.get("inputPreview")}),
        ),
        EventKind::CallCompleted { result, .. } if !call.is_error() => (
            "TOOL_CALL_COMPLETED",
            json!({
                "toolName": call.name(),
                "result": result.as_ref().map(masked_result),
                "durationMs": call.duration_ms(),
            }),
        ),
        EventKind::CallCompleted {
            summary, result, ..
        } => {
            let result = result.as_ref().map(masked_result);
            let message = failure_message(result.as_ref(), summary.as_deref());
            ("TOOL_CALL_FAILED", failed(call, message, "failed"))
        }
        EventKind::CallFailed
        | EventKind::CallDenied
        | EventKind::CallCancelled
        | EventKind::CallSealed => {
            // States without a Pegasus event are failures with a distinct code.
            let code = match call.state() {
                CallState::Denied => "permission_denied",
                _ => call.code(),
            };
            let name = match call.state() {
                CallState::Denied => PegasusErrorName::Permission,
                _ => PegasusErrorName::of_code(call.code()),
            };
            let message = name.message(call.name(), call.message());
            ("TOOL_CALL_FAILED", failed(call, &message, code))
        }
        EventKind::CallState(_)
        | EventKind::PermissionRequest { .. }
        | EventKind::PermissionDecided { .. }
        | EventKind::Call(_)
        | EventKind::BatchCompleted { .. }
        | EventKind::BatchSubmitted { .. }
        | EventKind::RegistryChanged
        | EventKind::PolicyUpdated => return None,
    };
    Some(object_without_nulls([
        ("type", json!(kind)),
        ("timestamp", json!(event.at.0)),
        ("taskId", call.get("taskId").clone()),
        ("callId", json!(call.id())),
        ("payload", payload),
    ]))
}

fn failed(call: SnapshotView<'_>, error: &str, code: &str) -> Value {
    json!({
        "toolName": call.name(),
        "error": error,
        "durationMs": call.duration_ms(),
        "code": code,
    })
}
