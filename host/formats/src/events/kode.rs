//! Event format of Kode-SDK: eight states, three channels and call snapshots.
//!
//! Kode's own loop does not end some started calls (C-31). Here every `tool:start` is followed by exactly one
//! `tool:end`, preceded by a `tool:error` if the call did not complete.

mod result;

use serde_json::{Value, json};

use super::answer::{IncomingEvent, wrong};
use super::snapshot_view::{
    SnapshotView, changes_text, masked_result, object_without_nulls, rounded,
};
use super::{AnswerError, ApprovalCoverage, EventFormat, FrontEndAnswer, FrontEndDecision};
use toolhost_contract::bus::{BusEvent, Channel, EventKind};
use toolhost_contract::lifecycle::CallState;
use toolhost_contract::policy::ApprovalScope;
use toolhost_contract::{CallEvent, ChangeSet};

pub use result::{content, tool_result};

/// `tool:start`, `tool:end`, `tool:error`; `permission_required`, `permission_decided`; `tool_executed`,
/// `tool_custom_event`.
#[derive(Debug, Clone, Copy, Default)]
pub struct KodeEvents;

impl EventFormat for KodeEvents {
    fn convert(&mut self, event: &BusEvent) -> Vec<Value> {
        match SnapshotView::of(event) {
            Some(call) => convert(event, call),
            None => Vec::new(),
        }
    }

    /// `permission_decided` or `respond` with `callId`, `decision` and an optional `note`. Kode's decisions are for one
    /// call; its lists of tools decide what lasts longer.
    fn parse_answer(&self, event: &Value) -> Result<FrontEndAnswer, AnswerError> {
        let types = ["permission_decided", "respond"];
        let event = IncomingEvent::read(event, &types, "`permission_decided` or `respond`")?;
        let call = event.name("callId")?;
        let note = event.note("note")?;
        let decision = match event.name("decision")? {
            "allow" => FrontEndDecision::Allow {
                scope: ApprovalScope::Once,
                coverage: ApprovalCoverage::Subject,
                note,
            },
            "deny" => FrontEndDecision::Deny { note },
            _ => return Err(wrong("decision", "is not `allow` or `deny`")),
        };
        Ok(FrontEndAnswer::of_call(call, decision))
    }

    fn card(&self, event: &Value) -> Option<Value> {
        card(event)
    }
}

fn convert(event: &BusEvent, call: SnapshotView<'_>) -> Vec<Value> {
    let on = |channel: Channel, kind: &str, rest: [(&str, Value); 3]| {
        let [first, second, third] = rest;
        object_without_nulls([
            ("channel", json!(channel.as_str())),
            ("type", json!(kind)),
            first,
            second,
            third,
        ])
    };
    let with_call = |channel, kind, call: &Value, second| {
        let none = ("", Value::Null);
        on(channel, kind, [("call", call.clone()), second, none])
    };
    let none = || ("", Value::Null);
    match &event.kind {
        EventKind::CallCreated => {
            let shown = snapshot(call, None);
            vec![with_call(Channel::Progress, "tool:start", &shown, none())]
        }
        // `respond` is a function in Kode; here it lists the possible decisions.
        EventKind::PermissionRequest { changes, .. } => {
            let respond = json!({"callId": call.id(), "decisions": ["allow", "deny"]});
            let shown = asking_snapshot(call, changes.as_deref());
            vec![with_call(
                Channel::Control,
                "permission_required",
                &shown,
                ("respond", respond),
            )]
        }
        EventKind::PermissionDecided {
            decision, by, note, ..
        } => {
            let decided = object_without_nulls([
                ("channel", json!(Channel::Control.as_str())),
                ("type", json!("permission_decided")),
                ("callId", json!(call.id())),
                ("decision", json!(decision)),
                ("decidedBy", json!(by)),
                ("note", json!(note)),
            ]);
            vec![decided]
        }
        EventKind::Call(call_event) => match call_event {
            CallEvent::Custom { event: kind, data } => vec![custom(call, kind, data.clone())],
            CallEvent::Progress { .. } => vec![custom(call, "progress", event.kind.data())],
            CallEvent::Output { .. } => vec![custom(call, "output", event.kind.data())],
            CallEvent::Log { .. } | CallEvent::Dropped { .. } => Vec::new(),
        },
        EventKind::CallCompleted { result, .. } => {
            let shown = snapshot(call, result.as_ref());
            let mut events = vec![with_call(Channel::Progress, "tool:end", &shown, none())];
            events.extend(executed(call, &shown));
            events
        }
        EventKind::CallFailed
        | EventKind::CallDenied
        | EventKind::CallCancelled
        | EventKind::CallSealed => {
            let shown = snapshot(call, None);
            let error = ("error", shown["error"].clone());
            let mut events = vec![
                with_call(Channel::Progress, "tool:error", &shown, error),
                with_call(Channel::Progress, "tool:end", &shown, none()),
            ];
            events.extend(executed(call, &shown));
            events
        }
        EventKind::CallState(_)
        | EventKind::BatchCompleted { .. }
        | EventKind::BatchSubmitted { .. }
        | EventKind::RegistryChanged
        | EventKind::PolicyUpdated => Vec::new(),
    }
}

