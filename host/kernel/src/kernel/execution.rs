//! Execution of one call: find the tool, authorize, admit, run, commit, run the post hooks.

use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use serde_json::Value;
use toolhost_contract::lifecycle::{CallState, Transition};
use toolhost_contract::policy::AuthorizedCommand;
use toolhost_contract::{CallError, Failure, Grant, Outcome, StagedResult, ToolHook};

use super::authorization::Authorization;
use super::running_call::{Attempt, RunningCall, invoke, is_failure};
use super::services::CallServices;
use super::staged_commit::{CommitOutcome, Rerun};
use super::{Kernel, Refusal};
use crate::ToolEntry;
use crate::hooks::RevisedOutcome;
use crate::schedule::Permit;

/// The end of one run of a call.
#[expect(
    clippy::large_enum_variant,
    reason = "matched at once; a box would cost every call an allocation"
)]
enum RunEnd<'a> {
    /// A call that is not staged keeps its permit while post hooks look at its result.
    Finished(Result<Outcome, Refusal>, Option<Permit<'a>>),
    /// The input or the files that it read changed.
    Rerun(Rerun),
}

/// A call that is authorized and has its place in the schedule.
struct AdmittedCall<'a> {
    grant: Grant,
    /// `None` if a call that waits for this one holds it.
    permit: Option<Permit<'a>>,
}

/// What the tool did, and the services that it used.
struct ToolRun<'a> {
    staged: bool,
    result: Result<StagedResult, Refusal>,
    services: Arc<CallServices>,
    permit: Option<Permit<'a>>,
}

impl Kernel {
    /// Runs a call until its result is final. Each run is authorized anew.
    pub(super) async fn execute(&self, run: &mut RunningCall<'_>) -> Result<Outcome, Refusal> {
        let entry = self.resolve_tool(run).await?;
        self.narrow_paths(&entry, run).await?;
        let mut input = std::mem::take(&mut run.input);
        let mut reruns = 0;
        let (result, _permit) = loop {
            run.attempt = Attempt::default();
            let cancel = run.cancel.clone();
            let authorization = {
                let authorize = pin!(self.authorize(&entry, input, run));
                cancel.unless_cancelled(authorize).await?
            };
            let grant = match authorization {
                Authorization::Granted(grant) => grant,
                Authorization::Supplied { by, outcome } => {
                    return accept_supplied(&entry, by, outcome, run);
                }
            };
            run.journal.step(scheduled(&entry, &grant)).await?;
            let hooks = &entry.tool.hooks;
            if !hooks.contains(ToolHook::PostToolUse) && !hooks.contains(ToolHook::RenderResult) {
                // Before the call waits for its turn.
                run.attempt.backend_state.clear();
            }
            let permit = cancel
                .unless_cancelled(self.take_permit(&entry, run))
                .await?;
            let admitted = AdmittedCall { grant, permit };
            let ran = self.run_tool(&entry, admitted, run).await?;
            if let Some(again) = self.wait_for_turn(run).await? {
                input = again;
                continue;
            }
            let end = if ran.staged {
                self.finish_staged(&entry, ran, run).await
            } else {
                finish_direct(ran, run)
            };
            match end {
                RunEnd::Finished(result, permit) => break (result, permit),
                RunEnd::Rerun(again) => {
                    reruns += 1;
                    again.check_limit(reruns)?;
                    input = again.input;
                }
            }
        };
        let result = if run.hooks.run_after(&entry) {
            Box::pin(self.run_post_hooks(&entry, result, run)).await
        } else {
            result
        };
        entry
            .counters
            .record(run.report.duration, is_failure(&result));
        if let Ok(outcome) = &result {
            self.render_result(&entry, run, outcome).await?;
        }
        Self::record_outcome(&entry, run, result)
    }

    /// Registers the call, finds its tool, and refuses a call that has failed repeatedly.
    async fn resolve_tool(&self, run: &mut RunningCall<'_>) -> Result<Arc<ToolEntry>, Refusal> {
        run.journal.register().await?;
        run.cancel.check()?;
        run.journal.step(Transition::ValidationStarted).await?;
        let entry = self.find_tool(run)?;
        self.record_tool(&entry, run).await?;
        Self::check_repetition(&entry, run)?;
        if let Some(prepared) = entry.backend.prepare() {
            let prepared = async { prepared.await.map_err(Refusal::from) };
            run.cancel.unless_cancelled(prepared).await?;
        }
        Ok(entry)
    }

