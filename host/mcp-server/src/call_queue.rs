//! Queue that limits the calls of one client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::transport::Outbox;

/// Maximum number of calls in the kernel. More wait in order of arrival.
const MAX_RUNNING: usize = 64;
/// Maximum number of running and waiting calls. More are rejected, which bounds memory.
const MAX_PRESENT: usize = 1024;

pub(crate) struct CallQueue {
    running: Semaphore,
    present: AtomicUsize,
    /// Responses that the client has not read. `None` over HTTP, where each response has its own connection.
    outbox: Option<Arc<Outbox>>,
}

/// A permit to run a call, released on drop.
pub(crate) struct CallPermit<'a> {
    _running: SemaphorePermit<'a>,
    _present: PresentGuard<'a>,
}

struct PresentGuard<'a>(&'a AtomicUsize);

impl CallQueue {
    pub(crate) fn new() -> Self {
        Self {
            running: Semaphore::new(MAX_RUNNING),
            present: AtomicUsize::new(0),
            outbox: None,
        }
    }

    /// Starts no call while the client has too many unread responses.
    pub(crate) fn with_outbox(outbox: Arc<Outbox>) -> Self {
        Self {
            outbox: Some(outbox),
            ..Self::new()
        }
    }

    /// Waits for a permit. Returns `None` if too many calls are waiting.
    pub(crate) async fn acquire(&self) -> Option<CallPermit<'_>> {
        // Counted before the wait, and uncounted if the wait is dropped.
        let before = self.present.fetch_add(1, Relaxed);
        let present = PresentGuard(&self.present);
        if before >= MAX_PRESENT {
            return None;
        }
        let running = self.running.acquire().await;
        if let Some(outbox) = &self.outbox {
            outbox.wait_for_room().await;
        }
        Some(CallPermit {
            _running: running.expect("the semaphore is never closed"),
            _present: present,
        })
    }
}

impl Drop for PresentGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn calls_run_then_wait_then_are_rejected() {
        let line = CallQueue::new();
        let enter = || Box::pin(line.acquire());
        let mut running: Vec<_> = (0..MAX_RUNNING)
            .map(|_| enter().now_or_never().expect("a free permit"))
            .collect();
        let mut waiting: Vec<_> = (MAX_RUNNING..MAX_PRESENT).map(|_| enter()).collect();
        assert!(
            waiting
                .iter_mut()
                .all(|permit| permit.now_or_never().is_none())
        );
        assert!(
            enter()
                .now_or_never()
                .expect("an immediate answer")
                .is_none()
        );

        running.pop();
        assert!(
            waiting[1].as_mut().now_or_never().is_none(),
            "calls run in order of arrival"
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
            "dropped permits are released"
        );
    }
}