/// For every call that ran, successful or not.
fn executed(call: SnapshotView<'_>, shown: &Value) -> Option<Value> {
    call.was_started().then(
        || json!({"channel": Channel::Monitor.as_str(), "type": "tool_executed", "call": shown}),
    )
}

fn custom(call: SnapshotView<'_>, kind: &str, data: Value) -> Value {
    json!({
        "channel": Channel::Monitor.as_str(),
        "type": "tool_custom_event",
        "callId": call.id(),
        "eventType": kind,
        "data": data,
    })
}

/// The name of a state. `prompted` is whether the user was prompted, `decision` the user's decision.
fn state(state: CallState, prompted: bool, decision: Option<&str>) -> &'static str {
    match state {
        CallState::Pending | CallState::Validating | CallState::Scheduled => {
            match (prompted, decision) {
                (true, Some("allow")) => "APPROVED",
                // Input that the user changed is validated again, and the decision is still pending.
                (true, _) => "APPROVAL_REQUIRED",
                (false, _) => "PENDING",
            }
        }
        CallState::AwaitingApproval => "APPROVAL_REQUIRED",
        CallState::Approved => "APPROVED",
        CallState::Executing => "EXECUTING",
        CallState::Completed => "COMPLETED",
        // Kode has no state for cancelled calls; the audit trail contains the difference.
        CallState::Failed | CallState::Cancelled => "FAILED",
        CallState::Denied => "DENIED",
        CallState::Sealed => "SEALED",
    }
}

/// The snapshot of a call that waits for approval, with the diff of its changes in `meta`, which Kode's card shows.
fn asking_snapshot(call: SnapshotView<'_>, changes: Option<&ChangeSet>) -> Value {
    let mut shown = snapshot(call, None);
    let meta = &mut shown["approval"]["meta"];
    if let Some(diff) = changes_text(changes)
        && (meta.is_null() || meta.is_object())
    {
        meta["diff"] = json!(diff);
    }
    shown
}

