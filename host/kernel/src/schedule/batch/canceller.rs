//! Cancellation of a running batch, from outside and as seen by its calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::Fate;

/// A handle to cancel a running batch. Clones share the same batch.
#[derive(Debug, Clone)]
pub struct Canceller {
    /// The parent of the tokens of all calls.
    token: CancellationToken,
    book: Arc<Mutex<Book>>,
}

/// The cancellation signal of one call.
#[derive(Debug, Clone)]
pub struct Stop {
    token: CancellationToken,
    canceller: Canceller,
}

impl Stop {
    /// Returns the token of the call. Cancelling it affects only this call.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Returns the call that was cancelled; `None` if there is none or the batch was dropped.
    pub fn because(&self) -> Option<usize> {
        self.canceller.cause()
    }

    /// Returns the result of `work`, or `None` if the call is cancelled. Meant for steps before a call runs, such as
    /// waiting for its permit: if both happen at once it returns `None`, so that no call starts after a cancellation.
    pub async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.token.cancelled() => None,
            done = work => Some(done),
        }
    }
}

#[derive(Debug)]
struct Book {
    ended: Vec<bool>,
    /// The call that was cancelled first.
    cause: Option<usize>,
}

impl Canceller {
    pub(super) fn new(calls: usize) -> Self {
        let book = Book {
            ended: vec![false; calls],
            cause: None,
        };
        Self {
            token: CancellationToken::new(),
            book: Arc::new(Mutex::new(book)),
        }
    }

    /// Cancels one call: running calls of the batch are notified, the others never start. Returns false if the call
    /// has already ended.
    pub fn cancel(&self, index: usize) -> bool {
        let mut book = self.book();
        let open = book.ended.get(index).is_some_and(|ended| !ended);
        if open {
            book.cause.get_or_insert(index);
            drop(book);
            self.token.cancel();
        }
        open
    }

    pub(super) fn ended(&self, index: usize, fate: Fate) {
        if fate == Fate::Cancelled {
            self.cancel(index);
        }
        self.book().ended[index] = true;
    }

    /// Returns the call that was cancelled first and caused the others to be cancelled.
    pub fn cause(&self) -> Option<usize> {
        self.book().cause
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub(super) fn stop(&self) -> Stop {
        Stop {
            token: self.token.child_token(),
            canceller: self.clone(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
