//! The tool call pipeline: find the tool, validate, authorize (rules, hooks, user), admit, invoke, record.
//!
//! The kernel accesses tools only through [`toolhost_contract::Backend`]. It does not depend on whether a component or
//! a remote server implements a tool, so it is tested with backends of a few lines.

mod ab;
mod approvals;
mod asks;
mod bus;
mod clock;
mod crash;
pub mod hooks;
pub mod id;
mod journal;
mod kernel;
mod prompter;
mod quota;
mod register;
mod registry;
pub mod schedule;
mod schema;
mod services;
mod settings;
mod sink;
mod stats;
pub mod undo;

pub use ab::{AbKey, AbTest, Variant};
pub use approvals::row as approval_row;
pub use asks::{AnswerError, Answered, Pending};
pub use bus::{Missed, Subscription};
pub use clock::Clock;
pub use journal::{Durability, IN_ADVANCE};
pub use kernel::{
    BatchCall, BatchError, BatchRequest, Builder, CallRequest, DeferredError, HooksFixed, Kernel,
    OnSessionEnd, Report, Sealed, Within, approve_deferred, deny_deferred,
};
pub use prompter::{Callback, Nobody, Prompter, Scripted};
pub use register::RegisterError;
pub use registry::{Entry, LeftOut, PluginInfo, Snapshot, ToolInfo, UnknownTool};
pub use schema::{SchemaError, check_schemas};
pub use services::{Agents, Resources, Task, Without};
pub use settings::{OnDuplicate, Settings};
pub use stats::{Stats, ToolStats, VariantStats};
