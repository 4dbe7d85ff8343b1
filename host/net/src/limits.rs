//! Limits of one request, so that neither a guest nor a server determines how long or how large it gets.

use std::time::Duration;

/// Timeouts of each phase. A caller can only lower the values in [`NetLimits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Resolving the name, connecting and the TLS handshake, together.
    pub connect: Duration,
    /// From the first byte sent to the complete head of the response.
    pub first_byte: Duration,
    /// Between two chunks of the response's body, while the next one is awaited.
    pub between_bytes: Duration,
    /// From the call to the last byte of the response.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(10),
            between_bytes: Duration::from_secs(10),
            total: Duration::from_mins(1),
        }
    }
}

impl Timeouts {
    /// Lowers nothing: the values in [`NetLimits`] apply.
    pub const MAX: Self = Self {
        connect: Duration::MAX,
        first_byte: Duration::MAX,
        between_bytes: Duration::MAX,
        total: Duration::MAX,
    };

    /// Limits each timeout to that of `most`, and to one day, so that a deadline can always be computed.
    pub(crate) fn clamp(self, most: Self) -> Self {
        let lower = |a: Duration, b: Duration| a.min(b).min(Duration::from_hours(24));
        Self {
            connect: lower(self.connect, most.connect),
            first_byte: lower(self.first_byte, most.first_byte),
            between_bytes: lower(self.between_bytes, most.between_bytes),
            total: lower(self.total, most.total),
        }
    }
}

/// Limits of a request and its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetLimits {
    pub url_bytes: usize,
    pub headers: usize,
    /// Total size of the names and values of one head, of a request or a response.
    pub header_bytes: usize,
    pub upload_bytes: u64,
    pub response_bytes: u64,
    /// Maximum number of concurrent requests. A further one waits at most as long as connecting may take.
    pub concurrent: usize,
    pub per_minute: usize,
    pub per_host_per_minute: usize,
    pub longest: Timeouts,
}

impl Default for NetLimits {
    fn default() -> Self {
        Self {
            url_bytes: 8 * 1024,
            headers: 100,
            header_bytes: 64 * 1024,
            upload_bytes: 10 * 1024 * 1024,
            response_bytes: 10 * 1024 * 1024,
            concurrent: 8,
            per_minute: 600,
            per_host_per_minute: 60,
            longest: Timeouts::default(),
        }
    }
}
