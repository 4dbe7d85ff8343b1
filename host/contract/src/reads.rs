//! Read sets of calls, to detect whether a repeated call would have the same result.

use std::fmt;

use crate::{BoxFuture, ChangeSet};

/// The files and directories that a call has read. The backend records them until the call ends or fails.
pub trait Reads: fmt::Debug + Send + Sync {
    /// Returns whether these changes could have altered the course of the call if they had been present, or absent,
    /// when it read the files.
    fn touched_by(&self, changes: &ChangeSet) -> bool;

    /// Records the state that [`ReadSet::is_unchanged`] compares with. Called when the call has ended.
    fn keep(&self) -> BoxFuture<'_, ()>;

    /// Returns whether everything that the call read is unchanged. False if this cannot be determined.
    fn still_hold(&self) -> BoxFuture<'_, bool>;

    /// Approximate memory size in bytes.
    fn weight(&self) -> usize;
}
