//! The outcome of a call in words and as a class of its color.

use serde_json::Value;
use toolhost_store::CallRow;

/// How a call ended, or that it has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Running,
    Waiting,
    Completed,
    /// The tool completed and reported a failure, or the call failed.
    Failed,
    Denied,
    Cancelled,
    /// The host ended before the call.
    Interrupted,
}

impl Outcome {
    pub const ALL: [Outcome; 7] = [
        Outcome::Running,
        Outcome::Waiting,
        Outcome::Completed,
        Outcome::Failed,
        Outcome::Denied,
        Outcome::Cancelled,
        Outcome::Interrupted,
    ];

    pub fn of(row: &CallRow) -> Self {
        match row.state.as_str() {
            "completed" if row.record.get("isError") == Some(&Value::Bool(true)) => Self::Failed,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "denied" => Self::Denied,
            "cancelled" => Self::Cancelled,
            "sealed" => Self::Interrupted,
            "awaiting_approval" => Self::Waiting,
            _ => Self::Running,
        }
    }

    /// The states in which a call can have this outcome.
    pub fn states(self) -> &'static [&'static str] {
        match self {
            Self::Running => &[
                "pending",
                "validating",
                "approved",
                "scheduled",
                "executing",
            ],
            Self::Waiting => &["awaiting_approval"],
            Self::Completed => &["completed"],
            Self::Failed => &["failed", "completed"],
            Self::Denied => &["denied"],
            Self::Cancelled => &["cancelled"],
            Self::Interrupted => &["sealed"],
        }
    }

    /// The class of its color, which is also its name in addresses.
    pub fn class(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.class() == name)
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Waiting => "Waiting for an answer",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::Denied => "Denied",
            Self::Cancelled => "Cancelled",
            Self::Interrupted => "Interrupted",
        }
    }

    pub fn is_bad(self) -> bool {
        matches!(self, Self::Failed | Self::Denied | Self::Interrupted)
    }
}
