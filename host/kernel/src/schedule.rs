//! The scheduler: when a call runs, in which order, and which calls run concurrently.
//!
//! The scheduler does not depend on tools. A session's [`Queue`] runs one [`Batch`] (the calls of one model turn) at a
//! time; the batch splits its calls into [`waves`] and collects one result per call, in call order; each call asks
//! [`Pools`] for a [`Permit`] once it is authorized and ready to run. The [`LoopGuard`] stops a model that repeats a
//! failing call.

mod batch;
mod conflict_queue;
mod loop_guard;
mod path_locks;
mod plan;
mod pools;
mod queue;

pub use batch::{
    Batch, CallFn, CallStatus, Canceller, CompletedCall, MissingResult, PlannedCall, StopSignal,
};
pub use loop_guard::{LoopGuard, RepeatedFailure};
pub use path_locks::PathLock;
pub use plan::{CallShape, Strategy, UnknownStrategy, waves};
pub use pools::{AdmissionRequest, Lane, Permit, Pool, PoolLimitError, PoolLimits, Pools};
pub use queue::{BatchQueue, QueueError};
pub use tokio_util::sync::CancellationToken;

#[cfg(test)]
mod tests;
