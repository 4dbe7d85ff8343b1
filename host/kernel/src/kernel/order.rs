//! Calls that run at once and end one after the other, as if they had run so: each waits for its turn before anything
//! of it counts, and runs again when an earlier one changed what it looked at.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use toolhost_contract::{ChangeSet, Reads};

/// The calls of one batch.
pub(super) struct Order {
    past: Mutex<Past>,
    /// The first call that has not ended.
    first: watch::Sender<usize>,
}

#[derive(Default)]
struct Past {
    /// Those after the first one that have ended.
    ended: BTreeSet<usize>,
    /// What was made real, or tried to be.
    changes: Vec<ChangeSet>,
}

/// One call's place in it.
#[derive(Clone)]
pub(super) struct Slot {
    order: Arc<Order>,
    index: usize,
    /// How many changes there were when its run began.
    since: Arc<AtomicUsize>,
}

/// When this is dropped, the call has ended.
pub(super) struct Ending {
    order: Arc<Order>,
    index: usize,
}

impl Order {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            past: Mutex::default(),
            first: watch::Sender::new(0),
        })
    }

    pub(super) fn slot(self: &Arc<Self>, index: usize) -> Slot {
        Slot {
            order: Arc::clone(self),
            index,
            since: Arc::default(),
        }
    }

    pub(super) fn ending(self: &Arc<Self>, index: usize) -> Ending {
        Ending {
            order: Arc::clone(self),
            index,
        }
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut past = self.order.past();
        past.ended.insert(self.index);
        self.order.first.send_modify(|first| {
            while past.ended.remove(first) {
                *first += 1;
            }
        });
    }
}

impl Slot {
    /// The call runs from here on.
    pub(super) fn start(&self) {
        let changes = self.order.past().changes.len();
        self.since.store(changes, Relaxed);
    }

    /// All calls before this one have ended.
    pub(super) async fn turn(&self) {
        let mut first = self.order.first.subscribe();
        // The sender is in the order, and the order is here.
        let _ = first.wait_for(|first| *first >= self.index).await;
    }

    /// Whether the run since [`Slot::start`] can have seen something that is otherwise now. None: nobody knows what it
    /// looked at.
    pub(super) fn is_stale(&self, reads: Option<&dyn Reads>) -> bool {
        let past = self.order.past();
        let mut since = past.changes.iter().skip(self.since.load(Relaxed));
        since.any(|changes| reads.is_none_or(|reads| reads.touched_by(changes)))
    }

    /// Also when it failed: others may have seen it while it lasted.
    pub(super) fn changed(&self, mut changes: ChangeSet) {
        // Only their places count, and a batch may have thousands.
        for change in &mut changes.changes {
            change.diff = None;
        }
        self.order.past().changes.push(changes);
    }
}
