//! The supervisor of one program: a task that reads its output, enforces its timeouts and runs until the program has
//! ended.

use std::future;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal as Number, kill_process_group};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::job::{JobProgress, JobState, Process, SupervisorCommand};
use crate::output::Output;
use crate::spawn::{Reader, WardenConnection};
use crate::wire::{WardenCommand, WardenReport};
use crate::{ExitReason, LeftoverProcesses, Signal, Stream};

/// How long to wait for the end after SIGKILL, because a process can hang in the kernel.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to read output after all processes have ended, because an unrelated process can hold the pipes open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

pub type OutputSender = mpsc::Sender<(Stream, Vec<u8>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    Foreground(LeftoverProcesses),
    Background,
}

pub struct SupervisorLimits {
    pub timeout: Option<Duration>,
    pub inactivity: Option<Duration>,
    pub grace: Duration,
    pub linger: Duration,
    pub max_output: u64,
    pub line_wait: Duration,
}

pub struct Supervisor {
    pub process: Arc<Process>,
    pub warden: WardenConnection,
    pub stdout: Option<Reader>,
    pub stderr: Option<Reader>,
    /// `None` once all senders are dropped.
    pub commands: Option<mpsc::UnboundedReceiver<SupervisorCommand>>,
    pub sender: Option<OutputSender>,
    pub mode: RunMode,
    pub limits: SupervisorLimits,
}

/// Pending deadlines. `None` means not set.
#[derive(Default)]
struct Timers {
    timeout: Option<Instant>,
    inactivity: Option<Instant>,
    linger: Option<Instant>,
    kill: Option<Instant>,
    confirm: Option<Instant>,
    drain: Option<Instant>,
    line: Option<Instant>,
}

impl Timers {
    fn all(&mut self) -> [&mut Option<Instant>; 7] {
        [
            &mut self.timeout,
            &mut self.inactivity,
            &mut self.linger,
            &mut self.kill,
            &mut self.confirm,
            &mut self.drain,
            &mut self.line,
        ]
    }

    fn next(&mut self) -> Option<Instant> {
        self.all().into_iter().filter_map(|alarm| *alarm).min()
    }
}

/// Returns whether `alarm` is due, and clears it if so.
fn take_if_due(alarm: &mut Option<Instant>, now: Instant) -> bool {
    alarm.take_if(|at| *at <= now).is_some()
}

enum SupervisorEvent {
    Report(Option<WardenReport>),
    Output(Stream, Option<Vec<u8>>),
    Command(Option<SupervisorCommand>),
    Timer,
}

struct SupervisorState {
    timers: Timers,
    /// Why the program is being ended, unless it ends by itself.
    cause: Option<ExitReason>,
    /// How the program itself ended.
    exit: Option<ExitReason>,
    is_stopping: bool,
    is_killing: bool,
    is_confirmed: bool,
}

impl Supervisor {
    pub async fn run(mut self) {
        let now = Instant::now();
        let mut life = SupervisorState {
            timers: Timers {
                timeout: self.limits.timeout.map(|timeout| now + timeout),
                inactivity: self.limits.inactivity.map(|inactivity| now + inactivity),
                ..Timers::default()
            },
            cause: None,
            exit: None,
            is_stopping: false,
            is_killing: false,
            is_confirmed: false,
        };
        loop {
            let over = match self.next_event(&mut life).await {
                SupervisorEvent::Report(report) => {
                    self.handle_report(report, &mut life);
                    false
                }
                SupervisorEvent::Output(stream, bytes) => {
                    self.handle_output(stream, bytes, &mut life).await;
                    false
                }
                SupervisorEvent::Command(order) => {
                    self.handle_command(order, &mut life).await;
                    false
                }
                SupervisorEvent::Timer => self.handle_timers(&mut life).await,
            };
            let all_read = self.stdout.is_none() && self.stderr.is_none();
            if over || (all_read && life.timers.drain.is_some()) {
                break;
            }
        }
        self.finish(&life).await;
    }

    async fn next_event(&mut self, life: &mut SupervisorState) -> SupervisorEvent {
        let gone = life.timers.drain.is_some();
        let alarm = life.timers.next();
        tokio::select! {
            report = self.warden.next(), if !gone => SupervisorEvent::Report(report),
            (stream, bytes) = next_output(self.sender.as_ref(), &mut self.stdout, &mut self.stderr) => {
                SupervisorEvent::Output(stream, bytes)
            }
            order = next_command(&mut self.commands) => SupervisorEvent::Command(order),
            () = sleep_until(alarm.unwrap_or_else(Instant::now)), if alarm.is_some() => SupervisorEvent::Timer,
        }
    }

