//! Batches: the calls of one model turn, with one report per call in call order.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use serde_json::Value;
use toolhost_contract::bus::EventKind;
use toolhost_contract::lifecycle::CallOrigin;
use toolhost_contract::policy::Subject;
use toolhost_contract::{
    CallId, Concurrency, Effect, OnlyPaths, Principal, QuotaError, SessionKey, Sink, ToolName,
};

use super::running_call::RunningCall;
use super::turn::Turn;
use super::{CallContext, Kernel, Report};
use crate::schedule::{
    AdmissionRequest, CallShape, Canceller, PathLock, Pool, QueueError, Strategy,
};
use crate::{RegistrySnapshot, ToolEntry};

/// A request for the calls of one model turn.
pub struct BatchRequest {
    pub id: String,
    pub caller: Principal,
    pub calls: Vec<BatchCall>,
    pub strategy: Strategy,
    pub context: CallContext,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BatchCall {
    pub id: CallId,
    pub tool: String,
    pub input: Value,
    /// The directories to which the call is narrowed, in addition to those of the batch.
    pub only_paths: Option<OnlyPaths>,
}

impl BatchCall {
    pub fn new(id: CallId, tool: impl Into<String>, input: Value) -> Self {
        Self {
            id,
            tool: tool.into(),
            input,
            only_paths: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Quota(#[from] QuotaError),
    #[error("a batch with the id `{0}` is already running")]
    SameBatch(String),
    #[error("two calls of the batch have the id `{0}`; ids must differ")]
    SameId(String),
}

/// Optional input member that the scheduler removes: wait until all calls before this one have ended.
pub const WAIT_MEMBER: &str = "wait_for_previous";

impl Kernel {
    /// Runs the batch once earlier batches have ended. Returns one report per call, in call order.
    pub async fn schedule(
        &self,
        request: BatchRequest,
        sink: Arc<dyn Sink>,
    ) -> Result<Vec<Report>, BatchError> {
        let session = self.session(&request.caller.session_key())?;
        let calls = request.calls.len();
        let turn = Turn::new(self, request, sink)?;
        let mut scheduled = pin!(session.queue.schedule(calls, turn.run()));
        // The first poll fails if the queue is full, or runs the batch if the queue is free.
        let first = poll_fn(|context| Poll::Ready(scheduled.as_mut().poll(context))).await;
        if let Poll::Ready(reports) = first {
            return Ok(reports?);
        }
        // Otherwise it waits, and is visible and cancellable while it does.
        turn.begin();
        tokio::select! {
            biased;
            () = turn.cancelled_while_waiting() => Ok(turn.run().await),
            reports = scheduled => Ok(reports?),
        }
    }

    /// Like [`Kernel::schedule`], but fails if the session is busy.
    pub async fn try_schedule(
        &self,
        request: BatchRequest,
        sink: Arc<dyn Sink>,
    ) -> Result<Vec<Report>, BatchError> {
        let session = self.session(&request.caller.session_key())?;
        let calls = request.calls.len();
        let turn = Turn::new(self, request, sink)?;
        Ok(session.queue.try_schedule(calls, turn.run()).await?)
    }

    pub fn is_running(&self, session: &SessionKey) -> bool {
        let session = self.sessions.find(session);
        session.is_some_and(|session| session.queue.is_running())
    }

    /// Records that the results of these calls were submitted to the model.
    pub fn mark_submitted(&self, caller: &Principal, calls: Vec<CallId>) {
        self.journal.publish(
            &Arc::new(caller.clone()),
            EventKind::BatchSubmitted { calls },
        );
    }

    /// Returns the scheduling properties of a call and removes the scheduler's member from its input. `earlier` has the
    /// tools of the calls before it; a call waits for those of tools on which its own depends.
    pub(super) fn call_shape(
        &self,
        call: &mut BatchCall,
        caller: &Principal,
        earlier: &mut HashSet<ToolName>,
    ) -> CallShape {
        let registry = self.registry();
        let entry = registry.route(&call.tool, caller, &call.id);
        let declared = entry.is_some_and(|entry| declares_wait(entry));
        // Removed only if the schema of the tool does not declare a member of that name.
        let wait = if declared {
            None
        } else {
            let members = call.input.as_object_mut();
            members.and_then(|members| members.remove(WAIT_MEMBER))
        };
        let waits_for_dependency =
            entry.is_some_and(|entry| depends_on_any(entry, earlier, &registry));
        if let Some(entry) = entry.filter(|entry| !earlier.contains(&entry.name)) {
            earlier.insert(entry.name.clone());
        }
        CallShape {
            wait_for_previous: waits_for_dependency || wait == Some(Value::Bool(true)),
            ..shape_of_entry(entry.map(Arc::as_ref), &call.input)
        }
    }

    pub(super) fn is_batch(&self, id: &str) -> bool {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches.contains_key(id)
    }

    pub(super) fn track_batch(&self, id: &str, canceller: Canceller) -> BatchGuard<'_> {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches.insert(id.to_owned(), canceller);
        BatchGuard {
            kernel: self,
            id: id.to_owned(),
        }
    }

    /// Cancels one call of a batch and those that have not started. Returns false if there is nothing to cancel.
    pub fn cancel_in_batch(&self, batch: &str, index: usize) -> bool {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches
            .get(batch)
            .is_some_and(|canceller| canceller.cancel(index))
    }
}

pub(super) struct BatchGuard<'a> {
    kernel: &'a Kernel,
    id: String,
}

impl Drop for BatchGuard<'_> {
    fn drop(&mut self) {
        let batches = &self.kernel.batches;
        let mut batches = batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches.remove(&self.id);
    }
}

fn declares_wait(entry: &ToolEntry) -> bool {
    entry
        .tool
        .input_schema
        .get("properties")
        .is_some_and(|members| members.get(WAIT_MEMBER).is_some())
}

/// Whether the tool depends on one of these tools, directly or through other tools.
fn depends_on_any(
    entry: &ToolEntry,
    tools: &HashSet<ToolName>,
    registry: &RegistrySnapshot,
) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![entry];
    while let Some(entry) = open.pop() {
        let dependencies = entry.tool.depends_on.iter();
        for dependency in dependencies.filter_map(|name| registry.get(name.trim())) {
            if tools.contains(&dependency.name) {
                return true;
            }
            if seen.insert(&dependency.name) {
                open.push(dependency);
            }
        }
    }
    false
}

