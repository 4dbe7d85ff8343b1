//! When a call ran.

use std::time::Duration;

use super::Timestamp;

/// When an ended call ran, and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallTimes {
    /// `None` if the call was refused before it ran.
    pub started_at: Option<Timestamp>,
    /// `None` if the call has no record.
    pub completed_at: Option<Timestamp>,
    pub duration: Duration,
}
