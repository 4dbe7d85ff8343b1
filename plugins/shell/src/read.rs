//! `shell_output`: reads the output of a background task.

mod call;
mod window;

use std::fmt::Write as _;

use regex::RegexBuilder;
use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::Job;
use toolhost_sdk::text::escape;

pub use self::call::advised;
use self::window::{Window, WindowEnd, WindowView};
use crate::command_result::{code, how_it_ended};
use crate::cursor;
use crate::output::OutputText;
use crate::output_reader::{MOST, bounded, gather};
use crate::show::{ending, field};
use crate::task::{Task, find, is_running};

/// Limit of characters, regardless of `lines`.
const MOST_CHARACTERS: usize = 40_000;

/// Output of a task.
#[data]
pub struct TaskOutput {
    /// Task id.
    pub task_id: String,
    /// Process id; absent for a tool call.
    pub pid: Option<u32>,
    /// `running` or `ended`.
    pub status: String,
    /// Shown lines.
    pub output: String,
    /// Exit code, if it exited.
    #[arg(rename = "exitCode")]
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<String>,
    /// How it ended: `exited`, `signalled`, `timed-out`, `killed` …
    pub ending: Option<String>,
    /// Byte offset of the shown output.
    pub offset: u64,
    /// Byte offset to continue from.
    pub next_offset: u64,
    /// The output was cut.
    pub truncated: bool,
    /// File with the complete output.
    pub output_file: Option<String>,
    /// Result of a tool call.
    pub result: Option<Value>,
}

/// Read new output of a background task, at most 64 KiB, and its status. Do not poll: set `block` to wait for the end.
#[tool(
    reads,
    plain_text,
    requires = ["process", "session", "tools"],
    category = "system",
    kind = "read",
    icon = "terminal",
    timeout = "10m",
    concurrency = "serial",
    aliases = ["bashoutput", "bash_output", "taskoutput", "read_background_output", "bash_logs", "bg_output"],
    tags = ["background", "log", "task"],
    output = TaskOutput,
    example(description = "New output", input = r#"{"task_id": "3"}"#),
    example(description = "Wait up to a minute for the end, and show the errors", input = r#"{"task_id": "3", "block": true, "timeout_ms": 60000, "filter": "error|warning"}"#),
)]
pub fn shell_output(
    cx: &Context,
    /// From shell or background_run.
    #[arg(max_len = 128, aliases = ["shell_id", "bash_id", "taskId", "id"])]
    task_id: Option<String>,
    /// Instead of `task_id`.
    pid: Option<u32>,
    /// Maximum lines: the last, or the first from `offset`.
    #[arg(default = 100, min = 1, max = 2000)]
    lines: usize,
    /// Read from this byte instead.
    offset: Option<u64>,
    /// Regex; only matching lines.
    #[arg(min_len = 1, max_len = 2000)]
    filter: Option<String>,
    /// Wait for the task to end.
    #[arg(default = false, aliases = ["wait"])]
    block: bool,
    /// Longest `block` in milliseconds; does not stop the task.
    #[arg(default = 30_000, max = 590_000, aliases = ["timeout"])]
    timeout_ms: u32,
    /// Wait first, in milliseconds, unless it ends earlier.
    #[arg(max = 300_000)]
    delay_ms: Option<u32>,
) -> Result<Outcome> {
    let filter = filter.as_deref().map(pattern).transpose()?;
    let wait_ms = if block {
        timeout_ms
    } else {
        delay_ms.unwrap_or(0)
    };
    let job = match find(cx, task_id.as_deref(), pid)? {
        Task::Program(job) => job,
        Task::Call(id) => return call::read(cx, &id, bounded(cx, wait_ms)),
    };
    let wait = bounded(cx, wait_ms);
    if let Some(offset) = offset {
        return page(cx, job, offset, wait, lines, filter.as_ref());
    }
    let id = job.id.clone();
    let from = cursor::get(cx, &id)?;
    // A cursor beyond the end belongs to a task of the same id of an earlier host process.
    let from = if from > job.output_bytes && !is_running(&job) {
        0
    } else {
        from
    };
    let part = gather(cx, job, from, wait)?;
    let running = is_running(&part.job);
    let window = Window {
        from,
        side: WindowEnd::Last,
        most: lines,
        filter: filter.as_ref(),
        // The rest of a line or character may follow.
        hold: running,
    };
    let view = window.look(&part.bytes, part.start);
    cursor::set(cx, &id, view.next)?;
    Ok(read_outcome(&part.job, view, WindowEnd::Last, part.dropped))
}

