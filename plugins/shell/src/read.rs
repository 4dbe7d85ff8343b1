//! `shell_output`: reads the output of a background task.

mod call;
mod window;

use std::fmt::Write as _;

use regex::RegexBuilder;
use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::Job;
use toolhost_sdk::text::escape;

use self::call::CallPart;
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
        Task::Call(id) => {
            let part = CallPart {
                offset,
                lines,
                filter: filter.as_ref(),
            };
            return call::read(cx, &id, bounded(cx, wait_ms), part);
        }
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
    check_offset(&job.id, offset, job.output_bytes)?;
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

fn check_offset(id: &str, offset: u64, written: u64) -> Result<()> {
    if offset <= written {
        return Ok(());
    }
    let message = format!(
        "offset {offset} is past the end: task {} has written {written} bytes",
        escape(id, 80)
    );
    Err(Error::invalid_input(message)
        .code("offset_beyond_end")
        .recommend("omit `offset` to read new output"))
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

/// A part of an output, with notes on what it leaves out.
struct ShownPart {
    before: String,
    output: String,
    after: String,
    truncated: bool,
}

fn show_part(id: &str, view: WindowView, later: u64, dropped: u64) -> ShownPart {
    let rest =
        |offset: u64| format!("shell_output {{\"task_id\": {id:?}, \"offset\": {offset}}}]\n");
    let mut before = String::new();
    if dropped > 0 {
        _ = writeln!(before, "[… {dropped} earlier bytes are no longer kept]");
    }
    let earlier = view.earlier.saturating_sub(dropped);
    if earlier > 0 {
        let rest = rest(view.from + dropped);
        _ = write!(before, "[… {earlier} earlier bytes omitted: {rest}");
    }
    if let Some((matching, all)) = view.matched {
        _ = writeln!(before, "{matching} of {all} lines match");
    }
    let shown = OutputText::of_lines(view.lines, view.open).fit(MOST_CHARACTERS, |left| {
        let line = left.at.and_then(|line| usize::try_from(line - 1).ok());
        let start = line.and_then(|line| view.starts.get(line));
        format!(
            "[… {} characters omitted here ({} lines). To see them: {}",
            left.characters,
            left.lines,
            rest(*start.unwrap_or(&view.start)).trim_end()
        )
    });
    let mut after = String::new();
    if later > 0 {
        _ = write!(after, "[… {later} bytes after these: {}", rest(view.next));
    }
    ShownPart {
        before,
        output: shown.text,
        after,
        truncated: shown.cut || earlier > 0 || dropped > 0 || later > 0,
    }
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
    let (start, next) = (view.start, view.next);
    let later = view.later(job.output_bytes, side);
    let shown = show_part(&id, view, later, dropped);
    text += &shown.before;
    text += &if shown.output.is_empty() {
        "Output: (no new output)\n".to_owned()
    } else {
        field("Output", "stdout", &shown.output)
    };
    text += &shown.after;
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
        offset: start,
        next_offset: next,
        truncated: shown.truncated,
        output_file: job.output_file.clone(),
        output: shown.output,
        result: None,
    };
    Outcome::text(text)
        .structured(&reading)
        .summary(format!("task {id}: {state}"))
}

#[cfg(test)]
mod tests;
