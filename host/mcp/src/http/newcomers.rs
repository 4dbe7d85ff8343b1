//! Connections that have not authenticated yet.
//!
//! Their number is limited and the oldest is evicted for a new one. A legitimate client sends its token at once, so
//! idle connections cannot block others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Timeout for the first request head, in steps. If the host itself was busy, that delay counts as a single step.
const STEPS: u32 = 5;
const STEP: Duration = Duration::from_secs(1);
/// Minimum capacity: a burst of a few connections is not an attack.
const AT_LEAST: usize = 64;

pub(crate) struct Newcomers {
    most: usize,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    /// Ordered by age: the oldest has the smallest number.
    waiting: BTreeMap<u64, CancellationToken>,
    next: u64,
}

/// An unauthenticated connection. Dropping it frees its slot.
pub(crate) struct Newcomer {
    number: u64,
    of: Arc<Newcomers>,
    /// Cancelled when the connection is evicted.
    ousted: CancellationToken,
    heard: Notify,
}

impl Newcomers {
    /// `connections` is the limit for all connections.
    pub(crate) fn new(connections: usize) -> Arc<Self> {
        Arc::new(Self {
            most: (connections / 4).max(AT_LEAST),
            all: Mutex::default(),
        })
    }

    /// Adds a connection and evicts the oldest ones if necessary.
    pub(crate) fn enter(self: &Arc<Self>) -> Newcomer {
        let ousted = CancellationToken::new();
        let mut all = self.all();
        while all.waiting.len() >= self.most && all.oust() {}
        all.next += 1;
        let number = all.next;
        all.waiting.insert(number, ousted.clone());
        Newcomer {
            number,
            of: Arc::clone(self),
            ousted,
            heard: Notify::new(),
        }
    }

    /// Evicts the oldest connection. Returns false if there is none.
    pub(crate) fn oust(&self) -> bool {
        self.all().oust()
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn oust(&mut self) -> bool {
        let oldest = self.waiting.pop_first();
        oldest.map(|(_, ousted)| ousted.cancel()).is_some()
    }
}

impl Newcomer {
    /// A complete request head has arrived.
    pub(crate) fn heard(&self) {
        self.heard.notify_one();
    }

    /// The connection sent a valid token and can no longer be evicted.
    pub(crate) fn known(&self) {
        self.of.all().waiting.remove(&self.number);
    }

    /// Resolves when the connection is evicted or times out.
    pub(crate) async fn is_over(&self) {
        let silent = async {
            for _ in 0..STEPS {
                if timeout(STEP, self.heard.notified()).await.is_ok() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            () = self.ousted.cancelled() => {}
            () = silent => {}
        }
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.known();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::{Instant, advance};

    use super::*;

    fn over(newcomer: &Newcomer) -> bool {
        newcomer.is_over().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_makes_room_and_the_known_stay() {
        let newcomers = Newcomers::new(4 * AT_LEAST);
        let first = newcomers.enter();
        let second = newcomers.enter();
        first.known();
        let rest: Vec<_> = (1..AT_LEAST).map(|_| newcomers.enter()).collect();
        assert!(rest.iter().chain([&first, &second]).all(|one| !over(one)));
        let last = newcomers.enter();
        assert!(over(&second));
        assert!(rest.iter().chain([&first, &last]).all(|one| !over(one)));
        // A dropped connection frees its slot.
        drop(last);
        let _next = newcomers.enter();
        assert!(!over(&rest[0]));
        assert!(newcomers.oust());
        assert!(over(&rest[0]));
        drop(rest);
        assert!(newcomers.oust());
        assert!(!newcomers.oust());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_says_nothing_is_left_after_five_seconds() {
        let newcomers = Newcomers::new(1);
        let (silent, talks) = (newcomers.enter(), newcomers.enter());
        talks.heard();
        let start = Instant::now();
        silent.is_over().await;
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        let mut talks = Box::pin(talks.is_over());
        assert!((&mut talks).now_or_never().is_none());
        advance(Duration::from_mins(1)).await;
        assert!((&mut talks).now_or_never().is_none());
    }
}
