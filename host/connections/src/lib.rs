//! Connections to a server of the host that have not authenticated yet.
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
const TIMEOUT_STEPS: u32 = 5;
const TIMEOUT_STEP: Duration = Duration::from_secs(1);
/// Minimum capacity: a burst of a few connections is not an attack.
const MIN_CAPACITY: usize = 64;

pub struct UnauthenticatedConnections {
    /// Limit for all connections.
    connections: usize,
    capacity: usize,
    waiting: Mutex<WaitingConnections>,
}

#[derive(Default)]
struct WaitingConnections {
    /// Ordered by age: the oldest has the smallest number.
    waiting: BTreeMap<u64, CancellationToken>,
    next: u64,
}

/// An unauthenticated connection. Dropping it frees its slot.
pub struct UnauthenticatedConnection {
    number: u64,
    connections: Arc<UnauthenticatedConnections>,
    /// Cancelled when the connection is evicted.
    evicted: CancellationToken,
    head_received: Notify,
}

impl UnauthenticatedConnections {
    /// `connections` is the limit for all connections.
    pub fn new(connections: usize) -> Arc<Self> {
        Arc::new(Self {
            connections,
            capacity: (connections / 4).max(MIN_CAPACITY),
            waiting: Mutex::default(),
        })
    }

    /// Adds a connection to the `open` ones and evicts the oldest unauthenticated one if there is no room. Returns `None`
    /// if all open connections are authenticated and the limit is reached.
    pub fn admit(self: &Arc<Self>, open: usize) -> Option<UnauthenticatedConnection> {
        (open < self.connections || self.evict_oldest()).then(|| self.add())
    }

    /// Adds a connection and evicts the oldest ones if there are too many.
    fn add(self: &Arc<Self>) -> UnauthenticatedConnection {
        let evicted = CancellationToken::new();
        let mut all = self.lock();
        while all.waiting.len() >= self.capacity && all.evict_oldest() {}
        all.next += 1;
        let number = all.next;
        all.waiting.insert(number, evicted.clone());
        UnauthenticatedConnection {
            number,
            connections: Arc::clone(self),
            evicted,
            head_received: Notify::new(),
        }
    }

    /// Evicts the oldest connection. Returns false if there is none.
    fn evict_oldest(&self) -> bool {
        self.lock().evict_oldest()
    }

    fn lock(&self) -> MutexGuard<'_, WaitingConnections> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingConnections {
    fn evict_oldest(&mut self) -> bool {
        let oldest = self.waiting.pop_first();
        oldest.map(|(_, evicted)| evicted.cancel()).is_some()
    }
}

impl UnauthenticatedConnection {
    /// A complete request head has arrived.
    pub fn mark_head_received(&self) {
        self.head_received.notify_one();
    }

    /// The connection sent a valid token and can no longer be evicted.
    pub fn mark_authenticated(&self) {
        self.connections.lock().waiting.remove(&self.number);
    }

    /// Resolves when the connection is evicted or times out.
    pub async fn wait_closed(&self) {
        let silent = async {
            for _ in 0..TIMEOUT_STEPS {
                if timeout(TIMEOUT_STEP, self.head_received.notified())
                    .await
                    .is_ok()
                {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            () = self.evicted.cancelled() => {}
            () = silent => {}
        }
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        self.mark_authenticated();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::{Instant, advance};

    use super::*;

    fn over(newcomer: &UnauthenticatedConnection) -> bool {
        newcomer.wait_closed().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_is_evicted_and_authenticated_ones_stay() {
        let newcomers = UnauthenticatedConnections::new(4 * MIN_CAPACITY);
        let first = newcomers.add();
        let second = newcomers.add();
        first.mark_authenticated();
        let rest: Vec<_> = (1..MIN_CAPACITY).map(|_| newcomers.add()).collect();
        assert!(rest.iter().chain([&first, &second]).all(|one| !over(one)));
        let last = newcomers.add();
        assert!(over(&second));
        assert!(rest.iter().chain([&first, &last]).all(|one| !over(one)));
        // A dropped connection frees its slot.
        drop(last);
        let _next = newcomers.add();
        assert!(!over(&rest[0]));
        assert!(newcomers.evict_oldest());
        assert!(over(&rest[0]));
        drop(rest);
        assert!(newcomers.evict_oldest());
        assert!(!newcomers.evict_oldest());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_closed_after_five_seconds() {
        let newcomers = UnauthenticatedConnections::new(1);
        let (silent, talks) = (newcomers.add(), newcomers.add());
        talks.mark_head_received();
        let start = Instant::now();
        silent.wait_closed().await;
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        let mut talks = Box::pin(talks.wait_closed());
        assert!((&mut talks).now_or_never().is_none());
        advance(Duration::from_mins(1)).await;
        assert!((&mut talks).now_or_never().is_none());
    }
}
