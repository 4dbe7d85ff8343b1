//! How many calls one client may have here at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::transport::Outbox;

/// In the kernel at once; the others wait in the order they came.
const RUNNING: usize = 64;
/// Running and waiting together. Whoever sends more is told so, before the requests fill our memory.
const PRESENT: usize = 1024;

pub(crate) struct Line {
    running: Semaphore,
    present: AtomicUsize,
    /// Where the answers wait for the client to read them. Over HTTP each has a connection of its own to wait at.
    outbox: Option<Arc<Outbox>>,
}

/// One place in the line, given back when dropped.
pub(crate) struct Place<'a> {
    _running: SemaphorePermit<'a>,
    _present: Present<'a>,
}

struct Present<'a>(&'a AtomicUsize);

impl Line {
    pub(crate) fn new() -> Self {
        Self {
            running: Semaphore::new(RUNNING),
            present: AtomicUsize::new(0),
            outbox: None,
        }
    }

    /// Lets nobody run while the client leaves too many answers unread: there would be one more.
    pub(crate) fn behind(outbox: Arc<Outbox>) -> Self {
        Self {
            outbox: Some(outbox),
            ..Self::new()
        }
    }

    /// Waits for a place. None when too many are waiting already.
    pub(crate) async fn enter(&self) -> Option<Place<'_>> {
        // Counted before the wait, and given back also when the wait is given up.
        let before = self.present.fetch_add(1, Relaxed);
        let present = Present(&self.present);
        if before >= PRESENT {
            return None;
        }
        let running = self.running.acquire().await;
        if let Some(outbox) = &self.outbox {
            outbox.room().await;
        }
        Some(Place {
            _running: running.expect("nobody closes this semaphore"),
            _present: present,
        })
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn calls_run_wait_and_are_refused_in_this_order() {
        let line = Line::new();
        let enter = || Box::pin(line.enter());
        let mut running: Vec<_> = (0..RUNNING)
            .map(|_| enter().now_or_never().expect("a free place"))
            .collect();
        let mut waiting: Vec<_> = (RUNNING..PRESENT).map(|_| enter()).collect();
        assert!(
            waiting
                .iter_mut()
                .all(|place| place.now_or_never().is_none())
        );
        assert!(enter().now_or_never().expect("an answer at once").is_none());

        running.pop();
        assert!(
            waiting[1].as_mut().now_or_never().is_none(),
            "the first in the line comes first"
        );
        assert!(
            waiting[0]
                .as_mut()
                .now_or_never()
                .expect("its turn")
                .is_some()
        );

        drop(waiting);
        drop(running);
        assert_eq!(
            line.present.load(Relaxed),
            0,
            "whoever leaves gives the place back"
        );
    }
}
