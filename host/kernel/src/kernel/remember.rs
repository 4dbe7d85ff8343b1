//! What outlives an answer: kept yeses, answers that other processes left, and sessions.

use std::sync::{Arc, PoisonError};

use toolhost_contract::life::Millis;
use toolhost_contract::policy::{
    Approval, Identity, Mode, Narrowing, NewApproval, PathNarrowing, Policy, Scope,
};
use toolhost_contract::{
    Answer, CallError, CallId, Effect, Failure, Outcome, Question, QuotaError, SessionKey,
};
use toolhost_store::{AnswerRow, SessionRow, StoreError, Write};

use super::halt::Halt;
use super::run::{Run, is_failure};
use super::sessions::Session;
use super::{Kernel, Refusal};
use crate::Entry;
use crate::asks::Answered;
use crate::journal::{Journal, unwritable};
use crate::schedule::Fate;

impl Kernel {
    pub(super) async fn remember(&self, new: NewApproval, by: &str) -> Result<(), Refusal> {
        let id = format!("a-{}", crate::id::random());
        let approval = new.stored(id, by, self.journal.clock.now().0);
        // A yes that cannot be kept is still a yes for this call, but it must not be promised for the next.
        self.approvals
            .add(approval)
            .await
            .map_err(|error| Refusal::from(unwritable(error)))
    }

    pub(super) fn session(&self, key: &SessionKey) -> Result<Arc<Session>, QuotaError> {
        self.sessions.get(key)
    }

    /// The rules as they hold in a session: a person may have changed its mode.
    pub(super) fn policy_in(&self, session: &SessionKey) -> Arc<Policy> {
        let session = self.sessions.find(session);
        session.map_or_else(|| self.policy(), |session| self.policy_of(&session))
    }

    pub(super) fn policy_of(&self, session: &Session) -> Arc<Policy> {
        let policy = self.policy();
        match session.mode() {
            // A mode that the operator has switched off is not chosen here either.
            Some(mode) => policy.with_mode(mode).map_or(policy, Arc::new),
            None => policy,
        }
    }

    /// Chooses the mode of a session, as a person would at its prompt.
    pub fn set_mode(&self, session: &SessionKey, mode: Mode) -> Result<(), String> {
        let refused = |diagnostic: toolhost_contract::policy::Diagnostic| diagnostic.to_string();
        self.policy().with_mode(mode).map_err(refused)?;
        let session = self.session(session).map_err(|full| full.to_string())?;
        session.set_mode(mode);
        Ok(())
    }

    /// A person's yes to changes below these paths, and to requests to these hosts, for the rest of the session: one
    /// for each tool that does nothing else.
    pub(super) async fn allow_in_session(
        &self,
        session: &SessionKey,
        write: &[String],
        hosts: &[String],
    ) -> Result<(), Failure> {
        let mode_min = self.policy_in(session).mode();
        for entry in self.registry().list() {
            let edits = matches!(entry.tool.kind.as_str(), "edit" | "delete" | "move");
            let narrowing = if edits && !write.is_empty() {
                let path = |path: &String| PathNarrowing {
                    path: self.policy().place(path),
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
                identity: Identity {
                    plugin: entry.plugin.name.clone(),
                    tool: entry.tool.name.clone(),
                    digest: entry.plugin.digest,
                    definition: None,
                },
                narrowing,
                scope: Scope::Session,
                user: session.user.clone(),
                session: Some(session.session.clone()),
                mode_min,
            };
            let id = format!("a-{}", crate::id::random());
            let approval: Approval = new.stored(id, "person", self.journal.clock.now().0);
            let added = self.approvals.add(approval).await;
            added.map_err(|error| Failure::new("store_unwritable", error.to_string()))?;
        }
        Ok(())
    }

    /// Writes down that a client came.
    pub fn open_session(&self, key: &SessionKey, client: &str) {
        self.journal
            .queue(|| Write::Session(self.session_row(key, client, None)));
    }

    pub fn close_session(&self, key: &SessionKey, client: &str) {
        let ended = Some(self.journal.clock.now());
        self.journal
            .queue(|| Write::Session(self.session_row(key, client, ended)));
        self.end_session(key);
    }

    /// Stops the calls of a session, and lets go what is kept for it. For a session that has no row, and once more for
    /// one whose last request has ended after it.
    pub fn end_session(&self, key: &SessionKey) {
        let running: Vec<Halt> = {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            let theirs = running.values().filter(|(session, _)| session == key);
            theirs.map(|(_, halt)| halt.clone()).collect()
        };
        for halt in running {
            halt.cancel();
        }
        self.sessions.end(key);
    }

    fn session_row(&self, key: &SessionKey, client: &str, ended: Option<Millis>) -> SessionRow {
        SessionRow {
            id: key.session.to_string(),
            started_ms: self.started.0,
            ended_ms: ended.map(|at| at.0),
            client: client.to_owned(),
            mode: self.policy().mode().to_string(),
            detail: serde_json::Value::Null,
        }
    }

    /// Everything so far is on disk when this returns.
    pub async fn flush(&self) -> Result<(), StoreError> {
        // A commit that has begun ends before the host does.
        drop(self.committing.lock().await);
        match self.store() {
            Some(store) => store.flush().await,
            None => Ok(()),
        }
    }

    /// A model that repeats what failed is told so, and at last stopped.
    pub(super) fn guard(entry: &Entry, run: &Run<'_>) -> Result<(), Refusal> {
        run.session
            .loop_guard
            .check(&entry.name, &run.input)
            .map_err(|repeated| {
                CallError::new(toolhost_contract::ErrorClass::Failed, repeated.to_string())
                    .code("repeated_failure")
                    .into()
            })
    }

    pub(super) fn learn(
        entry: &Entry,
        run: &Run<'_>,
        result: Result<Outcome, Refusal>,
    ) -> Result<Outcome, Refusal> {
        let fate = if run.halt.is_set() {
            // It says nothing about the arguments that somebody stopped it.
            Fate::Cancelled
        } else if is_failure(&result) {
            Fate::Failed
        } else {
            Fate::Completed
        };
        if fate == Fate::Completed && entry.tool.effect() > Effect::Reads {
            run.session.loop_guard.clear();
        }
        // By what the model wrote, not by what hooks or people made of it.
        let advice = run.session.loop_guard.record(&entry.name, &run.wish, fate);
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
    /// What somebody in another process answered to the question that was asked at `asked`.
    pub(super) fn answer_from_elsewhere(
        &self,
        call: &CallId,
        asked: Millis,
        question: &Question,
    ) -> Option<Answered> {
        let row = self.store.as_ref()?.answer_for(&call.0, asked.0).ok()??;
        let by = row.by.clone();
        answer(row, question).map(|answer| Answered { answer, by })
    }
}

/// None for a word that this version does not know: it keeps waiting rather than guess.
fn answer(row: AnswerRow, question: &Question) -> Option<Answer> {
    let AnswerRow {
        decision,
        note,
        payload,
        ..
    } = row;
    let allow = |scope: Scope, note| {
        // What was not offered is not given: a tool that cannot be narrowed is allowed once.
        let offer = question
            .offers
            .iter()
            .position(|offer| offer.scope == scope)
            .unwrap_or(0);
        Answer::Allow { offer, note }
    };
    match decision.as_str() {
        "allow_once" => Some(allow(Scope::Once, note)),
        "allow_session" => Some(allow(Scope::Session, note)),
        "allow_project" => Some(allow(Scope::Project, note)),
        "allow_user" => Some(allow(Scope::User, note)),
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
