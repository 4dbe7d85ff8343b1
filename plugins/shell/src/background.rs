//! Commands that start in the background or move to it, and their first output.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::{Command, Job, RunOutput};
use toolhost_sdk::text::escape;

use crate::command_result::{
    CommandResult, code, directory, failure, hints, how_it_ended, is_timeout,
};
use crate::cursor;
use crate::output::{OutputText, RawOutput};
use crate::output_reader::{bounded, gather};
use crate::show::{field, omission_note};
use crate::task::is_running;

/// How a command came to the background.
#[derive(Clone, Copy)]
pub enum Origin {
    /// The model started it there, and waits so many milliseconds for output.
    Started { delay_ms: u32 },
    /// The user moved it there while it ran.
    Moved,
}

/// Finds the job of a command that the user has moved to the background. `None` if it ran to its end.
pub fn moved_job(cx: &Context, finished: &RunOutput) -> Result<Option<Job>> {
    if finished.exit_status.kind != "backgrounded" {
        return Ok(None);
    }
    let jobs = cx.jobs()?;
    Ok(jobs.into_iter().rev().find(|job| job.pid == finished.pid))
}

pub fn answer_background(
    cx: &Context,
    job: Job,
    origin: Origin,
    program: &Command,
    most: usize,
) -> Result<Outcome> {
    let delay_ms = match origin {
        Origin::Started { delay_ms } => delay_ms,
        Origin::Moved => 0,
    };
    let part = gather(cx, job, 0, bounded(cx, delay_ms))?;
    cursor::set(cx, &part.job.id, part.next)?;
    let job = part.job;
    let raw = RawOutput {
        bytes: &part.bytes,
        total: part.bytes.len() as u64,
    };
    let file = job.output_file.as_deref();
    let shown = OutputText::of(raw).fit(most, |left| omission_note(left, file, part.start == 0));
    let skipped = part.start > 0 || part.dropped > 0;
    let id = escape(&job.id, 80);

    let running = is_running(&job);
    let ending = job.exit_status.clone().filter(|_| !running);
    let error = ending.as_ref().and_then(|ending| failure(ending, program));
    let how = match origin {
        Origin::Started { .. } => "Started in the background",
        Origin::Moved => "The user moved this command to the background",
    };
    let already_ended = match (running, origin) {
        (true, _) => "",
        (false, Origin::Started { .. }) => " and already ended",
        (false, Origin::Moved) => ", and it has ended",
    };
    let mut text = format!("{how}{already_ended}: task {id} ({})\n", program.label);
    text += &field("Output", "stdout", &shown.text);
    if let Some(ending) = &ending {
        text += &how_it_ended(ending, error.as_ref());
    }
    _ = writeln!(
        text,
        "Background PIDs: {}\nProcess Group: {}",
        job.pid, job.pid
    );
    text += &hints(&job.hints);
    if running {
        _ = writeln!(
            text,
            "To continue reading: shell_output {{\"task_id\": {id:?}}}. To stop it: shell_kill {{\"task_id\": {id:?}}}."
        );
    }

    let answer = CommandResult {
        stdout: shown.text,
        stderr: String::new(),
        exit_code: ending.as_ref().and_then(code),
        signal: ending.as_ref().and_then(|ending| ending.signal.clone()),
        timed_out: ending.as_ref().is_some_and(is_timeout),
        background: true,
        task_id: Some(job.id),
        pid: job.pid,
        pgid: job.pid,
        status: (if running { "running" } else { "ended" }).to_owned(),
        duration_ms: ending
            .as_ref()
            .map_or(0.0, |ending| ending.duration_ms.round()),
        cwd: directory(cx, program),
        output_file: job.output_file,
        truncated: shown.cut || skipped,
    };
    let mut outcome = Outcome::text(text)
        .structured(&answer)
        .summary(format!("task {id}: {}", program.label));
    outcome.error = error.or(outcome.error);
    Ok(outcome)
}
