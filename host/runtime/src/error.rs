//! Errors of setting up the runtime and loading plugins.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("cannot set up the WebAssembly engine: {0}")]
    Engine(String),
}

/// Why a plugin could not be loaded. `Display` omits the cause chain, which goes to the operator's log.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {}: {error}", path.display())]
    Read {
        path: PathBuf,
        // Not the source, because the message contains it.
        error: std::io::Error,
    },
    #[error("{} is {size} bytes; the limit for a component is {limit} bytes", path.display())]
    TooBig {
        path: PathBuf,
        size: u64,
        limit: u64,
    },
    #[error("{} is not a WebAssembly component: {found}", path.display())]
    NotAComponent { path: PathBuf, found: String },
    #[error(
        "{} is a core WebAssembly module, not a component; build it for the target wasm32-wasip2, or wrap it with \
         `wasm-tools component new`", path.display()
    )]
    CoreModule { path: PathBuf },
    #[error("{} is not valid: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
    #[error("{}: {reason}", path.display())]
    Manifest { path: PathBuf, reason: String },
    #[error("{}: {reason}", path.display())]
    Contract { path: PathBuf, reason: String },
    #[error("{}: {reason}", path.display())]
    Untrusted { path: PathBuf, reason: String },
    #[error("cannot compile {}: {reason}", path.display())]
    Compile { path: PathBuf, reason: String },
    #[error("{} has changed since it was loaded; run `host plugins reload`", path.display())]
    Changed { path: PathBuf },
    #[error("{} cannot describe its tools: {reason}", path.display())]
    Describe { path: PathBuf, reason: String },
}