fn shape_of_entry(entry: Option<&ToolEntry>, input: &Value) -> CallShape {
    let Some(entry) = entry else {
        // It fails without running, so no call needs to wait for it.
        return CallShape {
            concurrency: Concurrency::Parallel,
            read_only: true,
            can_run_early: true,
            wait_for_previous: false,
            path_locks: Vec::new(),
        };
    };
    CallShape {
        concurrency: entry.tool.concurrency,
        read_only: entry.tool.effect() <= Effect::Reads,
        can_run_early: entry.can_run_early(),
        wait_for_previous: false,
        path_locks: path_locks(entry, input),
    }
}

fn path_locks(entry: &ToolEntry, input: &Value) -> Vec<PathLock> {
    Subject::of(&entry.tool, input)
        .paths
        .into_iter()
        .map(|path| {
            // Relative paths are relative to the first folder, which guests see as `/workspace`.
            let absolute = if path.path.starts_with('/') {
                path.path
            } else {
                format!("/workspace/{}", path.path)
            };
            if path.write {
                PathLock::write(&absolute)
            } else {
                PathLock::read(&absolute)
            }
        })
        .collect()
}

/// Returns the pool of a tool in the foreground.
pub(super) fn pool_of(entry: &ToolEntry) -> Pool {
    let tool = &entry.tool;
    if entry.works_through_calls() {
        // Its calls take permits themselves.
        Pool::Agents
    } else if tool.annotations.interactive == Some(true) {
        Pool::Interactive
    } else if tool.kind == "execute" {
        Pool::Processes
    } else if tool.annotations.open_world == Some(true) {
        Pool::Network
    } else {
        Pool::Plain
    }
}

impl Kernel {
    /// Waits until the limits of the pools and the locks of paths let the call run.
    pub(super) async fn take_permit<'a>(
        &'a self,
        entry: &ToolEntry,
        run: &RunningCall<'_>,
    ) -> Result<Option<crate::schedule::Permit<'a>>, super::Refusal> {
        let is_background = run.context.first_origin() == CallOrigin::Background;
        let is_exclusive = entry.tool.concurrency == Concurrency::Exclusive;
        let pool = match pool_of(entry) {
            // The caller of this call, or the sub-agent task that made it, waits for it and already holds an agent
            // permit. Taking another one could deadlock when the pool is exhausted.
            Pool::Agents
                if run.context.first_origin() == CallOrigin::Tool || run.context.depth > 0 =>
            {
                return Ok(None);
            }
            // A task in the background holds the permit that its own calls would wait for.
            pool if is_background
                && (pool == Pool::Agents || !is_exclusive && run.context.depth == 0) =>
            {
                Pool::Background
            }
            pool => pool,
        };
        // Readers of a path run concurrently; a writer waits for its readers. An ordered call takes no path locks: it
        // runs on the current files and runs again if an earlier call changed what it read.
        let path_locks = match &run.order {
            Some(_) => Vec::new(),
            None => path_locks(entry, &run.input),
        };
        // With a single interactive slot, interactive tools run alone or alone in their lane, because one user answers
        // at one terminal. With several slots, that would make all calls wait for one user.
        let single_user = pool != Pool::Interactive || self.settings.pools.interactive == 1;
        let session = run.caller.session_key();
        let needs = AdmissionRequest {
            session: &session,
            pool,
            lane: (single_user && entry.tool.concurrency == Concurrency::Serial)
                .then_some(&*entry.lane),
            path_locks: &path_locks,
            exclusive: single_user && is_exclusive,
        };
        Ok(Some(self.pools.admit(needs).await))
    }
}
