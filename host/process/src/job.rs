//! One program as others see it: its output so far, its state, and the way to tell its minder something.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{mpsc, watch};

use crate::output::{Output, Part};
use crate::spawn::Writer;
use crate::{Dropped, Exit, Signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Running,
    /// The program ended, but processes it started live on.
    Left {
        exit: Exit,
    },
    Ended {
        exit: Exit,
        /// Whether the kernel said that nothing of it runs any more.
        confirmed: bool,
    },
}

impl State {
    pub fn exit(self) -> Option<Exit> {
        match self {
            State::Running => None,
            State::Left { exit } | State::Ended { exit, .. } => Some(exit),
        }
    }

    pub fn is_over(self) -> bool {
        match self {
            State::Running | State::Left { .. } => false,
            State::Ended { .. } => true,
        }
    }
}

/// A job as it is now.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: u64,
    pub label: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub pid: i32,
    pub started: SystemTime,
    /// Until now, or until it ended.
    pub duration: Duration,
    pub state: State,
    /// Written so far.
    pub bytes: u64,
    pub output_file: Option<PathBuf>,
    /// Variables that were asked for and not given.
    pub dropped: Vec<Dropped>,
}

/// A part of a job's combined output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub bytes: Vec<u8>,
    /// What to give as `after` for the part that follows.
    pub next: u64,
    /// Bytes before these that were asked for and are gone.
    pub dropped: u64,
    pub state: State,
}

/// To the minder of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Signal(Signal),
    /// SIGTERM, and SIGKILL when the grace is over.
    End,
    /// At once, without grace.
    Kill,
    /// It goes on in the background: nobody listens to it, and no time ends it.
    Detach,
}

/// What changes about a job, for those who wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct News {
    pub state: State,
    pub bytes: u64,
}

/// Shared by the minder, which changes it, and everyone who asks.
pub struct Process {
    pub id: u64,
    pub label: String,
    pub command: Vec<String>,
    pub pid: i32,
    pub started: SystemTime,
    pub began: Instant,
    pub dropped: Vec<Dropped>,
    pub output: Mutex<Output>,
    pub left: Mutex<Vec<i32>>,
    /// None when there is no input, or its end was sent.
    pub stdin: tokio::sync::Mutex<Option<Writer>>,
    /// How far [`crate::Processes::read`] has read when nobody says otherwise.
    pub cursor: AtomicU64,
    /// Whether it is in the list of jobs.
    pub listed: AtomicBool,
    pub news: watch::Sender<News>,
    pub ended: Mutex<Option<Duration>>,
}

impl Process {
    pub fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn state(&self) -> State {
        self.news.borrow().state
    }

    pub fn duration(&self) -> Duration {
        let ended = *self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.unwrap_or_else(|| self.began.elapsed())
    }

    pub fn left(&self) -> Vec<i32> {
        self.left
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn job(&self) -> Job {
        let News { state, bytes } = *self.news.borrow();
        Job {
            id: self.id,
            label: self.label.clone(),
            command: self.command.clone(),
            pid: self.pid,
            started: self.started,
            duration: self.duration(),
            state,
            bytes,
            output_file: self.output().path().map(ToOwned::to_owned),
            dropped: self.dropped.clone(),
        }
    }

    /// Waits until `wanted` holds or `wait` is over.
    pub async fn wait_until(&self, wait: Duration, wanted: impl FnMut(&News) -> bool) {
        let mut news = self.news.subscribe();
        // The sender is this process itself, so the only other outcome is the end of the wait.
        let _ = tokio::time::timeout(wait, news.wait_for(wanted)).await;
    }

    pub fn chunk(&self, after: Option<u64>, max: usize) -> Chunk {
        // The state is taken first: output that comes between the two belongs to a job that still ran.
        let state = self.state();
        let after = after.unwrap_or_else(|| self.cursor.load(Ordering::Relaxed));
        let Part {
            bytes,
            next,
            dropped,
        } = self.output().read(after, max);
        self.cursor.store(next, Ordering::Relaxed);
        Chunk {
            bytes,
            next,
            dropped,
            state,
        }
    }
}

/// A process and the way to its minder. When the last handle is gone, the minder kills what is left.
#[derive(Clone)]
pub struct Handle {
    pub process: std::sync::Arc<Process>,
    pub orders: mpsc::UnboundedSender<Order>,
}

impl Handle {
    /// A minder that is gone has nothing left to be told.
    pub fn tell(&self, order: Order) {
        let _ = self.orders.send(order);
    }
}
