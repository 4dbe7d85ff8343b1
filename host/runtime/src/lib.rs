//! Runs tools as WebAssembly components, in a new instance for each call. The only crate that uses wasmtime.
//!
//! [`Runtime::load`] reads a `.wasm` file once, scans it, compiles it in a killable child process (or takes
//! verified code from the cache), and gets its tool descriptions without any grants. [`Loaded::grant`] then applies
//! the operator's grants and returns a [`Plugin`], which runs calls.

mod api;
#[doc(hidden)]
pub mod bench;
mod cache;
mod capabilities;
mod compile;
mod crash;
mod deadline;
mod denied;
mod difference;
mod engine;
mod error;
mod executable;
mod files;
#[cfg(test)]
mod fuzz;
mod hooks;
mod http;
mod instance;
mod limiter;
mod load;
mod looks;
mod missing;
mod owners;
mod pack;
mod plugin;
mod programs;
mod quota;
mod scan;
mod staging;
mod state;
mod stdio;
#[cfg(test)]
mod tests;
mod trace;
mod tree;
mod within;

pub use capabilities::{Capabilities, NetGrant};
pub use compile::{Compiler, compile_worker};
pub use difference::file_diff;
pub use error::{LoadError, RuntimeError};
pub use hooks::HookCall;
pub use load::{Loaded, Runtime, RuntimeSettings, read_manifest};
pub use owners::session_owner;
pub use pack::pack;
pub use plugin::{OwnFolderError, OwnFolders, Plugin, PluginGrants};
pub use programs::ProgramGrant;
pub use staging::Staging;
pub use within::is_own as is_own_folder;
