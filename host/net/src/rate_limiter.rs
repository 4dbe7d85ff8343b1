//! Rate limits of requests per minute, in total and per host.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::NetError;

const WINDOW: Duration = Duration::from_mins(1);

/// A sliding window that counts the requests of the last minute.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    per_minute: usize,
    per_host: usize,
    sent: Mutex<RequestLog>,
}

#[derive(Debug, Default)]
struct RequestLog {
    all: VecDeque<Instant>,
    /// Contains only hosts with a request in the window, so it is no longer than `all`.
    by_host: HashMap<String, VecDeque<Instant>>,
}

impl RateLimiter {
    pub(crate) fn new(per_minute: usize, per_host: usize) -> Self {
        Self {
            per_minute,
            per_host,
            sent: Mutex::default(),
        }
    }

    /// Whether no request was counted in the last minute.
    pub(crate) fn is_idle(&self) -> bool {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        evict_old(&mut sent.all, Instant::now());
        sent.all.is_empty()
    }

    /// Counts one request, or refuses it. A refused request is not counted.
    pub(crate) fn acquire(&self, host: &str) -> Result<(), NetError> {
        let now = Instant::now();
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let RequestLog { all, by_host } = &mut *sent;
        evict_old(all, now);
        by_host.retain(|_, times| {
            evict_old(times, now);
            !times.is_empty()
        });
        let to_host = by_host.get(host).map_or(0, VecDeque::len);
        if to_host >= self.per_host {
            let reason = format!(
                "{to_host} to `{host}` in the last minute, the limit is {}",
                self.per_host
            );
            return Err(NetError::RateLimited { reason });
        }
        if all.len() >= self.per_minute {
            let reason = format!(
                "{} in the last minute, the limit is {}",
                all.len(),
                self.per_minute
            );
            return Err(NetError::RateLimited { reason });
        }
        all.push_back(now);
        by_host.entry(host.to_owned()).or_default().push_back(now);
        Ok(())
    }
}

fn evict_old(times: &mut VecDeque<Instant>, now: Instant) {
    while times
        .front()
        .is_some_and(|time| now.duration_since(*time) >= WINDOW)
    {
        times.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_host_has_a_sliding_window() {
        let rate = RateLimiter::new(5, 2);
        let mut results = Vec::new();
        for (seconds, host) in [
            (0, "a"),
            (10, "a"),
            (10, "a"),
            (10, "b"),
            (10, "b"),
            (10, "c"),
            (9, "c"),
            (1, "a"),
            (1, "a"),
            (9, "a"),
        ] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            results.push(rate.acquire(host).is_ok());
        }
        // The last one comes 70 seconds after the first: both early requests to `a` have left the window.
        assert_eq!(
            results,
            [
                true, true, false, true, true, true, false, true, false, true
            ]
        );
    }
}
