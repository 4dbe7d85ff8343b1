//! Our tools over streamable HTTP, to many clients at once, each with a share of its own.
//!
//! Read in this order: `endpoint.rs` (the road of a request), `doors.rs` and `token.rs` (who may come),
//! `share.rs` and `limits.rs` (how much of it), `sessions.rs` (what the older protocols keep between requests),
//! `connection.rs` and `newcomers.rs` (below all of that).

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

/// Who may come to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Programs on this machine.
    Machine,
    /// Whoever reaches the address.
    Network,
}

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{0} can be reached from other machines; `--http-public` serves there")]
    Public(SocketAddr),
    #[error("{0} can be reached from other machines, so that a token is needed there")]
    Open(SocketAddr),
    #[error("cannot listen on {address}: {source}")]
    Bind {
        address: SocketAddr,
        source: io::Error,
    },
}

impl ListenError {
    /// Whether an address is one that may be served at all, before anything is made for it.
    pub fn check(address: SocketAddr, reach: Reach) -> Result<(), Self> {
        if reach == Reach::Machine && !address.ip().is_loopback() {
            return Err(Self::Public(address));
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// None: whoever reaches us may call.
    pub tokens: Option<Tokens>,
    pub reach: Reach,
    /// Names of ours besides localhost.
    pub hosts: Vec<HostName>,
    /// Web pages that may talk to us, besides those of this machine.
    pub origins: Vec<Origin>,
    pub limits: Limits,
}

/// A server that holds its address and serves nobody yet.
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    options: HttpOptions,
}

impl HttpServer {
    /// Port 0 is any that is free.
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

    /// With the port that was free where port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until `stop`, and then what runs for as long as the grace, or until `hurry`.
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
        // Names and origins were looked at before rmcp sees a request, and by one list.
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

/// None without HTTP.
pub(crate) fn share(context: &RequestContext<RoleServer>) -> Option<Arc<TokenShare>> {
    let parts = context.extensions.get::<Parts>()?;
    parts.extensions.get().map(Arc::clone)
}

/// Runs a part of a request on no more workers than its user may have at once.
pub(crate) async fn fairly<T>(share: Option<Arc<TokenShare>>, work: impl Future<Output = T>) -> T {
    match share {
        Some(share) => share.workers.run(work).await,
        None => work.await,
    }
}

/// Who calls. Over HTTP the user of a token and, in the older protocols, the session; without HTTP the local user in
/// the only session.
pub(crate) fn caller(run: &str, context: &RequestContext<RoleServer>) -> Principal {
    let key = match (context.extensions.get::<Label>(), share(context)) {
        (Some(label), _) => label.0.clone(),
        (None, Some(share)) => share.session_key(run),
        (None, None) => SessionKey::local(run),
    };
    Principal::in_session(&key)
}
