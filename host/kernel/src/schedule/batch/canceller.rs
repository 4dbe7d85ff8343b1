//! Stops a batch while it runs: the handle from outside, and what a call of it hears.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::Fate;

/// A handle on a running batch; clones mean the same batch.
#[derive(Debug, Clone)]
pub struct Canceller {
    /// The parent of the tokens of all calls.
    token: CancellationToken,
    book: Arc<Mutex<Book>>,
}

/// How a call hears that it shall stop.
#[derive(Debug, Clone)]
pub struct Stop {
    token: CancellationToken,
    canceller: Canceller,
}

impl Stop {
    /// For whatever wants a token. Cancelling it touches this call alone.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// The call that was cancelled; None when nothing was, or when the batch was dropped.
    pub fn because(&self) -> Option<usize> {
        self.canceller.cause()
    }

    /// What comes of the work, or None when the call shall stop. Meant for what comes before a call runs, such as
    /// waiting for its permit: when both happen at once it is None, so that no call starts after a cancel.
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

    /// Cancels one call: its siblings that run are told to stop, the others never start. Was there something left to
    /// cancel? A call that has ended cancels nothing.
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

    /// The call that was cancelled first, and took the others along.
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
