//! Events of the kernel's event bus.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::life::{CallState, Millis, Snapshot, masked};
use crate::{CallId, Event, Principal, text};

/// An event. `seq` increases by one with each event of a kernel, so a subscriber can detect gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct BusEvent {
    pub seq: u64,
    pub at: Millis,
    pub caller: Arc<Principal>,
    pub call: Option<CallId>,
    pub happening: Happening,
    /// The state of the call at that time.
    pub snapshot: Option<Arc<Snapshot>>,
}

/// The kind of an event, with its payload.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    CallCreated,
    /// The state of the call, or what is known about it, changed. Terminal states have separate events.
    CallState(CallState),
    PermissionRequest {
        title: String,
        summary: String,
        /// The content of the prompt, as data.
        content: Value,
    },
    PermissionDecided {
        decision: &'static str,
        by: String,
        note: Option<String>,
    },
    /// An event of the running tool: log, progress, output or custom.
    Call(Event),
    CallCompleted {
        title: String,
        summary: Option<String>,
        result: Option<Value>,
    },
    CallFailed,
    CallDenied,
    CallCancelled,
    CallSealed,
    BatchCompleted {
        batch: String,
        calls: Vec<CallId>,
    },
    /// The results were passed to the model.
    BatchSubmitted {
        calls: Vec<CallId>,
    },
    RegistryChanged,
    PolicyUpdated,
}

/// The audience of an event: progress displays, approval front ends or monitoring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    Progress,
    Control,
    Monitor,
}

impl Channel {
    pub const ALL: [Channel; 3] = [Channel::Progress, Channel::Control, Channel::Monitor];

    pub fn as_str(self) -> &'static str {
        match self {
            Channel::Progress => "progress",
            Channel::Control => "control",
            Channel::Monitor => "monitor",
        }
    }
}

impl Happening {
    /// Returns the channel that the event is sent on.
    pub fn channel(&self) -> Channel {
        match self {
            Happening::PermissionRequest { .. } | Happening::PermissionDecided { .. } => {
                Channel::Control
            }
            Happening::Call(Event::Custom { .. } | Event::Log { .. } | Event::Dropped { .. })
            | Happening::BatchSubmitted { .. }
            | Happening::RegistryChanged
            | Happening::PolicyUpdated => Channel::Monitor,
            Happening::CallCreated
            | Happening::CallState(_)
            | Happening::Call(Event::Progress { .. } | Event::Output { .. })
            | Happening::CallCompleted { .. }
            | Happening::CallFailed
            | Happening::CallDenied
            | Happening::CallCancelled
            | Happening::CallSealed
            | Happening::BatchCompleted { .. } => Channel::Progress,
        }
    }

    /// Returns the name of the event, for example `call.created`.
    pub fn name(&self) -> &'static str {
        match self {
            Happening::CallCreated => "call.created",
            Happening::CallState(_) => "call.state",
            Happening::PermissionRequest { .. } => "call.permission_request",
            Happening::PermissionDecided { .. } => "call.permission_decided",
            Happening::Call(event) => match event {
                Event::Log { .. } => "call.log",
                Event::Progress { .. } => "call.progress",
                Event::Output { .. } => "call.output",
                Event::Custom { .. } => "call.custom",
                Event::Dropped { .. } => "call.dropped",
            },
            Happening::CallCompleted { .. } => "call.completed",
            Happening::CallFailed => "call.failed",
            Happening::CallDenied => "call.denied",
            Happening::CallCancelled => "call.cancelled",
            Happening::CallSealed => "call.sealed",
            Happening::BatchCompleted { .. } => "batch.completed",
            Happening::BatchSubmitted { .. } => "batch.submitted",
            Happening::RegistryChanged => "registry.changed",
            Happening::PolicyUpdated => "policy.updated",
        }
    }

    /// Returns whether this event ends a call. Each call has exactly one.
    pub fn ends_call(&self) -> bool {
        matches!(
            self,
            Happening::CallCompleted { .. }
                | Happening::CallFailed
                | Happening::CallDenied
                | Happening::CallCancelled
                | Happening::CallSealed
        )
    }

    /// Returns the payload of the event, without the snapshot.
    pub fn data(&self) -> Value {
        match self {
            Happening::CallState(state) => json!({"state": state.as_str()}),
            Happening::PermissionRequest {
                title,
                summary,
                content,
            } => json!({"title": title, "summary": summary, "content": masked(content)}),
            Happening::PermissionDecided { decision, by, note } => {
                json!({"decision": decision, "decidedBy": by, "note": note})
            }
            Happening::Call(event) => event_data(event),
            Happening::CallCompleted {
                title,
                summary,
                result,
            } => {
                json!({"title": title, "summary": summary, "result": result.as_ref().map(masked)})
            }
            Happening::BatchCompleted { batch, calls } => {
                json!({"batch": batch, "calls": ids(calls)})
            }
            Happening::BatchSubmitted { calls } => json!({"calls": ids(calls)}),
            Happening::CallCreated
            | Happening::CallFailed
            | Happening::CallDenied
            | Happening::CallCancelled
            | Happening::CallSealed
            | Happening::RegistryChanged
            | Happening::PolicyUpdated => Value::Null,
        }
    }
}

fn ids(calls: &[CallId]) -> Vec<&str> {
    calls.iter().map(|id| id.0.as_str()).collect()
}

fn event_data(event: &Event) -> Value {
    match event {
        Event::Log { level, message } => {
            json!({"level": level.as_str(), "message": text::head(message, 16 << 10)})
        }
        Event::Progress {
            message,
            progress,
            total,
        } => json!({"message": message, "progress": progress, "total": total}),
        Event::Output { stream, bytes } => {
            json!({"stream": stream, "text": String::from_utf8_lossy(bytes)})
        }
        Event::Custom { event, data } => json!({"eventType": event, "data": data}),
        Event::Dropped { count } => json!({"count": count}),
    }
}

impl BusEvent {
    /// Returns the event as a JSON object, in the format that `--events` writes.
    pub fn to_json(&self) -> Value {
        let mut shown = Map::new();
        shown.insert("seq".to_owned(), json!(self.seq));
        shown.insert("ts".to_owned(), json!(self.at.0));
        shown.insert("type".to_owned(), json!(self.happening.name()));
        shown.insert(
            "channel".to_owned(),
            json!(self.happening.channel().as_str()),
        );
        shown.insert("session".to_owned(), json!(self.caller.session));
        shown.insert("agent".to_owned(), json!(self.caller.agent));
        if let Some(call) = &self.call {
            shown.insert("callId".to_owned(), json!(call.0));
        }
        let data = self.happening.data();
        if !data.is_null() {
            shown.insert("data".to_owned(), data);
        }
        if let Some(snapshot) = &self.snapshot {
            shown.insert("call".to_owned(), snapshot.json().clone());
        }
        Value::Object(shown)
    }
}
