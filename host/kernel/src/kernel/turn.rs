//! A batch that waits or runs. Its calls have records while it waits, and each ends exactly once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use toolhost_contract::bus::EventKind;
use toolhost_contract::{CallError, CallId, ErrorClass, Principal, Sink};
use toolhost_store::{BatchRow, Write};

use super::batch::{BatchError, BatchGuard, BatchRequest};
use super::batch_order::{BatchOrder, EndGuard, OrderSlot};
use super::cancel_handle::CancelHandle;
use super::running_call::BegunCall;
use super::{CallContext, CallRequest, Kernel, Refusal, Report};
use crate::schedule::{
    Batch, CallStatus, Canceller, CompletedCall, MissingResult, PlannedCall, Strategy,
};

/// Limit for the results of one batch, in bytes: a turn can have thousands of calls with megabytes each.
pub(super) const MAX_RESULTS: usize = 64 << 20;

/// Bytes of the results of one batch so far. Clones share the count.
#[derive(Clone, Default)]
pub(super) struct ResultBudget(Arc<AtomicUsize>);

impl ResultBudget {
    fn add(&self, report: &Report) {
        self.0.fetch_add(report.approximate_size(), Relaxed);
    }

    /// Checked once a call has its permit, so that only running calls can exceed the limit.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if self.0.load(Relaxed) < MAX_RESULTS {
            return Ok(());
        }
        let message = format!(
            "the call was not run because the results of this batch already exceed {} MiB",
            MAX_RESULTS >> 20
        );
        let error = CallError::new(ErrorClass::OutputLimit, message).code("batch_output_limit");
        Err(error.recommend("call it again in another batch").into())
    }
}

pub(super) struct Turn<'a> {
    kernel: &'a Kernel,
    sink: Arc<dyn Sink>,
    id: String,
    caller: Arc<Principal>,
    ids: Arc<[CallId]>,
    results: ResultBudget,
    /// Present until the batch begins.
    request: Mutex<Option<BatchRequest>>,
    begun: OnceLock<StartedBatch<'a>>,
}

struct StartedBatch<'a> {
    row: BatchRow,
    calls: Arc<Calls<'a>>,
    canceller: Canceller,
    /// Present until the batch runs.
    batch: Mutex<Option<Batch<'a, Report>>>,
    _guard: BatchGuard<'a>,
}

/// One entry per call, until it runs. `Err`: no record was created because its id is in use.
type Calls<'a> = OnceLock<Vec<Mutex<Option<BegunCall<'a>>>>>;

