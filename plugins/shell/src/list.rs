//! `shell_list`: lists background tasks.

use std::fmt::Write as _;

use std::time::{SystemTime, UNIX_EPOCH};

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::BackgroundCall;
use toolhost_sdk::services::process::Job;
use toolhost_sdk::text::{count, escape};

use crate::command_result::code;
use crate::show::ending;
use crate::task::is_running;

/// Limit of listed tasks; the host keeps fewer.
const MOST: usize = 100;

/// One task.
#[data]
pub struct Entry {
    /// Task id.
    task_id: String,
    /// `program`, or `call` for a tool call.
    kind: String,
    /// Process id.
    pid: Option<u32>,
    /// Command, cut at 100 characters, or tool name.
    command: String,
    /// `running` or `ended`.
    status: String,
    /// Start time, in milliseconds since 1970.
    started_ms: f64,
    /// Exit code.
    #[arg(rename = "exitCode")]
    exit_code: Option<i32>,
    /// Signal that ended it.
    signal: Option<String>,
    /// Bytes of output.
    bytes: Option<u64>,
    /// File with the output.
    output_file: Option<String>,
}

/// Background tasks.
#[data]
pub struct Tasks {
    /// Tasks of this session, oldest first.
    tasks: Vec<Entry>,
    /// Number of running tasks.
    running: usize,
}

/// List the background tasks of this session, running and ended.
#[tool(
    reads,
    plain_text,
    requires = ["process", "tools"],
    category = "system",
    kind = "read",
    icon = "list",
    aliases = ["list_background_processes"],
    tags = ["background", "process", "task"],
    output = Tasks,
    example(description = "All tasks", input = "{}"),
)]
pub fn shell_list(cx: &Context) -> Result<Outcome> {
    let jobs = cx.jobs()?;
    // The host may let this plugin start programs without access to other tools; then there are no calls to list.
    let calls = cx.running_tools().unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0.0, |now| now.as_secs_f64() * 1e3);
    Ok(listed(&jobs, &calls, now_ms))
}

fn listed(jobs: &[Job], calls: &[BackgroundCall], now_ms: f64) -> Outcome {
    let mut lines: Vec<(f64, String, Entry)> = jobs
        .iter()
        .map(|job| (job.started_ms, of_job(job, now_ms), entry_of_job(job)))
        .chain(calls.iter().map(|call| {
            let line = format!(
                "{}  call of {}  {}{}",
                escape(&call.id, 80),
                escape(&call.tool, 64),
                escape(&call.state, 20),
                age(call.started_ms, now_ms)
            );
            (call.started_ms, line, entry_of_call(call))
        }))
        .collect();
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    let hidden = lines.len().saturating_sub(MOST);
    lines.drain(..hidden);
    let running = lines
        .iter()
        .filter(|(_, _, entry)| entry.status == "running")
        .count();
    let mut text = match lines.len() + hidden {
        0 => "No background tasks in this session.\n".to_owned(),
        all => format!("{}, {running} running:\n", count(all, "background task")),
    };
    if hidden > 0 {
        _ = writeln!(text, "[… {hidden} older ones]");
    }
    for (_, line, _) in &lines {
        text += line;
        text.push('\n');
    }
    let summary = format!("{running} running");
    let tasks = lines.into_iter().map(|(_, _, entry)| entry).collect();
    Outcome::text(text)
        .structured(&Tasks { tasks, running })
        .summary(summary)
}

fn of_job(job: &Job, now_ms: f64) -> String {
    let how = job.exit_status.as_ref().filter(|_| !is_running(job));
    let state = how.map_or_else(
        || format!("{}{}", escape(&job.state, 20), age(job.started_ms, now_ms)),
        |how| format!("ended, {}, after {}", ending(how), span(how.duration_ms)),
    );
    format!(
        "{}  pid {}  {state}, {} bytes  {}",
        escape(&job.id, 80),
        job.pid,
        job.output_bytes,
        escape(&job.label, 100)
    )
}

fn age(started_ms: f64, now_ms: f64) -> String {
    if started_ms > 0.0 && now_ms >= started_ms {
        format!(" since {}", span(now_ms - started_ms))
    } else {
        String::new()
    }
}

/// `850 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of this kind saturates"
)]
fn span(milliseconds: f64) -> String {
    let all = milliseconds as u64;
    let seconds = all / 1000;
    match seconds {
        0 => format!("{all} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn entry_of_job(job: &Job) -> Entry {
    let how = job.exit_status.as_ref().filter(|_| !is_running(job));
    Entry {
        task_id: job.id.clone(),
        kind: "program".to_owned(),
        pid: Some(job.pid),
        command: job.label.clone(),
        status: job.state.clone(),
        started_ms: job.started_ms,
        exit_code: how.and_then(code),
        signal: how.and_then(|how| how.signal.clone()),
        bytes: Some(job.output_bytes),
        output_file: job.output_file.clone(),
    }
}

fn entry_of_call(call: &BackgroundCall) -> Entry {
    Entry {
        task_id: call.id.clone(),
        kind: "call".to_owned(),
        pid: None,
        command: call.tool.clone(),
        status: call.state.clone(),
        started_ms: call.started_ms,
        exit_code: None,
        signal: None,
        bytes: None,
        output_file: None,
    }
}

#[cfg(test)]
mod tests;
