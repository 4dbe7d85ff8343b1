//! A running call: its state, the invocation of the backend, and its report.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};
use toolhost_contract::life::Input;
use toolhost_contract::policy::{HookSaid, RunningJob};
use toolhost_contract::variables::Variables;
use toolhost_contract::{
    Call, CallError, CallId, Denial, DenialCode, Edit, ErrorClass, Event, Grant, Level, Outcome,
    Principal, Ran, Sink, ToolName,
};

use super::halt::Halt;
use super::order::Slot;
use super::services::CallServices;
use super::sessions::Session;
use super::turn::Results;
use super::{Kernel, Refusal, Report, Within};
use crate::Entry;
use crate::journal::Life;
use crate::sink::CallSink;

/// Backends enforce the deadlines of their calls. The kernel stops waiting this long after the deadline, so that a
/// backend that fails to do so does not hold its permit forever.
const GRACE: Duration = Duration::from_secs(5);
/// Time that a cancelled call has to stop cooperatively.
const STOPPING: Duration = Duration::from_millis(100);
/// A call that runs longer than this is recorded in the store while it runs.
const NOTED: Duration = Duration::from_millis(20);

/// A running call. It can be cancelled by its id while `place` is held.
pub(super) struct Run<'a> {
    pub(super) place: Option<Place<'a>>,
    pub(super) id: CallId,
    pub(super) session: Arc<Session>,
    pub(super) caller: Arc<Principal>,
    /// The input for the tool, as far as it is known.
    pub(super) input: Value,
    pub(super) within: Within,
    pub(super) life: Life,
    pub(super) sink: Arc<CallSink>,
    pub(super) halt: Halt,
    pub(super) repairs: Vec<String>,
    pub(super) tool: Option<ToolName>,
    /// The hook that supplied the result instead of the tool.
    pub(super) supplied_by: Option<String>,
    /// The input as the caller sent it.
    pub(super) wish: Input,
    /// The outcome that the model gets instead of the standard refusal.
    pub(super) instead: Option<Box<Outcome>>,
    pub(super) duration: Duration,
    /// The user wants the turn to stop.
    pub(super) given_up: bool,
    /// Size of the results of its batch so far.
    pub(super) results: Results,
    /// The input of the previous round and the hook that changed it.
    pub(super) rewritten: Option<(String, Value)>,
    /// The decision of the hooks, kept until the changes of the call are evaluated.
    pub(super) said: HookSaid,
    /// Variables of the session when the call was evaluated.
    pub(super) variables: Variables,
    /// The running program that the call names, as found when the call was evaluated.
    pub(super) job: Option<RunningJob>,
    /// Variables that the call sets for the programs of its session and that need approval.
    pub(super) sets: Vec<(String, String)>,
    /// The call has run and its changes are known.
    pub(super) known: bool,
    /// The contents that the user saved in place of the proposed ones.
    pub(super) edits: Vec<Edit>,
    pub(super) commits: Vec<String>,
    /// Events of the call may be forwarded before its changes are evaluated.
    pub(super) may_speak: bool,
    /// Its position among calls that run concurrently and end in order.
    pub(super) order: Option<Slot>,
}

impl Report {
    /// Returns the approximate size of the result in bytes.
    pub(super) fn weight(&self) -> usize {
        match &self.result {
            Ok(outcome) => crate::hooks::weight(outcome),
            Err(error) => error.message.len(),
        }
    }

    /// Creates a report for a call without a record.
    pub(super) fn refused(id: CallId, error: CallError) -> Self {
        Self {
            id,
            tool: None,
            result: Err(error),
            allowed_by: None,
            duration: Duration::ZERO,
            repairs: Vec::new(),
            stopped: false,
            commits: Vec::new(),
        }
    }
}

