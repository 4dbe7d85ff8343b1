//! Blocking HTTP client for the exporters.
//!
//! The exporters run in their own threads, so the client may block. It needs no async runtime and no connection pool.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use prost::Message as _;
use serde_json::Value;
use toolhost_contract::lifecycle::mask_text;
use toolhost_contract::text;
use ureq::Agent;

/// Maximum bytes read of a response, which only lists rejected items.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub(crate) struct ExportClient {
    agent: Agent,
    exports: ExportLog,
}

/// The exports of one signal, and what was not delivered of them. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExportLog(Arc<Mutex<Exports>>);

#[derive(Debug, Default)]
struct Exports {
    total: usize,
    failed: usize,
    last_error: Option<String>,
    /// Hash of the body of the last request, if it failed.
    last_failed: Option<u64>,
}

impl ExportLog {
    /// Describes what was not delivered.
    pub(crate) fn failures(&self) -> Option<String> {
        let exports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let error = exports.last_error.as_ref()?;
        match (exports.failed, exports.total) {
            (0, _) => None,
            (1, 1) => Some(error.clone()),
            (failed, total) => Some(format!(
                "{failed} of {total} exports failed; the last: {error}"
            )),
        }
    }

    /// Counts a request. The exporter repeats a failed one with the same body, and then only the last attempt counts.
    fn record(&self, body: u64, error: Option<String>) {
        let mut exports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if exports.last_failed == Some(body) {
            exports.failed -= 1;
        } else {
            exports.total += 1;
        }
        exports.last_failed = error.is_some().then_some(body);
        if error.is_some() {
            exports.failed += 1;
            exports.last_error = error;
        }
    }
}

/// The response of a collector, which is the same for spans and metrics except for a name in JSON.
#[derive(prost::Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(prost::Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    message: String,
}

impl PartialSuccess {
    /// Reads a response in either encoding. An unreadable one counts as a success.
    fn read(body: &[u8]) -> Option<Self> {
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            return ExportResponse::decode(body).ok()?.partial_success;
        };
        let partial = json.get("partialSuccess")?;
        let mut counts = ["rejectedSpans", "rejectedDataPoints"]
            .into_iter()
            .filter_map(|name| partial.get(name));
        Some(Self {
            // 64-bit integers are strings in the JSON of protobuf.
            rejected: counts.find_map(|count| match count {
                Value::String(text) => text.parse().ok(),
                other => other.as_i64(),
            })?,
            message: partial
                .get("errorMessage")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        })
    }
}

impl ExportClient {
    pub(crate) fn new(timeout: Duration, exports: ExportLog) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            // Data about calls must only be sent to the configured endpoint.
            .max_redirects(0)
            .proxy(None)
            .http_status_as_error(false)
            .build();
        Self {
            agent: Agent::new_with_config(config),
            exports,
        }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = request.into_parts();
        let response = self.agent.run(Request::from_parts(head, body.to_vec()))?;
        let (head, mut body) = response.into_parts();
        // The request has arrived, so an unreadable response must not cause a retry.
        let body = body
            .with_config()
            .limit(MAX_RESPONSE_BYTES)
            .read_to_vec()
            .unwrap_or_default();
        Ok(Response::from_parts(head, body.into()))
    }
}

#[async_trait]
impl HttpClient for ExportClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let uri = request.uri();
        let to = format!(
            "{}{}",
            uri.authority()
                .map_or_else(String::new, |authority| match authority.port_u16() {
                    Some(port) => format!("{}:{port}", authority.host()),
                    None => authority.host().to_owned(),
                }),
            uri.path()
        );
        let mut hasher = DefaultHasher::new();
        request.body().hash(&mut hasher);
        let sent = self.send(request);
        let problem = match &sent {
            Ok(response) if response.status().is_success() => PartialSuccess::read(response.body())
                .filter(|partial| partial.rejected > 0)
                .map(|PartialSuccess { rejected, message }| {
                    format!("{to} rejected {rejected} items: {message}")
                }),
            Ok(response) => Some(format!("{to} answered {}", response.status())),
            Err(error) => Some(format!("{to}: {error}")),
        };
        let problem = problem.map(|problem| text::escape_line(&mask_text(&problem), 300));
        self.exports.record(hasher.finish(), problem);
        Ok(sent?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_although_later_exports_succeed() {
        let exports = ExportLog::default();
        let check = |body, error: Option<&str>, expected: Option<&str>| {
            exports.record(body, error.map(str::to_owned));
            assert_eq!(exports.failures().as_deref(), expected, "{body} {error:?}");
        };
        // Repeated by the exporter.
        check(1, Some("503"), Some("503"));
        check(1, None, None);
        check(2, Some("400"), Some("1 of 2 exports failed; the last: 400"));
        check(3, None, Some("1 of 3 exports failed; the last: 400"));
        check(4, Some("a"), Some("2 of 4 exports failed; the last: a"));
        check(4, Some("b"), Some("2 of 4 exports failed; the last: b"));
    }

    #[test]
    fn rejected_items_are_read_in_both_encodings() {
        let check = |body: &[u8], expected: Option<(i64, &str)>| {
            let read = PartialSuccess::read(body);
            let read = read
                .as_ref()
                .map(|partial| (partial.rejected, partial.message.as_str()));
            assert_eq!(read, expected, "{}", body.escape_ascii());
        };
        check(b"", None);
        check(b"{}", None);
        check(b"\x0a\x06\x08\x03\x12\x02no", Some((3, "no")));
        check(b"\xff\xff", None);
        check(
            br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}"#,
            Some((3, "no")),
        );
        check(
            br#"{"partialSuccess":{"rejectedDataPoints":2}}"#,
            Some((2, "")),
        );
    }
}