    fn handle_report(&mut self, report: Option<WardenReport>, life: &mut SupervisorState) {
        let now = Instant::now();
        match report {
            Some(WardenReport::Ended { code, signal, left }) => {
                *self
                    .process
                    .leftover_pids
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = left;
                let own = code
                    .map(ExitReason::Code)
                    .or(signal.map(ExitReason::Signal));
                let exit = life.cause.or(own).unwrap_or(ExitReason::Lost);
                life.exit = Some(exit);
                life.timers.timeout = None;
                life.timers.inactivity = None;
                if matches!(self.mode, RunMode::Foreground(_)) {
                    life.timers.linger = Some(now + self.limits.linger);
                } else {
                    self.publish_state(JobState::ProgramExited { exit });
                }
            }
            Some(WardenReport::Crowded) => {
                life.cause = life.cause.or(Some(ExitReason::TooManyProcesses));
            }
            Some(WardenReport::Gone) => {
                life.is_confirmed = true;
                life.timers = Timers {
                    drain: Some(now + DRAIN_TIMEOUT),
                    line: life.timers.line,
                    ..Timers::default()
                };
            }
            // The warden was killed, or sent a report that is invalid here. The program dies with it; the rest of its
            // process group is killed from here.
            None | Some(WardenReport::Started { .. } | WardenReport::Failed(_)) => {
                if life.exit.is_none()
                    && let Some(group) = Pid::from_raw(self.process.pid)
                {
                    let _ = kill_process_group(group, Number::KILL);
                }
                life.timers = Timers {
                    drain: Some(now + DRAIN_TIMEOUT),
                    line: life.timers.line,
                    ..Timers::default()
                };
            }
        }
    }

    async fn handle_output(
        &mut self,
        stream: Stream,
        bytes: Option<Vec<u8>>,
        life: &mut SupervisorState,
    ) {
        let Some(bytes) = bytes else {
            match stream {
                Stream::Stdout => self.stdout = None,
                Stream::Stderr => self.stderr = None,
            }
            self.update_output(life, |output| output.close(stream));
            return;
        };
        let now = Instant::now();
        if let Some(inactivity) = &mut life.timers.inactivity {
            *inactivity = now + self.limits.inactivity.unwrap_or_default();
        }
        let written = self.update_output(life, |output| output.push(stream, &bytes));
        if let Some(live) = &self.sender {
            // The channel has capacity: `output` waited for it, and this task is the only sender.
            let _ = live.try_send((stream, bytes));
        }
        if written > self.limits.max_output && life.cause.is_none() {
            self.stop(life, ExitReason::TooMuchOutput).await;
        }
    }

    /// Applies `change` to the output, publishes how much of it can be read now, and updates the deadline for an
    /// unfinished line. Returns how many bytes were written in total.
    fn update_output(&self, life: &mut SupervisorState, change: impl FnOnce(&mut Output)) -> u64 {
        let (total, written, waits) = {
            let mut output = self.process.output();
            change(&mut output);
            (output.total(), output.written(), output.is_waiting())
        };
        self.process.progress.send_modify(|news| news.bytes = total);
        let line = &mut life.timers.line;
        *line = waits.then(|| line.unwrap_or_else(|| Instant::now() + self.limits.line_wait));
        written
    }

    async fn handle_command(
        &mut self,
        order: Option<SupervisorCommand>,
        life: &mut SupervisorState,
    ) {
        match order {
            Some(SupervisorCommand::Signal(signal @ (Signal::Term | Signal::Kill))) => {
                // No cause is set, because the program reports which signal ended it.
                if signal == Signal::Term {
                    self.terminate(life).await;
                } else {
                    self.kill(life).await;
                }
            }
            // A warden that is killing does not process further commands.
            Some(SupervisorCommand::Signal(_)) if life.is_killing => {}
            Some(SupervisorCommand::Signal(signal)) => {
                self.warden
                    .send(WardenCommand::Signal(signal.number()))
                    .await;
            }
            Some(SupervisorCommand::End) => self.stop(life, ExitReason::Cancelled).await,
            Some(SupervisorCommand::Kill) | None => {
                if order.is_none() {
                    self.commands = None;
                }
                life.cause = life.cause.or(Some(ExitReason::Cancelled));
                self.sender = None;
                self.kill(life).await;
            }
            Some(SupervisorCommand::Detach) => {
                self.sender = None;
                self.mode = RunMode::Background;
                life.timers.timeout = None;
                life.timers.inactivity = None;
                life.timers.linger = None;
                if let Some(exit) = life.exit {
                    self.publish_state(JobState::ProgramExited { exit });
                }
            }
        }
    }

