//! Where a server stands: one value that calls read and one task writes.

use std::sync::Arc;
use std::time::Duration;

use crate::error::ServerError;
use crate::link::Live;

#[derive(Clone)]
pub enum State {
    /// For the first time.
    Starting,
    Up(Arc<Live>),
    /// It was lost, or could not be reached, and is tried again.
    Waiting {
        reason: String,
        wait: Duration,
    },
    /// It is not tried again.
    GaveUp {
        error: ServerError,
    },
    /// The host ends.
    Stopped,
}

impl State {
    /// For lists.
    pub fn word(&self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Up(_) => "connected",
            State::Waiting { .. } => "restarting",
            State::GaveUp { .. } => "failed",
            State::Stopped => "stopped",
        }
    }
}
