//! Evaluation and commit of staged changes after a run: rules and the user decide on the actual changes, which are then
//! committed completely or not at all.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use toolhost_contract::lifecycle::{CallState, Transition};
use toolhost_contract::policy::{PromptKind, Subject};
use toolhost_contract::{
    CallError, ChangeSet, CommitError, ErrorClass, Outcome, StagedChanges, StagedEffects,
    StagedResult, Verdict, text,
};
use toolhost_store::{CommitRow, CommitState};

use super::authorization::{Authorization, Evaluation};
use super::running_call::RunningCall;
use super::{Kernel, Refusal};
use crate::ToolEntry;
use crate::journal::{Journal, store_error};
use crate::schedule::Permit;
use crate::undo;

/// Maximum number of runs of one call, when its input or what it read changes in the meantime.
const MAX_RUNS: usize = 5;

/// The result of evaluating a run.
pub(super) enum CommitOutcome {
    Committed(Box<Outcome>),
    Rerun(Rerun),
}

/// The decision on the changes of a run.
enum ChangeDecision<'p> {
    Approved {
        by: String,
        /// Released if the user was asked.
        permit: Option<Permit<'p>>,
    },
    /// The changes are dropped.
    Instead(CommitOutcome),
}

/// The call has to run again.
pub(super) struct Rerun {
    pub(super) input: Value,
    /// Paths that others changed; empty if the user changed the input.
    conflicts: Vec<String>,
}

impl Rerun {
    pub(super) fn check_limit(&self, rounds: usize) -> Result<(), Refusal> {
        if rounds < MAX_RUNS {
            return Ok(());
        }
        let why = if self.conflicts.is_empty() {
            "its input was changed".to_owned()
        } else {
            let paths = text::escape_lines(&self.conflicts.join("; "), 1_000);
            format!("the same files are being changed concurrently: {paths}")
        };
        let error = CallError::new(
            ErrorClass::Failed,
            format!("the call was run {MAX_RUNS} times and no change was kept; {why}"),
        )
        .code("conflict")
        .recommend("call again when these files are no longer being changed");
        Err(error.into())
    }
}

