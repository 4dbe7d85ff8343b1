//! Collection of a task's output from an offset, with optional waiting.

use std::time::{Duration, Instant};

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::Job;

use crate::task::is_running;

/// Limit of output bytes per result.
pub const MOST: usize = 64 << 10;
/// Time reserved for writing the result, at most a tenth of the remaining time.
const RESERVE: Duration = Duration::from_secs(2);

/// A part of a task's output.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputPart {
    pub bytes: Vec<u8>,
    /// Offset of the first byte.
    pub start: u64,
    pub next: u64,
    /// Bytes that the host no longer has.
    pub dropped: u64,
    pub job: Job,
}

/// Limits a wait to the remaining time of the call.
pub fn bounded(cx: &Context, milliseconds: u32) -> Duration {
    let remaining = cx.remaining();
    let reserve = RESERVE.min(remaining / 10);
    Duration::from_millis(milliseconds.into()).min(remaining.saturating_sub(reserve))
}

/// The output from `from` on, limited to the last [`MOST`] bytes; waits until the program ends or `wait` has passed.
pub fn gather(cx: &Context, job: Job, from: u64, wait: Duration) -> Result<OutputPart> {
    let deadline = Instant::now() + wait;
    let mut part = OutputPart {
        bytes: Vec::new(),
        start: from,
        next: from,
        dropped: 0,
        job,
    };
    loop {
        cx.check()?;
        skip_ahead(&mut part);
        let left = deadline.saturating_duration_since(Instant::now());
        let chunk = cx.read_job(
            &part.job.id,
            part.next,
            u32::try_from(MOST).unwrap_or(u32::MAX),
            u32::try_from(left.as_millis()).unwrap_or(u32::MAX),
        )?;
        if chunk.dropped > 0 {
            // After a gap, the earlier bytes are not contiguous.
            part.bytes.clear();
            part.dropped += chunk.dropped;
        }
        part.bytes.extend_from_slice(&chunk.bytes);
        part.next = chunk.next;
        part.job = chunk.job;
        let drained = chunk.next >= part.job.output_bytes;
        // An empty chunk ends the wait.
        let over = chunk.bytes.is_empty() || left.is_zero() || (drained && !is_running(&part.job));
        trim(&mut part);
        if over {
            return Ok(part);
        }
    }
}

/// A program may write faster than it is read; only the end is kept.
fn skip_ahead(part: &mut OutputPart) {
    let earliest = part.job.output_bytes.saturating_sub(MOST as u64);
    if earliest > part.next {
        part.bytes.clear();
        part.next = earliest;
    }
}

fn trim(part: &mut OutputPart) {
    let extra = part.bytes.len().saturating_sub(MOST);
    part.bytes.drain(..extra);
    part.start = part.next.saturating_sub(part.bytes.len() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ScriptedProgram, job_of};

    fn check(script: ScriptedProgram, from: u64, wait: u64, text: &str, start: u64, next: u64) {
        let cx = script.context(Context::test());
        let job = job_of("1", 70, "x");
        let part = gather(&cx, job, from, Duration::from_secs(wait)).unwrap();
        assert_eq!(String::from_utf8_lossy(&part.bytes), text);
        assert_eq!((part.start, part.next), (start, next));
    }

    #[test]
    fn what_is_there_is_taken_at_once() {
        check(ScriptedProgram::running("abc"), 0, 0, "abc", 0, 3);
        check(ScriptedProgram::running("abc"), 2, 0, "c", 2, 3);
        check(ScriptedProgram::running("abc"), 3, 0, "", 3, 3);
    }

    #[test]
    fn with_time_it_waits_for_the_end() {
        check(
            ScriptedProgram::running("abc")
                .then("def")
                .then("ghi")
                .ended(0),
            0,
            60,
            "abcdefghi",
            0,
            9,
        );
        check(
            ScriptedProgram::running("abc").then("def"),
            0,
            60,
            "abcdef",
            0,
            6,
        );
    }

    #[test]
    fn of_much_the_end_is_taken() {
        let much = "x".repeat(MOST) + "end";
        let expected = &much[3..];
        check(
            ScriptedProgram::running(&much).ended(0),
            0,
            60,
            expected,
            3,
            much.len() as u64,
        );
    }

    #[test]
    fn a_cancelled_call_does_not_wait() {
        let cx = ScriptedProgram::running("a").context(Context::test().cancelled_after(0));
        let error = gather(&cx, job_of("1", 70, "x"), 0, Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("cancelled"));
    }
}
