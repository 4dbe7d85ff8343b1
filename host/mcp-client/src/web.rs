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

use crate::config::ServerAddress;
use crate::dial::{ClientTransport, Dial, DialedConnection};
use crate::error::ServerError;
use crate::log::ServerLogger;
use crate::login::LoginStore;

mod bounded;

pub use bounded::BoundedClient;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;

pub struct HttpDialer {
    pub server: String,
    pub address: ServerAddress,
    /// Stored logins; `None` if none are stored.
    pub logins: Option<Arc<LoginStore>>,
}

impl HttpDialer {
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
        // A new session needs a new list, because the tools can differ; the supervisor reconnects.
        config.reinit_on_expired_session = false;
        Ok(config)
    }
}

impl Dial for HttpDialer {
    fn dial(&self, log: Arc<ServerLogger>) -> BoxFuture<'_, Result<DialedConnection, ServerError>> {
        Box::pin(async {
            let config = self.config()?;
            let client = BoundedClient {
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
                Some(client) => ClientTransport::Authorized(
                    StreamableHttpClientTransport::with_client(client, config),
                ),
                None => ClientTransport::Http(StreamableHttpClientTransport::with_client(
                    client, config,
                )),
            };
            Ok(DialedConnection {
                wire,
                child: None,
                stderr: None,
            })
        })
    }
}

/// Creates a client that sends the operator's headers only to the operator's host.
pub fn client(server: &str, address: &ServerAddress) -> Result<reqwest::Client, ServerError> {
    install_crypto_provider();
    let is_local = address.url.scheme() == "http";
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(Policy::custom(same_origin_redirects));
    if is_local {
        // A proxy cannot reach this machine and must not see unencrypted requests.
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| ServerError::Config {
        server: server.to_owned(),
        reason: error.to_string(),
    })
}

fn same_origin_redirects(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    match check_redirect(attempt.previous(), attempt.url()) {
        Ok(()) => attempt.follow(),
        Err(reason) => attempt.error(reason),
    }
}

fn check_redirect(previous: &[Url], to: &Url) -> Result<(), String> {
    let origin = to.origin();
    if previous.iter().any(|from| from.origin() != origin) {
        let other = text::escape_line(&origin.ascii_serialization(), 200);
        return Err(format!("it redirects to {other}, another host"));
    }
    if previous.len() > MAX_REDIRECTS {
        return Err("it redirects too many times".to_owned());
    }
    Ok(())
}

/// Installs the crypto provider once per program. An existing one is the same.
pub fn install_crypto_provider() {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests;
