//! Cancellation of a running batch, from outside and as seen by its calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::CallStatus;

/// A handle to cancel a running batch. Clones share the same batch.
#[derive(Debug, Clone)]
pub struct Canceller {
    /// The parent of the tokens of all calls.
    token: CancellationToken,
    state: Arc<Mutex<CancelState>>,
}

/// The cancellation signal of one call.
#[derive(Debug, Clone)]
pub struct StopSignal {
    token: CancellationToken,
    canceller: Canceller,
}

impl StopSignal {
    /// Returns the token of the call. Cancelling it affects only this call.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Returns the call that was cancelled; `None` if there is none or the batch was dropped.
    pub fn cause(&self) -> Option<usize> {
        self.canceller.cause()
    }

    /// Returns the result of `work`, or `None` if the call is cancelled. Meant for steps before a call runs, such as
    /// waiting for its permit: if both happen at once it returns `None`, so that no call starts after a cancellation.
    pub async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.token.cancelled() => None,
            done = work => Some(done),
        }
    }
}

#[derive(Debug)]
struct CancelState {
    ended: Vec<bool>,
    /// The call that was cancelled first.
    cause: Option<usize>,
}

impl Canceller {
    pub(super) fn new(calls: usize) -> Self {
        let book = CancelState {
            ended: vec![false; calls],
            cause: None,
        };
        Self {
            token: CancellationToken::new(),
            state: Arc::new(Mutex::new(book)),
        }
    }

    /// Cancels one call: running calls of the batch are notified, the others never start. Returns false if the call
    /// has already ended.
    pub fn cancel(&self, index: usize) -> bool {
        let mut book = self.state();
        let open = book.ended.get(index).is_some_and(|ended| !ended);
        if open {
            book.cause.get_or_insert(index);
            drop(book);
            self.token.cancel();
        }
        open
    }

    pub(super) fn ended(&self, index: usize, fate: CallStatus) {
        if fate == CallStatus::Cancelled {
            self.cancel(index);
        }
        self.state().ended[index] = true;
    }

    /// Returns the call that was cancelled first and caused the others to be cancelled.
    pub fn cause(&self) -> Option<usize> {
        self.state().cause
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub(super) fn stop(&self) -> StopSignal {
        StopSignal {
            token: self.token.child_token(),
            canceller: self.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, CancelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
