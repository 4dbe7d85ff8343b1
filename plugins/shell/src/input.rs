//! `shell_input`: writes to the terminal of a background task.

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::escape;

use crate::cursor;
use crate::output::{OutputText, RawOutput};
use crate::output_reader::{bounded, gather};
use crate::show::{ending, field, omission_note};
use crate::task::{Task, find, is_running};

const MOST_CHARACTERS: usize = 30_000;

/// Result of the input.
#[data]
pub struct InputResult {
    /// Task id.
    task_id: String,
    /// Process id.
    pid: u32,
    /// Bytes written to standard input.
    written: usize,
    /// `running` or `ended`.
    status: String,
    /// New output since your last read.
    output: String,
    /// Byte offset to continue from.
    next_offset: u64,
}

/// Write to a background command started with `tty` and read its new output.
#[tool(
    destroys,
    plain_text,
    requires = ["process", "session"],
    category = "system",
    kind = "execute",
    icon = "keyboard",
    concurrency = "serial",
    aliases = ["write_stdin", "shell_write"],
    tags = ["background", "stdin", "type", "task"],
    output = InputResult,
    example(description = "Answer yes to a question", input = r#"{"task_id": "3", "chars": "y\n"}"#),
)]
pub fn shell_input(
    cx: &Context,
    /// From shell.
    #[arg(min_len = 1, max_len = 128, aliases = ["shell_id", "bash_id", "session_id", "id"])]
    task_id: String,
    /// End a line with `\n`; `\u0003` interrupts.
    #[arg(max_len = 65_536, aliases = ["text", "input", "stdin"])]
    chars: String,
    /// Wait for output, in milliseconds.
    #[arg(default = 250, max = 20_000, aliases = ["yield_time_ms"])]
    yield_ms: u32,
) -> Result<Outcome> {
    if chars.len() > 64 << 10 {
        let message = format!("`chars` has {} bytes; the limit is 65536", chars.len());
        return Err(Error::invalid_input(message).code("invalid_input"));
    }
    let job = match find(cx, Some(&task_id), None)? {
        Task::Program(job) => job,
        Task::Call(id) => {
            let message = format!(
                "`{}` is a tool call, which has no input; use a task of shell",
                escape(&id, 80)
            );
            return Err(Error::invalid_input(message).code("task_takes_no_input"));
        }
    };
    let id = escape(&job.id, 80);
    if !is_running(&job) {
        let how = job
            .exit_status
            .as_ref()
            .map_or_else(|| "ended".to_owned(), ending);
        let message = format!("task {id} has ended ({how}) and accepts no input");
        return Err(Error::invalid_input(message)
            .code("task_ended")
            .recommend("start it again with shell"));
    }
    let from = cursor::get(cx, &job.id)?;
    // Without input, only the new output is read.
    if !chars.is_empty() {
        cx.write_job(&job.id, chars.as_bytes())?;
    }
    let part = gather(cx, job, from, bounded(cx, yield_ms))?;
    cursor::set(cx, &part.job.id, part.next)?;
    let file = part.job.output_file.as_deref();
    let raw = RawOutput {
        bytes: &part.bytes,
        total: part.bytes.len() as u64,
    };
    let shown = OutputText::of(raw).fit(MOST_CHARACTERS, |left| omission_note(left, file, false));
    let running = is_running(&part.job);
    let state = match part.job.exit_status.as_ref().filter(|_| !running) {
        Some(how) => format!("ended, {}", ending(how)),
        None => part.job.state.clone(),
    };
    let text = format!(
        "Task {id}: {state}\n{}",
        field("Output", "stdout", &shown.text)
    );
    let typed = InputResult {
        task_id: part.job.id,
        pid: part.job.pid,
        written: chars.len(),
        status: (if running { "running" } else { "ended" }).to_owned(),
        output: shown.text,
        next_offset: part.next,
    };
    Ok(Outcome::text(text)
        .structured(&typed)
        .summary(format!("task {id}: typed {} bytes", chars.len())))
}

#[cfg(test)]
mod tests;
