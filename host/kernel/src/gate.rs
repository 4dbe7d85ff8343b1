//! How many calls run at once, and which ones must not run beside each other.

use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};
use toolhost_contract::Concurrency;

/// First come, first served: an exclusive call is not overtaken for ever by small ones.
pub(crate) struct Gate {
    slots: Semaphore,
    all: u32,
}

/// One per plugin: its serial tools queue here.
pub(crate) type Lane = Mutex<()>;

/// The call may run until this is dropped.
pub(crate) struct Permit<'a> {
    _slots: SemaphorePermit<'a>,
    _lane: Option<MutexGuard<'a, ()>>,
}

impl Gate {
    pub(crate) fn new(concurrency: usize) -> Self {
        let all = u32::try_from(concurrency)
            .unwrap_or(u32::MAX)
            .clamp(1, 1 << 16);
        Self {
            slots: Semaphore::new(all as usize),
            all,
        }
    }

    pub(crate) async fn admit<'a>(
        &'a self,
        concurrency: Concurrency,
        lane: &'a Lane,
    ) -> Permit<'a> {
        // The lane comes first. A call that waits for its lane holds no slot that another could use, and whoever
        // holds a slot waits for nothing, so nobody waits in a circle.
        let (lane, slots) = match concurrency {
            Concurrency::Parallel => (None, 1),
            Concurrency::Serial => (Some(lane.lock().await), 1),
            Concurrency::Exclusive => (None, self.all),
        };
        let slots = self
            .slots
            .acquire_many(slots)
            .await
            .expect("nobody closes this semaphore");
        Permit {
            _slots: slots,
            _lane: lane,
        }
    }
}
