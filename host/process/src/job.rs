//! The shared state of one program: its output so far, its state, and the channel to its supervisor.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{mpsc, watch};

use crate::output::{Output, OutputSlice};
use crate::spawn::Writer;
use crate::{DroppedVariable, ExitReason, Signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    Running,
    /// The program ended, but processes that it started are still running.
    ProgramExited {
        exit: ExitReason,
    },
    Ended {
        exit: ExitReason,
        /// Whether the warden confirmed that no process of the job is running.
        confirmed: bool,
    },
}

impl JobState {
    pub fn exit(self) -> Option<ExitReason> {
        match self {
            JobState::Running => None,
            JobState::ProgramExited { exit } | JobState::Ended { exit, .. } => Some(exit),
        }
    }

    pub fn has_ended(self) -> bool {
        match self {
            JobState::Running | JobState::ProgramExited { .. } => false,
            JobState::Ended { .. } => true,
        }
    }
}

/// A snapshot of a job.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: u64,
    pub label: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub pid: i32,
    pub started: SystemTime,
    /// Up to now, or to its end.
    pub duration: Duration,
    pub state: JobState,
    /// Bytes written so far.
    pub bytes: u64,
    pub output_file: Option<PathBuf>,
    /// Variables that were requested but not passed.
    pub dropped: Vec<DroppedVariable>,
}

/// A part of a job's combined output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub bytes: Vec<u8>,
    /// The `after` value for the next chunk.
    pub next: u64,
    /// Requested bytes before this chunk that are no longer available.
    pub dropped: u64,
    pub state: JobState,
}

/// A command to the supervisor of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SupervisorCommand {
    Signal(Signal),
    /// SIGTERM, then SIGKILL after the grace period.
    End,
    /// SIGKILL immediately.
    Kill,
    /// Continue in the background, without a listener and without a timeout.
    Detach,
}

/// The state that waiters on a job observe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobProgress {
    pub state: JobState,
    pub bytes: u64,
}

/// Shared between the supervisor, which updates it, and readers.
pub struct Process {
    pub id: u64,
    pub label: String,
    pub command: Vec<String>,
    pub pid: i32,
    pub started: SystemTime,
    pub started_at: Instant,
    pub dropped: Vec<DroppedVariable>,
    pub output: Mutex<Output>,
    pub leftover_pids: Mutex<Vec<i32>>,
    /// `None` if there is no input, or if it was closed.
    pub stdin: tokio::sync::Mutex<Option<Writer>>,
    /// Position up to which [`crate::Processes::read`] has read, used when no position is given.
    pub cursor: AtomicU64,
    /// Whether the job is listed.
    pub is_listed: AtomicBool,
    pub progress: watch::Sender<JobProgress>,
    pub ended: Mutex<Option<Duration>>,
}

impl Process {
    pub fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the job, and creates the file of its output, whose path the user is told.
    pub fn list(&self) {
        self.output().create_file();
        self.is_listed.store(true, Ordering::Relaxed);
    }

    pub fn state(&self) -> JobState {
        self.progress.borrow().state
    }

    pub fn duration(&self) -> Duration {
        let ended = *self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.unwrap_or_else(|| self.started_at.elapsed())
    }

    pub fn leftover_pids(&self) -> Vec<i32> {
        self.leftover_pids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn job(&self) -> Job {
        let JobProgress { state, bytes } = *self.progress.borrow();
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

    /// Waits until `wanted` holds, at most `wait`.
    pub async fn wait_until(&self, wait: Duration, wanted: impl FnMut(&JobProgress) -> bool) {
        let mut news = self.progress.subscribe();
        // The sender belongs to this process, so the only other outcome is the timeout.
        let _ = tokio::time::timeout(wait, news.wait_for(wanted)).await;
    }

    pub fn chunk(&self, after: Option<u64>, max: usize) -> Chunk {
        // The state is read first: output that arrives in between belongs to a job that was still running.
        let state = self.state();
        let after = after.unwrap_or_else(|| self.cursor.load(Ordering::Relaxed));
        let OutputSlice {
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

/// A process and the channel to its supervisor. When the last handle is dropped, the supervisor kills the processes
/// that remain.
#[derive(Clone)]
pub struct JobHandle {
    pub process: std::sync::Arc<Process>,
    pub commands: mpsc::UnboundedSender<SupervisorCommand>,
}

impl JobHandle {
    /// Sends a command; has no effect if the supervisor has finished.
    pub fn send(&self, order: SupervisorCommand) {
        let _ = self.commands.send(order);
    }
}
