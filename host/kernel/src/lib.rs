//! The tool call pipeline: find the tool, validate, authorize (rules, hooks, user), admit, invoke, record.
//!
//! The kernel accesses tools only through [`toolhost_contract::Backend`]. It does not depend on whether a component or
//! a remote server implements a tool, so it is tested with backends of a few lines.

mod ab_test;
mod approvals;
mod clock;
mod crash_point;
mod event_bus;
pub mod hooks;
pub mod id;
mod journal;
mod kernel;
mod pending_questions;
mod prompter;
mod quota;
pub mod records;
mod register;
mod registry;
pub mod schedule;
mod services;
mod settings;
mod sink;
mod stats;
pub mod undo;

pub use ab_test::{AbKey, AbTest, Variant};
pub use approvals::row as approval_row;
pub use clock::Clock;
pub use event_bus::{MissedEvents, Subscription};
pub use journal::{Durability, IN_ADVANCE};
pub use kernel::{
    BatchCall, BatchError, BatchRequest, CallContext, CallRequest, DeferredError, DetachError,
    Kernel, KernelBuilder, OnSessionEnd, RegistryHandle, Report, SealedCall, approve_deferred,
    deny_deferred,
};
pub use pending_questions::{AttributedAnswer, PendingQuestion, QuestionError};
pub use prompter::{AttributedReplies, CallbackPrompter, NoPrompter, Prompter, ScriptedPrompter};
pub use register::RegisterError;
pub use registry::{
    PluginInfo, RegistrySnapshot, ToolEntry, ToolInfo, UnavailableTool, UnknownTool,
    sort_by_display_name,
};
pub use services::{AgentTask, Agents, NoServices, Resources};
pub use settings::{KernelSettings, OnDuplicate};
pub use stats::{KernelLoad, Stats, ToolStats, VariantStats};
pub use toolhost_schema::{SchemaError, check_schemas};
