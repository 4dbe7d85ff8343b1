//! How much of what the host keeps is kept, and how long.

use std::time::Duration;

const DAY: Duration = Duration::from_hours(24);

/// None: without a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionSettings {
    /// Calls, sessions, approvals that ended and the audit chain.
    pub records_age: Option<Duration>,
    /// Bytes of the database.
    pub records_size: Option<u64>,
    /// How long changes of files can be undone.
    pub undo_age: Option<Duration>,
    /// Bytes of the contents that an undo needs.
    pub undo_size: Option<u64>,
    /// Compiled code that was not used for so long.
    pub cache_age: Option<Duration>,
    pub cache_size: Option<u64>,
    /// Logs of MCP servers that were not written for so long.
    pub logs_age: Option<Duration>,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            records_age: Some(90 * DAY),
            records_size: Some(512 << 20),
            undo_age: Some(30 * DAY),
            undo_size: Some(1 << 30),
            cache_age: Some(90 * DAY),
            cache_size: Some(1 << 30),
            logs_age: Some(90 * DAY),
        }
    }
}
