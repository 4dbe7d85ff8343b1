//! Time that a call spends on people and on calls that have their own time. It is not the tool's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug, Default)]
pub(in crate::kernel) struct Waiting(Mutex<Sum>);

#[derive(Debug, Default)]
struct Sum {
    over: Duration,
    /// Since when, and how often at once.
    since: Option<Instant>,
    at_once: usize,
}

impl Waiting {
    pub(in crate::kernel) fn so_far(&self) -> Duration {
        let sum = self.sum();
        sum.over + sum.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Until the value is dropped.
    pub(super) fn begin(&self) -> Wait<'_> {
        let mut sum = self.sum();
        sum.at_once += 1;
        sum.since.get_or_insert_with(Instant::now);
        Wait(self)
    }

    fn sum(&self) -> MutexGuard<'_, Sum> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Wait<'a>(&'a Waiting);

impl Drop for Wait<'_> {
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