    /// Evaluates and commits the changes of a staged run.
    async fn finish_staged<'a>(
        &'a self,
        entry: &Arc<ToolEntry>,
        ran: ToolRun<'a>,
        run: &mut RunningCall<'_>,
    ) -> RunEnd<'a> {
        let ToolRun {
            result,
            services,
            permit,
            ..
        } = ran;
        run.attempt.new_variables = services.steering_variables();
        match Box::pin(self.commit_staged(entry, result, permit, run)).await {
            Ok(CommitOutcome::Committed(outcome)) => {
                if !outcome.is_error() {
                    services.commit_notes(&run.attempt.new_variables, run.order.as_ref());
                }
                RunEnd::Finished(Ok(*outcome), None)
            }
            Ok(CommitOutcome::Rerun(rerun)) => RunEnd::Rerun(rerun),
            Err(error) => RunEnd::Finished(Err(error), None),
        }
    }

    /// Invokes the tool of an authorized and admitted call.
    async fn run_tool<'a>(
        &'a self,
        entry: &Arc<ToolEntry>,
        admitted: AdmittedCall<'a>,
        run: &mut RunningCall<'_>,
    ) -> Result<ToolRun<'a>, Refusal> {
        let AdmittedCall { grant, permit } = admitted;
        let staged = grant.is_staged();
        run.results.check()?;
        run.journal.step(Transition::Started).await?;
        if !staged {
            run.journal.record_intent().await?;
        }
        run.cancel.check()?;
        if staged && !run.attempt.may_stream {
            run.sink.hold();
        }
        if run.order.is_some() || run.hooks.want_reads(&entry.tool) {
            run.sink.record_reads();
        }
        if let Some(slot) = &run.order {
            slot.start();
        }
        run.journal.start_clock();
        let services = Arc::new(CallServices::new(self, entry, run, staged));
        run.sink.set_services(Arc::<CallServices>::clone(&services));
        if entry.tool.can_background {
            run.sink.allow_detaching();
        }
        let result = invoke(entry, grant, &services, run).await;
        Ok(ToolRun {
            staged,
            result,
            services,
            // An ordered call gives its permit up: a call earlier in the order may need it to run again.
            permit: permit.filter(|_| run.order.is_none()),
        })
    }

    /// Waits for the calls before this one. Returns the input to run again with if one of them changed what it read.
    async fn wait_for_turn(&self, run: &mut RunningCall<'_>) -> Result<Option<Value>, Refusal> {
        let Some(slot) = run.order.clone() else {
            return Ok(None);
        };
        let turn = slot.wait_turn().map(Ok);
        run.cancel.clone().unless_cancelled_after_run(turn).await?;
        let reads = run.sink.read_set();
        if !slot.is_stale(reads.as_deref()) {
            return Ok(None);
        }
        run.journal.step(Transition::ValidationStarted).await?;
        Ok(Some(run.input_of_rerun()))
    }

    async fn run_post_hooks(
        &self,
        entry: &Arc<ToolEntry>,
        result: Result<Outcome, Refusal>,
        run: &mut RunningCall<'_>,
    ) -> Result<Outcome, Refusal> {
        // No hook has seen what the tool returned before it stopped.
        if run.cancel.is_cancelled() {
            return Err(run.cancel.error(true).into());
        }
        // The refusal of the changes is not output of the tool.
        let state = run.journal.record().state;
        if matches!(state, CallState::AwaitingApproval | CallState::Approved) {
            return result;
        }
        // An error message is tool output too: a hook that hides secrets has to see it.
        let (outcome, error) = match result {
            Ok(outcome) => (outcome, None),
            Err(error) => (failure_outcome(&error), Some(error)),
        };
        run.journal.step(Transition::PostProcessing).await?;
        let call = self.hook_call(entry, run);
        let before = error.is_some().then(|| outcome.clone());
        let hooks = Arc::clone(&run.hooks);
        let revision = pin!(hooks.after(&call, outcome).map(Ok));
        let RevisedOutcome {
            outcome,
            by,
            failures,
        } = run.cancel.unless_cancelled_after_run(revision).await?;
        for failure in &failures {
            run.warn(failure);
        }
        if !by.is_empty() {
            let by: Vec<String> = by.iter().map(|name| format!("hook:{name}")).collect();
            let by = by.join(", ");
            run.journal.step(Transition::OutcomeChanged { by }).await?;
        }
        match error {
            None => {
                entry.schema.check_output(&entry.tool, &outcome)?;
                Ok(outcome)
            }
            Some(error) if before.as_ref() == Some(&outcome) => Err(error),
            Some(error) => Err(CallError::new(error.class, outcome.model_text())
                .code(error.code.as_str())
                .into()),
        }
    }
}

/// Accepts the result of a run whose effects were immediate. The notes of a failed call are discarded.
fn finish_direct<'a>(ran: ToolRun<'a>, run: &RunningCall<'_>) -> RunEnd<'a> {
    let ToolRun {
        result,
        services,
        permit,
        ..
    } = ran;
    if result.as_ref().is_ok_and(|ran| !ran.outcome.is_error()) {
        services.commit_notes(&[], run.order.as_ref());
    }
    RunEnd::Finished(result.map(|ran| ran.outcome), permit)
}

/// Accepts the outcome that a hook supplied instead of the tool. Structured data is checked against the tool's schema.
fn accept_supplied(
    entry: &ToolEntry,
    by: String,
    outcome: Box<Outcome>,
    run: &mut RunningCall<'_>,
) -> Result<Outcome, Refusal> {
    if outcome.structured.is_some() {
        entry.schema.check_output(&entry.tool, &outcome)?;
    }
    run.report.supplied_by = Some(by);
    Ok(*outcome)
}

/// The transition that records who authorized the call and, unless it is staged, the command that it may run.
fn scheduled(entry: &ToolEntry, grant: &Grant) -> Transition {
    let command = grant
        .command()
        .filter(|_| entry.backend.runs_commands() && !grant.is_staged())
        .map(AuthorizedCommand::to_record);
    Transition::Scheduled {
        by: grant.authorizer().to_owned(),
        wave: None,
        command,
    }
}

/// Converts an error to the outcome that hooks see.
fn failure_outcome(error: &CallError) -> Outcome {
    Outcome {
        error: Some(Failure {
            recommendations: error.recommendations.clone(),
            retryable: error.retryable,
            cause: error.cause.clone(),
            details: error.details.clone(),
            ..Failure::new(&error.code, &error.message)
        }),
        ..Outcome::text(error.for_model())
    }
}
