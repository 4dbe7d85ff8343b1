//! The connection state of a server, written by one task and read by calls.

use std::sync::Arc;
use std::time::Duration;

use crate::connection::ConnectionHandle;
use crate::error::ServerError;

#[derive(Clone)]
pub enum ServerState {
    /// The first attempt is in progress.
    Starting,
    Up(Arc<ConnectionHandle>),
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

impl ServerState {
    /// The state as a word for lists.
    pub fn as_str(&self) -> &'static str {
        match self {
            ServerState::Starting => "starting",
            ServerState::Up(_) => "connected",
            ServerState::Waiting { .. } => "restarting",
            ServerState::GaveUp { .. } => "failed",
            ServerState::Stopped => "stopped",
        }
    }
}
