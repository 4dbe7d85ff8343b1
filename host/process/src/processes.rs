//! All programs of one host, by session. This is the only way to start a program.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::hints::hints;
use crate::job::{JobHandle, JobProgress, SupervisorCommand};
use crate::sandbox_rules::resolve_links;
use crate::sessions::{END_TIMEOUT, ProcessRegistry};
use crate::start::{StartedProgram, start};
use crate::supervisor::RunMode;
use crate::wire::SandboxRules;
use crate::{
    Chunk, Command, ExitReason, Job, JobOwner, JobState, ProcessError, ProcessSettings, RunResult,
    SessionOwner, Signal, StopAction, Stream,
};

/// How long a job may leave its input unread before a write fails.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// A handle; clones share the same programs. Dropping the last one kills all of them.
#[derive(Clone)]
pub struct Processes {
    inner: Arc<ProcessRegistry>,
}

impl Processes {
    pub fn new(mut settings: ProcessSettings) -> Result<Processes, ProcessError> {
        // Resolved once, because a program could later replace a symbolic link in the path.
        for path in settings.hidden.iter_mut().chain(&mut settings.read_only) {
            *path = resolve_links(path);
        }
        let inner = Arc::new(ProcessRegistry::new(settings)?);
        Ok(Processes { inner })
    }

    /// Runs a program to its end, or until `stop` resolves. Dropping this future kills the program and its descendants.
    pub async fn run(
        &self,
        command: Command,
        live: &mut (dyn FnMut(Stream, &[u8]) + Send),
        stop: impl Future<Output = StopAction> + Send,
    ) -> Result<RunResult, ProcessError> {
        let ground = RunMode::Foreground(command.leftovers);
        let StartedProgram {
            handle,
            sandbox_rules,
            mut listener,
        } = start(&self.inner, &command, ground).await?;
        let mut guard = KillOnDrop(Some(handle.clone()));
        let mut news = handle.process.progress.subscribe();
        let mut stop = pin!(stop);
        let mut stop_requested = false;
        let done = |news: &JobProgress| match news.state {
            JobState::Running => false,
            JobState::ProgramExited { .. } | JobState::Ended { .. } => true,
        };
        loop {
            tokio::select! {
                Some((stream, bytes)) = listener.recv() => live(stream, &bytes),
                stop = &mut stop, if !stop_requested => {
                    stop_requested = true;
                    match stop {
                        StopAction::End => handle.send(SupervisorCommand::End),
                        StopAction::Background => break,
                    }
                }
                _ = news.wait_for(done) => break,
            }
        }
        while let Ok((stream, bytes)) = listener.try_recv() {
            live(stream, &bytes);
        }
        guard.0 = None;
        // The output of a job that continues has been reported up to this point.
        handle
            .process
            .cursor
            .store(handle.process.output().total(), Ordering::Relaxed);
        let finished = run_result(&handle, sandbox_rules.as_ref(), &command);
        if finished.job.is_some() {
            handle.process.list();
            handle.send(SupervisorCommand::Detach);
        }
        Ok(finished)
    }

    /// Starts a program in the background, as a job of its session.
    pub async fn start(&self, command: Command) -> Result<Job, ProcessError> {
        let started = start(&self.inner, &command, RunMode::Background).await?;
        Ok(started.handle.process.job())
    }

    /// Returns whether the program `program` is allowed and installed.
    pub fn is_available(&self, program: &str) -> bool {
        let settings = &self.inner.settings;
        settings.programs.find(program, &settings.path).is_ok()
    }

    /// The jobs of an owner, oldest first, including those that have ended and are still remembered.
    pub fn jobs(&self, owner: &JobOwner) -> Vec<Job> {
        let listed = self.inner.listed(owner);
        listed.iter().map(|handle| handle.process.job()).collect()
    }

    /// The directory with the outputs of a session and of no other session. It exists until the session ends.
    pub fn output_directory(&self, owner: &SessionOwner) -> Result<PathBuf, ProcessError> {
        self.inner.output(owner)
    }

    /// Returns the combined output from `after` on, or from where the last read stopped. If there is none yet, waits up
    /// to `wait` for output or for the end of the job.
    pub async fn read(
        &self,
        owner: &JobOwner,
        id: u64,
        after: Option<u64>,
        max: usize,
        wait: Duration,
    ) -> Result<Chunk, ProcessError> {
        let process = self.inner.job(owner, id)?.process;
        let from = after.unwrap_or_else(|| process.cursor.load(Ordering::Relaxed));
        process
            .wait_until(wait, |news| news.bytes > from || news.state.has_ended())
            .await;
        Ok(process.chunk(after, max))
    }

