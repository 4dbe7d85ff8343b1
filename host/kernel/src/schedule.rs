//! When a call runs: after whom, beside whom, and when not at all.
//!
//! Nothing here knows what a tool is. A session's [`Queue`] lets one [`Batch`] (the calls of one model turn) run after
//! the other; the batch cuts its calls into [`waves`] and collects one result per call, in call order; each call asks
//! [`Pools`] for a [`Permit`] when it is ready to run, which is after people and rules have had their say. The
//! [`LoopGuard`] stops a model that repeats a failing call.

mod batch;
mod line;
mod locks;
mod loop_guard;
mod plan;
mod pools;
mod queue;

pub use batch::{Batch, Canceller, End, Fate, Missing, Planned, Run, Stop};
pub use locks::Place;
pub use loop_guard::{LoopGuard, Repeated};
pub use plan::{Shape, Strategy, UnknownStrategy, waves};
pub use pools::{Lane, LimitError, Limits, Needs, Permit, Pool, Pools};
pub use queue::{Queue, QueueError};
pub use tokio_util::sync::CancellationToken;

#[cfg(test)]
mod tests;
