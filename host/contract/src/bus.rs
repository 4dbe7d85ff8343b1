//! Events of the kernel's event bus.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::lifecycle::{CallState, Snapshot, Timestamp, mask_value};
use crate::policy::ApprovalScope;
use crate::{CallEvent, CallId, ChangeSet, FileDiff, Principal, text};

/// An event. `seq` increases by one with each event of a kernel, so a subscriber can detect gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct BusEvent {
    pub seq: u64,
    pub at: Timestamp,
    pub caller: Arc<Principal>,
    pub call: Option<CallId>,
    pub kind: EventKind,
    /// The state of the call at that time.
    pub snapshot: Option<Arc<Snapshot>>,
}

/// The kind of an event, with its payload.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    CallCreated,
    /// The state of the call, or what is known about it, changed. Terminal states have separate events.
    CallState(CallState),
    PermissionRequest {
        title: String,
        summary: String,
        /// The content of the prompt, as data.
        content: Value,
        /// The changes that an approval applies. Not part of [`EventKind::data`], because records contain no file
        /// contents.
        changes: Option<Arc<ChangeSet>>,
    },
    PermissionDecided {
        decision: &'static str,
        /// How long an approval applies. Not part of [`EventKind::data`], because the record of the call has it.
        scope: Option<ApprovalScope>,
        by: String,
        note: Option<String>,
    },
    /// An event of the running tool: log, progress, output or custom.
    Call(CallEvent),
    CallCompleted {
        title: String,
        summary: Option<String>,
        result: Option<Value>,
        /// The diff of the file, if the call changed exactly one text file. Not part of [`EventKind::data`], like
        /// `changes` above.
        diff: Option<Arc<FileDiff>>,
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

impl EventKind {
    /// Returns the channel that the event is sent on.
    pub fn channel(&self) -> Channel {
        match self {
            EventKind::PermissionRequest { .. } | EventKind::PermissionDecided { .. } => {
                Channel::Control
            }
            EventKind::Call(
                CallEvent::Custom { .. } | CallEvent::Log { .. } | CallEvent::Dropped { .. },
            )
            | EventKind::BatchSubmitted { .. }
            | EventKind::RegistryChanged
            | EventKind::PolicyUpdated => Channel::Monitor,
            EventKind::CallCreated
            | EventKind::CallState(_)
            | EventKind::Call(CallEvent::Progress { .. } | CallEvent::Output { .. })
            | EventKind::CallCompleted { .. }
            | EventKind::CallFailed
            | EventKind::CallDenied
            | EventKind::CallCancelled
            | EventKind::CallSealed
            | EventKind::BatchCompleted { .. } => Channel::Progress,
        }
    }

    /// Returns the name of the event, for example `call.created`.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::CallCreated => "call.created",
            EventKind::CallState(_) => "call.state",
            EventKind::PermissionRequest { .. } => "call.permission_request",
            EventKind::PermissionDecided { .. } => "call.permission_decided",
            EventKind::Call(event) => match event {
                CallEvent::Log { .. } => "call.log",
                CallEvent::Progress { .. } => "call.progress",
                CallEvent::Output { .. } => "call.output",
                CallEvent::Custom { .. } => "call.custom",
                CallEvent::Dropped { .. } => "call.dropped",
            },
            EventKind::CallCompleted { .. } => "call.completed",
            EventKind::CallFailed => "call.failed",
            EventKind::CallDenied => "call.denied",
            EventKind::CallCancelled => "call.cancelled",
            EventKind::CallSealed => "call.sealed",
            EventKind::BatchCompleted { .. } => "batch.completed",
            EventKind::BatchSubmitted { .. } => "batch.submitted",
            EventKind::RegistryChanged => "registry.changed",
            EventKind::PolicyUpdated => "policy.updated",
        }
    }

    /// Returns whether this event ends a call. Each call has exactly one.
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            EventKind::CallCompleted { .. }
                | EventKind::CallFailed
                | EventKind::CallDenied
                | EventKind::CallCancelled
                | EventKind::CallSealed
        )
    }

    /// Returns the payload of the event, without the snapshot.
    pub fn data(&self) -> Value {
        match self {
            EventKind::CallState(state) => json!({"state": state.as_str()}),
            EventKind::PermissionRequest {
                title,
                summary,
                content,
                changes: _,
            } => json!({"title": title, "summary": summary, "content": mask_value(content)}),
            EventKind::PermissionDecided {
                decision,
                scope: _,
                by,
                note,
            } => {
                json!({"decision": decision, "decidedBy": by, "note": note})
            }
            EventKind::Call(event) => event_data(event),
            EventKind::CallCompleted {
                title,
                summary,
                result,
                diff: _,
            } => {
                json!({"title": title, "summary": summary, "result": result.as_ref().map(mask_value)})
            }
            EventKind::BatchCompleted { batch, calls } => {
                json!({"batch": batch, "calls": ids(calls)})
            }
            EventKind::BatchSubmitted { calls } => json!({"calls": ids(calls)}),
            EventKind::CallCreated
            | EventKind::CallFailed
            | EventKind::CallDenied
            | EventKind::CallCancelled
            | EventKind::CallSealed
            | EventKind::RegistryChanged
            | EventKind::PolicyUpdated => Value::Null,
        }
    }
}

fn ids(calls: &[CallId]) -> Vec<&str> {
    calls.iter().map(|id| id.0.as_str()).collect()
}

fn event_data(event: &CallEvent) -> Value {
    match event {
        CallEvent::Log { level, message } => {
            json!({"level": level.as_str(), "message": text::head(message, 16 << 10)})
        }
        CallEvent::Progress {
            message,
            progress,
            total,
        } => json!({"message": message, "progress": progress, "total": total}),
        CallEvent::Output { stream, bytes } => {
            json!({"stream": stream, "text": String::from_utf8_lossy(bytes)})
        }
        CallEvent::Custom { event, data } => json!({"eventType": event, "data": data}),
        CallEvent::Dropped { count } => json!({"count": count}),
    }
}

impl BusEvent {
    /// Returns the event as a JSON object, in the format that `--events` writes.
    pub fn to_json(&self) -> Value {
        let mut shown = Map::new();
        shown.insert("seq".to_owned(), json!(self.seq));
        shown.insert("ts".to_owned(), json!(self.at.0));
        shown.insert("type".to_owned(), json!(self.kind.name()));
        shown.insert("channel".to_owned(), json!(self.kind.channel().as_str()));
        shown.insert("session".to_owned(), json!(self.caller.session));
        shown.insert("agent".to_owned(), json!(self.caller.agent));
        if self.caller.task != Principal::default().task {
            shown.insert("task".to_owned(), json!(self.caller.task));
        }
        if let Some(call) = &self.call {
            shown.insert("callId".to_owned(), json!(call.0));
        }
        let data = self.kind.data();
        if !data.is_null() {
            shown.insert("data".to_owned(), data);
        }
        if let Some(snapshot) = &self.snapshot {
            shown.insert("call".to_owned(), snapshot.json().clone());
        }
        Value::Object(shown)
    }
}
