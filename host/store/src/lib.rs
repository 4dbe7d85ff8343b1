//! Persistent state of the host: records, audit chain, approvals and commit journal, in one SQLite file in the
//! state directory of a project.
//!
//! The store does not know the lifecycle of a call: the kernel decides which state may follow which, and provides
//! the time. The store guarantees that an acknowledged row survives a kill at any moment, that the chain of
//! transitions reveals changes, and that a store that cannot be written reports this before anything depends on it.
//! It does know the states of commits, because two processes can change a commit concurrently.
//!
//! Several processes can use one directory. All writes of a process go through its writer thread; the writers of
//! several processes are serialized by SQLite's lock.

mod chain;
mod checked_updates;
mod commits;
mod crash;
mod error;
mod group;
mod history;
mod owner;
mod paths;
mod prune;
mod queue;
mod read;
mod rows;
mod schema;
mod segments;
mod shapes;
mod stage;
mod steps;
mod store;
mod subject;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use commits::{CommitFilter, CommitRow, CommitState};
pub use error::{AnswerError, ApprovalError, CommitError, StoreError};
pub use history::{History, HistoryFilter, HistoryPage, MAX_SCAN};
pub use prune::{DroppedRecords, RecordRetention};
pub use rows::{
    AnswerRow, ApprovalRow, BatchRow, CallFilter, CallRow, EventRow, MAX_ROW, SessionRow,
    StoredTransition, TransitionFilter, TransitionRow, Write,
};
pub use segments::Segment;
pub use store::Store;
pub use subject::ChainSubject;
pub use verify::{ChainDefect, RecordedHead, Verification};
