//! Saved approvals, answers from other processes, session state and loop detection.

use std::sync::{Arc, PoisonError};

use toolhost_contract::lifecycle::Timestamp;
use toolhost_contract::policy::{
    Approval, ApprovalScope, Mode, Narrowing, NewApproval, PathNarrowing, Policy, ToolIdentity,
};
use toolhost_contract::{
    Answer, CallError, CallId, Effect, Failure, Outcome, Question, QuotaError, SessionKey,
    Sink as _,
};
use toolhost_store::{AnswerRow, SessionRow, StoreError, Write};

use super::cancel_handle::CancelHandle;
use super::running_call::{RunningCall, is_failure};
use super::sessions::Session;
use super::{Kernel, Refusal};
use crate::ToolEntry;
use crate::journal::{Journal, store_error};
use crate::pending_questions::AttributedAnswer;
use crate::schedule::CallStatus;

impl Kernel {
    pub(super) async fn save_approval(&self, new: NewApproval, by: &str) -> Result<(), Refusal> {
        let id = format!("a-{}", crate::id::random());
        let approval = new.into_approval(id, by, self.journal.clock.now().0);
        // If the approval cannot be saved, the call fails: a saved approval must not be reported for the next call.
        self.approvals
            .add(approval)
            .await
            .map_err(|error| Refusal::from(store_error(error)))
    }

    pub(super) fn session(&self, key: &SessionKey) -> Result<Arc<Session>, QuotaError> {
        self.sessions.get(key)
    }

    /// Returns the policy of a session, whose mode the user may have changed.
    pub(super) fn session_policy(&self, session: &SessionKey) -> Arc<Policy> {
        let session = self.sessions.find(session);
        session.map_or_else(|| self.policy(), |session| self.policy_for(&session))
    }

    pub(super) fn policy_for(&self, session: &Session) -> Arc<Policy> {
        let policy = self.policy();
        match session.mode() {
            // A mode that the operator has disabled is not used here either.
            Some(mode) => policy.with_mode(mode).map_or(policy, Arc::new),
            None => policy,
        }
    }

    /// Sets the mode of a session.
    pub fn set_mode(&self, session: &SessionKey, mode: Mode) -> Result<(), String> {
        let refused = |diagnostic: toolhost_contract::policy::Diagnostic| diagnostic.to_string();
        self.policy().with_mode(mode).map_err(refused)?;
        let session = self.session(session).map_err(|full| full.to_string())?;
        session.set_mode(mode);
        Ok(())
    }

    /// Returns the mode of a session.
    pub fn mode(&self, session: &SessionKey) -> Mode {
        self.session_policy(session).mode()
    }

    /// Saves the user's approval of changes below these paths and of requests to these hosts for the rest of the
    /// session: one approval for each tool that does only that.
    pub(super) async fn allow_in_session(
        &self,
        session: &SessionKey,
        write: &[String],
        hosts: &[String],
    ) -> Result<(), Failure> {
        let mode_min = self.session_policy(session).mode();
        for entry in self.registry().list() {
            let edits = matches!(entry.tool.kind.as_str(), "edit" | "delete" | "move");
            let narrowing = if edits && !write.is_empty() {
                let path = |path: &String| PathNarrowing {
                    path: self.policy().resolve_path_of(&entry.plugin.name, path),
                    tree: true,
                    write: true,
                };
                Narrowing {
                    paths: write.iter().map(path).collect(),
                    ..Narrowing::default()
                }
            } else if entry.tool.kind == "fetch" && !hosts.is_empty() {
                Narrowing {
                    domains: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
                    ..Narrowing::default()
                }
            } else {
                continue;
            };
            let new = NewApproval {
                identity: ToolIdentity {
                    plugin: entry.plugin.name.clone(),
                    tool: entry.tool.name.clone(),
                    digest: entry.plugin.digest,
                    definition: None,
                },
                narrowing,
                scope: ApprovalScope::Session,
                user: session.user.clone(),
                session: Some(session.session.clone()),
                mode_min,
            };
            let id = format!("a-{}", crate::id::random());
            let approval: Approval = new.into_approval(id, "user", self.journal.clock.now().0);
            let added = self.approvals.add(approval).await;
            added.map_err(|error| Failure::new("store_unwritable", error.to_string()))?;
        }
        Ok(())
    }

    /// Records the start of a client session.
    pub fn open_session(&self, key: &SessionKey, client: &str) {
        self.queue_session(key, client, None);
    }

    pub fn close_session(&self, key: &SessionKey, client: &str) {
        self.queue_session(key, client, Some(self.journal.clock.now()));
        self.end_session(key);
    }

