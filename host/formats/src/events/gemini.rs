//! Event format of Gemini CLI: seven state names, and the four callbacks of its scheduler as events.

mod confirmation;
mod errors;

use serde_json::{Value, json};

use super::snapshot_view::{
    SnapshotView, escape_text, failure_message, masked_result, object_without_nulls, rounded,
};
use super::{AnswerError, EventFormat, FrontEndAnswer};
use toolhost_contract::bus::{BusEvent, EventKind};
use toolhost_contract::lifecycle::{CallState, mask_text};
use toolhost_contract::{CallEvent, CallId, FileDiff, text};

pub use confirmation::{ConfirmationOutcome, parse_outcome};
pub use errors::error_type;

/// Maximum number of calls that are tracked until they are submitted. Batches of abandoned turns are never submitted,
/// so the oldest ended call is removed first.
const MAX_TRACKED_CALLS: usize = 256;
/// Maximum size in bytes of the live output that is kept per call. Its callback receives all of it each time.
const MAX_LIVE_OUTPUT_BYTES: usize = 16 << 10;

/// `onToolCallsUpdate`, `outputUpdateHandler`, `onAllToolCallsComplete`, `markToolsAsSubmitted`.
///
/// The callbacks receive lists of calls, so calls are tracked from their first event to their submission.
#[derive(Debug, Clone, Default)]
pub struct GeminiEvents {
    calls: Vec<TrackedCall>,
}

#[derive(Debug, Clone)]
struct TrackedCall {
    id: CallId,
    /// The call as listed; `None` while it is pending.
    shown: Option<Value>,
    confirmation: Option<Value>,
    live: Vec<u8>,
    submitted: bool,
}

impl EventFormat for GeminiEvents {
    fn convert(&mut self, event: &BusEvent) -> Vec<Value> {
        match (&event.kind, &event.call) {
            (EventKind::BatchCompleted { calls, .. }, _) => vec![self.complete(calls)],
            (EventKind::BatchSubmitted { calls }, _) => self.submit(calls),
            (EventKind::Call(call_event), Some(id)) => self.output(id, call_event),
            (_, Some(id)) => match SnapshotView::of(event) {
                Some(call) => self.change(event, id, call),
                None => Vec::new(),
            },
            (_, None) => Vec::new(),
        }
    }

    /// `onConfirm` with `callId`, `outcome` and an optional `payload` with the `newContent` that the user saved.
    fn parse_answer(&self, event: &Value) -> Result<FrontEndAnswer, AnswerError> {
        confirmation::parse_answer(event)
    }
}

impl GeminiEvents {
    fn change(&mut self, event: &BusEvent, id: &CallId, call: SnapshotView<'_>) -> Vec<Value> {
        // The snapshot may be newer than its event. An ended call is updated once, by its terminal event.
        if call.state().is_terminal() && !event.kind.is_terminal() {
            return Vec::new();
        }
        let index = self.index(id);
        let tracked = &mut self.calls[index];
        match &event.kind {
            EventKind::PermissionRequest {
                title,
                summary,
                content,
                changes,
            } => {
                let changes = changes.as_deref();
                let shown = confirmation::details(call, title, summary, content, changes);
                tracked.confirmation = Some(shown);
            }
            // A prompt is obsolete once its input has changed.
            _ if call.state() != CallState::AwaitingApproval || call.last_step() == "modified" => {
                tracked.confirmation = None;
            }
            _ => {}
        }
        let ended = match &event.kind {
            EventKind::CallCompleted {
                title,
                summary,
                result,
                diff,
            } => Some(response(
                call,
                Some(Completion {
                    title,
                    summary: summary.as_deref(),
                    result: result.as_ref().map(masked_result),
                    diff: diff.as_deref(),
                }),
            )),
            kind if kind.is_terminal() => Some(response(call, None)),
            _ => None,
        };
        let is_ended = ended.is_some();
        let shown = status(call).map(|status| render(call, status, tracked, ended));
        if shown == tracked.shown {
            return Vec::new();
        }
        tracked.shown = shown;
        let mut events = vec![self.update()];
        // A call without a batch is a batch of one call; no other event completes or submits it.
        if is_ended && call.get("batchId").is_null() {
            events.push(self.complete(std::slice::from_ref(id)));
            self.calls.remove(index);
        }
        events
    }

    /// The list contains the same output from its next update on.
    fn output(&mut self, id: &CallId, event: &CallEvent) -> Vec<Value> {
        let output = match event {
            CallEvent::Output { bytes, .. } => {
                let index = self.index(id);
                let live = &mut self.calls[index].live;
                live.extend(bytes);
                live.drain(..live.len().saturating_sub(MAX_LIVE_OUTPUT_BYTES));
                String::from_utf8_lossy(live).into_owned()
            }
            CallEvent::Progress {
                message: Some(message),
                ..
            } => message.clone(),
            CallEvent::Progress { message: None, .. }
            | CallEvent::Log { .. }
            | CallEvent::Custom { .. }
            | CallEvent::Dropped { .. } => return Vec::new(),
        };
        vec![json!({"type": "outputUpdateHandler", "callId": id.0, "output": output})]
    }

    fn update(&self) -> Value {
        let calls: Vec<Value> = self
            .calls
            .iter()
            .filter_map(|call| call.shown.clone())
            .collect();
        object_without_nulls([
            ("type", json!("onToolCallsUpdate")),
            ("calls", Value::Array(calls)),
        ])
    }

