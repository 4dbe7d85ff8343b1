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
pub mod grants;
mod hooks;
mod load;
mod outlets;
mod own;
mod places;
pub mod retention;
mod scratch;
mod settings;
pub mod staging;
pub mod turn;

pub use serde_json::{Value, json};
pub use toolhost_contract::format::{self, Format};
pub use toolhost_contract::policy::{Answer, Decision, Mode, Question};
pub use toolhost_contract::{
    Access, Backend, BoxFuture, Call, CallError, CallId, Descriptor, ErrorClass, Event, Grant,
    NoSink, Outcome, Part, PluginName, Policy, Principal, SessionKey, Sink, ToolName, UserId,
};
pub use toolhost_kernel::schedule::Strategy;
pub use toolhost_kernel::{
    Agents, BatchCall, BatchError, BatchRequest, CallRequest, Callback, Durability, Kernel, Nobody,
    PluginInfo, Prompter, Report, Resources, Scripted, Subscription,
};
pub use toolhost_process::{Launcher, launch as become_program, reset_inherited_signals};
pub use toolhost_runtime::{Compiler, compile_worker};

pub use agents::CommandAgents;
pub use builder::Builder;
pub use error::Error;
pub use load::{
    Broken, CompiledPlugin, Folder, Host, Parts, PreparedHost, Purpose, Say, Served, runtime,
};
pub use outlets::OUTPUT;
pub use places::Places;
pub use settings::{
    AgentSettings, AllowedPath, BeyondSettings, Excludes, HookKind, HookSettings, PluginSettings,
    RetentionSettings, SecretSettings, SecretValue, Settings, files_of_command, guest_name,
};

// Compiles the example in the README.
#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
