//! Blocking HTTP client for the exporters.
//!
//! The exporters run in their own threads, so the client may block. It needs no async runtime and no connection pool.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use toolhost_contract::lifecycle::mask_text;
use toolhost_contract::text;
use ureq::Agent;

/// Maximum bytes read of a response, which only lists rejected items.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub(crate) struct ExportClient {
    agent: Agent,
    last_error: LastError,
}

/// The error of the last request, cleared by a successful one.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastError(Arc<Mutex<Option<String>>>);

impl LastError {
    pub(crate) fn last(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, last_error: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = last_error;
    }
}

impl ExportClient {
    pub(crate) fn new(timeout: Duration, last_error: LastError) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            // Data about calls must only be sent to the configured endpoint.
            .max_redirects(0)
            .proxy(None)
            .http_status_as_error(false)
            .build();
        Self {
            agent: Agent::new_with_config(config),
            last_error,
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
        let sent = self.send(request);
        self.last_error.set(match &sent {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("{to} answered {}", response.status())),
            Err(error) => Some(text::escape_line(
                &mask_text(&format!("{to}: {error}")),
                300,
            )),
        });
        Ok(sent?)
    }
}
