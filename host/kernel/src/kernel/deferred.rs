//! Answers to deferred questions, whose caller has disconnected. Either answer ends the call; an approval is also saved
//! for the next call with the same input.
//!
//! Any process may answer, and the process that asked may be gone, so these are functions over the store rather than
//! methods of a kernel.

use serde_json::{Value, json};
use toolhost_contract::bus::EventKind;
use toolhost_contract::lifecycle::{CallState, Timestamp, Transition};
use toolhost_contract::policy::{Approval, NewApproval};
use toolhost_contract::text;
use toolhost_store::{
    AnswerError, AnswerRow, ApprovalError, CallRow, EventRow, Store, StoreError, TransitionRow,
    Write,
};

use crate::approvals;
use crate::journal::IN_ADVANCE;

/// The reason why a deferred call was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeferredError {
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error("call `{call}` is not deferred; answer it as a running call")]
    NotDeferred { call: String },
    #[error(
        "call `{call}` cannot be approved in advance ({reason}); deny it and let the caller retry"
    )]
    NotApprovable { call: String, reason: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Saves an approval for one call with exactly this input and closes the question. Returns the id of the approval.
pub async fn approve_deferred(
    store: &Store,
    call: &str,
    by: &str,
    note: Option<&str>,
    at: Timestamp,
) -> Result<String, DeferredError> {
    let row = load_deferred(store, call)?;
    let not_approvable = |reason: String| DeferredError::NotApprovable {
        call: shown(call),
        reason,
    };
    let saved = row.record.get(IN_ADVANCE);
    let saved =
        saved.ok_or_else(|| not_approvable("its record contains no approval".to_owned()))?;
    let approval = saved.get("approval").unwrap_or(&Value::Null);
    let approval =
        Approval::from_value(approval).map_err(|error| not_approvable(error.to_string()))?;
    let approval = Approval {
        id: format!("a-{}", crate::id::random()),
        by: by.to_owned(),
        created_ms: at.0,
        uses_left: Some(1),
        ..approval
    };
    // The first answer closes the question; later ones fail here.
    claim(store, call, "allow_once", by, note, at).await?;
    let project = saved.get("project").and_then(Value::as_str);
    let approval_row = approvals::row(&approval, project);
    if let Err(error) = store.put_approval(approval_row).await {
        // Without its approval, the answer would only keep others from answering.
        store.clear_answer(call).await?;
        return Err(match error {
            ApprovalError::Store(error) => DeferredError::Store(error),
            error => not_approvable(error.to_string()),
        });
    }
    let steps = [
        Transition::Approved {
            by: by.to_owned(),
            scope: "once".to_owned(),
            note: note.map(ToOwned::to_owned),
        },
        Transition::Sealed,
    ];
    close(store, row, &steps, ("allow", by, note), at).await?;
    Ok(approval.id)
}

/// Denies the call and ends it.
pub async fn deny_deferred(
    store: &Store,
    call: &str,
    by: &str,
    note: Option<&str>,
    at: Timestamp,
) -> Result<(), DeferredError> {
    let row = load_deferred(store, call)?;
    claim(store, call, "deny", by, note, at).await?;
    let tool = row.tool.as_deref().unwrap_or("the tool");
    let reason = match note {
        Some(note) => format!("the user rejected `{tool}`: {note}"),
        None => format!("the user rejected `{tool}`"),
    };
    let step = Transition::Denied {
        code: "user_denied".to_owned(),
        reason,
        by: Some(by.to_owned()),
        note: note.map(ToOwned::to_owned),
        remedy: None,
    };
    close(store, row, &[step], ("deny", by, note), at).await
}

/// Returns the approval to store in the record of a deferred call.
pub(super) fn advance_approval(new: NewApproval, project: Option<&str>) -> Value {
    let approval = new.into_approval("", "", 0).to_value();
    json!({"approval": approval, "project": project})
}

fn load_deferred(store: &Store, call: &str) -> Result<CallRow, DeferredError> {
    let row = store.call(call)?.ok_or_else(|| AnswerError::UnknownCall {
        call: call.to_owned(),
    })?;
    if row.finished {
        return Err(AnswerError::Finished { state: row.state }.into());
    }
    if !row.deferred {
        return Err(DeferredError::NotDeferred { call: shown(call) });
    }
    Ok(row)
}

async fn claim(
    store: &Store,
    call: &str,
    decision: &str,
    by: &str,
    note: Option<&str>,
    at: Timestamp,
) -> Result<(), DeferredError> {
    let answer = AnswerRow {
        asked_ms: None,
        call: call.to_owned(),
        decision: decision.to_owned(),
        note: note.map(ToOwned::to_owned),
        payload: None,
        by: by.to_owned(),
        at_ms: at.0,
    };
    Ok(store.answer(answer).await?)
}

/// Writes the steps, the decision and the new row in one transaction.
async fn close(
    store: &Store,
    mut row: CallRow,
    steps: &[Transition],
    (decision, by, note): (&'static str, &str, Option<&str>),
    at: Timestamp,
) -> Result<(), DeferredError> {
    let mut state = CallState::AwaitingApproval;
    let mut transitions = Vec::new();
    for step in steps {
        let to = step
            .next_state(state)
            .expect("both transitions are in the table of steps");
        let (line, ended) = trail_line(step, state);
        if let Some((code, message)) = ended {
            set(
                &mut row.record,
                "error",
                json!({"code": code, "message": message}),
            );
        }
        transitions.push(TransitionRow {
            call: row.id.clone(),
            session: row.session.clone(),
            at_ms: at.0,
            state: to.as_str().to_owned(),
            kind: step.kind().to_owned(),
            note: Some(toolhost_contract::lifecycle::mask_text(&line)),
            detail: Value::Null,
        });
        state = to;
    }
    state.as_str().clone_into(&mut row.state);
    row.finished = state.is_terminal();
    row.deferred = false;
    row.updated_ms = at.0;
    let record = &mut row.record;
    set(record, "state", json!(state.as_str()));
    set(record, "isError", json!(true));
    set(record, "updatedAt", json!(at.0));
    set(record, "completedAt", json!(at.0));
    if let Some(approval) = record.get_mut("approval") {
        set(approval, "decision", json!(decision));
        set(approval, "decidedBy", json!(by));
        set(approval, "decidedAt", json!(at.0));
        set(approval, "note", json!(note));
    }
    if let Value::Object(record) = record {
        record.remove("input");
        record.remove(IN_ADVANCE);
    }
    let event_kind = EventKind::PermissionDecided {
        decision,
        scope: None,
        by: by.to_owned(),
        note: note.map(ToOwned::to_owned),
    };
    let event = EventRow {
        channel: event_kind.channel().as_str().to_owned(),
        session: row.session.clone(),
        call: Some(row.id.clone()),
        at_ms: at.0,
        kind: event_kind.name().to_owned(),
        body: event_kind.data(),
    };
    let call = Write::Call {
        row: Box::new(row),
        transitions,
    };
    Ok(store
        .commit(Write::Many(vec![call, Write::Event(event)]))
        .await?)
}

/// Returns a line for the audit trail, and the error of a step that ends the call.
fn trail_line(step: &Transition, from: CallState) -> (String, Option<(String, String)>) {
    let ended = match step {
        Transition::Denied { code, reason, .. } => (code.clone(), reason.clone()),
        Transition::Approved { by, scope, .. } => return (format!("{by}: {scope}"), None),
        _ => ("sealed".to_owned(), from.advice_when_sealed().to_owned()),
    };
    (format!("{}: {}", ended.0, ended.1), Some(ended))
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), value);
    }
}

fn shown(call: &str) -> String {
    text::escape_line(call, 80)
}

#[cfg(test)]
mod tests;
