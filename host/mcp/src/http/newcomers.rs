//! Connections on which nobody has shown a token yet. They are few, and the oldest makes room for the next: whoever has
//! a token shows it at once, and whoever only holds a connection open keeps nobody out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// For the first head on a connection to arrive, in steps: a host that was busy for long has not listened for as long, and
/// that is one step.
const STEPS: u32 = 5;
const STEP: Duration = Duration::from_secs(1);
/// Of few connections newcomers may have all: several that come at once are no attack.
const AT_LEAST: usize = 64;

pub(crate) struct Newcomers {
    most: usize,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    /// The oldest has the smallest number.
    waiting: BTreeMap<u64, CancellationToken>,
    next: u64,
}

/// One of them, for as long as this is there or until it is known.
pub(crate) struct Newcomer {
    number: u64,
    of: Arc<Newcomers>,
    /// It has to make room.
    ousted: CancellationToken,
    heard: Notify,
}

impl Newcomers {
    /// `connections`: how many there may be of all kinds.
    pub(crate) fn new(connections: usize) -> Arc<Self> {
        Arc::new(Self {
            most: (connections / 4).max(AT_LEAST),
            all: Mutex::default(),
        })
    }

    /// One more. The oldest ones go until there is room for it.
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

    /// Makes the oldest go. False: there is none.
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
    /// A whole head has come.
    pub(crate) fn heard(&self) {
        self.heard.notify_one();
    }

    /// It had a token of ours. Nobody ousts it any more.
    pub(crate) fn known(&self) {
        self.of.all().waiting.remove(&self.number);
    }

    /// Ends when the connection has to.
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
        // One that leaves makes room as well.
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
