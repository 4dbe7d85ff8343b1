//! Types for HTTP: a request and its response.

use std::time::Duration;

/// A request. The host checks its URL, and fills in `secret:NAME` in headers and query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST` …
    pub method: String,
    /// Absolute, `http` or `https`.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Timeout for connecting, for the start of the response, and between its chunks.
    pub timeout: Duration,
    /// Limit of the response body in bytes; the rest is not read.
    pub max_bytes: usize,
}

impl Request {
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: Duration::from_secs(30),
            max_bytes: 10 << 20,
        }
    }

    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The value of `content-length`, if the request does not have the header and needs it. Without it a body is sent in
    /// chunks, which not every server accepts, and the body of a GET is dropped.
    #[cfg(any(test, target_arch = "wasm32"))]
    pub(crate) fn missing_content_length(&self) -> Option<usize> {
        let has_no_body = ["GET", "HEAD"]
            .iter()
            .any(|method| self.method.eq_ignore_ascii_case(method))
            && self.body.is_empty();
        let mut names = self.headers.iter().map(|(name, _)| name);
        let is_set = names.any(|name| name.eq_ignore_ascii_case("content-length"));
        (!has_no_body && !is_set).then_some(self.body.len())
    }
}

/// The error for a header that WASI reserves for the host.
#[cfg(any(test, target_arch = "wasm32"))]
pub(crate) fn reserved_header(name: &str) -> crate::Error {
    crate::Error::invalid_input(format!(
        "header `{}` cannot be sent: it is reserved for the host, which sets it if the request needs it; omit it",
        crate::text::inline(name, 64)
    ))
    .code("bad_request")
}

/// An error of a request. Retryable are those that the host's `NetError::is_retryable` names.
#[cfg(any(test, target_arch = "wasm32"))]
pub(crate) fn request_error(code: &str, message: impl Into<String>) -> crate::Error {
    let error = crate::Error::new(crate::ErrorKind::of_code(code), message).code(code);
    match code {
        "dns_failed" | "connect_failed" | "timeout" | "rate_limited" | "bad_response" => {
            error.retryable()
        }
        _ => error,
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Lower-case names in order of arrival; invalid UTF-8 in values is replaced.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body was longer than `max_bytes`.
    pub truncated: bool,
}

impl Response {
    /// The first value of a header; names are case-insensitive.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_body_is_sent() {
        for (request, expected) in [
            (Request::new("POST", "").body("äb"), Some(3)),
            (Request::new("POST", ""), Some(0)),
            (Request::new("get", "").body("a"), Some(1)),
            (Request::get(""), None),
            (Request::new("HEAD", ""), None),
            (
                Request::new("PUT", "")
                    .header("Content-Length", "1")
                    .body("a"),
                None,
            ),
        ] {
            assert_eq!(request.missing_content_length(), expected, "{request:?}");
        }
    }

    #[test]
    fn the_kind_of_an_error_follows_from_its_code() {
        use crate::ErrorKind::{Denied, Failed, Interrupted, InvalidInput, Unavailable};

        for (code, kind, retryable) in [
            ("not_granted", Denied, false),
            ("host_not_allowed", Denied, false),
            ("private_address", Denied, false),
            ("method_not_allowed", Denied, false),
            ("secret_not_allowed", Denied, false),
            ("bad_request", InvalidInput, false),
            ("invalid_url", InvalidInput, false),
            ("body_too_large", Failed, false),
            ("timeout", Interrupted, true),
            ("dns_failed", Unavailable, true),
            ("connect_failed", Unavailable, true),
            ("rate_limited", Unavailable, true),
            ("bad_response", Unavailable, true),
            ("tls_failed", Unavailable, false),
            ("network_error", Unavailable, false),
        ] {
            let error = request_error(code, "no");
            assert_eq!((error.kind, error.retryable), (kind, retryable), "{code}");
        }
    }

    #[test]
    fn the_error_names_the_reserved_header() {
        let message = reserved_header("Host").message;
        assert!(
            message.starts_with("header `Host` cannot be sent: it is reserved for the host"),
            "{message}"
        );
    }
}
