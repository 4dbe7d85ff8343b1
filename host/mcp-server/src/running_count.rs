//! Counter of running work that must end before the host exits.

use std::sync::Arc;

use tokio::sync::watch;

#[derive(Clone)]
pub(crate) struct RunningCount(Arc<watch::Sender<usize>>);

impl Default for RunningCount {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl RunningCount {
    pub(crate) fn get(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until the count is zero.
    pub(crate) async fn wait_for_zero(&self) {
        // Cannot fail, because `self` holds the sender.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// Counts one unit of running work until dropped.
pub(crate) struct RunningGuard(RunningCount);

impl RunningGuard {
    pub(crate) fn begin(count: &RunningCount) -> Self {
        count.0.send_modify(|count| *count += 1);
        Self(count.clone())
    }

    /// Stops counting while the work waits for user input.
    pub(crate) fn pause(self) -> PausedGuard {
        PausedGuard(self.0.clone())
    }
}

/// Paused work that may run again.
pub(crate) struct PausedGuard(RunningCount);

impl PausedGuard {
    pub(crate) fn resume(self) -> RunningGuard {
        RunningGuard::begin(&self.0)
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
