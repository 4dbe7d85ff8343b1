//! Limits of the HTTP server.

use std::num::NonZeroU32;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpLimits {
    /// Maximum size of a request body, in bytes.
    pub body: usize,
    /// Maximum number of running requests per user. More wait.
    pub in_flight: usize,
    /// Maximum number of requests per user and second.
    pub rate: Option<NonZeroU32>,
    /// Maximum number of open sessions per user, and of open streams.
    pub sessions: usize,
    /// A session without a request or stream ends after this time.
    pub idle: Duration,
    /// Maximum number of connections of all clients.
    pub connections: usize,
    /// How long running calls may continue after the server was told to stop.
    pub grace: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            // The kernel accepts 1 MiB of input.
            body: 2 << 20,
            in_flight: 64,
            rate: None,
            sessions: 1024,
            idle: Duration::from_mins(30),
            connections: 1024,
            grace: Duration::from_secs(5),
        }
    }
}
