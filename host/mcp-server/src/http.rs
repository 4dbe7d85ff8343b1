//! MCP server over streamable HTTP, with separate quotas for each user.
//!
//! Start with `endpoint.rs` (request handling), then `origin_policy.rs` and `token.rs` (access), `token_quota.rs` and
//! `limits.rs` (quotas), `sessions.rs` (sessions of older protocols) and `connection.rs` (TCP
//! connections).

mod body;
mod connection;
mod endpoint;
#[cfg(test)]
mod fuzz;
mod limits;
mod message_kind;
mod origin_policy;
mod sessions;
mod token;
mod token_quota;
mod worker_quota;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::request::Parts;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolhost_contract::{BoxFuture, Principal, SessionKey};
use toolhost_kernel::Kernel;

pub use limits::HttpLimits;
pub use origin_policy::{AllowedOrigin, HostName, OriginPolicyError};
pub use token::{GeneratedToken, TokenError, Tokens};

use crate::ServeOptions;
use crate::server::Server;
use crate::server_state::ServerState;
use endpoint::{Endpoint, PATH};
use origin_policy::OriginPolicy;
use sessions::{HttpSessions, RequestSession};
use token_quota::{TokenQuota, TokenQuotas};

/// From where an address may be reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// This machine only.
    Loopback,
    /// Other machines too.
    Network,
}

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{0} is reachable from other machines; add `--http-public` to allow that")]
    NotLoopback(SocketAddr),
    #[error("{0} is reachable from other machines; a token is required there")]
    TokenRequired(SocketAddr),
    #[error("cannot listen on {address}: {source}")]
    Bind {
        address: SocketAddr,
        source: io::Error,
    },
}

impl ListenError {
    /// Checks whether the address may be served, before any resource is created for it.
    pub fn check(address: SocketAddr, reach: Exposure) -> Result<(), Self> {
        if reach == Exposure::Loopback && !address.ip().is_loopback() {
            return Err(Self::NotLoopback(address));
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// `None`: requests are not authenticated.
    pub tokens: Option<Tokens>,
    pub exposure: Exposure,
    /// Accepted values of `Host` besides localhost.
    pub hosts: Vec<HostName>,
    /// Accepted values of `Origin` besides those of this machine.
    pub origins: Vec<AllowedOrigin>,
    pub limits: HttpLimits,
}

/// A server that is bound to its address and does not serve yet.
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    options: HttpOptions,
}

impl HttpServer {
    /// Binds the address. Port 0 selects a free port.
    pub async fn bind(address: SocketAddr, mut options: HttpOptions) -> Result<Self, ListenError> {
        ListenError::check(address, options.exposure)?;
        if !address.ip().is_loopback() && options.tokens.is_none() {
            return Err(ListenError::TokenRequired(address));
        }
        let bind = |source| ListenError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let any = match address.ip() {
            IpAddr::V4(ip) => ip.is_unspecified(),
            IpAddr::V6(ip) => ip.is_unspecified(),
        };
        if !any && let Ok(own) = HostName::parse(&address.ip().to_string()) {
            options.hosts.push(own);
        }
        Ok(Self {
            listener,
            address,
            options,
        })
    }

    /// Returns the address with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until `stop` resolves. Running requests may then finish until the grace period ends or `hurry` resolves.
    ///
    /// Boxed, so that the server is compiled with this crate, which is optimized for speed.
    pub fn serve<'a>(
        self,
        kernel: Arc<Kernel>,
        info: ServeOptions,
        stop: BoxFuture<'a, ()>,
        hurry: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<(), crate::ServeError>> {
        Box::pin(self.serve_with(kernel, info, stop, hurry, |server| server))
    }

    /// Like [`Self::serve`], with a handler around the server of each client.
    pub async fn serve_with<H: ServerHandler>(
        self,
        kernel: Arc<Kernel>,
        info: ServeOptions,
        stop: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
        wrap: impl Fn(Server) -> H + Send + Sync + 'static,
    ) -> Result<(), crate::ServeError> {
        let run = crate::random_run_id()?;
        let limits = self.options.limits;
        let sessions = Arc::new(HttpSessions::new(
            Arc::clone(&kernel),
            limits.sessions,
            limits.idle,
        ));
        let cancel = CancellationToken::new();
        let shared = ServerState::new(kernel, info);
        let server = Server::new(Arc::clone(&shared), &run);
        // `OriginPolicy` checks hosts and origins before rmcp sees a request.
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_max_request_body_bytes(limits.body)
            .with_cancellation_token(cancel.clone())
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let service = StreamableHttpService::new(
            move || Ok(wrap(server.for_new_client())),
            Arc::clone(&sessions),
            config,
        );
        let service = Arc::new(service);
        let endpoint = Arc::new(Endpoint {
            origin_policy: OriginPolicy::new(self.options.hosts, self.options.origins),
            quotas: TokenQuotas::new(self.options.tokens, &limits),
            service: Box::new(move |request| {
                let service = Arc::clone(&service);
                Box::pin(async move { service.handle(request).await })
            }),
            limits,
            shared,
            run,
        });
        let serving = Arc::clone(&endpoint);
        connection::serve(self.listener, serving, sessions, cancel, stop, hurry).await;
        endpoint.close_implicit_sessions();
        Ok(())
    }
}

/// Returns the quota of the request's user. `None` without HTTP.
pub(crate) fn quota_of(context: &RequestContext<RoleServer>) -> Option<Arc<TokenQuota>> {
    let parts = context.extensions.get::<Parts>()?;
    parts.extensions.get().map(Arc::clone)
}

/// Runs a part of a request within the worker limit of its user.
pub(crate) fn with_worker_quota<'a, T: 'a>(
    share: Option<Arc<TokenQuota>>,
    work: BoxFuture<'a, T>,
) -> BoxFuture<'a, T> {
    match share {
        Some(share) => Box::pin(async move { share.workers.run(work).await }),
        None => work,
    }
}

/// Returns the caller: over HTTP the user of the token and, in older protocols, the session; without HTTP the local
/// user in the only session.
pub(crate) fn caller(run: &str, context: &RequestContext<RoleServer>) -> Principal {
    let key = match (
        context.extensions.get::<RequestSession>(),
        quota_of(context),
    ) {
        (Some(label), _) => label.0.clone(),
        (None, Some(share)) => share.session_key(run),
        (None, None) => SessionKey::local(run),
    };
    Principal::in_session(&key)
}
