//! The time limit of a search, which returns partial results at the limit.

use std::cell::Cell;
use std::time::{Duration, Instant};

use toolhost_sdk::prelude::*;

/// Limit of a search, regardless of the host's limit.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(30);
/// Minimum time for optional work. Longer in tests, whose results must not depend on the load of the machine.
const MIN_OPTIONAL_TIME: Duration = Duration::from_millis(if cfg!(test) { 10_000 } else { 50 });
/// Time after which progress is shown.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);
/// Reading the clock is a host call, so it is read only once per this many files.
const FILES_PER_LOOK: u32 = 16;
const LOOKS_PER_CANCEL_CHECK: u32 = 8;

/// Why a search ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The limit of results was reached.
    Enough,
    /// The time limit was reached; results so far are returned.
    Time,
    /// The call was cancelled.
    Cancelled,
}

/// The time limit of one search.
pub struct SearchClock<'a> {
    cx: &'a Context,
    start: Instant,
    end: Instant,
    files: Cell<u32>,
    slow: Cell<bool>,
}

impl<'a> SearchClock<'a> {
    /// Reserves a tenth of the remaining time, at least 250 ms, for writing the result.
    pub fn start(cx: &'a Context) -> Self {
        let left = cx.remaining().min(MAX_SEARCH_TIME);
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

    /// The time limit of optional work: a quarter of the time that the search took so far.
    #[must_use]
    pub fn optional_work(&self) -> Self {
        let now = Instant::now();
        let time = (now.duration_since(self.start) / 4).max(MIN_OPTIONAL_TIME);
        Self {
            cx: self.cx,
            start: now,
            end: self.end.min(now + time),
            files: Cell::new(0),
            slow: Cell::new(false),
        }
    }

    /// Reads the clock and checks for cancellation, for slow operations.
    pub fn look(&self) -> Option<StopReason> {
        if self.cx.cancelled() {
            return Some(StopReason::Cancelled);
        }
        self.time()
    }

    fn time(&self) -> Option<StopReason> {
        let now = Instant::now();
        self.slow
            .set(now.duration_since(self.start) > PROGRESS_DELAY);
        (now >= self.end).then_some(StopReason::Time)
    }

    /// Call once per file.
    pub fn tick(&self) -> Option<StopReason> {
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

    /// Whether the search has taken long enough to show progress.
    pub fn is_slow(&self) -> bool {
        self.slow.get()
    }
}

/// The error of a cancelled search.
pub fn cancelled() -> Error {
    Error::interrupted("the search was cancelled").code("cancelled")
}