    fn complete(&self, ids: &[CallId]) -> Value {
        let calls: Vec<Value> = ids
            .iter()
            .filter_map(|id| self.calls.iter().find(|call| call.id == *id))
            .filter_map(|call| call.shown.clone())
            .collect();
        object_without_nulls([
            ("type", json!("onAllToolCallsComplete")),
            ("calls", Value::Array(calls)),
        ])
    }

    /// The calls are listed once more with their flag and are then removed.
    fn submit(&mut self, ids: &[CallId]) -> Vec<Value> {
        for call in self.calls.iter_mut().filter(|call| ids.contains(&call.id)) {
            call.submitted = true;
            if let Some(shown) = &mut call.shown {
                shown["responseSubmittedToGemini"] = Value::Bool(true);
            }
        }
        let names: Vec<&str> = ids.iter().map(|id| id.0.as_str()).collect();
        let events = vec![
            json!({"type": "markToolsAsSubmitted", "callIds": names}),
            self.update(),
        ];
        self.calls.retain(|call| !call.submitted);
        events
    }

    fn index(&mut self, id: &CallId) -> usize {
        if let Some(index) = self.calls.iter().position(|call| call.id == *id) {
            return index;
        }
        if self.calls.len() >= MAX_TRACKED_CALLS {
            let ended = |call: &TrackedCall| {
                call.shown
                    .as_ref()
                    .is_some_and(|shown| !shown["response"].is_null())
            };
            self.calls
                .remove(self.calls.iter().position(ended).unwrap_or(0));
        }
        self.calls.push(TrackedCall {
            id: id.clone(),
            shown: None,
            confirmation: None,
            live: Vec::new(),
            submitted: false,
        });
        self.calls.len() - 1
    }
}

/// The name of the state, or `None` if Gemini does not show the call yet.
fn status(call: SnapshotView<'_>) -> Option<&'static str> {
    Some(match call.state() {
        CallState::Pending => return None,
        CallState::Validating => "validating",
        CallState::AwaitingApproval => "awaiting_approval",
        CallState::Approved | CallState::Scheduled => "scheduled",
        CallState::Executing => "executing",
        CallState::Completed if call.is_error() => "error",
        CallState::Completed => "success",
        CallState::Cancelled => "cancelled",
        // Gemini's dialog has only one option for a denial, Cancel.
        CallState::Denied if matches!(call.code(), "user_denied" | "cancelled") => "cancelled",
        CallState::Failed | CallState::Sealed | CallState::Denied => "error",
    })
}

fn render(
    call: SnapshotView<'_>,
    status: &str,
    tracked: &TrackedCall,
    response: Option<Value>,
) -> Value {
    let waits = call.state() == CallState::AwaitingApproval;
    let confirmation = tracked.confirmation.clone().filter(|_| waits);
    let live = (!tracked.live.is_empty() && call.state() == CallState::Executing)
        .then(|| String::from_utf8_lossy(&tracked.live).into_owned());
    object_without_nulls([
        ("status", json!(status)),
        (
            "request",
            json!({
                "callId": call.id(),
                "name": call.name(),
                "args": call.get("inputPreview"),
                "isClientInitiated": call.text("origin") == "client",
            }),
        ),
        ("confirmationDetails", json!(confirmation)),
        ("outcome", json!(confirmation::outcome(call))),
        ("liveOutput", json!(live)),
        ("startTime", call.get("startedAt").clone()),
        (
            "durationMs",
            call.get("durationMs")
                .as_f64()
                .map(rounded)
                .unwrap_or_default(),
        ),
        ("response", response.unwrap_or_default()),
        ("responseSubmittedToGemini", json!(tracked.submitted)),
    ])
}

/// What an event says about a call that completed.
struct Completion<'a> {
    title: &'a str,
    summary: Option<&'a str>,
    result: Option<Value>,
    diff: Option<&'a FileDiff>,
}

/// An error is a response like any other.
fn response(call: SnapshotView<'_>, completion: Option<Completion<'_>>) -> Value {
    let failure = match &completion {
        Some(completion) if call.is_error() => {
            let message = failure_message(completion.result.as_ref(), completion.summary);
            Some((message.to_owned(), error_type("failed")))
        }
        Some(_) => None,
        None if status(call) == Some("cancelled") => None,
        None => Some((call.message().to_owned(), error_type(call.code()))),
    };
    let shown = match &completion {
        Some(completion) => match completion.diff {
            Some(diff) => file_diff(diff),
            None => json!(text::head(
                completion.summary.unwrap_or(completion.title),
                MAX_LIVE_OUTPUT_BYTES
            )),
        },
        None => json!(text::head(call.message(), MAX_LIVE_OUTPUT_BYTES)),
    };
    object_without_nulls([
        ("callId", json!(call.id())),
        ("resultDisplay", shown),
        (
            "data",
            completion
                .and_then(|completion| completion.result)
                .unwrap_or_default(),
        ),
        (
            "error",
            failure
                .as_ref()
                .map(|(message, _)| json!({"message": message}))
                .unwrap_or_default(),
        ),
        ("errorType", json!(failure.map(|(_, kind)| kind))),
    ])
}

/// The members of a changed file, masked like other results.
fn file_diff(diff: &FileDiff) -> Value {
    json!({
        "fileDiff": escape_text(&mask_text(&diff.diff)),
        "fileName": escape_text(&diff.file_name),
        "originalContent": diff.original.as_deref().map(mask_text),
        "newContent": mask_text(&diff.new),
    })
}
