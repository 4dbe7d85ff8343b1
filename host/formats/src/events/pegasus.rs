//! Event format of Pegasus: three events, results of actions, and failures for its reflector.

mod errors;

use serde_json::{Value, json};

use super::snapshot_view::{
    SnapshotView, failure_message, masked_result, object_without_nulls, rounded,
};
use super::{AnswerError, EventFormat, FrontEndAnswer};
use toolhost_contract::bus::{BusEvent, EventKind};
use toolhost_contract::lifecycle::{CallRecord, CallState};
use toolhost_contract::{CallError, Outcome};

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

/// The result of an ended call, in the form that Pegasus appends to the `actionsDone` of a task.
///
/// Not masked, because this is the result itself and not an event about it.
pub fn tool_result(record: &CallRecord, answer: &Result<Outcome, CallError>) -> Value {
    let (result, failure) = match answer {
        Ok(outcome) => match &outcome.error {
            None => (Some(result_value(outcome)), None),
            Some(failure) => (None, Some(failure.for_model())),
        },
        Err(failure) => (None, Some(tool_error(&record.name, failure).message)),
    };
    object_without_nulls([
        ("toolName", json!(record.name)),
        ("success", json!(failure.is_none())),
        ("result", result.unwrap_or_default()),
        ("error", json!(failure)),
        (
            "startedAt",
            json!(record.started_at.unwrap_or(record.created_at).0),
        ),
        ("completedAt", json!(record.completed_at.map(|at| at.0))),
        (
            "durationMs",
            json!(
                record
                    .duration
                    .map(|duration| rounded(duration.as_secs_f64() * 1000.0))
            ),
        ),
    ])
}

/// Returns the structured value, or the text if there is none.
pub(super) fn result_value(outcome: &Outcome) -> Value {
    outcome
        .structured
        .clone()
        .unwrap_or_else(|| Value::String(outcome.model_text()))
}

/// The failures among these calls, for the reflector.
pub fn tool_failures(records: &[CallRecord]) -> Vec<Value> {
    records
        .iter()
        .filter(|record| record.state.is_terminal() && record.is_error)
        .map(|record| {
            let (name, message) = match &record.error {
                Some(ended) => {
                    let name = match record.state {
                        CallState::Denied => PegasusErrorName::Permission,
                        _ => PegasusErrorName::of_code(&ended.code),
                    };
                    (name, name.message(&record.name, &ended.message))
                }
                None => (
                    PegasusErrorName::Tool,
                    "the tool reported a failure; see its result".to_owned(),
                ),
            };
            let by_person = record
                .error
                .as_ref()
                .is_some_and(|ended| ended.code == "user_denied");
            let suggestion = if by_person {
                Some("the user denied the call; find another way")
            } else {
                name.suggestion()
            };
            object_without_nulls([
                ("toolName", json!(record.name)),
                ("error", json!(message)),
                ("suggestion", json!(suggestion)),
            ])
        })
        .collect()
}
