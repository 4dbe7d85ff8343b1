//! Bounded queue of the writer: keeps the order of jobs and hands them over in groups.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::{StoreError, Write};

/// Maximum number of pending jobs before `queue` blocks.
const MAX_JOBS: usize = 4096;
/// Maximum size of pending jobs, in bytes, so that a few large jobs cannot exhaust memory.
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of jobs per transaction.
pub const MAX_GROUP: usize = 512;
/// How long jobs without a waiting caller are delayed, so that a burst shares one `fsync`.
const GROUP_DELAY: Duration = Duration::from_millis(20);
/// Delay before the writer retries a failed write.
const RETRY: Duration = Duration::from_millis(500);
/// Maximum time that `queue` waits for room.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Runs inside a transaction, and again in a new one if the first was rolled back.
pub type Change = Box<dyn FnMut(&Connection) -> rusqlite::Result<()> + Send>;

/// A write that is built on the writer thread.
pub type Draft = LazyCell<Write, Box<dyn FnOnce() -> Write + Send>>;

pub enum Work {
    Write(Draft),
    /// A change that reads before it writes.
    Change(Change),
}

pub struct Job {
    pub work: Work,
    pub weight: usize,
    /// Set if a caller waits for durability. Jobs without a waiting caller are retried after a failure.
    pub reply: Option<oneshot::Sender<Result<(), StoreError>>>,
}

impl Work {
    pub fn write(draft: impl FnOnce() -> Write + Send + 'static) -> Self {
        Self::Write(LazyCell::new(Box::new(draft)))
    }
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    bytes: usize,
    awaited: usize,
    /// The writer sleeps and must be woken.
    idle: bool,
    /// Number of callers that wait for room.
    blocked_callers: usize,
    /// Error of the last group, until a group succeeds.
    failure: Option<StoreError>,
    /// No new jobs are accepted; pending ones are still written.
    closed: bool,
    /// The writer has ended.
    writer_ended: bool,
    /// Number of jobs without a waiting caller that were refused or rejected.
    lost: usize,
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.jobs.len() >= MAX_JOBS || self.bytes >= MAX_BYTES
    }

    /// Whether the writer should not delay the pending jobs.
    fn is_urgent(&self) -> bool {
        self.awaited > 0 || self.closed || self.blocked_callers > 0 || self.jobs.len() >= MAX_GROUP
    }
}

