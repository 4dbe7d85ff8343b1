//! Ordering of calls that run concurrently as if they ran in sequence: each waits for its turn before its result
//! counts, and runs again if an earlier call changed what it read.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use toolhost_contract::{ChangeSet, ReadSet};

/// The calls of one batch.
pub(super) struct BatchOrder {
    state: Mutex<OrderState>,
    /// Index of the first call that has not ended.
    first: watch::Sender<usize>,
}

#[derive(Default)]
struct OrderState {
    /// Calls after the first one that have ended.
    ended: BTreeSet<usize>,
    /// Changes that were committed or attempted.
    changes: Vec<PastChange>,
}

enum PastChange {
    Files(ChangeSet),
    /// Values of the session. A call that may have used them has no read set.
    Session,
}

/// The position of one call in the order.
#[derive(Clone)]
pub(super) struct OrderSlot {
    order: Arc<BatchOrder>,
    index: usize,
    /// Number of changes when its run began.
    since: Arc<AtomicUsize>,
}

/// Marks the call as ended when dropped.
pub(super) struct EndGuard {
    order: Arc<BatchOrder>,
    index: usize,
}

impl BatchOrder {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            first: watch::Sender::new(0),
        })
    }

    pub(super) fn slot(self: &Arc<Self>, index: usize) -> OrderSlot {
        OrderSlot {
            order: Arc::clone(self),
            index,
            since: Arc::default(),
        }
    }

    pub(super) fn ending(self: &Arc<Self>, index: usize) -> EndGuard {
        EndGuard {
            order: Arc::clone(self),
            index,
        }
    }

    fn state(&self) -> MutexGuard<'_, OrderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        let mut past = self.order.state();
        past.ended.insert(self.index);
        self.order.first.send_modify(|first| {
            while past.ended.remove(first) {
                *first += 1;
            }
        });
    }
}

impl OrderSlot {
    /// Records that a run of the call begins.
    pub(super) fn start(&self) {
        let changes = self.order.state().changes.len();
        self.since.store(changes, Relaxed);
    }

    /// Waits until all calls before this one have ended.
    pub(super) async fn wait_turn(&self) {
        let mut first = self.order.first.subscribe();
        // Cannot fail: the order owns the sender.
        let _ = first.wait_for(|first| *first >= self.index).await;
    }

    /// Whether a call since [`OrderSlot::start`] changed something that this run read. Without a read set, any change
    /// counts.
    pub(super) fn is_stale(&self, reads: Option<&dyn ReadSet>) -> bool {
        let past = self.order.state();
        let mut since = past.changes.iter().skip(self.since.load(Relaxed));
        since.any(|change| {
            reads.is_none_or(|reads| match change {
                PastChange::Files(changes) => reads.is_affected_by(changes),
                PastChange::Session => false,
            })
        })
    }

    /// Records changes, even if the commit failed: other calls may have seen them in the meantime.
    pub(super) fn record_changes(&self, mut changes: ChangeSet) {
        // Only the paths are needed, and a batch may have thousands of changes.
        for change in &mut changes.changes {
            change.diff = None;
        }
        self.order.state().changes.push(PastChange::Files(changes));
    }

    /// Records that values of the session changed.
    pub(super) fn record_session_change(&self) {
        self.order.state().changes.push(PastChange::Session);
    }
}
