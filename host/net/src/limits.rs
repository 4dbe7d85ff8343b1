//! The bounds of one request, so that no guest and no server decides how long or how large anything gets.

use std::time::Duration;

/// How long each part may take. What a caller asks for can only lower what [`Limits`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Looking the name up, connecting and agreeing on TLS, together.
    pub connect: Duration,
    /// From the first byte sent to the whole head of the answer.
    pub first_byte: Duration,
    /// Between two pieces of the answer's body, while somebody waits for the next one.
    pub between_bytes: Duration,
    /// From the call to the last byte of the answer.
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
    /// Nothing is lowered; what [`Limits`] has applies.
    pub const MAX: Self = Self {
        connect: Duration::MAX,
        first_byte: Duration::MAX,
        between_bytes: Duration::MAX,
        total: Duration::MAX,
    };

    /// A day is the most there is, so that a point in time can always be computed.
    pub(crate) fn at_most(self, most: Self) -> Self {
        let lower = |a: Duration, b: Duration| a.min(b).min(Duration::from_hours(24));
        Self {
            connect: lower(self.connect, most.connect),
            first_byte: lower(self.first_byte, most.first_byte),
            between_bytes: lower(self.between_bytes, most.between_bytes),
            total: lower(self.total, most.total),
        }
    }
}

/// What a request and its answer may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub url_bytes: usize,
    pub headers: usize,
    /// Names and values of one head, of a request or of an answer.
    pub header_bytes: usize,
    pub upload_bytes: u64,
    pub response_bytes: u64,
    /// Requests under way at once; another one waits, as long as it may take to connect.
    pub concurrent: usize,
    pub per_minute: usize,
    pub per_host_per_minute: usize,
    pub longest: Timeouts,
}

impl Default for Limits {
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