#[derive(Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    emptied: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // No code panics while the state is inconsistent.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn health(&self) -> Result<(), StoreError> {
        let waiting = self.lock();
        if waiting.writer_ended {
            return Err(StoreError::Closed);
        }
        waiting.failure.clone().map_or(Ok(()), Err)
    }

    /// Accepts a job without a waiting caller. Waits for room, unless the store cannot be written. A refused job is
    /// counted as lost.
    pub fn push(&self, job: Job) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        while waiting.is_full() && waiting.failure.is_none() && !waiting.writer_ended {
            waiting.blocked_callers += 1;
            self.filled.notify_one();
            let (woken, timeout) = self
                .emptied
                .wait_timeout(waiting, MAX_WAIT)
                .unwrap_or_else(PoisonError::into_inner);
            waiting = woken;
            waiting.blocked_callers -= 1;
            if timeout.timed_out() && waiting.is_full() {
                waiting.lost += 1;
                return Err(StoreError::QueueFull {
                    waiting: waiting.jobs.len(),
                });
            }
        }
        if waiting.closed || waiting.writer_ended {
            return Err(StoreError::Closed);
        }
        if waiting.is_full()
            && let Some(failure) = waiting.failure.clone()
        {
            waiting.lost += 1;
            return Err(failure);
        }
        self.add(waiting, job);
        Ok(())
    }

    /// Accepts a job without a waiting caller, or refuses it immediately. For data that may be lost.
    pub fn push_if_room(&self, job: Job) -> Result<(), StoreError> {
        let waiting = self.lock();
        if waiting.closed || waiting.writer_ended {
            return Err(StoreError::Closed);
        }
        if let Some(failure) = &waiting.failure {
            return Err(failure.clone());
        }
        if waiting.is_full() {
            return Err(StoreError::QueueFull {
                waiting: waiting.jobs.len(),
            });
        }
        self.add(waiting, job);
        Ok(())
    }

    /// Accepts a job with a waiting caller. Never waits for room: a caller that waits for durability adds no second
    /// job, so the number of jobs is bounded by the number of callers.
    pub fn push_awaited(&self, job: Job) -> Result<(), StoreError> {
        let waiting = self.lock();
        if waiting.closed || waiting.writer_ended {
            return Err(StoreError::Closed);
        }
        self.add(waiting, job);
        Ok(())
    }

    fn add(&self, mut waiting: MutexGuard<'_, Waiting>, job: Job) {
        waiting.bytes += job.weight;
        waiting.awaited += usize::from(job.reply.is_some());
        waiting.jobs.push_back(job);
        // The first job of a group wakes the writer, and so does a job that ends the delay.
        let wake = waiting.idle && (waiting.jobs.len() == 1 || waiting.is_urgent());
        drop(waiting);
        if wake {
            self.filled.notify_one();
        }
    }

    /// The next group. Empty when it is time to retry a failed write; `None` when the queue is closed and empty.
    pub fn take(&self) -> Option<Vec<Job>> {
        let mut waiting = self.lock();
        if waiting.failure.is_some() {
            // A failed write is not retried in a busy loop, regardless of the number of pending jobs.
            waiting = self.sleep(waiting, RETRY, |waiting| {
                waiting.awaited > 0 || waiting.closed
            });
        } else {
            while waiting.jobs.is_empty() && !waiting.closed {
                waiting.idle = true;
                waiting = self
                    .filled
                    .wait(waiting)
                    .unwrap_or_else(PoisonError::into_inner);
                waiting.idle = false;
            }
            waiting = self.sleep(waiting, GROUP_DELAY, Waiting::is_urgent);
        }
        if waiting.jobs.is_empty() && waiting.closed {
            return None;
        }
        let count = waiting.jobs.len().min(MAX_GROUP);
        let group: Vec<Job> = waiting.jobs.drain(..count).collect();
        for job in &group {
            waiting.bytes -= job.weight;
            waiting.awaited -= usize::from(job.reply.is_some());
        }
        let crowd = waiting.blocked_callers > 0;
        drop(waiting);
        if crowd {
            self.emptied.notify_all();
        }
        Some(group)
    }

    fn sleep<'a>(
        &self,
        mut waiting: MutexGuard<'a, Waiting>,
        time: Duration,
        until: fn(&Waiting) -> bool,
    ) -> MutexGuard<'a, Waiting> {
        waiting.idle = true;
        let (mut waiting, _) = self
            .filled
            .wait_timeout_while(waiting, time, |waiting| !until(waiting))
            .unwrap_or_else(PoisonError::into_inner);
        waiting.idle = false;
        waiting
    }

    /// Whether the writer should not delay the pending jobs.
    pub fn is_urgent(&self) -> bool {
        self.lock().is_urgent()
    }

    /// Records that a group was written.
    pub fn record_success(&self) {
        self.lock().failure = None;
    }

    /// Records that a row without a waiting caller could not be written.
    pub fn record_row_failure(&self, failure: StoreError) {
        let mut waiting = self.lock();
        waiting.failure = Some(failure);
        waiting.lost += 1;
    }

    /// Returns the number of lost jobs since the last time.
    pub fn take_lost(&self) -> usize {
        std::mem::take(&mut self.lock().lost)
    }

    /// Records that a group was not written. Jobs without a waiting caller are put back at the front for a retry.
    /// Jobs with a waiting caller are returned: they come after those, and must not wait until writing works again.
    pub fn record_failure(&self, failure: StoreError, retained: Vec<Job>) -> Vec<Job> {
        let mut waiting = self.lock();
        let jobs: Vec<Job> = retained.into_iter().chain(waiting.jobs.drain(..)).collect();
        let (awaited, mut retained): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| job.reply.is_some());
        if waiting.closed {
            // The program ends, so there is no retry.
            retained.clear();
        }
        waiting.bytes = retained.iter().map(|job| job.weight).sum();
        waiting.awaited = 0;
        waiting.jobs = retained.into();
        waiting.failure = Some(failure);
        drop(waiting);
        // Callers that wait for room get the error now, not after the next success.
        self.emptied.notify_all();
        awaited
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// The writer has ended: pending and new jobs get an error.
    pub fn stop(&self) {
        let mut waiting = self.lock();
        waiting.writer_ended = true;
        let jobs = std::mem::take(&mut waiting.jobs);
        drop(waiting);
        self.emptied.notify_all();
        // Dropping a job drops its reply channel, which its caller notices.
        drop(jobs);
    }
}
