//! A running call: its state, the invocation of the backend, and its report.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};
use toolhost_contract::lifecycle::{CallInput, CallUsage};
use toolhost_contract::policy::{HookDecisions, RunningJob};
use toolhost_contract::variables::Variables;
use toolhost_contract::{
    BackendState, Call, CallError, CallEvent, CallId, Denial, DenialCode, Display, ErrorClass,
    Grant, LogLevel, Outcome, Preview, Principal, Sink, StagedResult, ToolName, UserEdit,
};

use super::batch_order::OrderSlot;
use super::cancel_handle::CancelHandle;
use super::services::{CallServices, ServiceCounts};
use super::sessions::Session;
use super::turn::ResultBudget;
use super::{CallContext, Kernel, Refusal, Report};
use crate::ToolEntry;
use crate::hooks::{self, AskHint, Hooks};
use crate::journal::CallJournal;
use crate::sink::CallSink;

/// Backends enforce the deadlines of their calls. The kernel stops waiting this long after the deadline, so that a
/// backend that fails to do so does not hold its permit forever.
const BACKEND_GRACE: Duration = Duration::from_secs(5);
/// Time that a cancelled call has to stop cooperatively.
const CANCEL_GRACE: Duration = Duration::from_millis(100);
/// A call that runs longer than this is recorded in the store while it runs.
const RECORD_AFTER: Duration = Duration::from_millis(20);

/// A running call: its identity, its context, and what is known about it so far. It can be cancelled by its id while
/// `running_guard` is held.
pub(super) struct RunningCall<'a> {
    pub(super) running_guard: Option<RunningGuard<'a>>,
    pub(super) id: CallId,
    pub(super) session: Arc<Session>,
    pub(super) caller: Arc<Principal>,
    pub(super) context: CallContext,
    pub(super) journal: CallJournal,
    pub(super) sink: Arc<CallSink>,
    pub(super) cancel: CancelHandle,
    /// The input as the caller sent it.
    pub(super) original_input: CallInput,
    /// The input for the tool, as far as it is known.
    pub(super) input: Value,
    /// The input before hooks changed it, if they did. Hooks see it again when the call runs again.
    pub(super) input_before_hooks: Option<Value>,
    /// Size of the results of its batch so far.
    pub(super) results: ResultBudget,
    /// Its position among calls that run concurrently and end in order.
    pub(super) order: Option<OrderSlot>,
    pub(super) service_counts: Arc<ServiceCounts>,
    pub(super) hooks: Arc<Hooks>,
    pub(super) attempt: Attempt,
    pub(super) report: ReportDraft,
}

/// A call that has begun, or the report of one that was refused without a record.
pub(super) type BegunCall<'a> = Result<Box<RunningCall<'a>>, Box<Report>>;

/// What is known about the current run of a call. A call that runs again starts with an empty one.
#[derive(Default)]
pub(super) struct Attempt {
    pub(super) backend_state: BackendState,
    /// The tool's preview of the call with its current input.
    pub(super) preview: Option<Box<Preview>>,
    /// The input of the previous round and the hook that changed it.
    pub(super) rewritten: Option<(String, Value)>,
    /// The demand for approval of a hook that also changed the input.
    pub(super) hook_ask: Option<AskHint>,
    /// The decision of the hooks, kept until the changes of the call are evaluated.
    pub(super) hook_decision: HookDecisions,
    /// Variables of the session when the call was evaluated.
    pub(super) variables: Variables,
    /// The running program that the call names, as found when the call was evaluated.
    pub(super) job: Option<RunningJob>,
    /// Events of the call may be forwarded before its changes are evaluated.
    pub(super) may_stream: bool,
    /// Variables that the call sets for the programs of its session and that need approval.
    pub(super) new_variables: Vec<(String, String)>,
    /// The call has run and its changes are known.
    pub(super) changes_known: bool,
    /// The contents that the user saved in place of the proposed ones.
    pub(super) edits: Vec<UserEdit>,
}

impl Drop for Attempt {
    /// Hooks and prompters can keep copies of the call, which share this state.
    fn drop(&mut self) {
        self.backend_state.clear();
    }
}

