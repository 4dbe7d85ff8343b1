//! Servers at a URL: over TLS, with the operator's headers, and without redirects to another host.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use toolhost_contract::{BoxFuture, text};
use url::Url;

use crate::config::Address;
use crate::dial::{Dial, Dialed, Wire};
use crate::error::ServerError;
use crate::log::Log;
use crate::login::Logins;

mod bounded;

pub use bounded::Bounded;

const CONNECT: Duration = Duration::from_secs(10);
const REDIRECTS: usize = 5;

pub struct Web {
    pub server: String,
    pub address: Address,
    /// Stored logins; `None` if none are stored.
    pub logins: Option<Arc<Logins>>,
}

impl Web {
    fn config(&self) -> Result<StreamableHttpClientTransportConfig, ServerError> {
        let mut headers = HashMap::new();
        for (name, value) in &self.address.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_str(&value.0);
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err(ServerError::Config {
                    server: self.server.clone(),
                    reason: "a header is not valid".to_owned(),
                });
            };
            if bounded::RESERVED.contains(&name.as_str()) {
                return Err(ServerError::Config {
                    server: self.server.clone(),
                    reason: format!("the header `{name}` is reserved by the protocol; remove it"),
                });
            }
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.address.url.as_str());
        config.custom_headers = headers;
        Ok(config)
    }
}

impl Dial for Web {
    fn dial(&self, log: Arc<Log>) -> BoxFuture<'_, Result<Dialed, ServerError>> {
        Box::pin(async {
            let config = self.config()?;
            let client = Bounded {
                client: client(&self.server, &self.address)?,
                log,
            };
            let has_own = self
                .address
                .headers
                .keys()
                .any(|name| name.eq_ignore_ascii_case("authorization"));
            let login = match &self.logins {
                Some(logins) if !has_own => {
                    logins
                        .client(&self.server, &self.address, client.clone())
                        .await?
                }
                _ => None,
            };
            let wire = match login {
                Some(client) => {
                    Wire::Authorized(StreamableHttpClientTransport::with_client(client, config))
                }
                None => Wire::Http(StreamableHttpClientTransport::with_client(client, config)),
            };
            Ok(Dialed {
                wire,
                child: None,
                stderr: None,
            })
        })
    }
}

/// Creates a client that sends the operator's headers only to the operator's host.
pub fn client(server: &str, address: &Address) -> Result<reqwest::Client, ServerError> {
    use_ring();
    let is_local = address.url.scheme() == "http";
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .redirect(Policy::custom(stay));
    if is_local {
        // A proxy cannot reach this machine and must not see unencrypted requests.
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| ServerError::Config {
        server: server.to_owned(),
        reason: error.to_string(),
    })
}

fn stay(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    match may_follow(attempt.previous(), attempt.url()) {
        Ok(()) => attempt.follow(),
        Err(words) => attempt.error(words),
    }
}

fn may_follow(previous: &[Url], to: &Url) -> Result<(), String> {
    let origin = to.origin();
    if previous.iter().any(|from| from.origin() != origin) {
        let other = text::inline(&origin.ascii_serialization(), 200);
        return Err(format!("it redirects to {other}, another host"));
    }
    if previous.len() > REDIRECTS {
        return Err("it redirects too many times".to_owned());
    }
    Ok(())
}

/// Installs the crypto provider once per program. An existing one is the same.
pub fn use_ring() {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests;