/// Kode's snapshot of a call, with its result if there is one.
fn snapshot(call: SnapshotView<'_>, result: Option<&Value>) -> Value {
    let required = call.approval("required") == &Value::Bool(true);
    let decision = call.approval("decision");
    let mut approval = json!({"required": required});
    for member in ["decision", "decidedBy", "decidedAt", "note", "meta"] {
        let value = call.approval(member);
        if !value.is_null() {
            approval[member] = value.clone();
        }
    }
    // Kode's card shows `meta`, which also has the reason.
    let reason = call.approval("reason");
    if !reason.is_null() && (approval["meta"].is_null() || approval["meta"].is_object()) {
        let meta = &mut approval["meta"];
        if meta["reason"].is_null() {
            meta["reason"] = reason.clone();
        }
    }
    let error = (!call.get("error").is_null()).then(|| error(call));
    object_without_nulls([
        ("id", json!(call.id())),
        ("name", json!(call.name())),
        ("inputPreview", call.get("inputPreview").clone()),
        (
            "state",
            json!(state(call.state(), required, decision.as_str())),
        ),
        ("approval", approval),
        ("result", result.map(masked_result).unwrap_or_default()),
        ("error", json!(error)),
        ("isError", call.get("isError").clone()),
        ("startedAt", call.get("startedAt").clone()),
        ("completedAt", call.get("completedAt").clone()),
        (
            "durationMs",
            call.get("durationMs")
                .as_f64()
                .map(rounded)
                .unwrap_or_default(),
        ),
        ("createdAt", call.get("createdAt").clone()),
        ("updatedAt", call.get("updatedAt").clone()),
        ("auditTrail", trail(call)),
    ])
}

/// Returns the error message of Kode's record, which can differ from the message for the model.
fn error(call: SnapshotView<'_>) -> String {
    match call.code() {
        "tool_not_registered" => format!("Tool not found: {}", call.name()),
        "policy_violation" => "Tool denied by policy".to_owned(),
        "user_denied" => "Permission denied by user".to_owned(),
        "hook_denied" if call.message().is_empty() => "Denied by hook".to_owned(),
        _ => call.message().to_owned(),
    }
}

/// The trail entries with a new state or a note.
fn trail(call: SnapshotView<'_>) -> Value {
    let (mut prompted, mut decision, mut last) = (false, None, "");
    let mut shown = Vec::new();
    for line in call.get("auditTrail").as_array().into_iter().flatten() {
        match line["kind"].as_str() {
            Some("approval_requested") => (prompted, decision) = (true, None),
            Some("approved") => decision = Some("allow"),
            _ => {}
        }
        let ours = line["state"].as_str().and_then(CallState::parse);
        let now = state(ours.unwrap_or(CallState::Pending), prompted, decision);
        let note = &line["note"];
        if now == last && note.is_null() {
            continue;
        }
        last = now;
        shown.push(object_without_nulls([
            ("state", json!(now)),
            ("timestamp", line["timestamp"].clone()),
            ("note", note.clone()),
        ]));
    }
    Value::Array(shown)
}

/// Returns what a front end of Kode draws for an event: the card of a call (`tool:start`, updated by `tool:end`) or of
/// an approval (`permission_required`, updated by `permission_decided`). Other events have no card.
fn card(event: &Value) -> Option<Value> {
    let call = &event["call"];
    let of = |name: &str| call[name].clone();
    match event["type"].as_str()? {
        "tool:start" => Some(object_without_nulls([
            ("id", of("id")),
            ("name", of("name")),
            ("input", of("inputPreview")),
            ("state", of("state")),
            ("status", json!("executing")),
            ("startedAt", of("startedAt")),
        ])),
        "tool:end" => {
            let success = call["state"] == "COMPLETED";
            Some(object_without_nulls([
                ("id", of("id")),
                ("result", of("result")),
                ("error", of("error")),
                ("isError", of("isError")),
                ("state", of("state")),
                ("status", json!(if success { "success" } else { "failed" })),
                ("duration", of("durationMs")),
                ("completedAt", of("completedAt")),
            ]))
        }
        "permission_required" => Some(object_without_nulls([
            ("id", of("id")),
            ("toolName", of("name")),
            ("input", of("inputPreview")),
            ("approval", of("approval")),
        ])),
        "permission_decided" => Some(object_without_nulls([
            ("callId", event["callId"].clone()),
            ("decision", event["decision"].clone()),
            ("decidedBy", event["decidedBy"].clone()),
            ("note", event["note"].clone()),
        ])),
        _ => None,
    }
}