/// The parts of the report that are known before the call ends.
#[derive(Default)]
pub(super) struct ReportDraft {
    pub(super) tool: Option<ToolName>,
    pub(super) repairs: Vec<String>,
    /// The hook that supplied the result instead of the tool.
    pub(super) supplied_by: Option<String>,
    /// The outcome that the model gets instead of the standard refusal.
    pub(super) replacement: Option<Box<Outcome>>,
    /// How the tool renders the result for users.
    pub(super) rendering: Vec<Display>,
    pub(super) duration: Duration,
    /// The user wants the turn to stop.
    pub(super) stop_turn: bool,
    pub(super) commits: Vec<String>,
}

impl Report {
    /// Returns the approximate size of the result in bytes.
    pub(super) fn approximate_size(&self) -> usize {
        let rendering = self.rendering.iter().map(hooks::display_size);
        hooks::result_size(&self.result) + rendering.sum::<usize>()
    }

    /// Creates a report for a call without a record.
    pub(super) fn refused(id: CallId, error: CallError) -> Self {
        Self {
            id,
            tool: None,
            result: Err(error),
            allowed_by: None,
            rendering: Vec::new(),
            duration: Duration::ZERO,
            started_at: None,
            completed_at: None,
            repairs: Vec::new(),
            stopped: false,
            commits: Vec::new(),
        }
    }
}

impl RunningCall<'_> {
    /// The input for another run. Hooks change it again, and their demands for approval apply again.
    pub(super) fn input_of_rerun(&mut self) -> Value {
        let before = self.input_before_hooks.take();
        before.unwrap_or_else(|| self.input.clone())
    }

    /// Ends the call and its record. [`Self::into_report`] is separate, so that this future does not contain the call.
    pub(super) async fn end(&mut self, result: &mut Result<Outcome, CallError>) {
        self.sink.close();
        match result {
            Ok(outcome) => outcome.remove_hidden_text(),
            Err(error) => error.remove_hidden_text(),
        }
        if let Some(outcome) = &mut self.report.replacement {
            outcome.remove_hidden_text();
        }
        let supplied_by = self.report.supplied_by.take();
        self.journal.record_usage(CallUsage {
            memory: self.sink.memory(),
            output: (result.as_ref().ok()).map(|outcome| hooks::outcome_size(outcome) as u64),
        });
        self.journal
            .end(result, supplied_by, self.report.duration)
            .await;
    }

    /// Ends a call that never started.
    pub(super) fn finish_unstarted(mut self, error: CallError) -> Report {
        self.sink.close();
        self.journal.end_unstarted(&error);
        self.into_report(Err(error))
    }

    pub(super) fn into_report(mut self, result: Result<Outcome, CallError>) -> Report {
        // The record shows the denial; the model gets the outcome that the hook supplied.
        let result = match self.report.replacement.take() {
            Some(outcome) => Ok(*outcome),
            None => result,
        };
        let record = self.journal.record();
        Report {
            allowed_by: record.allowed_by.clone(),
            started_at: record.started_at,
            completed_at: record.completed_at,
            id: self.id,
            tool: self.report.tool,
            result,
            duration: self.report.duration,
            rendering: self.report.rendering,
            repairs: self.report.repairs,
            stopped: self.cancel.is_cancelled() || self.report.stop_turn,
            commits: self.report.commits,
        }
    }

    pub(super) fn backend_call(&self, entry: &ToolEntry) -> Call {
        Call {
            id: self.id.clone(),
            tool: entry.tool.name.clone(),
            input: self.input.clone(),
            caller: (*self.caller).clone(),
            state: self.attempt.backend_state.clone(),
        }
    }

    /// Records who refused the call and returns the error.
    pub(super) fn deny(&mut self, denial: Denial) -> CallError {
        self.journal.denied_by.clone_from(&denial.rule);
        self.journal.denial_note.clone_from(&denial.note);
        denied(denial)
    }

    pub(super) fn warn(&self, message: &str) {
        self.sink.event(CallEvent::Log {
            level: LogLevel::Warn,
            message: message.to_owned(),
        });
    }
}

/// Keeps the call cancellable by its id until dropped.
pub(super) struct RunningGuard<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) id: CallId,
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        let running = &self.kernel.running;
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.id);
    }
}

