//! What the host remembers, in one SQLite file of the project's state directory.
//!
//! The store keeps rows and knows no lifecycle of a call: which state may follow which is the kernel's business, and so
//! is the clock. What it promises is that an acknowledged row survives a kill at any moment, that the transitions form
//! a chain in which a change is found, and that a store that cannot be written says so before anything depends on it.
//! Of commits it knows the states, because two processes may want to change one at the same time.
//!
//! Two processes may use one directory at once. Every change goes through the one writer thread of its process; the
//! writers of several processes take turns by SQLite's own lock.

mod apply;
mod chain;
mod commits;
mod crash;
mod decide;
mod error;
mod owner;
mod place;
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
pub use prune::{DroppedRecords, KeepRecords};
pub use rows::{
    AnswerRow, ApprovalRow, BatchRow, CallFilter, CallRow, EventRow, MAX_ROW, SessionRow,
    StoredTransition, TransitionFilter, TransitionRow, Write,
};
pub use segments::Segment;
pub use store::Store;
pub use subject::ChainSubject;
pub use verify::{Breakage, Verification};
