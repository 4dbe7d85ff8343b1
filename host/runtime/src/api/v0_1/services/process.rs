//! The interface `process`, on top of the crate `toolhost-process`.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use toolhost_contract::{CallEvent, DetachSwitch, DetachableCommand, Failure, Sink, text};
use toolhost_process::{
    CapturedOutput, Chunk, Command, ExitReason, Input, Job, JobState as Life, LeftoverProcesses,
    ProcessError, RunResult, Signal, StopAction, Stream,
};
use toolhost_vfs::Scope;

use super::bindings::toolhost::plugin::process::{self, ExitStatus};
use super::convert::failure;
use super::types;
use crate::denied_paths::denied_below;
use crate::programs::{CallPrograms, ProgramRequest, job_name};
use crate::state::State;

/// Its functions, to detect components built against a later version.
pub(super) const FUNCTIONS: &[&str] = &["run", "start", "jobs", "read", "write", "kill"];

/// Maximum live output of one program, in bytes; the result contains the rest.
const MAX_LIVE: usize = 1 << 20;
/// Interval at which a running program's call is polled for cancellation and detachment.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_WAIT: Duration = Duration::from_mins(5);
const MAX_CHUNK: u32 = 1 << 20;

impl State {
    fn programs(&self) -> Result<CallPrograms, types::Failure> {
        self.sink.mark_untracked_dependency();
        self.allowed.programs.clone().ok_or_else(|| {
            failure(Failure {
                recommendations: vec![
                    "the plugin's manifest must request `process`, and the operator must allow a program with \
                     --allow-program"
                        .to_owned(),
                ],
                ..Failure::new("service_not_granted", "this call was not granted `process`")
            })
        })
    }

    /// The programs of a call that may start or change them.
    fn programs_for_changes(&self) -> Result<CallPrograms, types::Failure> {
        let programs = self.programs()?;
        if programs.may_change {
            return Ok(programs);
        }
        Err(failure(Failure::new(
            "service_not_granted",
            "a read-only tool can only list and read jobs",
        )))
    }

    /// The authorized program to start, with standard input kept open if that was authorized.
    fn command(
        &self,
        wanted: process::Command,
        ground: LaunchKind,
    ) -> Result<(CallPrograms, Command), types::Failure> {
        let programs = self.programs_for_changes()?;
        let started = programs
            .authorize(ProgramRequest {
                program: wanted.program,
                arguments: wanted.arguments,
                cwd: wanted.cwd,
                environment: wanted.environment,
                stdin: wanted.stdin,
                tty: wanted.tty,
            })
            .map_err(failure)?;
        let (cwd, mut permissions) = programs
            .confinement(
                started.cwd.as_deref(),
                self.files.scope(),
                &self.allowed.directories,
            )
            .map_err(failure)?;
        let granted: Vec<_> = permissions.read.iter().chain(&permissions.write).collect();
        let guard = self.allowed.read_guard.as_deref();
        let denied = denied_below(guard, &granted).map_err(failure)?;
        permissions.except.extend(denied);
        let input = match (ground, started.stdin) {
            (LaunchKind::Background, _) if programs.opens_input() => Input::Open,
            (_, Some(bytes)) => Input::Bytes(bytes),
            (_, None) => Input::Closed,
        };
        let millis = |ms: u32| Duration::from_millis(ms.into());
        let command = Command {
            program: started.program,
            arguments: started.arguments,
            cwd,
            env: started.environment,
            input,
            timeout: wanted.timeout_ms.map(millis),
            inactivity: wanted.inactivity_timeout_ms.map(millis),
            tty: started.tty,
            sandbox: permissions,
            leftovers: LeftoverProcesses::Keep,
            owner: programs.owner.clone(),
            label: text::escape_line(&wanted.label, 200),
        };
        Ok((programs, command))
    }
}

/// How a program runs.
#[derive(Clone, Copy)]
enum LaunchKind {
    Foreground,
    Background,
}

impl process::Host for State {
    async fn run(
        &mut self,
        command: process::Command,
    ) -> Result<process::RunOutput, types::Failure> {
        let (programs, command) = self.command(command, LaunchKind::Foreground)?;
        let sink = Arc::clone(&self.sink);
        let mut left = MAX_LIVE;
        let mut live = |stream: Stream, bytes: &[u8]| {
            let shown = &bytes[..bytes.len().min(left)];
            left -= shown.len();
            if !shown.is_empty() {
                let stream = match stream {
                    Stream::Stdout => "stdout",
                    Stream::Stderr => "stderr",
                };
                sink.event(CallEvent::Output {
                    stream: stream.to_owned(),
                    bytes: shown.to_owned(),
                });
            }
        };
        let detachable = self.sink.detach_switch().as_ref().map(DetachSwitch::open);
        let stop = requested_stop(Arc::clone(&self.sink), detachable);
        let processes = &programs.grant.processes;
        let finished = processes
            .run(command, &mut live, stop)
            .await
            .map_err(|error| refused(&error))?;
        programs.mark_used();
        Ok(finished_to_wit(finished, &programs, self.files.scope()))
    }

