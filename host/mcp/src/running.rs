//! Counter of running work that must end before the host exits.

use std::sync::Arc;

use tokio::sync::watch;

#[derive(Clone)]
pub(crate) struct Count(Arc<watch::Sender<usize>>);

impl Default for Count {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Count {
    pub(crate) fn now(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until the count is zero.
    pub(crate) async fn none(&self) {
        // Cannot fail, because `self` holds the sender.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// Counts one unit of running work until dropped.
pub(crate) struct Running(Count);

impl Running {
    pub(crate) fn begin(count: &Count) -> Self {
        count.0.send_modify(|count| *count += 1);
        Self(count.clone())
    }

    /// Stops counting while the work waits for user input.
    pub(crate) fn pause(self) -> Paused {
        Paused(self.0.clone())
    }
}

/// Paused work that may run again.
pub(crate) struct Paused(Count);

impl Paused {
    pub(crate) fn end(self) -> Running {
        Running::begin(&self.0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
