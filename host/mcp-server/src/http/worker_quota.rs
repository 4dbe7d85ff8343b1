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
const CONTENTION_WINDOW: Duration = Duration::from_secs(10);

/// Tracks whether several users are active.
#[derive(Debug)]
pub(crate) struct ActiveUsers {
    started: Instant,
    last: Mutex<Option<UserId>>,
    /// Milliseconds since `started`.
    contended_until: AtomicU64,
}

impl Default for ActiveUsers {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            last: Mutex::default(),
            contended_until: AtomicU64::new(0),
        }
    }
}

impl ActiveUsers {
    fn record(&self, user: &UserId) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() == Some(user) {
            return;
        }
        if last.replace(user.clone()).is_some() {
            let until = self.now().saturating_add(millis(CONTENTION_WINDOW));
            self.contended_until.store(until, Relaxed);
        }
    }

    fn is_contended(&self) -> bool {
        self.now() < self.contended_until.load(Relaxed)
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
pub(crate) struct WorkerQuota {
    user: UserId,
    users: Arc<ActiveUsers>,
    permits: Arc<Semaphore>,
}

thread_local! {
    /// Whether the work on this thread already holds a permit, or runs without one because it needs none.
    static HAS_PERMIT: Cell<bool> = const { Cell::new(false) };
}

impl WorkerQuota {
    pub(crate) fn new(user: UserId, users: &Arc<ActiveUsers>) -> Self {
        let workers = Handle::try_current().map_or(1, |handle| handle.metrics().num_workers());
        Self::of(workers, user, users)
    }

    fn of(workers: usize, user: UserId, users: &Arc<ActiveUsers>) -> Self {
        Self {
            user,
            users: Arc::clone(users),
            permits: Arc::new(Semaphore::new(workers.saturating_sub(1).max(1))),
        }
    }

    /// Records a request of this user.
    pub(crate) fn record_request(&self) {
        self.users.record(&self.user);
    }

    /// Runs work of the user. A permit is held only while the work is polled, not while it waits.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut turns = PollSemaphore::new(Arc::clone(&self.permits));
        let mut waits = false;
        poll_fn(|cx| {
            // A waiter must take the permit that it was assigned.
            if !waits && (HAS_PERMIT.get() || !self.users.is_contended()) {
                // Nested work must not wait for a permit in a poll that runs without one: the permit that is then
                // assigned to it would be missing in the next poll of this work, which alone can poll it.
                let _has = PermitGuard::set();
                return work.as_mut().poll(cx);
            }
            waits = true;
            let _turn = ready!(turns.poll_acquire(cx));
            waits = false;
            let _has = PermitGuard::set();
            work.as_mut().poll(cx)
        })
        .await
    }
}

/// Sets [`HAS_PERMIT`], and restores its previous value when dropped.
struct PermitGuard(bool);

impl PermitGuard {
    fn set() -> Self {
        Self(HAS_PERMIT.replace(true))
    }
}

impl Drop for PermitGuard {
    fn drop(&mut self) {
        HAS_PERMIT.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use tokio::task::JoinSet;

    use super::*;

    /// Returns the maximum number of tasks of one user that ran concurrently. Each blocks its worker and yields.
    fn most_at_once(workers: &Arc<WorkerQuota>) -> usize {
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
    fn a_user_leaves_one_worker_to_other_active_users() {
        let users = Arc::new(ActiveUsers::default());
        let of = |name: &str| Arc::new(WorkerQuota::of(3, UserId::token(name), &users));
        let (ann, bob) = (of("ann"), of("bob"));
        ann.record_request();
        ann.record_request();
        assert!(!users.is_contended());
        bob.record_request();
        assert!(users.is_contended());
        assert!(most_at_once(&ann) <= 2);
    }

    #[test]
    fn a_single_user_may_use_all_workers() {
        let users = Arc::new(ActiveUsers::default());
        let workers = WorkerQuota::of(3, UserId::token("ann"), &users);
        workers.record_request();
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
    async fn nested_work_decides_like_the_outer_work() {
        let users = Arc::new(ActiveUsers::default());
        let [ann, bob] = ["ann", "bob"].map(|name| WorkerQuota::of(2, UserId::token(name), &users));
        ann.record_request();
        let turn = ann.permits.try_acquire().unwrap();
        let mut work = Box::pin(ann.run(async {
            // Another user becomes active during the poll.
            bob.record_request();
            ann.run(async {
                tokio::task::yield_now().await;
                assert!(HAS_PERMIT.get());
            })
            .await;
        }));
        assert!(futures::poll!(&mut work).is_pending());
        assert!(users.is_contended());
        assert!(!HAS_PERMIT.get());
        assert!(futures::poll!(&mut work).is_pending(), "it needs a permit");
        drop(turn);
        assert!(futures::poll!(&mut work).is_ready());
        assert!(!HAS_PERMIT.get());
        assert_eq!(ann.permits.available_permits(), 1);
    }

    #[tokio::test]
    async fn work_dropped_while_waiting_holds_no_permit() {
        let users = Arc::new(ActiveUsers::default());
        let [ann, bob] = ["ann", "bob"].map(|name| WorkerQuota::of(2, UserId::token(name), &users));
        ann.record_request();
        bob.record_request();
        let turn = ann.permits.try_acquire().unwrap();
        let mut waiting = Box::pin(ann.run(async {}));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(turn);
        drop(waiting);
        assert_eq!(ann.permits.available_permits(), 1);
    }
}
