//! Read sets of calls, to detect whether a repeated call would have the same result.

use std::fmt;

use crate::{BoxFuture, ChangeSet};

/// The files and directories that a call has read. The backend records them until the call ends or fails.
pub trait ReadSet: fmt::Debug + Send + Sync {
    /// Returns whether these changes could have altered the course of the call if they had been present, or absent,
    /// when it read the files.
    fn is_affected_by(&self, changes: &ChangeSet) -> bool;

    /// Records the state that [`ReadSet::is_unchanged`] compares with. Called when the call has ended.
    fn record_state(&self) -> BoxFuture<'_, ()>;

    /// Returns whether everything that the call read is unchanged. False if this cannot be determined.
    fn is_unchanged(&self) -> BoxFuture<'_, bool>;

    /// Approximate memory size in bytes.
    fn memory_size(&self) -> usize;
}
