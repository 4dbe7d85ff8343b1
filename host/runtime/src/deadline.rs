//! When a call has to end. The clock stands still while the call waits for people, or for calls with clocks of their own.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Deadline(Mutex<Clock>);

#[derive(Debug)]
struct Clock {
    end: Instant,
    stopped: Option<Instant>,
}

impl Deadline {
    pub fn after(time: Duration) -> Self {
        Self(Mutex::new(Clock {
            end: Instant::now() + time,
            stopped: None,
        }))
    }

    pub fn remaining(&self) -> Duration {
        let clock = self.clock();
        let now = clock.stopped.unwrap_or_else(Instant::now);
        clock.end.saturating_duration_since(now)
    }

    pub fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Until the value is dropped. A guest has one thread, so nobody stops a clock twice.
    pub fn stop(&self) -> Stopped<'_> {
        self.clock().stopped = Some(Instant::now());
        Stopped(self)
    }

    /// Comes back when the time is over.
    pub async fn passed(&self) {
        // While the clock stands the time that is left stays the same, so this looks again.
        loop {
            let remaining = self.remaining();
            if remaining.is_zero() {
                return;
            }
            tokio::time::sleep(remaining).await;
        }
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Stopped<'a>(&'a Deadline);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let mut clock = self.0.clock();
        if let Some(since) = clock.stopped.take() {
            clock.end += since.elapsed();
        }
    }
}