    async fn start(&mut self, command: process::Command) -> Result<process::Job, types::Failure> {
        let (programs, command) = self.command(command, LaunchKind::Background)?;
        let job = programs.grant.processes.start(command).await;
        let job = job.map_err(|error| refused(&error))?;
        programs.mark_used();
        Ok(job_to_wit(&job, &programs))
    }

    async fn jobs(&mut self) -> Result<Vec<process::Job>, types::Failure> {
        let programs = self.programs()?;
        let jobs = programs.grant.processes.jobs(&programs.owner);
        Ok(jobs.iter().map(|job| job_to_wit(job, &programs)).collect())
    }

    async fn read(
        &mut self,
        id: String,
        after: f64,
        max: u32,
        wait_ms: u32,
    ) -> Result<process::Chunk, types::Failure> {
        let programs = self.programs()?;
        let (processes, owner) = (&programs.grant.processes, &programs.owner);
        let id = number(&id)?;
        let wait = Duration::from_millis(wait_ms.into()).min(MAX_WAIT);
        let max = max.min(MAX_CHUNK) as usize;
        let chunk = processes
            .read(owner, id, Some(to_u64(after)), max, wait)
            .await;
        let Chunk {
            bytes,
            next,
            dropped,
            ..
        } = chunk.map_err(|error| refused(&error))?;
        let job = processes.jobs(owner).into_iter().find(|job| job.id == id);
        let job = job.ok_or_else(|| unknown(id))?;
        Ok(process::Chunk {
            bytes,
            next: to_f64(next),
            dropped: to_f64(dropped),
            job: job_to_wit(&job, &programs),
        })
    }

    async fn write(&mut self, id: String, bytes: Vec<u8>) -> Result<(), types::Failure> {
        let programs = self.programs_for_changes()?;
        programs.authorize_input(&id, &bytes).map_err(failure)?;
        programs.mark_used();
        let id = number(&id)?;
        let written = programs
            .grant
            .processes
            .write(&programs.owner, id, &bytes)
            .await;
        written.map_err(|error| refused(&error))
    }

    async fn kill(&mut self, id: String, signal: String) -> Result<process::Job, types::Failure> {
        let programs = self.programs_for_changes()?;
        programs.authorize_signal(&id).map_err(failure)?;
        let id = number(&id)?;
        let signal = Signal::parse(&signal).ok_or_else(|| {
            let shown = text::escape_line(&signal, 40);
            failure(Failure::new(
                "invalid_signal",
                format!("`{shown}` is not a signal; use TERM, INT, HUP, QUIT, USR1, USR2 or KILL"),
            ))
        })?;
        let job = programs
            .grant
            .processes
            .kill(&programs.owner, id, signal)
            .await;
        job.map(|job| job_to_wit(&job, &programs))
            .map_err(|error| refused(&error))
    }
}