    /// Cancels the calls of a session and drops its state. Also used for a session without a row, and again when the
    /// last request of a closed session ends.
    pub fn end_session(&self, key: &SessionKey) {
        let running: Vec<CancelHandle> = {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            let theirs = running.values().filter(|call| call.session == *key);
            theirs.map(|call| call.cancel.clone()).collect()
        };
        for cancellation in running {
            cancellation.cancel();
        }
        self.sessions.end(key);
    }

    fn queue_session(&self, key: &SessionKey, client: &str, ended: Option<Timestamp>) {
        let row = || SessionRow {
            id: key.session.to_string(),
            // The store keeps the time of the first row.
            started_ms: self.journal.clock.now().0,
            ended_ms: ended.map(|at| at.0),
            client: client.to_owned(),
            mode: self.policy().mode().to_string(),
            detail: serde_json::Value::Null,
        };
        self.journal.queue(|| Write::Session(row()));
    }

    /// Writes everything so far to disk.
    pub async fn flush(&self) -> Result<(), StoreError> {
        // A commit in progress completes first.
        drop(self.committing.lock().await);
        match self.store() {
            Some(store) => store.flush().await,
            None => Ok(()),
        }
    }

    /// Refuses a call that has failed repeatedly with the same arguments.
    pub(super) fn check_repetition(
        entry: &ToolEntry,
        run: &RunningCall<'_>,
    ) -> Result<(), Refusal> {
        run.session
            .loop_guard
            .check(&entry.name, &run.input)
            .map_err(|repeated| {
                CallError::new(toolhost_contract::ErrorClass::Failed, repeated.to_string())
                    .code("repeated_failure")
                    .into()
            })
    }

    pub(super) fn record_outcome(
        entry: &ToolEntry,
        run: &RunningCall<'_>,
        result: Result<Outcome, Refusal>,
    ) -> Result<Outcome, Refusal> {
        let fate = if run.sink.is_cancelled() {
            // A cancelled call is no evidence about its arguments.
            CallStatus::Cancelled
        } else if is_failure(&result) {
            CallStatus::Failed
        } else {
            CallStatus::Completed
        };
        if fate == CallStatus::Completed && entry.tool.effect() > Effect::Reads {
            run.session.loop_guard.clear();
        }
        // The input as the model wrote it, before changes by hooks or the user.
        let advice = run
            .session
            .loop_guard
            .record(&entry.name, &run.original_input, fate);
        match (result, advice) {
            (Ok(mut outcome), Some(advice)) => {
                if let Some(failure) = &mut outcome.error {
                    failure.recommendations.push(advice);
                }
                Ok(outcome)
            }
            (Err(error), Some(advice)) => Err(error.recommend(advice).into()),
            (result, None) => result,
        }
    }
}

impl Journal {
    /// Returns the answer that another process gave to the question asked at `asked_at`.
    pub(super) fn external_answer(
        &self,
        call: &CallId,
        asked_at: Timestamp,
        question: &Question,
    ) -> Option<AttributedAnswer> {
        let row = self
            .store
            .as_ref()?
            .answer_for(&call.0, asked_at.0)
            .ok()??;
        let by = row.by.clone();
        parse_answer(row, question).map(|answer| AttributedAnswer { answer, by })
    }
}

/// Converts a stored answer. Returns `None` for an unknown decision: the call keeps waiting.
fn parse_answer(row: AnswerRow, question: &Question) -> Option<Answer> {
    let AnswerRow {
        decision,
        note,
        payload,
        ..
    } = row;
    let allow = |scope: ApprovalScope, note| {
        // Only offered choices are granted: a tool that cannot be narrowed is allowed once.
        let offer = question
            .offers
            .iter()
            .position(|offer| offer.scope == scope)
            .unwrap_or(0);
        Answer::Allow { offer, note }
    };
    match decision.as_str() {
        "allow_once" => Some(allow(ApprovalScope::Once, note)),
        "allow_session" => Some(allow(ApprovalScope::Session, note)),
        "allow_project" => Some(allow(ApprovalScope::Project, note)),
        "allow_user" => Some(allow(ApprovalScope::User, note)),
        "deny" => Some(Answer::Deny { note }),
        "cancel" => Some(Answer::Cancel),
        "modify" => payload.map(|input| Answer::Modify { input }),
        "edit" => {
            let mut payload = payload?;
            let edits = serde_json::from_value(payload.get_mut("edits")?.take()).ok()?;
            Some(Answer::Edit { edits })
        }
        _ => None,
    }
}
