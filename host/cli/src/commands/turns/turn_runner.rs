//! Runs the turns of a session: checks a turn, runs its calls, and notifies the hooks of the messages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use toolhost::turn::{self, ProfileView, ProfiledResult};
use toolhost_contract::{CallId, SessionKey, Sink};
use toolhost_formats::model::{Format, ModelCall};
use toolhost_formats::profile::{Profile, ProfiledRegistry, TaskFailures, ToolFailure};
use toolhost_kernel::schedule::Strategy;
use toolhost_kernel::{Kernel, Report};

use crate::commands::batch::{self, BatchEntry, batch_input};
use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::Caller;
use crate::terminal::note;

/// Maximum number of tasks whose failures are kept.
const MAX_TASKS: usize = 64;

/// A turn of the model.
pub(super) enum TurnRequest {
    Calls(Vec<BatchEntry>),
    /// In the format of a model API.
    ModelTurn(Format, Value),
}

/// What the turns of a session share.
pub(super) struct TurnRunner {
    pub kernel: Arc<Kernel>,
    pub view: ProfileView,
    pub sink: Arc<dyn Sink>,
    /// Whether a hook is notified of the messages of the session.
    pub notifies_hooks: bool,
    pub failures: Mutex<FailuresByTask>,
    /// The ids of the calls of the running turn: the program's and the host's, in call order.
    pub ids: Mutex<Vec<(String, CallId)>>,
}

impl TurnRunner {
    /// Runs a turn and returns its results. `answer` gets the line for the program. The hooks are notified of the turn
    /// before it runs, and of the results after the program got them.
    pub(super) async fn run(
        &self,
        request: &TurnRequest,
        strategy: Strategy,
        caller: &Caller,
        answer: impl FnOnce(&Value),
    ) {
        let line = match self.results(request, strategy, caller).await {
            Ok(results) => json!({ "results": results }),
            Err(error) => {
                answer(&json!({"error": error.to_string()}));
                return;
            }
        };
        answer(&line);
        self.notify_hooks(caller, || line).await;
    }

    async fn results(
        &self,
        request: &TurnRequest,
        strategy: Strategy,
        caller: &Caller,
    ) -> Result<Value, CliError> {
        let invalid = |message| CliError::new(Exit::Usage, message);
        match request {
            TurnRequest::Calls(entries) => {
                batch_input::check(entries).map_err(invalid)?;
                let calls = entries.iter().map(BatchEntry::to_json);
                let message = || json!({"calls": calls.collect::<Vec<_>>()});
                self.notify_hooks(caller, message).await;
                let ids = entries.iter().map(|entry| entry.id().to_owned());
                let ids = ids.collect();
                let (calls, reports) = self.run_calls(entries, ids, strategy, caller).await?;
                let results = batch::results(&self.kernel, entries, &calls, &reports, self.view);
                Ok(Value::Array(results))
            }
            TurnRequest::ModelTurn(format, turn) => {
                let read = batch_input::turn_from_value(turn, *format).map_err(invalid)?;
                if read.calls.is_empty() && read.stop_reason.is_some() {
                    note(&read.note());
                }
                self.notify_hooks(caller, || json!({"turn": turn})).await;
                let wanted = read.calls;
                let entries = batch::entries_of_turn(&self.kernel, self.view, *format, &wanted);
                let run = wanted.iter().filter(|call| call.error.is_none());
                let ids = run.map(ModelCall::label).collect();
                let (calls, reports) = self.run_calls(&entries, ids, strategy, caller).await?;
                Ok(turn::format_answer(
                    &self.kernel,
                    self.view,
                    *format,
                    &wanted,
                    &calls,
                    &reports,
                ))
            }
        }
    }

