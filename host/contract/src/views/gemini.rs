//! Event format of Gemini CLI: seven state names, and the four callbacks of its scheduler as events.

mod confirm;
mod errors;

use serde_json::{Value, json};

use super::View;
use super::shown::{Shown, failure_in, object, whole};
use crate::bus::{BusEvent, Happening};
use crate::life::{CallState, masked};
use crate::{CallId, Event, text};

pub use confirm::{Reply, Width, reply};
pub use errors::error_type;

/// Maximum number of calls that are tracked until they are submitted. Batches of abandoned turns are never submitted,
/// so the oldest ended call is removed first.
const CALLS: usize = 256;
/// Maximum size in bytes of the live output that is kept per call. Its callback receives all of it each time.
const LIVE: usize = 16 << 10;

/// `onToolCallsUpdate`, `outputUpdateHandler`, `onAllToolCallsComplete`, `markToolsAsSubmitted`.
///
/// The callbacks receive lists of calls, so calls are tracked from their first event to their submission.
#[derive(Debug, Clone, Default)]
pub struct Gemini {
    calls: Vec<Kept>,
}

#[derive(Debug, Clone)]
struct Kept {
    id: CallId,
    /// The call as listed; `None` while it is pending.
    shown: Option<Value>,
    confirmation: Option<Value>,
    live: Vec<u8>,
    submitted: bool,
}

impl View for Gemini {
    fn take(&mut self, event: &BusEvent) -> Vec<Value> {
        match (&event.happening, &event.call) {
            (Happening::BatchCompleted { calls, .. }, _) => vec![self.complete(calls)],
            (Happening::BatchSubmitted { calls }, _) => self.submit(calls),
            (Happening::Call(said), Some(id)) => self.output(id, said),
            (_, Some(id)) => match Shown::of(event) {
                Some(call) => self.change(event, id, call),
                None => Vec::new(),
            },
            (_, None) => Vec::new(),
        }
    }
}

impl Gemini {
    fn change(&mut self, event: &BusEvent, id: &CallId, call: Shown<'_>) -> Vec<Value> {
        // The snapshot may be newer than its event. An ended call is updated once, by its terminal event.
        if call.state().is_terminal() && !event.happening.ends_call() {
            return Vec::new();
        }
        let index = self.index(id);
        let kept = &mut self.calls[index];
        match &event.happening {
            Happening::PermissionRequest {
                title,
                summary,
                content,
            } => {
                kept.confirmation = Some(confirm::details(call, title, summary, content));
            }
            // A prompt is obsolete once its input has changed.
            _ if call.state() != CallState::AwaitingApproval || call.last_step() == "modified" => {
                kept.confirmation = None;
            }
            _ => {}
        }
        let ended = match &event.happening {
            Happening::CallCompleted {
                title,
                summary,
                result,
            } => Some((Some(title), summary.as_deref(), result.as_ref())),
            happening if happening.ends_call() => Some((None, None, None)),
            _ => None,
        };
        let response = ended
            .map(|(title, summary, result)| response(call, title, summary, result.map(masked)));
        let shown = status(call).map(|status| render(call, status, kept, response));
        if shown == kept.shown {
            return Vec::new();
        }
        kept.shown = shown;
        let mut said = vec![self.update()];
        // A call without a batch is a batch of one call; no other event completes or submits it.
        if ended.is_some() && call.get("batchId").is_null() {
            said.push(self.complete(std::slice::from_ref(id)));
            self.calls.remove(index);
        }
        said
    }

    /// The list contains the same output from its next update on.
    fn output(&mut self, id: &CallId, said: &Event) -> Vec<Value> {
        let output = match said {
            Event::Output { bytes, .. } => {
                let index = self.index(id);
                let live = &mut self.calls[index].live;
                live.extend(bytes);
                live.drain(..live.len().saturating_sub(LIVE));
                String::from_utf8_lossy(live).into_owned()
            }
            Event::Progress {
                message: Some(message),
                ..
            } => message.clone(),
            Event::Progress { message: None, .. }
            | Event::Log { .. }
            | Event::Custom { .. }
            | Event::Dropped { .. } => return Vec::new(),
        };
        vec![json!({"type": "outputUpdateHandler", "callId": id.0, "output": output})]
    }