impl Run<'_> {
    /// Ends the call and its record, and returns the report.
    pub(super) async fn finish(mut self, mut result: Result<Outcome, CallError>) -> Report {
        self.sink.close();
        match &mut result {
            Ok(outcome) => outcome.remove_hidden_text(),
            Err(error) => error.remove_hidden_text(),
        }
        if let Some(outcome) = &mut self.instead {
            outcome.remove_hidden_text();
        }
        let supplied_by = self.supplied_by.take();
        self.life.end(&result, supplied_by, self.duration).await;
        // The record shows the denial; the model gets the outcome that the hook supplied.
        let result = match self.instead.take() {
            Some(outcome) => Ok(*outcome),
            None => result,
        };
        self.report(result)
    }

    /// Ends a call that never started.
    pub(super) fn finish_unstarted(mut self, error: CallError) -> Report {
        self.sink.close();
        self.life.end_unstarted(&error);
        self.report(Err(error))
    }

    pub(super) fn report(self, result: Result<Outcome, CallError>) -> Report {
        Report {
            id: self.id,
            tool: self.tool,
            allowed_by: self.life.record().allowed_by.clone(),
            result,
            duration: self.duration,
            repairs: self.repairs,
            stopped: self.halt.is_set() || self.given_up,
            commits: self.commits,
        }
    }

    pub(super) fn call(&self, entry: &Entry) -> Call {
        Call {
            id: self.id.clone(),
            tool: entry.tool.name.clone(),
            input: self.input.clone(),
            caller: (*self.caller).clone(),
        }
    }

    /// Records who refused the call and returns the error.
    pub(super) fn refused(&mut self, denial: Denial) -> CallError {
        self.life.denied_by.clone_from(&denial.rule);
        self.life.denial_note.clone_from(&denial.note);
        denied(denial)
    }

    pub(super) fn warn(&self, message: &str) {
        self.sink.event(Event::Log {
            level: Level::Warn,
            message: message.to_owned(),
        });
    }
}

/// Keeps the call cancellable by its id until dropped.
pub(super) struct Place<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) id: CallId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let running = &self.kernel.running;
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.id);
    }
}

/// Invokes the backend. If the call fails and rules hid files from it, the error names the rules.
pub(super) async fn invoke(
    entry: &Entry,
    grant: Grant,
    services: &CallServices,
    run: &mut Run<'_>,
) -> Result<Ran, Refusal> {
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
    entry: &Entry,
    grant: Grant,
    services: &CallServices,
    run: &mut Run<'_>,
) -> Result<Ran, Refusal> {
    // The clock starts here, so that time spent waiting for the user or other calls does not count.
    let limit = grant.timeout();
    let call = run.call(entry);
    let sink: Arc<dyn Sink> = Arc::<CallSink>::clone(&run.sink);
    let running = AssertUnwindSafe(async { entry.backend.stage(call, grant, sink).await });
    let mut running = std::pin::pin!(running.catch_unwind());
    let begun = Instant::now();
    let mut late = std::pin::pin!(sleep_until(begun + limit + GRACE));
    let halt = run.halt.clone();
    let given_up = async {
        halt.token().cancelled().await;
        // The guest is notified and can stop cooperatively. After this time its future is dropped.
        sleep(STOPPING).await;
    };
    let mut given_up = std::pin::pin!(given_up);
    let mut noted = false;
    let result = loop {
        tokio::select! {
            biased;
            result = &mut running => break Some(result),
            () = &mut late => {
                // Time spent waiting for the user and other calls does not count.
                let end = begun + limit + GRACE + services.waited();
                if end <= Instant::now() {
                    break None;
                }
                late.as_mut().reset(end);
            }
            () = &mut given_up => {
                run.duration = run.life.elapsed();
                return Err(halt.error(true).into());
            }
            () = sleep(NOTED), if !noted => {
                noted = true;
                run.life.note();
            }
        }
    };
    run.duration = run.life.elapsed().saturating_sub(services.waited());
    let result = result.ok_or_else(|| CallError::timed_out(limit))?;
    let result = result.map_err(|panic| panicked(entry, panic.as_ref()))?;
    let ran = match result {
        // A cancelled call is reported as cancelled, whatever error the tool returns.
        Err(error) if halt.is_set() => return Err(halt.error(true).cause(error.message).into()),
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

fn panicked(entry: &Entry, panic: &(dyn Any + Send)) -> CallError {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    CallError::internal(format_args!("the backend of `{}` panicked", entry.name)).cause(words)
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
