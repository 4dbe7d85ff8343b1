//! Errors of a server, one variant for each case that a caller handles differently.

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
        "server `{server}` requires a login; run `host mcp login {server}` or, if you have a token for it, \
         set it in the server's `headers` as `Authorization = \"Bearer …\"`"
    )]
    LoginRequired {
        server: String,
        /// The server's authentication challenge.
        challenge: Option<String>,
    },
    #[error("server `{server}` did not answer within {} s{}", after.as_secs(), format_last_lines(last_lines.as_deref()))]
    NoResponse {
        server: String,
        after: Duration,
        /// The last lines of its standard error, if it is a program.
        last_lines: Option<String>,
    },
    #[error("server `{server}`: its tools cannot be listed: {reason}")]
    List { server: String, reason: String },
    #[error("server `{server}` is down: {reason}")]
    Down { server: String, reason: String },
    #[error("server `{server}` has ended")]
    Stopped { server: String },
}

/// The last lines of a server's standard error, formatted as the end of a message.
pub fn format_last_lines(last_lines: Option<&str>) -> String {
    last_lines.map_or_else(String::new, |lines| format!("; it wrote:\n{lines}"))
}

impl ServerError {
    /// The error without the server's name.
    pub fn reason(&self) -> String {
        let message = self.to_string();
        let reason = message
            .strip_prefix("server `")
            .and_then(|rest| rest.split_once('`'))
            .map(|(_, rest)| rest.trim_start_matches([':', ' ']).to_owned());
        reason.unwrap_or(message)
    }

    pub fn for_call(&self) -> CallError {
        let code = match self {
            Self::LoginRequired { .. } => "mcp_auth_required",
            _ => "mcp_server_unavailable",
        };
        let mut error = CallError::new(ErrorClass::Unavailable, self.to_string()).code(code);
        if let Self::LoginRequired {
            challenge: Some(challenge),
            ..
        } = self
        {
            error = error.cause(challenge);
        }
        error.retryable = !matches!(self, Self::Config { .. } | Self::LoginRequired { .. });
        error
    }
}

/// Returns the authentication challenge if a request failed because a login is required.
pub fn auth_challenge(error: &ServiceError) -> Option<String> {
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
