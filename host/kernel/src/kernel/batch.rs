//! The calls of one model turn: in which order they run, and one result for each, in call order.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use serde_json::Value;
use toolhost_contract::bus::Happening;
use toolhost_contract::life::Origin;
use toolhost_contract::policy::Subject;
use toolhost_contract::{CallId, Concurrency, Effect, Principal, QuotaError, SessionKey, Sink};

use super::run::Run;
use super::turn::Turn;
use super::{Kernel, Report, Within};
use crate::Entry;
use crate::schedule::{Canceller, Needs, Place, Pool, QueueError, Shape, Strategy};

/// What a model wants done in one turn.
pub struct BatchRequest {
    pub id: String,
    pub caller: Principal,
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
    #[error(transparent)]
    Quota(#[from] QuotaError),
    #[error("a batch with the id `{0}` is running already")]
    SameBatch(String),
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
        let session = self.session(&request.caller.session_key())?;
        let calls = request.calls.len();
        let turn = Turn::new(self, request, sink)?;
        let mut scheduled = pin!(session.queue.schedule(calls, turn.run()));
        // At once: it is too much for the queue, or it is its turn.
        let first = poll_fn(|context| Poll::Ready(scheduled.as_mut().poll(context))).await;
        if let Poll::Ready(reports) = first {
            return Ok(reports?);
        }
        // Else it waits, and is seen and can be cancelled while it does.
        turn.begin();
        tokio::select! {
            biased;
            () = turn.cancelled_while_it_waits() => Ok(turn.run().await),
            reports = scheduled => Ok(reports?),
        }
    }

    /// Like [`Kernel::schedule`], but an error when the session is busy.
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

    /// The results of these calls were handed to the model.
    pub fn mark_submitted(&self, caller: &Principal, calls: Vec<CallId>) {
        self.journal.announce(
            &Arc::new(caller.clone()),
            Happening::BatchSubmitted { calls },
        );
    }

    /// When a call of a turn may run. Takes the member out of its input that is for the scheduler alone.
    pub(super) fn shape_of(&self, call: &mut BatchCall, caller: &Principal) -> Shape {
        let registry = self.registry();
        let entry = registry.choose(&call.tool, caller, &call.id);
        let declared = entry.is_some_and(|entry| declares_wait(entry));
        // Only ours when the tool does not have a member of that name itself.
        let wait = if declared {
            None
        } else {
            let members = call.input.as_object_mut();
            members.and_then(|members| members.remove(WAIT))
        };
        Shape {
            wait_for_previous: wait == Some(Value::Bool(true)),
            ..shape(entry.map(Arc::as_ref), &call.input)
        }
    }

    pub(super) fn is_batch(&self, id: &str) -> bool {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches.contains_key(id)
    }

    pub(super) fn announce_batch(&self, id: &str, canceller: Canceller) -> BatchPlace<'_> {
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

pub(super) struct BatchPlace<'a> {
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
            can_run_early: true,
            wait_for_previous: false,
            places: Vec::new(),
        };
    };
    Shape {
        concurrency: entry.tool.concurrency,
        read_only: entry.tool.effect() <= Effect::Reads,
        can_run_early: entry.can_run_early(),
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
    if ["tools", "agents"]
        .iter()
        .any(|need| tool.requires.iter().any(|word| word == need))
    {
        // It works through others, which ask for their own place.
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
    pub(super) async fn admit<'a>(
        &'a self,
        entry: &Entry,
        run: &Run<'_>,
    ) -> Result<Option<crate::schedule::Permit<'a>>, super::Refusal> {
        // Whoever made the call, or the task of the sub-agent that made it, waits for it, and has a place among those that
        // work through others already. Taking another one, they would wait for each other when the places are gone.
        let is_awaited = run.within.origin == Origin::Tool || run.within.depth > 0;
        if pool(entry) == Pool::Agents && is_awaited {
            return Ok(None);
        }
        // Reading beside reading needs no places; whoever writes waits for those who read there. A call that keeps an
        // order runs on the files as they are, and again when that was wrong.
        let places = match &run.order {
            Some(_) => Vec::new(),
            None => places(entry, &run.input),
        };
        let pool = pool(entry);
        // A tool that asks runs alone, or alone in its lane, for the sake of the one person at a terminal. Where several
        // may be asked at once, everybody's calls would wait for one of them.
        let one_person = pool != Pool::Interactive || self.settings.pools.interactive == 1;
        let session = run.caller.session_key();
        let needs = Needs {
            session: &session,
            pool,
            lane: (one_person && entry.tool.concurrency == Concurrency::Serial)
                .then_some(&*entry.lane),
            places: &places,
            exclusive: one_person && entry.tool.concurrency == Concurrency::Exclusive,
        };
        Ok(Some(self.pools.admit(needs).await))
    }
}
