//! The calls of one model turn: in which order they run, and one result for each, in call order.

use std::sync::{Arc, PoisonError};

use serde_json::Value;
use toolhost_contract::bus::Happening;
use toolhost_contract::policy::Subject;
use toolhost_contract::{CallError, CallId, Caller, Concurrency, Effect, ErrorClass, Sink};
use toolhost_store::{BatchRow, Write};

use super::{CallRequest, Kernel, Report, Run, Within};
use crate::Entry;
use crate::journal::Life;
use crate::schedule::{
    Batch, Canceller, End, Fate, Missing, Needs, Place, Planned, Pool, QueueError, Shape, Strategy,
};

/// What a model wants done in one turn.
pub struct BatchRequest {
    pub id: String,
    pub caller: Caller,
    pub calls: Vec<BatchCall>,
    pub strategy: Strategy,
    pub within: Within,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BatchCall {
    pub id: CallId,
    pub tool: String,
    pub input: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error("two calls of the batch have the id `{0}`; ids must differ")]
    SameId(String),
}

/// The optional member that the scheduler takes out of every input: wait until the calls before this one have ended.
pub const WAIT: &str = "wait_for_previous";

impl Kernel {
    /// Runs the calls when the batches before it have ended. One report per call, in call order, whatever happens.
    pub async fn schedule(
        &self,
        request: BatchRequest,
        sink: Arc<dyn Sink>,
    ) -> Result<Vec<Report>, BatchError> {
        let session = self.session(&request.caller.session_id);
        let calls = request.calls.len();
        let batch = self.batch(request, sink)?;
        Ok(session.queue.schedule(calls, batch).await?)
    }

    /// Like [`Kernel::schedule`], but an error when the session is busy.
    pub async fn try_schedule(
        &self,
        request: BatchRequest,
        sink: Arc<dyn Sink>,
    ) -> Result<Vec<Report>, BatchError> {
        let session = self.session(&request.caller.session_id);
        let calls = request.calls.len();
        let batch = self.batch(request, sink)?;
        Ok(session.queue.try_schedule(calls, batch).await?)
    }

    pub fn is_running(&self, session: &str) -> bool {
        self.session(session).queue.is_running()
    }

    /// The results of these calls were handed to the model.
    pub fn mark_submitted(&self, caller: &Caller, calls: Vec<CallId>) {
        self.journal
            .announce(caller, Happening::BatchSubmitted { calls });
    }

    fn batch(
        &self,
        request: BatchRequest,
        sink: Arc<dyn Sink>,
    ) -> Result<impl Future<Output = Vec<Report>> + Send + '_, BatchError> {
        let mut ids = std::collections::HashSet::new();
        if let Some(call) = request.calls.iter().find(|call| !ids.insert(&call.id)) {
            let shown = toolhost_contract::text::inline(&call.id.0, 80);
            return Err(BatchError::SameId(shown));
        }
        Ok(async move { self.run_batch(request, sink).await })
    }

    async fn run_batch(&self, request: BatchRequest, sink: Arc<dyn Sink>) -> Vec<Report> {
        let BatchRequest {
            id,
            caller,
            calls,
            strategy,
            within,
        } = request;
        let ids: Vec<CallId> = calls.iter().map(|call| call.id.clone()).collect();
        let wishes: Vec<CallRequest> = calls
            .iter()
            .map(|call| CallRequest {
                within: Within {
                    batch: Some(id.clone()),
                    ..within.clone()
                },
                ..CallRequest::new(
                    call.id.clone(),
                    &call.tool,
                    call.input.clone(),
                    caller.clone(),
                )
            })
            .collect();
        let mut row = BatchRow {
            id: id.clone(),
            session: caller.session_id.clone(),
            created_ms: self.journal.clock.now().0,
            finished_ms: None,
            submitted_ms: None,
            calls: u32::try_from(calls.len()).unwrap_or(u32::MAX),
            strategy: strategy.to_string(),
        };
        self.journal.queue(|| Write::Batch(row.clone()));
        let planned = wishes
            .iter()
            .map(|wish| self.planned(wish.clone(), &sink))
            .collect();
        let batch = Batch::new(strategy, planned);
        let _place = self.announce_batch(&id, batch.canceller());
        let reports = batch
            .run(|index, why| self.without_run(&wishes[index], why, missing(&ids, why)))
            .await;
        row.finished_ms = Some(self.journal.clock.now().0);
        self.journal.queue(|| Write::Batch(row));
        let happening = Happening::BatchCompleted {
            batch: id,
            calls: ids,
        };
        self.journal.announce(&caller, happening);
        reports
    }

    /// The one end of a call that never started. One that was dropped while it ran has had its end.
    fn without_run(&self, wish: &CallRequest, why: Missing, error: CallError) -> Report {
        let CallRequest {
            id,
            tool,
            input,
            caller,
            within,
        } = wish;
        if let Missing::NotRun { .. } = why {
            let input = Arc::new(input.clone());
            let mut life = Life::begin(
                &self.journal,
                id.clone(),
                tool.clone(),
                input,
                caller.clone(),
                within,
            );
            life.end_unstarted(&error);
        }
        Report {
            stopped: true,
            ..Report::refused(id.clone(), error)
        }
    }

    fn planned<'a>(
        &'a self,
        mut request: CallRequest,
        sink: &Arc<dyn Sink>,
    ) -> Planned<'a, Report> {
        let registry = self.registry();
        let entry = registry.find(&request.tool);
        let declared = entry.is_some_and(|entry| declares_wait(entry));
        // Only ours when the tool does not have a member of that name itself.
        let wait = if declared {
            None
        } else {
            let members = request.input.as_object_mut();
            members.and_then(|members| members.remove(WAIT))
        };
        let shape = Shape {
            wait_for_previous: wait == Some(Value::Bool(true)),
            ..shape(entry.map(Arc::as_ref), &request.input)
        };
        let sink = Arc::clone(sink);
        Planned {
            shape,
            run: Box::new(move |stop| {
                Box::pin(async move {
                    let report = self.call_with(request, sink, stop.token().clone()).await;
                    End {
                        fate: fate(&report),
                        result: report,
                    }
                })
            }),
        }
    }

    fn announce_batch(&self, id: &str, canceller: Canceller) -> BatchPlace<'_> {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches.insert(id.to_owned(), canceller);
        BatchPlace {
            kernel: self,
            id: id.to_owned(),
        }
    }

    /// Cancels one call of a batch, and with it those that have not started. False when there is nothing to cancel.
    pub fn cancel_in_batch(&self, batch: &str, index: usize) -> bool {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches
            .get(batch)
            .is_some_and(|canceller| canceller.cancel(index))
    }
}

