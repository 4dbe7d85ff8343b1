//! One session's batches, one after the other.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

/// First come, first served, and bounded: a batch that waits costs its calls, and all of them are counted.
///
/// An agent that is called by a batch has a queue of its own. In this one its batches would wait for the batch that
/// waits for them.
#[derive(Debug)]
pub struct Queue {
    /// One permit: the batch that has it runs.
    turn: Semaphore,
    /// Calls of the batches that run or wait.
    calls: AtomicUsize,
    max_calls: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    // In the words that programs already look for.
    #[error("Cannot schedule while tools are running")]
    Busy,
    #[error("{asked} more calls do not fit into the queue of at most {max}: wait until some end")]
    Full { asked: usize, max: usize },
}

impl Default for Queue {
    fn default() -> Self {
        Self::new(10_000)
    }
}

impl Queue {
    /// `max_calls` bounds the calls of all batches that have not ended.
    pub fn new(max_calls: usize) -> Self {
        Self {
            turn: Semaphore::new(1),
            calls: AtomicUsize::new(0),
            max_calls,
        }
    }

    /// Runs the batch, of so many calls, when those before it have ended. Dropping the future takes it out of the
    /// queue or stops it.
    pub async fn schedule<T>(
        &self,
        calls: usize,
        batch: impl Future<Output = T>,
    ) -> Result<T, QueueError> {
        let _room = self.room(calls)?;
        let turn = self.turn.acquire().await;
        let _turn: SemaphorePermit = turn.expect("nobody closes this semaphore");
        Ok(batch.await)
    }

    /// Runs the batch now or not at all.
    pub async fn try_schedule<T>(
        &self,
        calls: usize,
        batch: impl Future<Output = T>,
    ) -> Result<T, QueueError> {
        let _turn = self.turn.try_acquire().map_err(|_| QueueError::Busy)?;
        let _room = self.room(calls)?;
        Ok(batch.await)
    }

    pub fn is_running(&self) -> bool {
        self.turn.available_permits() == 0
    }

    fn room(&self, calls: usize) -> Result<Room<'_>, QueueError> {
        let fits = |taken: usize| {
            taken
                .checked_add(calls)
                .filter(|&sum| sum <= self.max_calls)
        };
        self.calls
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .map_err(|_| QueueError::Full {
                asked: calls,
                max: self.max_calls,
            })?;
        let queue = self;
        Ok(Room { queue, calls })
    }
}

/// The calls count until this is dropped.
struct Room<'a> {
    queue: &'a Queue,
    calls: usize,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.queue.calls.fetch_sub(self.calls, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
