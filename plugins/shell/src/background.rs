//! Start of background commands and their first output.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::{Command, Job};
use toolhost_sdk::text::escape;

use crate::command_result::{
    CommandResult, code, directory, failure, hints, how_it_ended, is_timeout,
};
use crate::cursor;
use crate::output::{OutputText, RawOutput};
use crate::output_reader::{bounded, gather};
use crate::show::{field, omission_note};
use crate::task::is_running;

pub fn start_background(
    cx: &Context,
    job: Job,
    delay_ms: u32,
    program: &Command,
    most: usize,
) -> Result<Outcome> {
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
    let mut text = if running {
        format!("Started in the background: task {id} ({})\n", program.label)
    } else {
        format!(
            "Started in the background and already ended: task {id} ({})\n",
            program.label
        )
    };
    text += &field("Output", "stdout", &shown.text);
    if let Some(ending) = &ending {
        text += &how_it_ended(ending, error.as_ref());
    }
    _ = writeln!(
        text,
        "Background PIDs: {}\nProcess Group: {}",
        job.pid, job.pid
    );
    text += &hints(&job.hints, false);
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
