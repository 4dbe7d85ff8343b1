//! Per-user limit of tokio worker threads, which leaves one worker to other users while several are active.
//!
//! The runtime has one worker per core. A worker that runs a guest or parses a large message does nothing else until
//! it yields, so a single user could block all workers.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::ready;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;
use toolhost_contract::UserId;

/// How long several users count as active after a request that followed one of another user.
const SEVERAL: Duration = Duration::from_secs(10);

/// Tracks whether several users are active.
#[derive(Debug)]
pub(crate) struct Users {
    started: Instant,
    last: Mutex<Option<UserId>>,
    /// Milliseconds since `started`.
    several_until: AtomicU64,
}

impl Default for Users {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            last: Mutex::default(),
            several_until: AtomicU64::new(0),
        }
    }
}

impl Users {
    fn saw(&self, user: &UserId) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() == Some(user) {
            return;
        }
        if last.replace(user.clone()).is_some() {
            let until = self.now().saturating_add(millis(SEVERAL));
            self.several_until.store(until, Relaxed);
        }
    }

    fn are_several(&self) -> bool {
        self.now() < self.several_until.load(Relaxed)
    }

    fn now(&self) -> u64 {
        millis(self.started.elapsed())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Limit of workers that the requests of one user may occupy.
#[derive(Debug)]
pub(crate) struct Workers {
    user: UserId,
    users: Arc<Users>,
    turns: Arc<Semaphore>,
}

thread_local! {
    /// Whether the work on this thread already holds a permit.
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
}

impl Workers {
    pub(crate) fn new(user: UserId, users: &Arc<Users>) -> Self {
        let workers = Handle::try_current().map_or(1, |handle| handle.metrics().num_workers());
        Self::of(workers, user, users)
    }

    fn of(workers: usize, user: UserId, users: &Arc<Users>) -> Self {
        Self {
            user,
            users: Arc::clone(users),
            turns: Arc::new(Semaphore::new(workers.saturating_sub(1).max(1))),
        }
    }

    /// Records a request of this user.
    pub(crate) fn requested(&self) {
        self.users.saw(&self.user);
    }

    /// Runs work of the user. A permit is held only while the work is polled, not while it waits.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut turns = PollSemaphore::new(Arc::clone(&self.turns));
        let mut waits = false;
        poll_fn(|cx| {
            // A waiter must take the permit that it was assigned.
            if !waits && (HAS_TURN.get() || !self.users.are_several()) {
                return work.as_mut().poll(cx);
            }
            waits = true;
            let _turn = ready!(turns.poll_acquire(cx));
            waits = false;
            let _has = HasTurn::set();
            work.as_mut().poll(cx)
        })
        .await
    }
}

struct HasTurn;

impl HasTurn {
    fn set() -> Self {
        HAS_TURN.set(true);
        Self
    }
}

impl Drop for HasTurn {
    fn drop(&mut self) {
        HAS_TURN.set(false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use tokio::task::JoinSet;

    use super::*;

    /// Returns the maximum number of tasks of one user that ran concurrently. Each blocks its worker and yields.
    fn most_at_once(workers: &Arc<Workers>) -> usize {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(3)
            .build()
            .unwrap();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..6 {
                let (workers, running, most) =
                    (Arc::clone(workers), Arc::clone(&running), Arc::clone(&most));
                tasks.spawn(async move {
                    let work = async {
                        for _ in 0..10 {
                            let now = running.fetch_add(1, Relaxed) + 1;
                            most.fetch_max(now, Relaxed);
                            std::thread::sleep(Duration::from_millis(2));
                            running.fetch_sub(1, Relaxed);
                            tokio::task::yield_now().await;
                        }
                    };
                    // Nested work uses the permit of the outer work.
                    workers.run(workers.run(work)).await;
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
        });
        most.load(Relaxed)
    }

    #[test]
    fn beside_others_a_user_leaves_one_worker_to_them() {
        let users = Arc::new(Users::default());
        let of = |name: &str| Arc::new(Workers::of(3, UserId::token(name), &users));
        let (ann, bob) = (of("ann"), of("bob"));
        ann.requested();
        ann.requested();
        assert!(!users.are_several());
        bob.requested();
        assert!(users.are_several());
        assert!(most_at_once(&ann) <= 2);
    }

    #[test]
    fn alone_a_user_has_all_workers() {
        let users = Arc::new(Users::default());
        let workers = Workers::of(3, UserId::token("ann"), &users);
        workers.requested();
        let all = Barrier::new(3);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                // Each waits for the other two, which must run concurrently.
                let work = || futures::executor::block_on(workers.run(async { all.wait() }));
                scope.spawn(work);
            }
        });
    }

    #[tokio::test]
    async fn work_that_is_dropped_while_it_waits_keeps_no_turn() {
        let users = Arc::new(Users::default());
        let [ann, bob] = ["ann", "bob"].map(|name| Workers::of(2, UserId::token(name), &users));
        ann.requested();
        bob.requested();
        let turn = ann.turns.try_acquire().unwrap();
        let mut waiting = Box::pin(ann.run(async {}));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(turn);
        drop(waiting);
        assert_eq!(ann.turns.available_permits(), 1);
    }
}