fn take<'a>(calls: &Calls<'a>, index: usize) -> Option<BegunCall<'a>> {
    let call = calls.get()?.get(index)?;
    call.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        request: BatchRequest,
        sink: Arc<dyn Sink>,
    ) -> Result<Self, BatchError> {
        if kernel.is_batch(&request.id) {
            let shown = toolhost_contract::text::escape_line(&request.id, 80);
            return Err(BatchError::SameBatch(shown));
        }
        let mut ids = std::collections::HashSet::new();
        if let Some(call) = request.calls.iter().find(|call| !ids.insert(&call.id)) {
            let shown = toolhost_contract::text::escape_line(&call.id.0, 80);
            return Err(BatchError::SameId(shown));
        }
        Ok(Self {
            kernel,
            sink,
            id: request.id.clone(),
            caller: Arc::new(request.caller.clone()),
            ids: request.calls.iter().map(|call| call.id.clone()).collect(),
            results: ResultBudget::default(),
            request: Mutex::new(Some(request)),
            begun: OnceLock::new(),
        })
    }

    /// Creates the records of the calls, in call order. Calling it again has no effect.
    pub(super) fn begin(&self) {
        let request = self
            .request
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(request) = request else {
            return;
        };
        let BatchRequest {
            id,
            caller,
            calls: mut wishes,
            strategy,
            context,
        } = request;
        let kernel = self.kernel;
        let row = BatchRow {
            id: id.clone(),
            session: caller.session.to_string(),
            created_ms: kernel.journal.clock.now().0,
            finished_ms: None,
            submitted_ms: None,
            calls: u32::try_from(wishes.len()).unwrap_or(u32::MAX),
            strategy: strategy.to_string(),
        };
        kernel.journal.queue(|| Write::Batch(row.clone()));
        let calls: Arc<Calls<'a>> = Arc::default();
        let order = (strategy == Strategy::Optimistic).then(BatchOrder::new);
        let mut slots: Vec<Option<OrderSlot>> = Vec::with_capacity(wishes.len());
        let mut planned = Vec::with_capacity(wishes.len());
        let mut earlier = HashSet::new();
        for (index, call) in wishes.iter_mut().enumerate() {
            let mut shape = kernel.call_shape(call, &caller, &mut earlier);
            let order = order.as_ref();
            let slot = order
                .filter(|_| shape.can_run_early)
                .map(|order| order.slot(index));
            if slot.is_some() {
                // It can run again, so it does not need to wait.
                shape.path_locks.clear();
            }
            slots.push(slot);
            let ending = order.map(|order| order.ending(index));
            planned.push(PlannedCall {
                shape,
                run: self.runner(index, &calls, ending),
            });
        }
        let batch = Batch::new(strategy, planned);
        let canceller = batch.canceller();
        let mut begin = |(index, call): (usize, super::BatchCall)| {
            let mut context = context.clone();
            context.only_paths.extend(call.only_paths);
            let request = CallRequest {
                context: CallContext {
                    batch: Some(id.clone()),
                    ..context
                },
                ..CallRequest::new(call.id, call.tool, call.input, caller.clone())
            };
            let cancel = CancelHandle::in_batch(&canceller, &self.ids, index);
            let mut run = kernel.begin(request, &self.sink, cancel);
            if let Ok(run) = &mut run {
                run.order = slots[index].take();
                run.results = self.results.clone();
            }
            Mutex::new(Some(run))
        };
        let begun = wishes.into_iter().enumerate().map(&mut begin).collect();
        kernel.journal.bus.wake();
        let _ = calls.set(begun);
        let _ = self.begun.set(StartedBatch {
            row,
            calls,
            _guard: kernel.track_batch(&id, canceller.clone()),
            canceller,
            batch: Mutex::new(Some(batch)),
        });
    }

    fn runner(
        &self,
        index: usize,
        calls: &Arc<Calls<'a>>,
        ending: Option<EndGuard>,
    ) -> crate::schedule::CallFn<'a, Report> {
        let kernel = self.kernel;
        let (calls, sink, id) = (
            Arc::clone(calls),
            Arc::clone(&self.sink),
            self.ids[index].clone(),
        );
        let results = self.results.clone();
        Box::new(move |_| {
            Box::pin(async move {
                let _ending = ending;
                let result = match take(&calls, index) {
                    Some(Ok(run)) => {
                        let report = kernel.run_with_tails(run, &sink).await;
                        results.add(&report);
                        report
                    }
                    Some(Err(report)) => *report,
                    None => Report::refused(id, CallError::internal("the call has already run")),
                };
                CompletedCall {
                    status: status(&result),
                    result,
                }
            })
        })
    }

    /// Completes when a call is cancelled before the batch runs. Otherwise never completes.
    pub(super) async fn cancelled_while_waiting(&self) {
        if let Some(begun) = self.begun.get() {
            begun.canceller.token().cancelled().await;
            let batch = begun.batch.lock().unwrap_or_else(PoisonError::into_inner);
            if batch.is_some() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Runs the batch and returns one report per call, in call order.
    pub(super) async fn run(&self) -> Vec<Report> {
        self.begin();
        let Some(begun) = self.begun.get() else {
            return Vec::new();
        };
        let batch = begun
            .batch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(batch) = batch else {
            return Vec::new();
        };
        let reports = batch
            .run(|index, why| self.report_unrun(take(&begun.calls, index), index, why))
            .await;
        let mut row = begun.row.clone();
        let journal = &self.kernel.journal;
        row.finished_ms = Some(journal.clock.now().0);
        journal.queue(|| Write::Batch(row));
        let event_kind = EventKind::BatchCompleted {
            batch: self.id.clone(),
            calls: self.ids.to_vec(),
        };
        journal.publish(&self.caller, event_kind);
        reports
    }

    /// Returns the report of a call that never started or was dropped while it ran.
    fn report_unrun(
        &self,
        call: Option<BegunCall<'a>>,
        index: usize,
        why: MissingResult,
    ) -> Report {
        match (call, why) {
            (Some(Err(report)), _) => *report,
            (Some(Ok(run)), _) => {
                let error = run.cancel.error(false);
                run.finish_unstarted(error)
            }
            (None, MissingResult::Panicked) => Report::refused(
                self.ids[index].clone(),
                CallError::internal("the call panicked"),
            ),
            // It did not stop in time and was dropped.
            (None, MissingResult::NotRun { .. } | MissingResult::Interrupted { .. }) => {
                let error = match self.begun.get() {
                    Some(begun) => {
                        CancelHandle::in_batch(&begun.canceller, &self.ids, index).error(true)
                    }
                    None => CallError::new(ErrorClass::Cancelled, "the call was cancelled"),
                };
                Report {
                    stopped: true,
                    ..Report::refused(self.ids[index].clone(), error)
                }
            }
        }
    }
}

fn status(report: &Report) -> CallStatus {
    match &report.result {
        // Only the user or the caller stops a turn. A tool that reports an interruption has failed.
        _ if report.stopped => CallStatus::Cancelled,
        Ok(outcome) if outcome.is_error() => CallStatus::Failed,
        Ok(_) => CallStatus::Completed,
        Err(error) if error.class == ErrorClass::Denied => CallStatus::Denied,
        Err(_) => CallStatus::Failed,
    }
}
