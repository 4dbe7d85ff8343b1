//! MCP server over streamable HTTP, with separate quotas for each user.
//!
//! Start with `endpoint.rs` (request handling), then `origin_policy.rs` and `token.rs` (access), `token_quota.rs` and
//! `limits.rs` (quotas), `sessions.rs` (sessions of older protocols), `connection.rs` and
//! `unauthenticated_connections.rs` (TCP connections).

mod body;
mod connection;
mod doors;
mod endpoint;
#[cfg(test)]
mod fuzz;
mod limits;
mod message;
mod newcomers;
mod sessions;
mod share;
mod token;
mod workers;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::request::Parts;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolhost_contract::{Principal, SessionKey};
use toolhost_kernel::Kernel;

pub use doors::{DoorError, HostName, Origin};
pub use limits::Limits;
pub use token::{NewToken, TokenError, Tokens};

use crate::ServerInfo;
use crate::server::Server;
use crate::shared::Shared;
use doors::Doors;
use endpoint::{Endpoint, PATH};
use sessions::{Label, Sessions};
use share::{TokenShare, TokenShares};

/// From where an address may be reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// This machine only.
    Machine,
    /// Other machines too.
    Network,
}

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{0} is reachable from other machines; add `--http-public` to allow that")]
    Public(SocketAddr),
    #[error("{0} is reachable from other machines; a token is required there")]
    Open(SocketAddr),
    #[error("cannot listen on {address}: {source}")]
    Bind {
        address: SocketAddr,
        source: io::Error,
    },
}

impl ListenError {
    /// Checks whether the address may be served, before any resource is created for it.
    pub fn check(address: SocketAddr, reach: Reach) -> Result<(), Self> {
        if reach == Reach::Machine && !address.ip().is_loopback() {
            return Err(Self::Public(address));
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// `None`: requests are not authenticated.
    pub tokens: Option<Tokens>,
    pub reach: Reach,
    /// Accepted values of `Host` besides localhost.
    pub hosts: Vec<HostName>,
    /// Accepted values of `Origin` besides those of this machine.
    pub origins: Vec<Origin>,
    pub limits: Limits,
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
        ListenError::check(address, options.reach)?;
        if !address.ip().is_loopback() && options.tokens.is_none() {
            return Err(ListenError::Open(address));
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
    pub async fn serve(
        self,
        kernel: Arc<Kernel>,
        info: ServerInfo,
        stop: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) -> Result<(), crate::ServeError> {
        let run = crate::run_name()?;
        let limits = self.options.limits;
        let sessions = Arc::new(Sessions::new(
            Arc::clone(&kernel),
            limits.sessions,
            limits.idle,
        ));
        let cancel = CancellationToken::new();
        let shared = Shared::new(kernel, info);
        let server = Server::new(Arc::clone(&shared), &run);
        // `OriginPolicy` checks hosts and origins before rmcp sees a request.
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_max_request_body_bytes(limits.body)
            .with_cancellation_token(cancel.clone())
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let service = StreamableHttpService::new(
            move || Ok(crate::handler(server.again())),
            Arc::clone(&sessions),
            config,
        );
        let endpoint = Arc::new(Endpoint {
            doors: Doors::new(self.options.hosts, self.options.origins),
            principals: TokenShares::new(self.options.tokens, &limits),
            service,
            limits,
            shared,
            run,
        });
        let serving = Arc::clone(&endpoint);
        connection::serve(self.listener, serving, sessions, cancel, stop, hurry).await;
        endpoint.farewell();
        Ok(())
    }
}

/// Returns the quota of the request's user. `None` without HTTP.
pub(crate) fn share(context: &RequestContext<RoleServer>) -> Option<Arc<TokenShare>> {
    let parts = context.extensions.get::<Parts>()?;
    parts.extensions.get().map(Arc::clone)
}

/// Runs a part of a request within the worker limit of its user.
pub(crate) async fn fairly<T>(share: Option<Arc<TokenShare>>, work: impl Future<Output = T>) -> T {
    match share {
        Some(share) => share.workers.run(work).await,
        None => work.await,
    }
}

/// Returns the caller: over HTTP the user of the token and, in older protocols, the session; without HTTP the local
/// user in the only session.
pub(crate) fn caller(run: &str, context: &RequestContext<RoleServer>) -> Principal {
    let key = match (context.extensions.get::<Label>(), share(context)) {
        (Some(label), _) => label.0.clone(),
        (None, Some(share)) => share.session_key(run),
        (None, None) => SessionKey::local(run),
    };
    Principal::in_session(&key)
}
