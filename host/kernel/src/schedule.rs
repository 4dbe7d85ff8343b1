//! The scheduler: when a call runs, in which order, and which calls run concurrently.
//!
//! The scheduler does not depend on tools. A session's [`Queue`] runs one [`Batch`] (the calls of one model turn) at a
//! time; the batch splits its calls into [`waves`] and collects one result per call, in call order; each call asks
//! [`Pools`] for a [`Permit`] once it is authorized and ready to run. The [`LoopGuard`] stops a model that repeats a
//! failing call.

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
