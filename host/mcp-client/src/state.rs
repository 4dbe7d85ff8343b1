//! The connection state of a server, written by one task and read by calls.

use std::sync::Arc;
use std::time::Duration;

use crate::error::ServerError;
use crate::link::Live;

#[derive(Clone)]
pub enum State {
    /// The first attempt is in progress.
    Starting,
    Up(Arc<Live>),
    /// It was lost or could not be reached, and will be retried.
    Waiting {
        reason: String,
        wait: Duration,
    },
    /// It is not retried.
    GaveUp {
        error: ServerError,
    },
    /// The host shuts down.
    Stopped,
}

impl State {
    /// The state as a word for lists.
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
