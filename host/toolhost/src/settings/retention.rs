//! Limits on the age and size of stored data.

use std::time::Duration;

const DAY: Duration = Duration::from_hours(24);

/// Limits on stored data; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionSettings {
    /// Age of calls, sessions, ended approvals and the audit chain.
    pub records_age: Option<Duration>,
    /// Size of the database in bytes.
    pub records_size: Option<u64>,
    /// How long file changes can be undone.
    pub undo_age: Option<Duration>,
    /// Size of undo data in bytes.
    pub undo_size: Option<u64>,
    /// Age of compiled code since its last use.
    pub cache_age: Option<Duration>,
    pub cache_size: Option<u64>,
    /// Age of logs of MCP servers since the last write.
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
