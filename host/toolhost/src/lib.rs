//! Run untrusted agent tools as sandboxed WebAssembly components in your program.
//!
//! ```no_run
//! use toolhost::{Access, Builder, json};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let host = Builder::new()
//!         .plugins("./plugins")
//!         .allow_path(".", Access::ReadOnly)
//!         .build()
//!         .await?;
//!     let report = host.call("read_file", json!({"path": "/workspace/README.md"})).await;
//!     println!("{}", report.result?.model_text());
//!     Ok(())
//! }
//! ```
//!
//! A tool has access to what its plugin's manifest requests *and* you grant here. No file, environment variable, host
//! or program is granted by default. Calls that change something need approval; without a [`Prompter`] they are denied,
//! and the error names a rule that would allow them. [`Host::kernel`] provides all features of the kernel: turns of
//! several calls, events, answers, hooks, approvals and modes.

mod agents;
mod builder;
mod error;
pub mod front_end;
pub mod grants;
mod hooks;
mod host_paths;
mod host_resources;
mod inherited;
mod load;
pub mod mcp_servers;
mod provided_directories;
pub mod retention;
mod scratch_dir;
mod settings;
pub mod staging;
mod task_actions;
pub mod turn;

pub use serde_json::{Value, json};
pub use toolhost_contract::policy::{Answer, Decision, Mode, Question, RuleSpec};
pub use toolhost_contract::{
    Access, Backend, BoxFuture, Call, CallError, CallEvent, CallId, Descriptor, ErrorClass, Grant,
    NoSink, Outcome, Part, PluginName, Policy, PolicySpec, Principal, SessionKey, Sink, ToolName,
    UserId,
};
pub use toolhost_formats::events::FrontEnd;
pub use toolhost_formats::model::{self as format, Format};
pub use toolhost_formats::profile::{Profile, UnmappedTools};
pub use toolhost_kernel::schedule::Strategy;
pub use toolhost_kernel::{
    Agents, BatchCall, BatchError, BatchRequest, CallRequest, CallbackPrompter, DetachError,
    Durability, Kernel, NoPrompter, PluginInfo, Prompter, Report, Resources, ScriptedPrompter,
    Stats, Subscription, ToolInfo, ToolStats,
};
pub use toolhost_process::{Launcher, launch as become_program, reset_inherited_signals};
pub use toolhost_runtime::{Compiler, compile_worker};

pub use agents::CommandAgents;
pub use builder::Builder;
pub use error::Error;
pub use grants::planned_grants;
pub use host_paths::HostPaths;
pub use host_resources::OUTPUT_PATH;
pub use load::{
    BrokenPlugin, ChangeKind, GrantedDirectory, Host, HostParts, LoadProgress, LoadPurpose,
    LoadedPlugins, MessageSink, PluginChange, PluginChangeError, PluginChanges, PreparedHost,
    ServedPlugin, environment, package_store, runtime,
};
pub use settings::{
    AgentSettings, AllowedPath, Excludes, ExternalAccessSettings, HookKind, HookSettings,
    PluginSettings, RetentionSettings, SecretSettings, SecretValue, Settings, command_files,
    guest_name, policy_mounts,
};
pub use task_actions::TaskActions;
pub use turn::TurnOutcome;

// Compiles the examples in the documents.
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/embedding.md")]
#[cfg(doctest)]
struct Documents;
