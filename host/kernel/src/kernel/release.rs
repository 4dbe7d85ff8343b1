//! Evaluation and commit of staged changes after a run: rules and the user decide on the actual changes, which are then
//! committed completely or not at all.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use toolhost_contract::life::Step;
use toolhost_contract::policy::{AskKind, Subject};
use toolhost_contract::{
    CallError, ChangeSet, CommitError, Effects, ErrorClass, Outcome, Ran, Staged, Verdict, text,
};
use toolhost_store::{CommitRow, CommitState};

use super::judge::{Cleared, Judged};
use super::run::Run;
use super::{Kernel, Refusal};
use crate::Entry;
use crate::journal::{Journal, unwritable};
use crate::schedule::Permit;

/// Maximum number of runs of one call, when its input or what it read changes in the meantime.
const ROUNDS: usize = 5;

/// The result of evaluating a run.
pub(super) enum Released {
    Through(Box<Outcome>),
    Again(Again),
}

/// The call has to run again.
pub(super) struct Again {
    pub(super) input: Value,
    /// Paths that others changed; empty if the user changed the input.
    conflicts: Vec<String>,
}

impl Again {
    pub(super) fn may_run(&self, rounds: usize) -> Result<(), Refusal> {
        if rounds < ROUNDS {
            return Ok(());
        }
        let why = if self.conflicts.is_empty() {
            "its input was changed".to_owned()
        } else {
            let places = text::block(&self.conflicts.join("; "), 1_000);
            format!("the same files are being changed concurrently: {places}")
        };
        let error = CallError::new(
            ErrorClass::Failed,
            format!("the call was run {ROUNDS} times and no change was kept; {why}"),
        )
        .code("conflict")
        .recommend("call again when these files are no longer being changed");
        Err(error.into())
    }
}