    /// Returns true if the supervisor gives up.
    async fn handle_timers(&mut self, life: &mut SupervisorState) -> bool {
        let now = Instant::now();
        if take_if_due(&mut life.timers.timeout, now) {
            self.stop(life, ExitReason::TimedOut).await;
        }
        if take_if_due(&mut life.timers.inactivity, now) {
            self.stop(life, ExitReason::Inactive).await;
        }
        if take_if_due(&mut life.timers.linger, now) {
            match (self.mode, life.exit) {
                (RunMode::Foreground(LeftoverProcesses::Keep), Some(exit)) => {
                    self.process.list();
                    self.publish_state(JobState::ProgramExited { exit });
                }
                _ => self.terminate(life).await,
            }
        }
        if take_if_due(&mut life.timers.kill, now) {
            self.kill(life).await;
        }
        if take_if_due(&mut life.timers.line, now) {
            self.update_output(life, Output::release);
        }
        take_if_due(&mut life.timers.confirm, now) || take_if_due(&mut life.timers.drain, now)
    }

    async fn stop(&mut self, life: &mut SupervisorState, cause: ExitReason) {
        if life.exit.is_none() {
            life.cause = life.cause.or(Some(cause));
        }
        self.terminate(life).await;
    }

    async fn terminate(&mut self, life: &mut SupervisorState) {
        if !life.is_stopping {
            life.is_stopping = true;
            self.warden
                .send(WardenCommand::Signal(Signal::Term.number()))
                .await;
            life.timers.kill = Some(Instant::now() + self.limits.grace);
        }
    }

    async fn kill(&mut self, life: &mut SupervisorState) {
        if !life.is_killing {
            life.is_stopping = true;
            life.is_killing = true;
            life.timers.kill = None;
            self.warden.send(WardenCommand::Kill).await;
            life.timers.confirm = Some(Instant::now() + KILL_TIMEOUT);
        }
    }

    fn publish_state(&self, state: JobState) {
        let bytes = self.release_output();
        self.process
            .progress
            .send_modify(|news| *news = JobProgress { state, bytes });
    }

    /// Releases output that waits for the end of a line, and returns how many bytes can be read.
    fn release_output(&self) -> u64 {
        let mut output = self.process.output();
        output.release();
        output.total()
    }

    async fn finish(self, life: &SupervisorState) {
        let duration = self.process.started_at.elapsed();
        *self
            .process
            .ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(duration);
        let exit = life.exit.or(life.cause).unwrap_or(ExitReason::Lost);
        let bytes = self.release_output();
        let state = JobState::Ended {
            exit,
            confirmed: life.is_confirmed,
        };
        self.process
            .progress
            .send_replace(JobProgress { state, bytes });
        // A writer holds this lock only briefly, because the program no longer reads.
        *self.process.stdin.lock().await = None;
        self.warden.close().await;
    }
}

/// Returns the next chunk of output once the listener has capacity for it. A slow listener slows the program down
/// instead of filling memory.
async fn next_output(
    live: Option<&OutputSender>,
    stdout: &mut Option<Reader>,
    stderr: &mut Option<Reader>,
) -> (Stream, Option<Vec<u8>>) {
    if let Some(live) = live {
        // A dropped listener never blocks.
        let _ = live.reserve().await;
    }
    let (stream, bytes) = tokio::select! {
        bytes = next_chunk(stdout) => (Stream::Stdout, bytes),
        bytes = next_chunk(stderr) => (Stream::Stderr, bytes),
    };
    (stream, (!bytes.is_empty()).then(|| bytes.to_vec()))
}

async fn next_command(
    commands: &mut Option<mpsc::UnboundedReceiver<SupervisorCommand>>,
) -> Option<SupervisorCommand> {
    match commands {
        Some(commands) => commands.recv().await,
        None => future::pending().await,
    }
}

async fn next_chunk(reader: &mut Option<Reader>) -> &[u8] {
    match reader {
        Some(reader) => reader.next().await,
        None => future::pending().await,
    }
}
