//! What a call looked at, so that it can be said whether it would go the same way again.

use std::fmt;

use crate::{BoxFuture, ChangeSet};

/// The read set of one call: whatever ran it wrote down what the call looked at while it ran, up to its end or its
/// failure.
pub trait Reads: fmt::Debug + Send + Sync {
    /// Could the call have gone otherwise, had these changes been there, or not been there, when it looked?
    fn touched_by(&self, changes: &ChangeSet) -> bool;

    /// The call has ended. Keeps what is needed to say later whether all is as the call saw it.
    fn keep(&self) -> BoxFuture<'_, ()>;

    /// Looks whether all is as the call saw it. False when there is no telling.
    fn still_hold(&self) -> BoxFuture<'_, bool>;

    /// About as many bytes as it takes in memory.
    fn weight(&self) -> usize;
}