    /// `ids`: the program's ids of the calls.
    async fn run_calls(
        &self,
        entries: &[BatchEntry],
        ids: Vec<String>,
        strategy: Strategy,
        caller: &Caller,
    ) -> Result<(Vec<(String, Value)>, Vec<Report>), CliError> {
        let (calls, request) =
            batch::turn_request(&self.kernel, entries, strategy, caller, self.view);
        let host_ids: Vec<CallId> = request.calls.iter().map(|call| call.id.clone()).collect();
        *self.lock_ids() = ids.into_iter().zip(host_ids.iter().cloned()).collect();
        let reports = self
            .kernel
            .schedule(request, Arc::clone(&self.sink))
            .await
            .or_exit(Exit::Internal);
        self.lock_ids().clear();
        let reports = reports?;
        self.kernel.mark_submitted(&caller.principal, host_ids);
        self.keep_failures(&caller.principal.task, &calls, &reports);
        Ok((calls, reports))
    }

    /// The host's id of a call that runs, for the program's id. An API can use one id for several calls.
    pub(super) fn running_call(&self, id: &str, session: &SessionKey) -> Option<CallId> {
        let running = self.kernel.running_calls(session);
        let ids = self.lock_ids();
        let of_program = ids.iter().filter(|(of_program, _)| of_program == id);
        let mut host_ids = of_program.map(|(_, host_id)| host_id);
        host_ids.find(|id| running.contains(id)).cloned()
    }

    fn lock_ids(&self) -> MutexGuard<'_, Vec<(String, CallId)>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A failure of a hook is a message to the operator, because the messages have already changed.
    async fn notify_hooks(&self, caller: &Caller, message: impl FnOnce() -> Value) {
        if self.notifies_hooks {
            let session = caller.principal.session.as_str();
            let messages = json!([message()]);
            for failure in self.kernel.messages_changed(session, &messages).await {
                note(&failure);
            }
        }
    }

    /// Only Pegasus evaluates failures.
    fn keep_failures(&self, task: &str, calls: &[(String, Value)], reports: &[Report]) {
        let (profile, unmapped) = self.view;
        if profile != Profile::Pegasus {
            return;
        }
        let registry = self.kernel.registry();
        let profiled = ProfiledRegistry::new(profile, unmapped, registry.descriptors());
        for ((tool, input), report) in calls.iter().zip(reports) {
            if matches!(&report.result, Ok(outcome) if !outcome.is_error()) {
                continue;
            }
            let result = ProfiledResult::new(&profiled, tool, input, report);
            if let Some(failure) = result.failure {
                self.lock_failures().append(task, failure);
            }
        }
    }

    /// The failures of a task, for its evaluation. Null if no call of the task failed.
    pub(super) fn reflection(&self, task: &str) -> Value {
        let failures = self.lock_failures();
        let found = failures.0.iter().find(|(name, _)| name == task);
        let reflection = found.and_then(|(_, failures)| failures.reflection());
        reflection.unwrap_or_default()
    }

    fn lock_failures(&self) -> MutexGuard<'_, FailuresByTask> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The failures of the tasks in which a call failed most recently, the newest last.
#[derive(Default)]
pub(super) struct FailuresByTask(Vec<(String, TaskFailures)>);

impl FailuresByTask {
    fn append(&mut self, task: &str, failure: ToolFailure) {
        let found = self.0.iter().position(|(name, _)| name == task);
        let (name, mut failures) = match found {
            Some(index) => self.0.remove(index),
            None => (task.to_owned(), TaskFailures::default()),
        };
        failures.append(failure);
        if self.0.len() == MAX_TASKS {
            self.0.remove(0);
        }
        self.0.push((name, failures));
    }
}

#[cfg(test)]
mod tests {
    use toolhost_formats::events::pegasus::ReflectorAction;

    use super::*;

    #[test]
    fn the_failures_of_the_newest_tasks_are_kept() {
        let failure = || ToolFailure {
            tool: "shell_exec".to_owned(),
            error: "no".to_owned(),
            suggestion: None,
            verdict: ReflectorAction::Replan,
        };
        let mut failures = FailuresByTask::default();
        for task in 0..=MAX_TASKS {
            failures.append("0", failure());
            failures.append(&task.to_string(), failure());
        }
        let tasks: Vec<&str> = failures.0.iter().map(|(task, _)| task.as_str()).collect();
        assert_eq!(tasks.len(), MAX_TASKS);
        // The oldest without a new failure was dropped.
        assert!(tasks.contains(&"0") && !tasks.contains(&"1"), "{tasks:?}");
    }
}
