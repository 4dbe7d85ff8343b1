//! The interface `session`: values and file observations of the session.

use serde_json::Value;

use crate::Failure;

pub trait SessionService: Send + Sync {
    /// Returns the value that the call's plugin last stored under `key` in this session.
    fn session_get(&self, key: &str) -> Result<Option<Value>, Failure>;

    /// Stores a value; `None` deletes the key. Takes effect only with the result of the call.
    fn session_set(&self, key: &str, value: Option<Value>) -> Result<(), Failure>;

    fn record_observation(&self, observation: FileObservation) -> Result<(), Failure>;

    fn last_observation(&self, path: &str) -> Option<FileObservation>;
}

/// A version of a file that was shown to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileObservation {
    /// The path as visible to the plugin.
    pub path: String,
    pub sha256: String,
    /// First and last line; `None` for the whole file.
    pub lines: Option<(u32, u32)>,
}
