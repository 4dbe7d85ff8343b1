//! What can go wrong with a server; one variant for each thing a caller does differently.

use std::time::Duration;

use rmcp::service::ServiceError;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use toolhost_contract::{CallError, ErrorClass};

#[derive(Debug, Clone, thiserror::Error)]
pub enum ServerError {
    #[error("server `{server}`: {reason}")]
    Config { server: String, reason: String },
    #[error("server `{server}` cannot be started: {reason}")]
    Start { server: String, reason: String },
    #[error("server `{server}` cannot be reached: {reason}")]
    Connect { server: String, reason: String },
    #[error(
        "server `{server}` wants to be logged in to; run `host mcp login {server}`, or, where it takes a token that you have, \
         write it into `headers` of the server as `Authorization = \"Bearer …\"`"
    )]
    Login {
        server: String,
        /// What it said about how.
        challenge: Option<String>,
    },
    #[error("server `{server}` did not answer within {} s{}", after.as_secs(), wrote(last_lines.as_deref()))]
    Silent {
        server: String,
        after: Duration,
        /// Of its standard error, if it has one.
        last_lines: Option<String>,
    },
    #[error("server `{server}`: its tools cannot be listed: {reason}")]
    List { server: String, reason: String },
    #[error("server `{server}` is down: {reason}")]
    Down { server: String, reason: String },
    #[error("server `{server}` has ended")]
    Stopped { server: String },
}

/// The last lines of a server's standard error, as the end of a message.
pub fn wrote(last_lines: Option<&str>) -> String {
    last_lines.map_or_else(String::new, |lines| format!("; it wrote:\n{lines}"))
}

impl ServerError {
    /// What is wrong, for where the server's name stands already.
    pub fn reason(&self) -> String {
        let words = self.to_string();
        let reason = words
            .strip_prefix("server `")
            .and_then(|rest| rest.split_once('`'))
            .map(|(_, rest)| rest.trim_start_matches([':', ' ']).to_owned());
        reason.unwrap_or(words)
    }

    pub fn for_call(&self) -> CallError {
        let code = match self {
            Self::Login { .. } => "mcp_auth_required",
            _ => "mcp_server_unavailable",
        };
        let mut error = CallError::new(ErrorClass::Unavailable, self.to_string()).code(code);
        if let Self::Login {
            challenge: Some(challenge),
            ..
        } = self
        {
            error = error.cause(challenge);
        }
        error.retryable = !matches!(self, Self::Config { .. } | Self::Login { .. });
        error
    }
}

/// How a server wants to be logged in to, when that is why a request failed.
pub fn challenge(error: &ServiceError) -> Option<String> {
    let ServiceError::TransportSend(error) = error else {
        return None;
    };
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&*error.error);
    while let Some(current) = source {
        if let Some(wanted) = current.downcast_ref::<AuthRequiredError>() {
            return Some(wanted.www_authenticate_header.clone());
        }
        if let Some(wanted) = current.downcast_ref::<InsufficientScopeError>() {
            return Some(wanted.www_authenticate_header.clone());
        }
        source = current.source();
    }
    None
}