/// Invokes the backend. If the call fails and rules hid files from it, the error names the rules.
pub(super) async fn invoke(
    entry: &ToolEntry,
    grant: Grant,
    services: &CallServices,
    run: &mut RunningCall<'_>,
) -> Result<StagedResult, Refusal> {
    let guard = grant.guard().cloned();
    let mut result = invoke_with(entry, grant, services, run).await;
    let hits = guard.map(|guard| guard.hits()).unwrap_or_default();
    if hits.is_empty() {
        return result;
    }
    let why = format!(
        "some files are hidden from the tool by rule {}",
        hits.join(", ")
    );
    match &mut result {
        Ok(ran) => {
            if let Some(failure) = &mut ran.outcome.error {
                failure.recommendations.push(why);
            }
        }
        Err(error) => error.recommendations.push(why),
    }
    result
}

async fn invoke_with(
    entry: &ToolEntry,
    grant: Grant,
    services: &CallServices,
    run: &mut RunningCall<'_>,
) -> Result<StagedResult, Refusal> {
    // The clock starts here, so that time spent waiting for the user or other calls does not count.
    let limit = grant.timeout();
    let call = run.backend_call(entry);
    let sink: Arc<dyn Sink> = Arc::<CallSink>::clone(&run.sink);
    let running = AssertUnwindSafe(async { entry.backend.stage(call, grant, sink).await });
    let mut running = std::pin::pin!(running.catch_unwind());
    let begun = Instant::now();
    let mut late = std::pin::pin!(sleep_until(begun + limit + BACKEND_GRACE));
    let cancellation = run.cancel.clone();
    let given_up = async {
        cancellation.token().cancelled().await;
        // The guest is notified and can stop cooperatively. After this time its future is dropped.
        sleep(CANCEL_GRACE).await;
    };
    let mut given_up = std::pin::pin!(given_up);
    let mut noted = false;
    let result = loop {
        tokio::select! {
            biased;
            result = &mut running => break Some(result),
            () = &mut late => {
                // Time spent waiting for the user and other calls does not count.
                let end = begun + limit + BACKEND_GRACE + services.waited();
                if end <= Instant::now() {
                    break None;
                }
                late.as_mut().reset(end);
            }
            () = &mut given_up => {
                run.report.duration = run.journal.elapsed();
                return Err(cancellation.error(true).into());
            }
            () = sleep(RECORD_AFTER), if !noted => {
                noted = true;
                run.journal.record_progress();
            }
        }
    };
    run.report.duration = run.journal.elapsed().saturating_sub(services.waited());
    let result = result.ok_or_else(|| CallError::timed_out(limit))?;
    let result = result.map_err(|panic| panicked(entry, panic.as_ref()))?;
    let ran = match result {
        // A cancelled call, or one whose caller is cancelled, is reported as cancelled, whatever error the tool returns.
        Err(error) if run.sink.is_cancelled() => {
            return Err(cancellation.error(true).cause(error.message).into());
        }
        // The call was not cancelled, so an error of the tool that claims it was is a failure.
        Err(mut error) if error.class == ErrorClass::Cancelled => {
            error.class = ErrorClass::Failed;
            if error.code == ErrorClass::Cancelled.as_str() {
                "interrupted".clone_into(&mut error.code);
            }
            return Err(error.into());
        }
        result => result?,
    };
    entry.schema.check_output(&entry.tool, &ran.outcome)?;
    Ok(ran)
}

pub(super) fn is_failure(result: &Result<Outcome, Refusal>) -> bool {
    result.as_ref().map_or(true, Outcome::is_error)
}

fn panicked(entry: &ToolEntry, panic: &(dyn Any + Send)) -> CallError {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    CallError::internal(format_args!("the backend of `{}` panicked", entry.name)).cause(message)
}

pub(super) fn denied(denial: Denial) -> CallError {
    let class = if denial.code == DenialCode::Cancelled {
        ErrorClass::Cancelled
    } else {
        ErrorClass::Denied
    };
    let error = CallError::new(class, format!("Permission denied: {}", denial.reason))
        .code(denial.code.as_str());
    denial.remedy.into_iter().fold(error, CallError::recommend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_call_do_not_keep_the_state_of_its_backend() {
        let attempt = Attempt::default();
        let copy = attempt.backend_state.clone();
        copy.keep(1_u32);
        drop(attempt);
        assert_eq!(copy.take::<u32>(), None);
    }
}
