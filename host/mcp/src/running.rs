//! How many there are of something that has to end before the host does.

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

    /// Waits until there is none.
    pub(crate) async fn none(&self) {
        // The sender is here, so that this ends only with the count.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// One more that runs, for as long as this is there.
pub(crate) struct Running(Count);

impl Running {
    pub(crate) fn begin(count: &Count) -> Self {
        count.0.send_modify(|count| *count += 1);
        Self(count.clone())
    }

    /// It waits for somebody, and nobody has to wait for it.
    pub(crate) fn pause(self) -> Paused {
        Paused(self.0.clone())
    }
}

/// One that ran and may run again.
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