    ///
    fn update(&self) -> Value {
        let calls: Vec<Value> = self
            .calls
            .iter()
            .filter_map(|call| call.shown.clone())
            .collect();
        object([
            ("type", json!("onToolCallsUpdate")),
            ("calls", Value::Array(calls)),
        ])
    }

    ///
    fn complete(&self, ids: &[CallId]) -> Value {
        let calls: Vec<Value> = ids
            .iter()
            .filter_map(|id| self.calls.iter().find(|call| call.id == *id))
            .filter_map(|call| call.shown.clone())
            .collect();
        object([
            ("type", json!("onAllToolCallsComplete")),
            ("calls", Value::Array(calls)),
        ])
    }

    /// the calls are listed once more with their flag and are then removed.
    fn submit(&mut self, ids: &[CallId]) -> Vec<Value> {
        for call in self.calls.iter_mut().filter(|call| ids.contains(&call.id)) {
            call.submitted = true;
            if let Some(shown) = &mut call.shown {
                shown["responseSubmittedToGemini"] = Value::Bool(true);
            }
        }
        let names: Vec<&str> = ids.iter().map(|id| id.0.as_str()).collect();
        let said = vec![
            json!({"type": "markToolsAsSubmitted", "callIds": names}),
            self.update(),
        ];
        self.calls.retain(|call| !call.submitted);
        said
    }

    fn index(&mut self, id: &CallId) -> usize {
        if let Some(index) = self.calls.iter().position(|call| call.id == *id) {
            return index;
        }
        if self.calls.len() >= CALLS {
            let ended = |call: &Kept| {
                call.shown
                    .as_ref()
                    .is_some_and(|shown| !shown["response"].is_null())
            };
            self.calls
                .remove(self.calls.iter().position(ended).unwrap_or(0));
        }
        self.calls.push(Kept {
            id: id.clone(),
            shown: None,
            confirmation: None,
            live: Vec::new(),
            submitted: false,
        });
        self.calls.len() - 1
    }
}

/// the name of the state, or `None` if Gemini does not show the call yet.
fn status(call: Shown<'_>) -> Option<&'static str> {
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

fn render(call: Shown<'_>, status: &str, kept: &Kept, response: Option<Value>) -> Value {
    let waits = call.state() == CallState::AwaitingApproval;
    let confirmation = kept.confirmation.clone().filter(|_| waits);
    let live = (!kept.live.is_empty() && call.state() == CallState::Executing)
        .then(|| String::from_utf8_lossy(&kept.live).into_owned());
    object([
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
        ("outcome", json!(confirm::outcome(call))),
        ("liveOutput", json!(live)),
        ("startTime", call.get("startedAt").clone()),
        (
            "durationMs",
            call.get("durationMs")
                .as_f64()
                .map(whole)
                .unwrap_or_default(),
        ),
        ("response", response.unwrap_or_default()),
        ("responseSubmittedToGemini", json!(kept.submitted)),
    ])
}

/// an error is a response like any other.
fn response(
    call: Shown<'_>,
    title: Option<&String>,
    summary: Option<&str>,
    result: Option<Value>,
) -> Value {
    let failure = match (call.state(), call.is_error()) {
        (CallState::Completed, true) => Some((
            failure_in(result.as_ref(), summary).to_owned(),
            error_type("failed"),
        )),
        (CallState::Completed, false) => None,
        _ if status(call) == Some("cancelled") => None,
        _ => Some((call.message().to_owned(), error_type(call.code()))),
    };
    let display = summary
        .or(title.map(String::as_str))
        .unwrap_or_else(|| call.message());
    object([
        ("callId", json!(call.id())),
        ("resultDisplay", json!(text::head(display, LIVE))),
        ("data", result.unwrap_or_default()),
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