struct BatchPlace<'a> {
    kernel: &'a Kernel,
    id: String,
}

impl Drop for BatchPlace<'_> {
    fn drop(&mut self) {
        let batches = &self.kernel.batches;
        let mut batches = batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches.remove(&self.id);
    }
}

fn declares_wait(entry: &Entry) -> bool {
    entry
        .tool
        .input_schema
        .get("properties")
        .is_some_and(|members| members.get(WAIT).is_some())
}

fn shape(entry: Option<&Entry>, input: &Value) -> Shape {
    let Some(entry) = entry else {
        // It will fail without running, so nobody has to wait for it.
        return Shape {
            concurrency: Concurrency::Parallel,
            read_only: true,
            wait_for_previous: false,
            places: Vec::new(),
        };
    };
    Shape {
        concurrency: entry.tool.concurrency,
        read_only: entry.tool.effect() <= Effect::Reads,
        wait_for_previous: false,
        places: places(entry, input),
    }
}

fn places(entry: &Entry, input: &Value) -> Vec<Place> {
    Subject::of(&entry.tool, input)
        .paths
        .into_iter()
        .map(|path| {
            // Relative paths are below the first folder, which guests know by this name.
            let place = if path.path.starts_with('/') {
                path.path
            } else {
                format!("/workspace/{}", path.path)
            };
            if path.write {
                Place::write(&place)
            } else {
                Place::read(&place)
            }
        })
        .collect()
}

/// What a call needs to run.
pub(super) fn pool(entry: &Entry) -> Pool {
    let tool = &entry.tool;
    if tool.annotations.interactive == Some(true) {
        Pool::Interactive
    } else if matches!(tool.kind.as_str(), "agent") {
        Pool::Agents
    } else if tool.kind == "execute" {
        Pool::Processes
    } else if tool.annotations.open_world == Some(true) {
        Pool::Network
    } else {
        Pool::Plain
    }
}

impl Kernel {
    pub(super) async fn admit<'a>(
        &'a self,
        entry: &Entry,
        run: &Run,
    ) -> Result<crate::schedule::Permit<'a>, super::Refusal> {
        // Reading beside reading needs no places; whoever writes waits for those who read there.
        let places = places(entry, &run.input);
        let needs = Needs {
            pool: pool(entry),
            lane: (entry.tool.concurrency == Concurrency::Serial).then_some(&*entry.lane),
            places: &places,
            exclusive: entry.tool.concurrency == Concurrency::Exclusive,
        };
        Ok(self.pools.admit(needs).await)
    }
}

fn fate(report: &Report) -> Fate {
    match &report.result {
        // Only a person or the caller stops a turn. A tool that says it was interrupted has failed.
        _ if report.stopped => Fate::Cancelled,
        Ok(outcome) if outcome.is_error() => Fate::Failed,
        Ok(_) => Fate::Completed,
        Err(error) if error.class == ErrorClass::Denied => Fate::Denied,
        Err(_) => Fate::Failed,
    }
}

/// Why a call of a batch has no result of its own.
fn missing(ids: &[CallId], missing: Missing) -> CallError {
    let cause = |because: usize| ids.get(because).map_or("another call", |id| id.0.as_str());
    match missing {
        Missing::NotRun { because } => CallError::new(
            ErrorClass::Cancelled,
            format!(
                "the call was not run, because call {} of the same turn was cancelled",
                cause(because)
            ),
        )
        .code("sibling_cancelled"),
        Missing::Interrupted { because } => CallError::new(
            ErrorClass::Cancelled,
            format!(
                "the call was stopped while it ran, because call {} of the same turn was cancelled",
                cause(because)
            ),
        )
        .code("sibling_cancelled")
        .recommend("verify its side effects before calling again"),
        Missing::Panicked => CallError::internal("the call panicked"),
    }
}
