//! Recovery after a crash: closes each unfinished call as `sealed`, with advice for the caller.

use std::sync::Arc;

use serde_json::{Value, json};
use toolhost_contract::bus::EventKind;
use toolhost_contract::lifecycle::{CallState, Snapshot, Transition};
use toolhost_contract::{CallId, Principal, policy};
use toolhost_store::{CallRow, CommitFilter, CommitState, StoreError, TransitionRow, Write};

use super::Kernel;

/// A call that was found unfinished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedCall {
    pub id: CallId,
    pub tool: Option<String>,
    /// The state of the call when its host stopped.
    pub previous_state: CallState,
    pub advice: &'static str,
    /// The call may have changed something.
    pub effectful: bool,
}

impl Kernel {
    /// Seals the calls of hosts that no longer run. Calls of running hosts and deferred questions are left alone.
    pub async fn seal_interrupted_calls(&self) -> Result<Vec<SealedCall>, StoreError> {
        let Some(store) = self.store() else {
            return Ok(Vec::new());
        };
        let mut sealed = Vec::new();
        // Adopted first, so that only one of two hosts that start at the same time seals a call.
        for row in store.adopt_orphans().await? {
            let caller = Arc::new(Principal {
                session: row.session.clone().into(),
                ..Principal::default()
            });
            let filter = CommitFilter {
                call: Some(row.id.clone()),
                limit: 1,
                ..CommitFilter::default()
            };
            let last = store.commits(&filter)?.into_iter().next();
            let state = last.map(|commit| commit.state);
            let Some((seal, write)) = seal_row(row, state, self.journal.clock.now().0) else {
                continue;
            };
            let Write::Call { row, .. } = &write else {
                continue;
            };
            let snapshot = Snapshot::from_json(row.record.clone());
            store.commit(write).await?;
            crate::crash_point::at(Transition::Sealed.kind());
            self.journal
                .publish_for_call(&caller, &seal.id, EventKind::CallSealed, snapshot);
            sealed.push(seal);
        }
        Ok(sealed)
    }
}

/// `commit` is the state of the last commit of the call, after recovery.
fn seal_row(
    mut row: CallRow,
    commit: Option<CommitState>,
    at_ms: i64,
) -> Option<(SealedCall, Write)> {
    let was = CallState::parse(&row.state)?;
    let to = Transition::Sealed.next_state(was)?;
    let held = row.record["policyRuleId"] == policy::STAGED_AUTHORIZER;
    let advice = match commit {
        Some(CommitState::Done) => {
            "its changes to files were made before its host stopped; check them before calling again"
        }
        Some(CommitState::Begun) => {
            "it was interrupted and its changes can be incomplete; check its files, and start the host again to revert them"
        }
        Some(CommitState::Reverted | CommitState::Undone) => {
            "it was interrupted and its changes were reverted; check its files before calling again"
        }
        None if held && was == CallState::Executing => {
            "it was interrupted before its changes were made; it is safe to call again"
        }
        None if !row.effectful && was == CallState::Executing => {
            "it was interrupted while reading; it is safe to call again"
        }
        None => was.advice_when_sealed(),
    };
    to.as_str().clone_into(&mut row.state);
    row.finished = true;
    row.updated_ms = at_ms;
    if let Value::Object(record) = &mut row.record {
        record.insert("state".to_owned(), json!(to.as_str()));
        record.insert("isError".to_owned(), json!(true));
        record.insert(
            "error".to_owned(),
            json!({"code": "sealed", "message": advice}),
        );
        record.insert("completedAt".to_owned(), json!(at_ms));
        record.remove("input");
    }
    let transition = TransitionRow {
        call: row.id.clone(),
        session: row.session.clone(),
        at_ms,
        state: to.as_str().to_owned(),
        kind: Transition::Sealed.kind().to_owned(),
        note: Some(format!("sealed: {advice}")),
        detail: json!({"was": was.as_str()}),
    };
    let sealed = SealedCall {
        id: CallId(row.id.clone()),
        tool: row.tool.clone(),
        previous_state: was,
        advice,
        effectful: row.effectful,
    };
    let write = Write::Call {
        row: Box::new(row),
        transitions: vec![transition],
    };
    Some((sealed, write))
}