impl Kernel {
    /// Evaluates a run and commits its changes. The changes of a failed run are dropped.
    pub(super) async fn commit_staged(
        &self,
        entry: &Arc<ToolEntry>,
        ran: Result<StagedResult, Refusal>,
        permit: Option<Permit<'_>>,
        run: &mut RunningCall<'_>,
    ) -> Result<CommitOutcome, Refusal> {
        // An error message may contain data that was read, so it is evaluated like a result.
        let (result, mut staged) = match ran {
            Ok(StagedResult { outcome, .. }) if outcome.is_error() => (Ok(outcome), None),
            Ok(StagedResult { outcome, effects }) => match effects {
                StagedEffects::None => (Ok(outcome), None),
                StagedEffects::Staged(staged) => (Ok(outcome), Some(staged)),
                StagedEffects::Conflict(paths) => return rerun(run, paths).await,
            },
            Err(error) if run.cancel.is_cancelled() => return Err(error),
            Err(error) => (Err(error), None),
        };
        let nothing = ChangeSet::default();
        let changes = staged.as_ref().map_or(&nothing, |staged| staged.changes());
        // Staged bytes take memory until they are applied or dropped, and the user may take a long time to answer.
        let _waits = self
            .staged_bytes
            .take(&run.caller.user, changed_bytes(changes))
            .map_err(CallError::from)?;
        let named = run.subject(entry);
        let subject = match &result {
            Ok(outcome) if !outcome.is_error() => named
                .with_changes(changes)
                .with_variables(run.attempt.new_variables.clone()),
            // The notes of a failed call are discarded.
            _ => named.with_changes(changes),
        };
        run.attempt.changes_known = true;
        let decision = self.decide_changes(entry, &subject, changes, permit, run);
        let (by, _permit) = match decision.await? {
            ChangeDecision::Approved { by, permit } => (by, permit),
            ChangeDecision::Instead(outcome) => return Ok(outcome),
        };
        let edits = std::mem::take(&mut run.attempt.edits);
        let mut diffs = Vec::new();
        if let Some(held) = staged.take_if(|_| !edits.is_empty()) {
            let edited = Box::pin(self.apply_edits(entry, held, edits, &by, run)).await?;
            diffs = edited.diffs;
            match edited.effects {
                StagedEffects::None => {}
                StagedEffects::Staged(held) => staged = Some(held),
                StagedEffects::Conflict(paths) => return rerun(run, paths).await,
            }
        }
        run.sink.release();
        let mut outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => {
                // The user has approved what a failed run read.
                if run.journal.record().state == CallState::Approved {
                    let step = Transition::CommitAuthorized { by, commit: None };
                    run.journal.step(step).await?;
                }
                return Err(error);
            }
        };
        super::user_edits::append_note(&mut outcome, &diffs);
        let Some(staged) = staged.filter(|staged| !staged.changes().is_empty()) else {
            run.journal
                .step(Transition::CommitAuthorized { by, commit: None })
                .await?;
            return Ok(CommitOutcome::Committed(outcome.into()));
        };
        run.journal.record_changes(staged.changes());
        match Box::pin(self.commit_changes(entry, staged, by, run)).await {
            Ok(id) => {
                run.report.commits.push(id);
                Ok(CommitOutcome::Committed(outcome.into()))
            }
            Err(CommitError::Conflict(paths)) => rerun(run, paths).await,
            Err(CommitError::Failed(error) | CommitError::Incomplete(error)) => Err(error),
        }
    }

    /// Decides on the changes of a run by the rules, and by the user if they require it.
    async fn decide_changes<'p>(
        &self,
        entry: &Arc<ToolEntry>,
        subject: &Subject,
        changes: &ChangeSet,
        permit: Option<Permit<'p>>,
        run: &mut RunningCall<'_>,
    ) -> Result<ChangeDecision<'p>, Refusal> {
        let hook_decision = std::mem::take(&mut run.attempt.hook_decision);
        let cancel = run.cancel.clone();
        let evaluation = async { Ok(self.verdict(entry, run, subject, &hook_decision).await) };
        let verdict = cancel.unless_cancelled_after_run(evaluation).await?;
        match verdict {
            Verdict::Allow(grant) => Ok(ChangeDecision::Approved {
                by: grant.authorizer().to_owned(),
                permit,
            }),
            Verdict::Deny(denial) => Err(run.deny(denial).into()),
            Verdict::Ask(mut question) => {
                if !changes.is_empty() {
                    question.changes = Some(Arc::new(changes.clone()));
                    question.kind = PromptKind::Edit;
                    question.can_undo = self.journal.store.is_some();
                }
                // The permit is released so that others can run while the user decides. Conflicts are found at commit.
                drop(permit);
                let answer = Box::pin(self.ask_user(entry, run, *question));
                match cancel.unless_cancelled_after_run(answer).await? {
                    Evaluation::Decided(Authorization::Granted(grant)) => {
                        self.check_still_allowed(entry, run, subject, &hook_decision)?;
                        Ok(ChangeDecision::Approved {
                            by: grant.authorizer().to_owned(),
                            permit: None,
                        })
                    }
                    Evaluation::Decided(Authorization::Supplied { outcome, .. }) => {
                        Ok(ChangeDecision::Instead(CommitOutcome::Committed(outcome)))
                    }
                    Evaluation::InputChanged(input) => {
                        Ok(ChangeDecision::Instead(CommitOutcome::Rerun(Rerun {
                            input,
                            conflicts: Vec::new(),
                        })))
                    }
                }
            }
        }
    }

    /// Records the commit on disk and applies it. Once begun, it is completed even if the caller goes away.
    async fn commit_changes(
        &self,
        entry: &ToolEntry,
        staged: Box<dyn StagedChanges>,
        by: String,
        run: &mut RunningCall<'_>,
    ) -> Result<String, CommitError> {
        let failed = CommitError::Failed;
        let id = format!("commit-{}", crate::id::random());
        let commit = Some(id.clone());
        let step = Transition::CommitAuthorized { by, commit };
        run.journal.step(step).await.map_err(failed)?;
        // Commits are serialized: a file that one commit found unchanged must stay unchanged until it completes.
        let turn = Arc::clone(&self.committing).lock_owned().await;
        let body = staged.prepare().await?;
        let row = CommitRow {
            id: id.clone(),
            call: run.id.0.clone(),
            session: run.caller.session.to_string(),
            batch: run.context.batch.clone(),
            tool: entry.name.to_string(),
            at_ms: self.journal.clock.now().0,
            state: CommitState::Begun,
            of: None,
            body,
        };
        run.journal.record_intent().await.map_err(failed)?;
        run.cancel.check().map_err(failed)?;
        let changes = run.order.is_some().then(|| staged.changes().clone());
        let committing = apply_commit(Arc::clone(&self.journal), staged, row, turn);
        let made = tokio::spawn(committing).await;
        if let (Some(slot), Some(changes)) = (&run.order, changes) {
            slot.record_changes(changes);
        }
        made.map_err(|_| failed(CallError::internal("the commit panicked").into()))??;
        Ok(id)
    }
}

/// Returns the number of bytes of the files that would be written.
fn changed_bytes(changes: &ChangeSet) -> u64 {
    let sizes = changes.changes.iter().filter_map(|change| change.sizes.1);
    sizes.fold(0, u64::saturating_add)
}

/// Restarts the call, because what it read has changed.
async fn rerun(
    run: &mut RunningCall<'_>,
    conflicts: Vec<String>,
) -> Result<CommitOutcome, Refusal> {
    run.journal.step(Transition::ValidationStarted).await?;
    let input = run.input_of_rerun();
    Ok(CommitOutcome::Rerun(Rerun { input, conflicts }))
}

async fn apply_commit(
    journal: Arc<Journal>,
    staged: Box<dyn StagedChanges>,
    row: CommitRow,
    _turn: OwnedMutexGuard<()>,
) -> Result<(), CommitError> {
    let id = row.id.clone();
    if let Some(store) = &journal.store {
        let begun = store.begin_commit(row).await;
        begun.map_err(|error| CommitError::Failed(store_error(error).into()))?;
    }
    crate::crash_point::at("commit_begun");
    let result = staged.commit(id.clone()).await;
    crate::crash_point::at("commit_made");
    if let (Some(store), Some(state)) = (&journal.store, undo::final_state(&result)) {
        let at = journal.clock.now().0;
        // The files are changed or reverted even if the result cannot be recorded. Recovery checks the files of a row
        // without a result.
        let _ = store.end_commit(&id, state, at).await;
    }
    crate::crash_point::at("commit_ended");
    result
}
