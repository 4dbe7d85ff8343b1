//! Errors of tools, for models and operators.

use std::fmt;
use std::io;

use serde_json::Value;

/// A `Result` with [`Error`] as the default error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure, by how a host or model should react.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The input matches the schema but is invalid.
    InvalidInput,
    /// Something named by the input does not exist.
    NotFound,
    /// The sandbox or the operating system denied access.
    Denied,
    /// The call was cancelled or ran out of time.
    Interrupted,
    /// Something the tool needs is currently not available.
    Unavailable,
    /// Anything else.
    Failed,
}

impl ErrorKind {
    /// The kind of an error of a host service, which has only a code. The table is the same in all SDKs: docs/errors.md.
    pub(crate) fn of_code(code: &str) -> Self {
        match code {
            "service_not_granted"
            | "capability_missing"
            | "user_denied"
            | "policy_violation"
            | "program_not_allowed"
            | "host_not_allowed"
            | "path_not_in_workspace"
            | "not_granted"
            | "private_address"
            | "method_not_allowed"
            | "secret_not_allowed" => Self::Denied,
            "cancelled" | "timeout" => Self::Interrupted,
            "not_configured" | "no_user" | "dns_failed" | "connect_failed" | "tls_failed"
            | "bad_response" | "rate_limited" | "network_error" => Self::Unavailable,
            "bad_request" => Self::InvalidInput,
            code if code.ends_with("_not_found") => Self::NotFound,
            code if code.starts_with("invalid_") => Self::InvalidInput,
            _ => Self::Failed,
        }
    }
}

/// A failure: one sentence for the model, and recommendations.
///
/// ```
/// use toolhost_sdk::prelude::*;
///
/// let error = Error::not_found("no section `[package]` in Cargo.toml")
///     .code("section_not_found")
///     .recommend("read the file to see its sections");
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// A stable identifier such as `file_not_found`.
    pub code: Option<String>,
    /// One sentence for the model: lower case, no full stop, with the offending value.
    pub message: String,
    /// Next steps that may help.
    pub recommendations: Vec<String>,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The cause, for the operator.
    pub cause: Option<String>,
    /// A JSON object for programs; models do not get it.
    pub details: Option<Value>,
}

impl Error {
    /// An error of any kind; see also the constructors per kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: None,
            message: message.into(),
            recommendations: Vec::new(),
            retryable: false,
            cause: None,
            details: None,
        }
    }

    /// The input is invalid.
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Something named by the input does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// The sandbox or the operating system denied access.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    /// The call was cancelled or ran out of time.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Interrupted, message)
    }

    /// Something the tool needs is currently not available.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Anything else.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// Adds a stable identifier such as `file_not_found`, for programs.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Adds a next step that may help.
    #[must_use]
    pub fn recommend(mut self, recommendation: impl Into<String>) -> Self {
        self.recommendations.push(recommendation.into());
        self
    }

    /// Marks the error as retryable.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Adds the cause, for the operator.
    #[must_use]
    pub fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Adds a JSON object for programs, for example `json!({"retry_after_ms": 2000})`.
    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

impl Error {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The sentence for the model.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        let (kind, code, message) = match error.kind() {
            io::ErrorKind::NotFound => (
                ErrorKind::NotFound,
                "file_not_found",
                "no such file or directory",
            ),
            io::ErrorKind::PermissionDenied => {
                (ErrorKind::Denied, "permission_denied", "permission denied")
            }
            io::ErrorKind::IsADirectory => (
                ErrorKind::InvalidInput,
                "target_is_directory",
                "is a directory",
            ),
            _ => (ErrorKind::Failed, "io_error", ""),
        };
        // A custom error text is more informative than the kind; the system's text ends in an error number.
        if message.is_empty() || error.get_ref().is_some() {
            Self::new(kind, error.to_string()).code(code)
        } else {
            Self::new(kind, message).code(code).cause(error)
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() {
            Self::failed(error.to_string()).code("io_error")
        } else {
            Self::invalid_input(error.to_string()).code("invalid_json")
        }
    }
}

impl From<std::string::FromUtf8Error> for Error {
    fn from(error: std::string::FromUtf8Error) -> Self {
        error.utf8_error().into()
    }
}

impl From<std::str::Utf8Error> for Error {
    fn from(error: std::str::Utf8Error) -> Self {
        Self::failed(format!("not a UTF-8 text: {error}")).code("not_utf8")
    }
}

impl From<fmt::Error> for Error {
    fn from(error: fmt::Error) -> Self {
        Self::failed("a value could not be written as text")
            .code("format_error")
            .cause(error)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check(error: impl Into<Error>, expected: Expect) {
        let Error {
            kind,
            code,
            message,
            cause,
            ..
        } = error.into();
        expected.assert_eq(&format!("{kind:?} {code:?} {message:?} because {cause:?}"));
    }

    #[test]
    fn missing_file() {
        check(
            io::Error::from_raw_os_error(2),
            expect![[
                r#"NotFound Some("file_not_found") "no such file or directory" because Some("No such file or directory (os error 2)")"#
            ]],
        );
    }

    #[test]
    fn forbidden_file() {
        check(
            io::Error::from(io::ErrorKind::PermissionDenied),
            expect![[
                r#"Denied Some("permission_denied") "permission denied" because Some("permission denied")"#
            ]],
        );
    }

    #[test]
    fn directory_in_place_of_a_file() {
        check(
            io::Error::from(io::ErrorKind::IsADirectory),
            expect![[
                r#"InvalidInput Some("target_is_directory") "is a directory" because Some("is a directory")"#
            ]],
        );
    }

    #[test]
    fn io_errors_of_the_author_keep_their_text() {
        check(
            io::Error::new(io::ErrorKind::NotFound, "no section 7"),
            expect![[r#"NotFound Some("file_not_found") "no section 7" because None"#]],
        );
    }

    #[test]
    fn other_io_errors() {
        check(
            io::Error::other("disk is tired"),
            expect![[r#"Failed Some("io_error") "disk is tired" because None"#]],
        );
    }

    #[test]
    fn json_that_is_not_json() {
        check(
            serde_json::from_str::<u8>("[").unwrap_err(),
            expect![[
                r#"InvalidInput Some("invalid_json") "invalid type: sequence, expected u8 at line 1 column 0" because None"#
            ]],
        );
    }

    #[test]
    fn text_that_is_not_text() {
        check(
            String::from_utf8(vec![b'a', 0xff]).unwrap_err(),
            expect![[
                r#"Failed Some("not_utf8") "not a UTF-8 text: invalid utf-8 sequence of 1 bytes from index 1" because None"#
            ]],
        );
    }

    #[test]
    fn builders_add_up() {
        let error = Error::unavailable("no answer")
            .code("offline")
            .recommend("wait")
            .retryable()
            .cause("timeout")
            .details(serde_json::json!({"retry_after_ms": 2000}));
        expect![[r#"
            Error {
                kind: Unavailable,
                code: Some(
                    "offline",
                ),
                message: "no answer",
                recommendations: [
                    "wait",
                ],
                retryable: true,
                cause: Some(
                    "timeout",
                ),
                details: Some(
                    Object {
                        "retry_after_ms": Number(2000),
                    },
                ),
            }
        "#]]
        .assert_debug_eq(&error);
    }
}