impl Kernel {
    /// Evaluates a run and commits its changes. The changes of a failed run are dropped.
    pub(super) async fn release(
        &self,
        entry: &Arc<Entry>,
        ran: Result<Ran, Refusal>,
        permit: Option<Permit<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Released, Refusal> {
        // An error message may contain data that was read, so it is evaluated like a result.
        let (result, mut staged) = match ran {
            Ok(Ran { outcome, .. }) if outcome.is_error() => (Ok(outcome), None),
            Ok(Ran { outcome, effects }) => match effects {
                Effects::None => (Ok(outcome), None),
                Effects::Held(staged) => (Ok(outcome), Some(staged)),
                Effects::Conflict(places) => return again(run, places).await,
            },
            Err(error) if run.halt.is_set() => return Err(error),
            Err(error) => (Err(error), None),
        };
        let nothing = ChangeSet::default();
        let changes = staged.as_ref().map_or(&nothing, |staged| staged.changes());
        // Staged bytes take memory until they are applied or dropped, and the user may take a long time to answer.
        let _waits = self
            .staged_bytes
            .take(&run.caller.user, bytes(changes))
            .map_err(CallError::from)?;
        let named = Subject::of(&entry.tool, &run.input);
        let subject = match &result {
            Ok(outcome) if !outcome.is_error() => named.known(changes).setting(run.sets.clone()),
            // The notes of a failed call are discarded.
            _ => named.known(changes),
        };
        run.known = true;
        let said = std::mem::take(&mut run.said);
        let halt = run.halt.clone();
        let judging = async { Ok(self.verdict(entry, run, &subject, &said).await) };
        let verdict = halt.after_run(judging).await?;
        let (by, _permit) = match verdict {
            Verdict::Allow(grant) => (grant.by().to_owned(), permit),
            Verdict::Deny(denial) => return Err(run.refused(denial).into()),
            Verdict::Ask(mut question) => {
                if !changes.is_empty() {
                    question.changes = Some(Arc::new(changes.clone()));
                    question.kind = AskKind::Edit;
                }
                // The permit is released so that others can run while the user decides. Conflicts are found at commit.
                drop(permit);
                let asking = Box::pin(self.ask(entry, run, *question));
                match halt.after_run(asking).await? {
                    Judged::Cleared(Cleared::Run(grant)) => (grant.by().to_owned(), None),
                    Judged::Cleared(Cleared::Supplied { outcome, .. }) => {
                        return Ok(Released::Through(outcome));
                    }
                    Judged::Again(input) => {
                        return Ok(Released::Again(Again {
                            input,
                            conflicts: Vec::new(),
                        }));
                    }
                }
            }
        };
        let edits = std::mem::take(&mut run.edits);
        let mut diffs = Vec::new();
        if let Some(held) = staged.take_if(|_| !edits.is_empty()) {
            let edited = Box::pin(self.edit(entry, held, edits, &by, run)).await?;
            diffs = edited.diffs;
            match edited.effects {
                Effects::None => {}
                Effects::Held(held) => staged = Some(held),
                Effects::Conflict(places) => return again(run, places).await,
            }
        }
        run.sink.let_through();
        let mut outcome = result?;
        super::edit::tell(&mut outcome, &diffs);
        let Some(staged) = staged.filter(|staged| !staged.changes().is_empty()) else {
            run.life.step(Step::Released { by, commit: None }).await?;
            return Ok(Released::Through(outcome.into()));
        };
        match Box::pin(self.commit(entry, staged, by, run)).await {
            Ok(id) => {
                run.commits.push(id);
                Ok(Released::Through(outcome.into()))
            }
            Err(CommitError::Conflict(places)) => again(run, places).await,
            Err(CommitError::Failed(error)) => Err(error),
        }
    }

    /// Records the commit on disk and applies it. Once begun, it is completed even if the caller goes away.
    async fn commit(
        &self,
        entry: &Entry,
        staged: Box<dyn Staged>,
        by: String,
        run: &mut Run<'_>,
    ) -> Result<String, CommitError> {
        let failed = CommitError::Failed;
        let id = format!("commit-{}", crate::id::random());
        let commit = Some(id.clone());
        let step = Step::Released { by, commit };
        run.life.step(step).await.map_err(failed)?;
        // Commits are serialized: a file that one commit found unchanged must stay unchanged until it completes.
        let turn = Arc::clone(&self.committing).lock_owned().await;
        let body = staged.prepare().await?;
        let row = CommitRow {
            id: id.clone(),
            call: run.id.0.clone(),
            session: run.caller.session.to_string(),
            batch: run.within.batch.clone(),
            tool: entry.name.to_string(),
            at_ms: self.journal.clock.now().0,
            state: CommitState::Begun,
            of: None,
            body,
        };
        run.life.intend().await.map_err(failed)?;
        run.halt.check().map_err(failed)?;
        let changes = run.order.is_some().then(|| staged.changes().clone());
        let committing = make_real(Arc::clone(&self.journal), staged, row, turn);
        let made = tokio::spawn(committing).await;
        if let (Some(slot), Some(changes)) = (&run.order, changes) {
            slot.changed(changes);
        }
        made.map_err(|_| failed(CallError::internal("the commit panicked").into()))??;
        Ok(id)
    }
}

/// Returns the number of bytes of the files that would be written.
fn bytes(changes: &ChangeSet) -> u64 {
    let sizes = changes.changes.iter().filter_map(|change| change.sizes.1);
    sizes.fold(0, u64::saturating_add)
}

/// Restarts the call, because what it read has changed.
async fn again(run: &mut Run<'_>, conflicts: Vec<String>) -> Result<Released, Refusal> {
    run.life.step(Step::Picked).await?;
    let input = run.input.clone();
    Ok(Released::Again(Again { input, conflicts }))
}

async fn make_real(
    journal: Arc<Journal>,
    staged: Box<dyn Staged>,
    row: CommitRow,
    _turn: OwnedMutexGuard<()>,
) -> Result<(), CommitError> {
    let id = row.id.clone();
    if let Some(store) = &journal.store {
        let begun = store.begin_commit(row).await;
        begun.map_err(|error| CommitError::Failed(unwritable(error).into()))?;
    }
    crate::crash::at("commit_begun");
    let result = staged.commit(id.clone()).await;
    crate::crash::at("commit_made");
    let state = match &result {
        Ok(()) => CommitState::Done,
        Err(_) => CommitState::Reverted,
    };
    if let Some(store) = &journal.store {
        let at = journal.clock.now().0;
        // The files are changed or reverted even if the result cannot be recorded. Recovery checks the files of a row
        // without a result.
        let _ = store.end_commit(&id, state, at).await;
    }
    crate::crash::at("commit_ended");
    result
}
