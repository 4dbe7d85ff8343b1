//! Event format of Pegasus: three events, results of actions, and failures for its reflector.

mod errors;

use serde_json::{Value, json};

use super::View;
use super::shown::{Shown, failure_in, object, whole};
use crate::bus::{BusEvent, Happening};
use crate::life::{CallState, Record, masked};
use crate::{CallError, Outcome};

pub use errors::{ErrorName, ToolError, Verdict, error, verdict};

/// `TOOL_CALL_REQUESTED`, `TOOL_CALL_COMPLETED`, `TOOL_CALL_FAILED`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pegasus;

impl View for Pegasus {
    fn take(&mut self, event: &BusEvent) -> Vec<Value> {
        Shown::of(event)
            .and_then(|call| said(event, call))
            .into_iter()
            .collect()
    }
}

fn said(event: &BusEvent, call: Shown<'_>) -> Option<Value> {
    let (kind, payload) = match &event.happening {
        //
        Happening::CallCreated => (
            "TOOL_CALL_REQUESTED",
            json!({"toolName": call.name(), "params": call.get("inputPreview")}),
        ),
        //
        Happening::CallCompleted { result, .. } if !call.is_error() => (
            "TOOL_CALL_COMPLETED",
            json!({
                "toolName": call.name(),
                "result": result.as_ref().map(masked),
                "durationMs": call.duration_ms(),
            }),
        ),
        //
        Happening::CallCompleted {
            summary, result, ..
        } => {
            let result = result.as_ref().map(masked);
            let said = failure_in(result.as_ref(), summary.as_deref());
            ("TOOL_CALL_FAILED", failed(call, said, "failed"))
        }
        Happening::CallFailed
        | Happening::CallDenied
        | Happening::CallCancelled
        | Happening::CallSealed => {
            // States without a Pegasus event are failures with a distinct code.
            let code = match call.state() {
                CallState::Denied => "permission_denied",
                _ => call.code(),
            };
            let name = match call.state() {
                CallState::Denied => ErrorName::Permission,
                _ => ErrorName::of_code(call.code()),
            };
            let message = name.message(call.name(), call.message());
            ("TOOL_CALL_FAILED", failed(call, &message, code))
        }
        Happening::CallState(_)
        | Happening::PermissionRequest { .. }
        | Happening::PermissionDecided { .. }
        | Happening::Call(_)
        | Happening::BatchCompleted { .. }
        | Happening::BatchSubmitted { .. }
        | Happening::RegistryChanged
        | Happening::PolicyUpdated => return None,
    };
    Some(object([
        ("type", json!(kind)),
        ("timestamp", json!(event.at.0)),
        ("taskId", call.get("taskId").clone()),
        ("callId", json!(call.id())),
        ("payload", payload),
    ]))
}

fn failed(call: Shown<'_>, error: &str, code: &str) -> Value {
    json!({
        "toolName": call.name(),
        "error": error,
        "durationMs": call.duration_ms(),
        "code": code,
    })
}

/// the result of an ended call, in the form that Pegasus appends to the `actionsDone` of a task.
///
/// Not masked, because this is the result itself and not an event about it.
pub fn tool_result(record: &Record, answer: &Result<Outcome, CallError>) -> Value {
    let (result, failure) = match answer {
        Ok(outcome) => match &outcome.error {
            None => (Some(exported(outcome)), None),
            Some(failure) => (None, Some(failure.for_model())),
        },
        Err(failure) => (None, Some(error(&record.name, failure).message)),
    };
    object([
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
                    .map(|duration| whole(duration.as_secs_f64() * 1000.0))
            ),
        ),
    ])
}

/// Returns the structured value, or the text if there is none.
pub(super) fn exported(outcome: &Outcome) -> Value {
    outcome
        .structured
        .clone()
        .unwrap_or_else(|| Value::String(outcome.model_text()))
}

/// the failures among these calls, for the reflector.
pub fn tool_failures(records: &[Record]) -> Vec<Value> {
    records
        .iter()
        .filter(|record| record.state.is_terminal() && record.is_error)
        .map(|record| {
            let (name, message) = match &record.error {
                Some(ended) => {
                    let name = match record.state {
                        CallState::Denied => ErrorName::Permission,
                        _ => ErrorName::of_code(&ended.code),
                    };
                    (name, name.message(&record.name, &ended.message))
                }
                None => (
                    ErrorName::Tool,
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
            object([
                ("toolName", json!(record.name)),
                ("error", json!(message)),
                ("suggestion", json!(suggestion)),
            ])
        })
        .collect()
}
