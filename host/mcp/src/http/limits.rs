//! How much anyone may ask of a server that listens.

use std::num::NonZeroU32;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request.
    pub body: usize,
    /// Requests that one principal may have running. More of them wait a while.
    pub in_flight: usize,
    /// Requests that one principal may make in a second.
    pub rate: Option<NonZeroU32>,
    /// Sessions, and as many lasting streams, that one principal may have open.
    pub sessions: usize,
    /// A session without a request or a stream ends after this.
    pub idle: Duration,
    /// Connections of all clients together.
    pub connections: usize,
    /// How long running calls may go on once the server was told to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // The kernel takes 1 MiB of input.
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
