//! Time that a call spends waiting for the user or for other calls, which does not count for the tool.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug, Default)]
pub(in crate::kernel) struct WaitClock(Mutex<WaitTotals>);

#[derive(Debug, Default)]
struct WaitTotals {
    over: Duration,
    /// Start of the current wait, and the number of concurrent waits.
    since: Option<Instant>,
    at_once: usize,
}

impl WaitClock {
    pub(in crate::kernel) fn so_far(&self) -> Duration {
        let sum = self.sum();
        sum.over + sum.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Starts a wait that lasts until the value is dropped.
    pub(super) fn begin(&self) -> WaitGuard<'_> {
        let mut sum = self.sum();
        sum.at_once += 1;
        sum.since.get_or_insert_with(Instant::now);
        WaitGuard(self)
    }

    fn sum(&self) -> MutexGuard<'_, WaitTotals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct WaitGuard<'a>(&'a WaitClock);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let mut sum = self.0.sum();
        sum.at_once -= 1;
        if sum.at_once == 0
            && let Some(since) = sum.since.take()
        {
            sum.over += since.elapsed();
        }
    }
}
