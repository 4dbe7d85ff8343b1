//! Errors of a request, one variant for each case that a caller handles differently.
//!
//! No error contains a path, a query, a header value or a secret.

use std::time::Duration;

/// Why a request was refused or failed. The text is written for the model: the problem, the reason and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    #[error("bad request: {reason}")]
    BadRequest { reason: String },
    #[error("host `{host}` is not allowed: no rule covers it; to allow: `--allow-host {host}`")]
    HostNotAllowed { host: String },
    #[error("host `{host}` is denied by the rule `{rule}`; only the operator can remove that rule")]
    HostDenied { host: String, rule: String },
    #[error(
        "host `{host}` is not allowed: port {port} belongs to another protocol, and no rule names it; to allow: `--allow-host {host}`"
    )]
    PortNotAllowed { host: String, port: u16 },
    #[error(
        "host `{host}` is not allowed: it {is}, which needs a rule that names it; to allow: `--allow-host {allow}`"
    )]
    PrivateAddress {
        host: String,
        is: String,
        allow: String,
    },
    #[error(
        "host `{host}` is not allowed: it is this host's own listening address, which no rule can allow"
    )]
    OwnListener { host: String },
    #[error("cannot resolve host `{host}`: {why}; check the name and the machine's network")]
    DnsFailed { host: String, why: String },
    #[error(
        "cannot connect to `{host}`: {why}; check that its server runs and listens on that port"
    )]
    ConnectFailed { host: String, why: String },
    #[error("cannot trust `{host}`: {why}")]
    TlsFailed { host: String, why: String },
    #[error("request to `{host}` timed out after {after:?} {phase}; try again, or increase the timeout", phase = .phase.text())]
    Timeout {
        host: String,
        phase: TimeoutPhase,
        after: Duration,
    },
    #[error("request body for `{host}` is larger than {limit} bytes; send less")]
    UploadTooLarge { host: String, limit: u64 },
    #[error(
        "response from `{host}` is larger than {limit} bytes; request less (a range, a page, a smaller file) or raise the limit"
    )]
    BodyTooLarge { host: String, limit: u64 },
    #[error("too many requests: {reason}; wait and try again")]
    RateLimited { reason: String },
    #[error("secret `{name}` cannot be used here: {why}")]
    SecretNotAllowed { name: String, why: String },
    #[error("invalid response from `{host}`: {why}")]
    BadResponse { host: String, why: String },
}

/// The phase in which a request timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutPhase {
    Connect,
    FirstByte,
    BetweenBytes,
    Total,
}

impl TimeoutPhase {
    fn text(self) -> &'static str {
        match self {
            Self::Connect => "while connecting",
            Self::FirstByte => "while waiting for the response",
            Self::BetweenBytes => "without receiving data",
            Self::Total => "in total",
        }
    }
}

impl NetError {
    pub(crate) fn bad_request(reason: String) -> Self {
        Self::BadRequest { reason }
    }

    /// The stable code of the error, for records and for programs that react to it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadRequest { .. } => "bad_request",
            Self::HostNotAllowed { .. } | Self::HostDenied { .. } | Self::PortNotAllowed { .. } => {
                "host_not_allowed"
            }
            Self::PrivateAddress { .. } | Self::OwnListener { .. } => "private_address",
            Self::DnsFailed { .. } => "dns_failed",
            Self::ConnectFailed { .. } => "connect_failed",
            Self::TlsFailed { .. } => "tls_failed",
            Self::Timeout { .. } => "timeout",
            Self::UploadTooLarge { .. } | Self::BodyTooLarge { .. } => "body_too_large",
            Self::RateLimited { .. } => "rate_limited",
            Self::SecretNotAllowed { .. } => "secret_not_allowed",
            Self::BadResponse { .. } => "bad_response",
        }
    }

    /// Whether a rule or a limit refused the request, rather than the network.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::HostNotAllowed { .. }
            | Self::HostDenied { .. }
            | Self::PortNotAllowed { .. }
            | Self::PrivateAddress { .. }
            | Self::OwnListener { .. }
            | Self::SecretNotAllowed { .. } => true,
            Self::BadRequest { .. }
            | Self::DnsFailed { .. }
            | Self::ConnectFailed { .. }
            | Self::TlsFailed { .. }
            | Self::Timeout { .. }
            | Self::UploadTooLarge { .. }
            | Self::BodyTooLarge { .. }
            | Self::RateLimited { .. }
            | Self::BadResponse { .. } => false,
        }
    }

    /// Whether the same request can succeed a little later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::DnsFailed { .. }
                | Self::ConnectFailed { .. }
                | Self::Timeout { .. }
                | Self::RateLimited { .. }
                | Self::BadResponse { .. }
        )
    }
}
