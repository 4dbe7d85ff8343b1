//! `shell_kill`: stops a background task.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::Job;
use toolhost_sdk::text::escape;

use crate::command_result::code;
use crate::read::advised;
use crate::show::ending;
use crate::task::{Task, find, is_running};

/// Supported signals, by the names and numbers that models use.
const SIGNALS: [(&str, &str); 7] = [
    ("TERM", "15"),
    ("INT", "2"),
    ("HUP", "1"),
    ("QUIT", "3"),
    ("USR1", "10"),
    ("USR2", "12"),
    ("KILL", "9"),
];

/// State of a task after a stop request.
#[data]
pub struct KillResult {
    /// Task id.
    task_id: String,
    /// Process id; absent for a tool call.
    pid: Option<u32>,
    /// `running` or `ended`.
    status: String,
    /// Exit code, if it exited.
    #[arg(rename = "exitCode")]
    exit_code: Option<i32>,
    /// Signal that ended it.
    signal: Option<String>,
    /// How it ended: `exited`, `signalled`, `killed` …
    ending: Option<String>,
    /// Bytes of output.
    bytes: u64,
    /// File with the output.
    output_file: Option<String>,
}

/// Stop a background task and its child processes: `signal`, then KILL after 2 seconds.
#[tool(
    destroys,
    idempotent,
    plain_text,
    requires = ["process", "tools"],
    category = "system",
    kind = "execute",
    icon = "stop",
    concurrency = "serial",
    aliases = ["killshell", "kill_shell", "taskstop", "bash_kill", "bg_stop"],
    tags = ["background", "stop", "end", "task"],
    output = KillResult,
    example(description = "Stop a server", input = r#"{"task_id": "3"}"#),
)]
pub fn shell_kill(
    cx: &Context,
    /// From shell or background_run.
    #[arg(max_len = 128, aliases = ["shell_id", "bash_id", "taskId", "id"])]
    task_id: Option<String>,
    /// Instead of `task_id`.
    pid: Option<u32>,
    /// `TERM`, `INT`, `HUP`, `QUIT`, `USR1`, `USR2` or `KILL`.
    #[arg(default = "TERM", min_len = 1, max_len = 32)]
    signal: String,
) -> Result<Outcome> {
    let signal = named(&signal)?;
    match find(cx, task_id.as_deref(), pid)? {
        Task::Program(job) if !is_running(&job) => Ok(signal_outcome(&job, "had already ended")),
        Task::Program(job) => {
            let job = cx.kill_job(&job.id, signal)?;
            let state = if is_running(&job) {
                format!("was sent {signal} and is still running")
            } else {
                format!("was sent {signal} and has ended")
            };
            Ok(signal_outcome(&job, &state))
        }
        Task::Call(id) => {
            let call = cx.stop_tool(&id).map_err(|error| advised(error, &id))?;
            let shown = escape(&id, 80);
            let text = format!(
                "Task {shown} (call of {}): stop requested\n",
                escape(&call.tool, 64)
            );
            Ok(Outcome::text(text)
                .structured(&KillResult {
                    task_id: id,
                    pid: None,
                    status: call.state,
                    exit_code: None,
                    signal: None,
                    ending: None,
                    bytes: 0,
                    output_file: None,
                })
                .summary(format!("task {shown}: stopped")))
        }
    }
}

/// Parses `TERM`, `SIGTERM`, `sigterm` or `15`.
fn named(text: &str) -> Result<&'static str> {
    let upper = text.trim().to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = SIGNALS
        .iter()
        .find(|(known, number)| *known == name || *number == name);
    found.map(|(known, _)| *known).ok_or_else(|| {
        let names: Vec<&str> = SIGNALS.iter().map(|(known, _)| *known).collect();
        let message = format!(
            "`{}` is not a supported signal; use {}",
            escape(text, 32),
            names.join(", ")
        );
        Error::invalid_input(message).code("invalid_signal")
    })
}

fn signal_outcome(job: &Job, state: &str) -> Outcome {
    let id = escape(&job.id, 80);
    let running = is_running(job);
    let how = job.exit_status.as_ref().filter(|_| !running);
    let mut text = format!("Task {id} ({}): {state}", escape(&job.label, 100));
    if let Some(how) = how {
        _ = write!(text, " ({})", ending(how));
    }
    text.push('\n');
    if running {
        _ = writeln!(
            text,
            "To kill it: shell_kill {{\"task_id\": {id:?}, \"signal\": \"KILL\"}}"
        );
    }
    let killed = KillResult {
        task_id: job.id.clone(),
        pid: Some(job.pid),
        status: (if running { "running" } else { "ended" }).to_owned(),
        exit_code: how.and_then(code),
        signal: how.and_then(|how| how.signal.clone()),
        ending: how.map(|how| how.kind.clone()),
        bytes: job.output_bytes,
        output_file: job.output_file.clone(),
    };
    Outcome::text(text)
        .structured(&killed)
        .summary(format!("task {id}: {state}"))
}

#[cfg(test)]
mod tests;
