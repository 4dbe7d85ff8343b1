//! Deadline of a call, and of each time that it reports nothing. The clock is paused while the call waits for a user or
//! for calls with their own deadline.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub struct Deadline(Mutex<Clock>);

#[derive(Debug)]
struct Clock {
    end: Instant,
    inactivity: Option<Inactivity>,
    stopped: Option<Instant>,
}

#[derive(Debug)]
struct Inactivity {
    limit: Duration,
    end: Instant,
}

/// Which limit a call exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    Deadline,
    /// It reported nothing for this long.
    Inactivity(Duration),
}

impl Deadline {
    pub fn after(time: Duration, inactivity: Option<Duration>) -> Self {
        let now = Instant::now();
        Self(Mutex::new(Clock {
            end: now + time,
            inactivity: inactivity.map(|limit| Inactivity {
                limit,
                end: now + limit,
            }),
            stopped: None,
        }))
    }

    pub fn remaining(&self) -> Duration {
        let clock = self.clock();
        let now = clock.stopped.unwrap_or_else(Instant::now);
        clock.next_end().saturating_duration_since(now)
    }

    /// The call has reported something.
    pub fn restart_inactivity(&self) {
        if let Some(inactivity) = &mut self.clock().inactivity {
            // Once exceeded, the limit stays exceeded.
            let now = Instant::now();
            if now < inactivity.end {
                inactivity.end = now + inactivity.limit;
            }
        }
    }

    /// The limit that ends first.
    pub fn expiring(&self) -> Expired {
        let clock = self.clock();
        match &clock.inactivity {
            Some(inactivity) if inactivity.end < clock.end => Expired::Inactivity(inactivity.limit),
            _ => Expired::Deadline,
        }
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

impl Clock {
    fn next_end(&self) -> Instant {
        let inactivity = self.inactivity.as_ref().map(|inactivity| inactivity.end);
        inactivity.map_or(self.end, |end| end.min(self.end))
    }
}

pub struct PausedClock<'a>(&'a Deadline);

impl Drop for PausedClock<'_> {
    fn drop(&mut self) {
        let mut clock = self.0.clock();
        if let Some(since) = clock.stopped.take() {
            clock.end += since.elapsed();
            if let Some(inactivity) = &mut clock.inactivity {
                inactivity.end += since.elapsed();
            }
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
        let deadline = Deadline::after(3 * SECOND, None);
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
    async fn what_a_call_reports_restarts_the_time_without_reports() {
        let deadline = Deadline::after(10 * SECOND, Some(2 * SECOND));
        for _ in 0..2 {
            sleep(SECOND).await;
            deadline.restart_inactivity();
            assert_eq!(deadline.remaining(), 2 * SECOND);
        }
        let paused = deadline.pause();
        sleep(5 * SECOND).await;
        drop(paused);
        assert_eq!(deadline.expiring(), Expired::Inactivity(2 * SECOND));
        deadline.expired().await;
        deadline.restart_inactivity();
        assert!(deadline.is_over());

        let deadline = Deadline::after(3 * SECOND, Some(2 * SECOND));
        sleep(3 * SECOND / 2).await;
        deadline.restart_inactivity();
        assert_eq!(deadline.expiring(), Expired::Deadline);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_delays_expiry() {
        let deadline = Deadline::after(3 * SECOND, None);
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
