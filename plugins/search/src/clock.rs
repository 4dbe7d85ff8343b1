//! When to stop: a search that runs out of time answers with what it has found so far.

use std::cell::Cell;
use std::time::{Duration, Instant};

use toolhost_sdk::prelude::*;

/// No search takes longer, however long the host would wait.
const TIME_BOX: Duration = Duration::from_secs(30);
/// A courtesy may always take so long.
const COURTESY: Duration = Duration::from_millis(50);
/// Nobody minds waiting so long.
const PATIENCE: Duration = Duration::from_secs(1);
/// Asking the host for the time is a visit like any other, so only every so many files.
const FILES_PER_LOOK: u32 = 16;
const LOOKS_PER_CANCEL_CHECK: u32 = 8;

/// Why a search ended before everything was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The caller has what it wanted.
    Enough,
    /// The time is up; what was found so far still counts.
    Time,
    /// Nobody waits for the answer any more.
    Cancelled,
}

/// The time box of one search.
pub struct Clock<'a> {
    cx: &'a Context,
    start: Instant,
    end: Instant,
    files: Cell<u32>,
    slow: Cell<bool>,
}

impl<'a> Clock<'a> {
    /// Leaves a tenth of the remaining time, and at least a quarter of a second, for writing the answer.
    pub fn start(cx: &'a Context) -> Self {
        let left = cx.remaining().min(TIME_BOX);
        let margin = (left / 10).max(Duration::from_millis(250));
        let start = Instant::now();
        Self {
            cx,
            start,
            end: start + left.saturating_sub(margin),
            files: Cell::new(0),
            slow: Cell::new(false),
        }
    }

    /// The time box of work that is only a courtesy: a quarter of what the search took so far.
    #[must_use]
    pub fn courtesy(&self) -> Self {
        let now = Instant::now();
        let time = (now.duration_since(self.start) / 4).max(COURTESY);
        Self {
            cx: self.cx,
            start: now,
            end: self.end.min(now + time),
            files: Cell::new(0),
            slow: Cell::new(false),
        }
    }

    /// Looks at the time and asks whether the call was cancelled. For what takes long by itself.
    pub fn look(&self) -> Option<Stop> {
        if self.cx.cancelled() {
            return Some(Stop::Cancelled);
        }
        self.time()
    }

    fn time(&self) -> Option<Stop> {
        let now = Instant::now();
        self.slow.set(now.duration_since(self.start) > PATIENCE);
        (now >= self.end).then_some(Stop::Time)
    }

    /// To be asked once for each file.
    pub fn tick(&self) -> Option<Stop> {
        let files = self.files.get();
        self.files.set(files.wrapping_add(1));
        if !files.is_multiple_of(FILES_PER_LOOK) {
            return None;
        }
        if files.is_multiple_of(FILES_PER_LOOK * LOOKS_PER_CANCEL_CHECK) {
            return self.look();
        }
        self.time()
    }

    /// Does somebody who watches wonder by now what is going on?
    pub fn is_slow(&self) -> bool {
        self.slow.get()
    }
}

/// The error for a search that nobody waits for.
pub fn cancelled() -> Error {
    Error::interrupted("the search was cancelled").code("cancelled")
}
