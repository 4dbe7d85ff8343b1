//! What waits for the writer: bounded, in order, and handed over in groups.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::{StoreError, Write};

/// How many jobs may wait before `queue` makes its caller wait.
const MAX_JOBS: usize = 4096;
/// How many bytes may wait: jobs are small as a rule, and a few large ones must not fill the memory.
const MAX_BYTES: usize = 64 << 20;
/// How many jobs share a transaction.
pub const MAX_GROUP: usize = 512;
/// How long jobs nobody waits for are held back, so that a burst of them shares one `fsync`.
const LINGER: Duration = Duration::from_millis(4);
/// How long until the writer tries again what it could not write.
const RETRY: Duration = Duration::from_millis(500);
/// How long `queue` waits for room at most.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs inside a transaction, perhaps again in a second one when the first was rolled back.
pub type Change = Box<dyn FnMut(&Connection) -> rusqlite::Result<()> + Send>;

/// Made in the writer's thread, when it is its turn.
pub type Draft = LazyCell<Write, Box<dyn FnOnce() -> Write + Send>>;

pub enum Work {
    Write(Draft),
    /// A change that has to look before it writes.
    Change(Change),
}

pub struct Job {
    pub work: Work,
    pub weight: usize,
    /// Somebody waits for the disk. A job nobody waits for is tried again after a failure.
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
    /// How many callers sleep until there is room.
    crowd: usize,
    /// The last group was not written, and nothing has been since.
    failure: Option<StoreError>,
    /// No new jobs; what waits is still written.
    closed: bool,
    /// There is no writer any more.
    dead: bool,
}

impl Waiting {
    fn full(&self) -> bool {
        self.jobs.len() >= MAX_JOBS || self.bytes >= MAX_BYTES
    }

    /// There is something the writer should not hold back.
    fn urgent(&self) -> bool {
        self.awaited > 0 || self.closed || self.crowd > 0 || self.jobs.len() >= MAX_GROUP
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
        // Nothing here panics between two changes that belong together.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn health(&self) -> Result<(), StoreError> {
        let waiting = self.lock();
        if waiting.dead {
            return Err(StoreError::Closed);
        }
        waiting.failure.clone().map_or(Ok(()), Err)
    }

    /// Takes a job nobody waits for. Waits for room, and refuses while the store cannot be written: what is accepted
    /// then would pile up.
    pub fn push(&self, job: Job) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        while waiting.full() && waiting.failure.is_none() && !waiting.dead {
            waiting.crowd += 1;
            self.filled.notify_one();
            let (woken, timeout) = self
                .emptied
                .wait_timeout(waiting, PATIENCE)
                .unwrap_or_else(PoisonError::into_inner);
            waiting = woken;
            waiting.crowd -= 1;
            if timeout.timed_out() && waiting.full() {
                return Err(StoreError::Behind {
                    waiting: waiting.jobs.len(),
                });
            }
        }
        if waiting.closed || waiting.dead {
            return Err(StoreError::Closed);
        }
        if let Some(failure) = &waiting.failure {
            return Err(failure.clone());
        }
        self.add(waiting, job);
        Ok(())
    }

    /// Takes a job nobody waits for, or refuses it at once.
    pub fn push_if_room(&self, job: Job) -> Result<(), StoreError> {
        let waiting = self.lock();
        if waiting.closed || waiting.dead {
            return Err(StoreError::Closed);
        }
        if let Some(failure) = &waiting.failure {
            return Err(failure.clone());
        }
        if waiting.full() {
            return Err(StoreError::Behind {
                waiting: waiting.jobs.len(),
            });
        }
        self.add(waiting, job);
        Ok(())
    }

    /// Takes a job somebody waits for. It never waits for room: whoever waits for the disk brings no second job, so
    /// there are at most as many as there are callers.
    pub fn push_awaited(&self, job: Job) -> Result<(), StoreError> {
        let waiting = self.lock();
        if waiting.closed || waiting.dead {
            return Err(StoreError::Closed);
        }
        self.add(waiting, job);
        Ok(())
    }

    fn add(&self, mut waiting: MutexGuard<'_, Waiting>, job: Job) {
        waiting.bytes += job.weight;
        waiting.awaited += usize::from(job.reply.is_some());
        waiting.jobs.push_back(job);
        // The first job of a group wakes the writer, and so does the one that ends the lingering.
        let wake = waiting.idle && (waiting.jobs.len() == 1 || waiting.urgent());
        drop(waiting);
        if wake {
            self.filled.notify_one();
        }
    }

    /// The next group: empty when it is time to try whether the store can be written again, nothing when all is done.
    pub fn take(&self) -> Option<Vec<Job>> {
        let mut waiting = self.lock();
        if waiting.failure.is_some() {
            // However much waits, what could not be written a moment ago is not tried in a loop.
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
            waiting = self.sleep(waiting, LINGER, Waiting::urgent);
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
        let crowd = waiting.crowd > 0;
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

    /// A group was written.
    pub fn succeeded(&self) {
        self.lock().failure = None;
    }

    /// A row was at fault that nobody waits for.
    pub fn lost(&self, failure: StoreError) {
        self.lock().failure = Some(failure);
    }

    /// A group was not written. What nobody waits for goes back to the front and is tried again; the jobs somebody
    /// waits for come back, for they are behind it and must not wait for better times.
    pub fn failed(&self, failure: StoreError, kept: Vec<Job>) -> Vec<Job> {
        let mut waiting = self.lock();
        let jobs: Vec<Job> = kept.into_iter().chain(waiting.jobs.drain(..)).collect();
        let (awaited, mut kept): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| job.reply.is_some());
        if waiting.closed {
            // The program ends; there is no later.
            kept.clear();
        }
        waiting.bytes = kept.iter().map(|job| job.weight).sum();
        waiting.awaited = 0;
        waiting.jobs = kept.into();
        waiting.failure = Some(failure);
        drop(waiting);
        // Whoever waits for room hears of the failure now and not after the next success.
        self.emptied.notify_all();
        awaited
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// The writer is gone: whoever waits or comes later gets an error and not silence.
    pub fn die(&self) {
        let mut waiting = self.lock();
        waiting.dead = true;
        let jobs = std::mem::take(&mut waiting.jobs);
        drop(waiting);
        self.emptied.notify_all();
        // Dropping a job drops its reply, which its caller notices.
        drop(jobs);
    }
}