    /// Waits up to `wait` for the end of a job.
    pub async fn wait(
        &self,
        owner: &JobOwner,
        id: u64,
        wait: Duration,
    ) -> Result<Job, ProcessError> {
        let process = self.inner.job(owner, id)?.process;
        process
            .wait_until(wait, |news| news.state.has_ended())
            .await;
        Ok(process.job())
    }

    /// Writes to the standard input of a job that was started with [`Input::Open`] or on a terminal.
    pub async fn write(&self, owner: &JobOwner, id: u64, bytes: &[u8]) -> Result<(), ProcessError> {
        let process = self.inner.job(owner, id)?.process;
        let no_input = |reason| ProcessError::NoInput { id, reason };
        let stdin = process.stdin.lock().await;
        if process.state() != JobState::Running {
            return Err(no_input("it has ended"));
        }
        let writer = stdin.as_ref().ok_or(ProcessError::InputClosed { id })?;
        let mut written = 0;
        while written < bytes.len() {
            match tokio::time::timeout(WRITE_TIMEOUT, writer.write(&bytes[written..])).await {
                Ok(Ok(count)) => written += count,
                Ok(Err(_)) => return Err(no_input("it no longer reads its input")),
                Err(_) => {
                    let waited = WRITE_TIMEOUT;
                    return Err(ProcessError::InputFull {
                        id,
                        written,
                        waited,
                    });
                }
            }
        }
        Ok(())
    }

    /// Closes a job's standard input.
    pub async fn close_input(&self, owner: &JobOwner, id: u64) -> Result<(), ProcessError> {
        *self.inner.job(owner, id)?.process.stdin.lock().await = None;
        Ok(())
    }

    /// Sends a signal to all processes of a job. Waits for the job to end after [`Signal::Term`] and [`Signal::Kill`],
    /// and for at most the grace period after other signals that usually end a program.
    pub async fn kill(
        &self,
        owner: &JobOwner,
        id: u64,
        signal: Signal,
    ) -> Result<Job, ProcessError> {
        let handle = self.inner.job(owner, id)?;
        handle.send(SupervisorCommand::Signal(signal));
        let wait = match signal {
            Signal::Term | Signal::Kill => END_TIMEOUT + self.inner.settings.kill_grace,
            Signal::Int | Signal::Hup | Signal::Quit => self.inner.settings.kill_grace,
            Signal::Usr1 | Signal::Usr2 | Signal::Stop | Signal::Cont => Duration::ZERO,
        };
        handle
            .process
            .wait_until(wait, |news| news.state.has_ended())
            .await;
        Ok(handle.process.job())
    }

    /// Ends all programs of a session. They are signalled immediately; when the returned future completes, they have
    /// ended and their files are removed.
    pub fn end_session(&self, owner: &SessionOwner) -> impl Future<Output = ()> + Send + use<> {
        let ended = self.inner.begin_end(owner);
        let grace = self.inner.settings.kill_grace;
        async move {
            if let Some((session, _ending)) = ended {
                session.end(grace).await;
            }
        }
    }

    /// Ends all programs. No program can be started afterwards.
    pub async fn shutdown(&self) {
        let sessions = self.inner.close();
        for session in &sessions {
            session.request_end();
        }
        let grace = self.inner.settings.kill_grace;
        for session in sessions {
            session.end(grace).await;
        }
        // Waits for sessions that were ended shortly before, too.
        let mut ending = self.inner.ending.subscribe();
        let none = ending.wait_for(|ending| *ending == 0);
        let _ = tokio::time::timeout(END_TIMEOUT + grace, none).await;
    }
}

struct KillOnDrop(Option<JobHandle>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.send(SupervisorCommand::Kill);
        }
    }
}

fn run_result(
    handle: &JobHandle,
    sandbox_rules: Option<&SandboxRules>,
    command: &Command,
) -> RunResult {
    let process = &handle.process;
    let state = process.state();
    let exit = state.exit().unwrap_or(ExitReason::Backgrounded);
    let (stdout, stderr, combined) = process.output().captured();
    let output_file = process.output().path().map(Path::to_owned);
    let (job, confirmed) = match state {
        JobState::Running | JobState::ProgramExited { .. } => (Some(process.id), false),
        JobState::Ended { confirmed, .. } => (None, confirmed),
    };
    let permissions = &command.sandbox;
    RunResult {
        exit,
        hints: hints(sandbox_rules, permissions, exit, &combined),
        stdout,
        stderr,
        combined,
        pid: process.pid,
        pgid: process.pid,
        duration: process.duration(),
        output_file,
        dropped: process.dropped.clone(),
        leftover_pids: process.leftover_pids(),
        job,
        is_confirmed: confirmed,
    }
}