/// Waits until the call is cancelled or its command detached.
async fn requested_stop(sink: Arc<dyn Sink>, detachable: Option<DetachableCommand>) -> StopAction {
    loop {
        if sink.is_cancelled() {
            return StopAction::End;
        }
        if detachable
            .as_ref()
            .is_some_and(DetachableCommand::is_requested)
        {
            return StopAction::Background;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

const JOB_PREFIX: &str = "job-";

fn number(id: &str) -> Result<u64, types::Failure> {
    let number = id.strip_prefix(JOB_PREFIX).and_then(|id| id.parse().ok());
    number.ok_or_else(|| {
        let shown = text::escape_line(id, 80);
        failure(Failure::new(
            "task_not_found",
            format!("no job `{shown}` in this session; job ids have the form `job-1`"),
        ))
    })
}

fn unknown(id: u64) -> types::Failure {
    failure(Failure::new(
        "task_not_found",
        format!("no job `{JOB_PREFIX}{id}` in this session"),
    ))
}

fn refused(error: &ProcessError) -> types::Failure {
    let recommendations = match error {
        ProcessError::InputClosed { .. } => vec![
            "start the command again in the background with `tty`, which keeps its standard input open".to_owned(),
        ],
        _ => Vec::new(),
    };
    let code = match error {
        ProcessError::NotAllowed { .. } => "program_not_allowed",
        ProcessError::NotFound { .. } => "program_not_found",
        ProcessError::Directory { .. } => "directory_not_found",
        ProcessError::Unconfined { .. } => "confinement_unavailable",
        ProcessError::TooLarge { .. }
        | ProcessError::Malformed { .. }
        | ProcessError::LoadsCode { .. } => "invalid_command",
        ProcessError::TooMany { .. } | ProcessError::OutputFull { .. } => "too_many_jobs",
        ProcessError::UnknownJob { .. } => "task_not_found",
        ProcessError::InputClosed { .. } => "input_not_authorized",
        ProcessError::NoInput { .. } | ProcessError::InputFull { .. } => "input_not_taken",
        ProcessError::Start { .. }
        | ProcessError::Launcher { .. }
        | ProcessError::Folder { .. }
        | ProcessError::Io { .. }
        | ProcessError::SessionEnded
        | ProcessError::Closing => "process_failed",
    };
    failure(Failure {
        recommendations,
        ..Failure::new(code, text::escape_lines(&error.to_string(), 2_000))
    })
}

fn finished_to_wit(
    finished: RunResult,
    programs: &CallPrograms,
    scope: &Scope,
) -> process::RunOutput {
    let hints = finished.hints.iter();
    let mut hints: Vec<String> = hints
        .map(|hint| CallPrograms::in_guest_names(hint, scope))
        .collect();
    if finished.exit == ExitReason::Backgrounded {
        hints.push(format!(
            "background: the command continues as `{JOB_PREFIX}{}`",
            finished.job.unwrap_or_default()
        ));
    } else if finished.job.is_some() {
        let pids: Vec<String> = finished
            .leftover_pids
            .iter()
            .map(ToString::to_string)
            .collect();
        hints.push(format!(
            "background: processes {1} continue as `{JOB_PREFIX}{0}`",
            finished.job.unwrap_or_default(),
            pids.join(", ")
        ));
    }
    hints.extend(finished.dropped.iter().map(|dropped| {
        format!(
            "the variable {} was not passed on: {:?}",
            text::escape_line(&dropped.name, 80),
            dropped.reason
        )
    }));
    process::RunOutput {
        stdout_total: to_f64(finished.stdout.total),
        stderr_total: to_f64(finished.stderr.total),
        stdout: output_bytes(finished.stdout),
        stderr: output_bytes(finished.stderr),
        combined: output_bytes(finished.combined),
        pid: u32::try_from(finished.pid).unwrap_or_default(),
        exit_status: exit_status_to_wit(finished.exit, finished.duration),
        output_file: finished
            .output_file
            .and_then(|path| programs.guest_name(&path)),
        hints,
    }
}

/// Head and tail, separated by a line that states how much is omitted.
fn output_bytes(captured: CapturedOutput) -> Vec<u8> {
    let omitted = captured.omitted();
    let CapturedOutput { mut head, tail, .. } = captured;
    if omitted > 0 {
        head.extend_from_slice(format!("\n[… {omitted} bytes …]\n").as_bytes());
    }
    head.extend_from_slice(&tail);
    head
}

fn job_to_wit(job: &Job, programs: &CallPrograms) -> process::Job {
    let state = if job.state.has_ended() {
        "ended"
    } else {
        "running"
    };
    let started = job.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let exit = match job.state {
        Life::Ended { exit, .. } => Some(exit),
        Life::Running | Life::ProgramExited { .. } => None,
    };
    process::Job {
        id: job_name(job.id),
        pid: u32::try_from(job.pid).unwrap_or_default(),
        label: job.label.clone(),
        state: state.to_owned(),
        started_ms: started.as_secs_f64() * 1000.0,
        output_bytes: to_f64(job.bytes),
        exit_status: exit.map(|exit| exit_status_to_wit(exit, job.duration)),
        output_file: job
            .output_file
            .as_ref()
            .and_then(|path| programs.guest_name(path)),
        hints: Vec::new(),
    }
}

fn exit_status_to_wit(exit: ExitReason, duration: Duration) -> ExitStatus {
    let (kind, code, signal) = match exit {
        ExitReason::Code(code) => ("exited", Some(code), None),
        ExitReason::Signal(number) => ("signalled", None, Some(signal_name(number))),
        ExitReason::TimedOut => ("timed-out", None, None),
        ExitReason::Inactive => ("idle-timeout", None, None),
        ExitReason::Cancelled => ("cancelled", None, None),
        ExitReason::TooMuchOutput => ("output-limit", None, None),
        ExitReason::TooManyProcesses => ("process-limit", None, None),
        ExitReason::Backgrounded => ("backgrounded", None, None),
        ExitReason::Lost => ("killed", None, None),
    };
    ExitStatus {
        kind: kind.to_owned(),
        code,
        signal,
        duration_ms: duration.as_secs_f64() * 1000.0,
    }
}

fn signal_name(signal: i32) -> String {
    let known = [
        (1, "HUP"),
        (2, "INT"),
        (3, "QUIT"),
        (4, "ILL"),
        (6, "ABRT"),
        (7, "BUS"),
        (8, "FPE"),
        (9, "KILL"),
        (10, "USR1"),
        (11, "SEGV"),
        (12, "USR2"),
        (13, "PIPE"),
        (14, "ALRM"),
        (15, "TERM"),
        (24, "XCPU"),
        (25, "XFSZ"),
        (31, "SYS"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == signal)
        .map_or_else(|| signal.to_string(), |(_, name)| (*name).to_owned())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the contract counts in f64, exact up to 8 petabytes"
)]
fn to_f64(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of this kind saturates"
)]
fn to_u64(number: f64) -> u64 {
    number as u64
}
