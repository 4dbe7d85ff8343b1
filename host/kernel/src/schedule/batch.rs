//! Running the calls of one model turn, with one result for each in call order.

mod canceller;

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use std::vec::IntoIter;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep_until};

use super::conflict_queue::{ConflictQueue, Ticket};
use super::path_locks::PathLocks;
use super::{CallShape, Strategy, waves};
pub use canceller::{Canceller, StopSignal};

/// Maximum number of calls of a wave in progress. Bounds what calls cost before the pools admit them, however many
/// calls a model makes.
const MAX_IN_PROGRESS: usize = 256;

/// Time that a cancelled call has to end. After that its future is dropped.
const GRACE: Duration = Duration::from_secs(5);

/// How a call ended, as far as it affects other calls of the batch: only `Cancelled` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    Completed,
    Failed,
    Denied,
    /// The user cancelled the call, and with it the rest of the batch.
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedCall<R> {
    pub result: R,
    pub status: CallStatus,
}

/// The reason why a call has no result. `because` is the index of the call that was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingResult {
    NotRun {
        because: usize,
    },
    /// The call ran and did not end in time after it was cancelled. It may have had effects.
    Interrupted {
        because: usize,
    },
    Panicked,
}

/// Starts a call. A cancelled call should end soon, as `Cancelled`.
pub type CallFn<'a, R> = Box<dyn FnOnce(StopSignal) -> BoxFuture<'a, CompletedCall<R>> + Send + 'a>;

/// One call of a batch.
pub struct PlannedCall<'a, R> {
    pub shape: CallShape,
    pub run: CallFn<'a, R>,
}

/// The calls of one model turn.
pub struct Batch<'a, R> {
    waves: Vec<Vec<usize>>,
    calls: Vec<State<'a, R>>,
    canceller: Canceller,
}

enum State<'a, R> {
    Waiting {
        path_locks: PathLocks,
        run: CallFn<'a, R>,
    },
    Running,
    Ended(R),
    Panicked,
}

impl<'a, R: Send + 'a> Batch<'a, R> {
    pub fn new(strategy: Strategy, planned: Vec<PlannedCall<'a, R>>) -> Self {
        let (shapes, runs): (Vec<_>, Vec<_>) = planned
            .into_iter()
            .map(|planned| (planned.shape, planned.run))
            .unzip();
        let state = |(shape, run): (&CallShape, _)| State::Waiting {
            path_locks: PathLocks::of(&shape.path_locks),
            run,
        };
        Self {
            waves: waves(strategy, &shapes),
            calls: shapes.iter().zip(runs).map(state).collect(),
            canceller: Canceller::new(shapes.len()),
        }
    }

    /// Returns the number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Runs the calls and returns one result per call, in call order. `missing` creates the result of a call without
    /// one. Dropping the future cancels every call.
    pub async fn run(self, missing: impl Fn(usize, MissingResult) -> R) -> Vec<R> {
        let Self {
            waves,
            mut calls,
            canceller,
        } = self;
        // A call that was moved to another task is notified of a drop only through its token.
        let guard = canceller.token().clone().drop_guard();
        for wave in waves {
            Wave::new(wave, &mut calls, &canceller).run().await;
        }
        // Background work of a call outlives the batch.
        guard.disarm();
        // Only a cancelled call keeps others from completing.
        let because = canceller.cause().unwrap_or_default();
        let result = |(index, call)| match call {
            State::Ended(result) => result,
            State::Waiting { .. } => missing(index, MissingResult::NotRun { because }),
            State::Running => missing(index, MissingResult::Interrupted { because }),
            State::Panicked => missing(index, MissingResult::Panicked),
        };
        calls.into_iter().enumerate().map(result).collect()
    }
}

/// Calls that may run concurrently unless their paths conflict.
struct Wave<'w, 'a, R> {
    coming: IntoIter<usize>,
    calls: &'w mut [State<'a, R>],
    canceller: &'w Canceller,
    /// Calls that run or wait for another call. The pools lock paths too, but only after the user has been asked, and
    /// an edit must not overtake an earlier write while the user decides.
    line: ConflictQueue<PathLocks>,
    indices: HashMap<Ticket, usize>,
    running: FuturesUnordered<BoxFuture<'a, (Ticket, Ended<R>)>>,
}

type Ended<R> = Result<CompletedCall<R>, Box<dyn Any + Send>>;

impl<'w, 'a, R: Send + 'a> Wave<'w, 'a, R> {
    fn new(wave: Vec<usize>, calls: &'w mut [State<'a, R>], canceller: &'w Canceller) -> Self {
        Self {
            coming: wave.into_iter(),
            calls,
            canceller,
            line: ConflictQueue::new(),
            indices: HashMap::new(),
            running: FuturesUnordered::new(),
        }
    }

    async fn run(mut self) {
        let mut deadline = None;
        loop {
            self.fill();
            // If no call runs, none waits either, because the first in the queue never has to.
            tokio::select! {
                biased;
                ended = self.running.next() => match ended {
                    Some((ticket, end)) => self.end(ticket, end),
                    None => return,
                },
                () = self.canceller.token().cancelled(), if deadline.is_none() => {
                    deadline = Some(Instant::now() + GRACE);
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => return,
            }
        }
    }

    fn fill(&mut self) {
        while !self.canceller.token().is_cancelled()
            && self.line.len() < MAX_IN_PROGRESS
            && let Some(index) = self.coming.next()
        {
            if let State::Waiting { path_locks, .. } = &mut self.calls[index] {
                let (ticket, free) = self.line.enter(std::mem::take(path_locks));
                self.indices.insert(ticket, index);
                if free {
                    self.start(ticket, index);
                }
            }
        }
    }

    fn start(&mut self, ticket: Ticket, index: usize) {
        let call = std::mem::replace(&mut self.calls[index], State::Running);
        if let State::Waiting { run, .. } = call {
            let stop = self.canceller.stop();
            let running = AssertUnwindSafe(async move { run(stop).await });
            let running = running.catch_unwind().map(move |end| (ticket, end));
            self.running.push(running.boxed());
        }
    }

    fn end(&mut self, ticket: Ticket, end: Ended<R>) {
        let Some(index) = self.indices.remove(&ticket) else {
            return;
        };
        let (state, fate) = match end {
            Ok(CompletedCall {
                result,
                status: fate,
            }) => (State::Ended(result), fate),
            Err(_) => (State::Panicked, CallStatus::Failed),
        };
        self.calls[index] = state;
        self.canceller.ended(index, fate);
        let (_, free) = self.line.leave(ticket).unwrap_or_default();
        for ticket in free {
            if !self.canceller.token().is_cancelled() {
                self.start(ticket, self.indices[&ticket]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
