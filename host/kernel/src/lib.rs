//! The one road a tool call takes: find, check, decide, settle, admit, invoke, record.
//!
//! The kernel knows tools only as [`toolhost_contract::Backend`]s. It never learns whether a component or a remote
//! server stands behind a name, so it is tested with backends of a few lines.

mod gate;
pub mod hooks;
mod kernel;
mod prompter;
mod register;
mod registry;
pub mod schedule;
mod schema;
mod settings;
mod stats;

pub use kernel::{CallRequest, Kernel, Report};
pub use prompter::{Nobody, Prompter};
pub use register::RegisterError;
pub use registry::{Entry, PluginInfo, Snapshot, ToolInfo, UnknownTool};
pub use settings::{OnDuplicate, Settings};
pub use stats::{Stats, ToolStats};
