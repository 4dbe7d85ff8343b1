//! Cancellation of a call, and the error that reports it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use toolhost_contract::{CallError, CallId, ErrorClass};

use super::Refusal;
use crate::schedule::{CancellationToken, Canceller};

/// Cancels one call. Clones share the same call.
#[derive(Debug, Clone)]
pub(super) struct CancelHandle {
    token: CancellationToken,
    batch: Option<BatchMember>,
    /// The time limit that the caller set for the call, if the call exceeded it.
    exceeded: Arc<OnceLock<Duration>>,
}

/// The position of a call in its batch. Cancelling it cancels the batch, and the errors of the others name it.
#[derive(Debug, Clone)]
struct BatchMember {
    canceller: Canceller,
    ids: Arc<[CallId]>,
    index: usize,
}

impl CancelHandle {
    pub(super) fn new() -> Self {
        Self {
            token: CancellationToken::new(),
            batch: None,
            exceeded: Arc::default(),
        }
    }

    pub(super) fn in_batch(canceller: &Canceller, ids: &Arc<[CallId]>, index: usize) -> Self {
        Self {
            token: canceller.token().child_token(),
            batch: Some(BatchMember {
                canceller: canceller.clone(),
                ids: Arc::clone(ids),
                index,
            }),
            exceeded: Arc::default(),
        }
    }

    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Cancels the call. Returns false if it has already ended.
    pub(super) fn cancel(&self) -> bool {
        if let Some(turn) = &self.batch {
            return turn.canceller.cancel(turn.index);
        }
        self.token.cancel();
        true
    }

    /// Cancels the call because it exceeded a time limit, which its error and its record name.
    pub(super) fn time_out(&self, limit: Duration) {
        let _ = self.exceeded.set(limit);
        self.cancel();
    }

    /// Returns the result of `work`, or an error if the call is cancelled before it completes. Pin a large future: this one
    /// contains its argument several times.
    pub(super) async fn unless_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        self.select_cancelled(false, work).await
    }

    /// Like [`CancelHandle::unless_cancelled`], for work after the tool has run.
    pub(super) async fn unless_cancelled_after_run<T>(
        &self,
        work: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        self.select_cancelled(true, work).await
    }

    async fn select_cancelled<T>(
        &self,
        ran: bool,
        work: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        tokio::select! {
            biased;
            () = self.token.cancelled() => Err(self.error(ran).into()),
            result = work => result,
        }
    }

    /// Fails if the call is cancelled. Used before the tool runs.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if self.is_cancelled() {
            return Err(self.error(false).into());
        }
        Ok(())
    }

    /// Returns the cancellation error. `ran`: the tool was started and may have had effects.
    pub(super) fn error(&self, ran: bool) -> CallError {
        if let Some(limit) = self.exceeded.get() {
            return CallError::timed_out(*limit);
        }
        let because = self.batch.as_ref().and_then(|turn| {
            let cause = turn.canceller.cause()?;
            (cause != turn.index).then(|| turn.ids.get(cause)).flatten()
        });
        let error = match (because, ran) {
            (None, _) => CallError::new(ErrorClass::Cancelled, "the call was cancelled"),
            (Some(id), false) => CallError::new(
                ErrorClass::Cancelled,
                format!("the call was not run, because call {id} of the same turn was cancelled"),
            )
            .code("sibling_cancelled"),
            (Some(id), true) => CallError::new(
                ErrorClass::Cancelled,
                format!(
                    "the call was stopped while it ran, because call {id} of the same turn was cancelled"
                ),
            )
            .code("sibling_cancelled"),
        };
        if ran {
            error.recommend("verify its side effects before calling again")
        } else {
            error
        }
    }
}
