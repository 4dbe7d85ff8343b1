//! The queue of a session, which runs one batch at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Runs batches in order of arrival. Bounded by the number of calls in all batches that have not ended.
///
/// An agent that is called by a batch has its own queue. In the same queue its batches would wait for the batch that
/// waits for them.
#[derive(Debug)]
pub struct BatchQueue {
    /// Has one permit, which the running batch holds.
    turn: Semaphore,
    /// Number of calls in the batches that run or wait.
    calls: AtomicUsize,
    max_calls: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    // Programs match this text.
    #[error("Cannot schedule while tools are running")]
    Busy,
    #[error("{requested} more calls exceed the queue limit of {max}; wait until some have ended")]
    Full { requested: usize, max: usize },
}

impl Default for BatchQueue {
    fn default() -> Self {
        Self::new(10_000)
    }
}

impl BatchQueue {
    /// Creates a queue. `max_calls` limits the calls of all batches that have not ended.
    pub fn new(max_calls: usize) -> Self {
        Self {
            turn: Semaphore::new(1),
            calls: AtomicUsize::new(0),
            max_calls,
        }
    }

    /// Runs a batch with this number of calls once earlier batches have ended. Dropping the future removes the batch
    /// from the queue or stops it.
    pub async fn schedule<T>(
        &self,
        calls: usize,
        batch: impl Future<Output = T>,
    ) -> Result<T, QueueError> {
        let _room = self.reserve(calls)?;
        let turn = self.turn.acquire().await;
        let _turn: SemaphorePermit = turn.expect("the semaphore is never closed");
        Ok(batch.await)
    }

    /// Runs the batch now, or fails if the queue is busy.
    pub async fn try_schedule<T>(
        &self,
        calls: usize,
        batch: impl Future<Output = T>,
    ) -> Result<T, QueueError> {
        let _turn = self.turn.try_acquire().map_err(|_| QueueError::Busy)?;
        let _room = self.reserve(calls)?;
        Ok(batch.await)
    }

    pub fn is_running(&self) -> bool {
        self.turn.available_permits() == 0
    }

    fn reserve(&self, calls: usize) -> Result<QueueReservation<'_>, QueueError> {
        let fits = |taken: usize| {
            taken
                .checked_add(calls)
                .filter(|&sum| sum <= self.max_calls)
        };
        self.calls
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .map_err(|_| QueueError::Full {
                requested: calls,
                max: self.max_calls,
            })?;
        let queue = self;
        Ok(QueueReservation { queue, calls })
    }
}

/// Counts the calls until dropped.
struct QueueReservation<'a> {
    queue: &'a BatchQueue,
    calls: usize,
}

impl Drop for QueueReservation<'_> {
    fn drop(&mut self) {
        self.queue.calls.fetch_sub(self.calls, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