/// Shows a part by offset, which does not advance the read position.
fn page(
    cx: &Context,
    job: Job,
    offset: u64,
    wait: std::time::Duration,
    lines: usize,
    filter: Option<&regex::Regex>,
) -> Result<Outcome> {
    let job = if wait.is_zero() {
        job
    } else {
        let end = job.output_bytes;
        gather(cx, job, end, wait)?.job
    };
    if offset > job.output_bytes {
        let message = format!(
            "offset {offset} is past the end: task {} has written {} bytes",
            escape(&job.id, 80),
            job.output_bytes
        );
        return Err(Error::invalid_input(message)
            .code("offset_beyond_end")
            .recommend("omit `offset` to read new output"));
    }
    let chunk = cx.read_job(&job.id, offset, u32::try_from(MOST).unwrap_or(u32::MAX), 0)?;
    let start = offset + chunk.dropped;
    let more = chunk.next < chunk.job.output_bytes;
    let window = Window {
        from: start,
        side: WindowEnd::First,
        most: lines,
        filter,
        hold: more || is_running(&chunk.job),
    };
    let view = window.look(&chunk.bytes, start);
    Ok(read_outcome(
        &chunk.job,
        view,
        WindowEnd::First,
        chunk.dropped,
    ))
}

fn pattern(text: &str) -> Result<regex::Regex> {
    RegexBuilder::new(text).size_limit(1 << 20).build().map_err(|error| {
        if let regex::Error::CompiledTooBig(_) = error {
            let message = format!("`filter` {text:?} is too large when compiled");
            return Error::invalid_input(message)
                .code("invalid_regex")
                .recommend("use smaller repetition counts");
        }
        // The last line states the error, the others mark its position.
        let shown = error.to_string();
        let reason = shown.lines().last().unwrap_or_default();
        let reason = reason.strip_prefix("error: ").unwrap_or(reason);
        Error::invalid_input(format!("`filter` {text:?} is not a regular expression: {reason}"))
            .code("invalid_regex")
            .recommend("escape literal characters, such as `\\(` and `\\[`; look-around and back-references are not supported")
    })
}

fn read_outcome(job: &Job, view: WindowView, side: WindowEnd, dropped: u64) -> Outcome {
    let id = escape(&job.id, 80);
    let running = is_running(job);
    let ended = job.exit_status.as_ref().filter(|_| !running);
    let state = ended.map_or_else(
        || {
            if running {
                "running".to_owned()
            } else {
                "ended".to_owned()
            }
        },
        |how| format!("ended, {}", ending(how)),
    );
    let mut text = format!("Task {id} ({}): {state}\n", escape(&job.label, 100));
    if dropped > 0 {
        _ = writeln!(text, "[… {dropped} earlier bytes are no longer kept]");
    }
    let earlier = view.earlier.saturating_sub(dropped);
    if earlier > 0 {
        _ = writeln!(
            text,
            "[… {earlier} earlier bytes omitted: shell_output {{\"task_id\": {id:?}, \"offset\": {}}}]",
            view.from + dropped
        );
    }
    if let Some((matching, all)) = view.matched {
        _ = writeln!(text, "{matching} of {all} lines match");
    }
    let later = view.later(job.output_bytes, side);
    let shown = OutputText::of_lines(view.lines, view.open).fit(MOST_CHARACTERS, |left| {
        format!(
            "[… {} characters omitted here ({} lines). To see them: shell_output {{\"task_id\": {id:?}, \"offset\": {}, \"lines\": 50}}]",
            left.characters, left.lines, view.from
        )
    });
    text += &if shown.text.is_empty() {
        "Output: (no new output)\n".to_owned()
    } else {
        field("Output", "stdout", &shown.text)
    };
    if later > 0 {
        _ = writeln!(
            text,
            "[… {later} bytes after these: shell_output {{\"task_id\": {id:?}, \"offset\": {}}}]",
            view.next
        );
    }
    if let Some(how) = ended {
        text += &how_it_ended(how, None);
        text += &crate::command_result::hints(&job.hints);
    }
    let reading = TaskOutput {
        task_id: job.id.clone(),
        pid: Some(job.pid),
        status: (if running { "running" } else { "ended" }).to_owned(),
        exit_code: ended.and_then(code),
        signal: ended.and_then(|how| how.signal.clone()),
        ending: ended.map(|how| how.kind.clone()),
        offset: view.start,
        next_offset: view.next,
        truncated: shown.cut || earlier > 0 || dropped > 0 || later > 0,
        output_file: job.output_file.clone(),
        output: shown.text,
        result: None,
    };
    Outcome::text(text)
        .structured(&reading)
        .summary(format!("task {id}: {state}"))
}

#[cfg(test)]
mod tests;
