//! Runs tools as WebAssembly components, in a new instance for each call. The only crate that uses wasmtime.
//!
//! [`Runtime::load`] reads a `.wasm` file once, scans it, compiles it in a killable child process (or takes
//! verified code from the cache), and gets its tool descriptions without any grants. [`Loaded::grant`] then applies
//! the operator's grants and returns a [`Plugin`], which runs calls.

mod api;
mod backtrace;
#[doc(hidden)]
pub mod bench;
mod caller_files;
mod capabilities;
mod change_summary;
mod compile;
mod compile_cache;
mod crash;
mod deadline;
mod denied_paths;
mod engine;
mod error;
mod executable;
mod export;
mod file_read_set;
mod file_tree;
mod files;
mod functions;
#[cfg(test)]
mod fuzz;
mod guards;
mod hooks;
mod http;
mod instance;
mod limiter;
mod linked_code;
mod load;
mod missing_grants;
mod owners;
mod pack;
mod path_view;
mod plugin;
mod preview;
mod programs;
mod quota;
mod request;
mod request_limits;
mod scan;
mod staging;
mod state;
mod stdio;
#[cfg(test)]
mod tests;

pub use capabilities::{Capabilities, NetGrant};
pub use change_summary::file_diff;
pub use compile::{Compiler, compile_worker};
pub use compile_cache::CacheFile;
pub use error::{LoadError, RuntimeError};
pub use functions::SkippedFunction;
pub use hooks::{HookCall, HookOrigin};
pub use load::{
    CheckTool, CodeState, Loaded, PluginChecks, Runtime, RuntimeSettings, VerifyFile, file_digest,
    read_manifest,
};
pub use owners::session_owner;
pub use pack::pack;
pub use path_view::is_host_dir as is_own_folder;
pub use plugin::{Plugin, PluginGrants, SessionDirError, SessionDirs};
pub use programs::ProgramGrant;
pub use staging::{Staging, UndoPreview};
