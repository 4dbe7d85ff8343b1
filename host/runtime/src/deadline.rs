//! Deadline of a call. Its clock is paused while the call waits for a user or for calls with their own deadline.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

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

    /// Pauses the clock until the guard is dropped. Guests are single-threaded, so pauses do not nest.
    pub fn pause(&self) -> PausedClock<'_> {
        self.clock().stopped = Some(Instant::now());
        PausedClock(self)
    }

    /// Returns when the deadline has passed.
    pub async fn expired(&self) {
        // While the clock is paused the remaining time does not change, so it is checked again.
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

pub struct PausedClock<'a>(&'a Deadline);

impl Drop for PausedClock<'_> {
    fn drop(&mut self) {
        let mut clock = self.0.clock();
        if let Some(since) = clock.stopped.take() {
            clock.end += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_clock_is_paused_during_a_wait() {
        let deadline = Deadline::after(3 * SECOND);
        sleep(SECOND).await;
        assert_eq!(deadline.remaining(), 2 * SECOND);
        for _ in 0..2 {
            let _stopped = deadline.pause();
            sleep(100 * SECOND).await;
            assert_eq!(deadline.remaining(), 2 * SECOND);
            assert!(!deadline.is_over());
        }
        assert_eq!(deadline.remaining(), 2 * SECOND);
        sleep(2 * SECOND).await;
        assert!(deadline.is_over());
        // An expired deadline stays expired.
        drop(deadline.pause());
        assert!(deadline.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_delays_expiry() {
        let deadline = Deadline::after(3 * SECOND);
        let begun = Instant::now();
        let asking = async {
            let _stopped = deadline.pause();
            sleep(10 * SECOND).await;
        };
        tokio::join!(deadline.expired(), asking);
        assert_eq!(begun.elapsed(), 13 * SECOND);
        let stopped = deadline.pause();
        // It expired before, so this returns immediately.
        timeout(SECOND, deadline.expired()).await.unwrap();
        drop(stopped);
    }
}
