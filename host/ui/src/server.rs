//! The server: address, connections, routes and the headers of every response.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderName, HeaderValue, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use toolhost_connections::{UnauthenticatedConnection, UnauthenticatedConnections};
use toolhost_store::StoreError;

use crate::access::{Access, AccessError};
use crate::error_page::ErrorPage;
use crate::history::HistorySources;
use crate::state::{AppState, Permission, UiOptions};
use crate::{answers, assets, events, pages};

/// Maximum number of ports that are tried if the operator chose none.
const MAX_PORTS: usize = 16;
/// Maximum number of connections, and of those that are event streams. A quarter can be without a session.
const MAX_CONNECTIONS: usize = 256;
const MAX_STREAMS: usize = 32;
/// Time for the head of a request, also between two requests. The first has less,
/// [`UnauthenticatedConnection::wait_closed`].
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_HEAD: usize = 32 << 10;
const MAX_BODY: usize = 64 << 10;
/// Maximum size of an answer: edited files, percent-encoded.
pub const MAX_ANSWER_BODY: usize = 16 << 20;
/// Time from the head of a request to its response. Event streams last longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for open requests when the server stops.
const GRACE: Duration = Duration::from_millis(500);

/// No inline code, nothing from other servers, and no other page may show this one.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // With `no-referrer`, browsers would not state the origin of a form either.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

#[derive(Debug, thiserror::Error)]
pub enum UiServerError {
    #[error(
        "the page cannot be served on {0}: it listens on 127.0.0.1 and [::1] only; use 127.0.0.1:{port}",
        port = .0.port()
    )]
    NotLoopback(SocketAddr),
    #[error("cannot serve the page on {address}: {source}")]
    Bind {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot read the records for the page: {0}")]
    Records(#[from] StoreError),
    #[error("cannot generate a random token: {0}")]
    Random(getrandom::Error),
}

/// A server that is bound to its address.
///
/// Browsers resolve the name in its link to both addresses of this machine, [::1] first. Another user who listened on the
/// same port of the other address would get the link and the cookie, so the server listens on both.
pub struct UiServer {
    listeners: Vec<TcpListener>,
    address: SocketAddr,
    state: Arc<AppState>,
}

impl UiServer {
    /// The address without a choice of the operator: a free port.
    pub const DEFAULT_ADDRESS: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    /// Binds the address. From now on, questions wait for the page, unless it is read-only.
    pub async fn bind(address: SocketAddr, options: UiOptions) -> Result<Self, UiServerError> {
        if address.ip() != Ipv4Addr::LOCALHOST && address.ip() != Ipv6Addr::LOCALHOST {
            return Err(UiServerError::NotLoopback(address));
        }
        let listeners = bind_both(address).await?;
        let address = local_address(&listeners[0], address)?;
        if options.kernel.is_some() && options.permission == Permission::ReadWrite {
            options.inbox.set_served();
        }
        let history = Arc::new(HistorySources::open(options.store.as_ref())?);
        history.follow(options.kernel.as_ref());
        let access = Access::new(address).map_err(UiServerError::Random)?;
        let state = AppState::new(options, access, history, MAX_STREAMS);
        Ok(Self {
            listeners,
            address,
            state: Arc::new(state),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The addresses that the server listens on.
    pub fn addresses(&self) -> [SocketAddr; 2] {
        [self.address, other_family(self.address)]
    }

    #[cfg(test)]
    pub fn test_cookie(&self) -> String {
        let link = self.state.access.new_link().expect("a link");
        let (_, token) = link.split_once("token=").expect("a token");
        let cookie = self.state.access.exchange(token).expect("a session");
        let cookie = cookie.expect("a new link");
        cookie.split(';').next().expect("a pair").to_owned()
    }

    /// Returns a function that creates links, each of which can be opened once.
    pub fn links(&self) -> impl Fn() -> Result<String, UiServerError> + Send + Sync + use<> {
        let state = Arc::clone(&self.state);
        move || state.access.new_link().map_err(UiServerError::Random)
    }

    /// Serves until `stop` resolves.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let connections = TaskTracker::new();
        let newcomers = UnauthenticatedConnections::new(MAX_CONNECTIONS);
        let router = router(Arc::clone(&self.state));
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = accept(&self.listeners) => match accepted {
                    Ok(stream) => {
                        // Without room, the connection is closed.
                        if let Some(newcomer) = newcomers.admit(connections.len()) {
                            let state = Arc::clone(&self.state);
                            connections.spawn(serve_connection(stream, router.clone(), state, newcomer));
                        }
                    }
                    // For example, too many open files.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
            }
        }
        self.state.stop.cancel();
        connections.close();
        // Connections that remain open end with the process.
        let _ = timeout(GRACE, connections.wait()).await;
    }
}

/// The same port of the loopback address of the other version of IP.
fn other_family(address: SocketAddr) -> SocketAddr {
    let other = match address {
        SocketAddr::V4(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        SocketAddr::V6(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    SocketAddr::new(other, address.port())
}

/// Binds the address, and the same port of the other loopback address if this machine has one.
async fn bind_both(address: SocketAddr) -> Result<Vec<TcpListener>, UiServerError> {
    let mut attempts = MAX_PORTS;
    loop {
        attempts -= 1;
        let first = TcpListener::bind(address).await;
        let first = first.map_err(|source| UiServerError::Bind { address, source })?;
        let other = other_family(local_address(&first, address)?);
        match TcpListener::bind(other).await {
            Ok(second) => return Ok(vec![first, second]),
            Err(error) if lacks_family(&error) => return Ok(vec![first]),
            // Another program has this port of the other address.
            Err(error)
                if address.port() == 0
                    && attempts > 0
                    && error.kind() == io::ErrorKind::AddrInUse => {}
            Err(source) => {
                return Err(UiServerError::Bind {
                    address: other,
                    source,
                });
            }
        }
    }
}

/// Whether this machine does not have addresses of this version of IP.
fn lacks_family(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

fn local_address(listener: &TcpListener, address: SocketAddr) -> Result<SocketAddr, UiServerError> {
    let local = listener.local_addr();
    local.map_err(|source| UiServerError::Bind { address, source })
}

/// Accepts a connection on any of the addresses. Cancel safe.
async fn accept(listeners: &[TcpListener]) -> io::Result<TcpStream> {
    std::future::poll_fn(|context| {
        let mut accepted = listeners.iter().map(|one| one.poll_accept(context));
        match accepted.find(Poll::is_ready) {
            Some(accepted) => accepted.map_ok(|(stream, _)| stream),
            None => Poll::Pending,
        }
    })
    .await
}

/// Serves a connection, which can be closed for a newer one until a request has the cookie of a session.
async fn serve_connection(
    stream: TcpStream,
    router: Router,
    state: Arc<AppState>,
    newcomer: UnauthenticatedConnection,
) {
    // Responses are several small writes.
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request: http::Request<Incoming>| {
        newcomer.mark_head_received();
        if state.access.session(request.headers()).is_some() {
            newcomer.mark_authenticated();
        }
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // A browser that went away is no error.
    tokio::select! {
        // A request that has arrived takes precedence.
        biased;
        _ = connection.as_mut() => {}
        () = newcomer.wait_closed() => {}
        () = state.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// The routes of all pages, behind the checks that every request has to pass.
pub fn router(state: Arc<AppState>) -> Router {
    Router::new()
        .merge(pages::routes())
        .route("/events", get(events::serve))
        .route("/assets/{name}", get(assets::serve))
        .fallback(|| async { ErrorPage::not_found() })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .merge(
            Router::new()
                .route("/questions/{number}/answer", post(answers::answer))
                .layer(DefaultBodyLimit::max(MAX_ANSWER_BODY)),
        )
        .layer(from_fn_with_state(Arc::clone(&state), guard))
        .with_state(state)
}

async fn guard(State(state): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let checked = state.access.check(request.method(), request.headers());
    let mut response = match checked {
        // Also bounds the time in which a form has to arrive.
        Ok(()) => match timeout(REQUEST_TIMEOUT, next.run(request)).await {
            Ok(response) => response,
            Err(_) => ErrorPage::new(StatusCode::REQUEST_TIMEOUT, "The request took too long")
                .because(
                    "It was not executed completely. Load the page again to see what has changed.",
                )
                .into_response(),
        },
        Err(error) => rejection(error).into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

fn rejection(error: AccessError) -> ErrorPage {
    match error {
        AccessError::Host => ErrorPage::new(StatusCode::FORBIDDEN, "Unknown host name")
            .because("The host was restarted, or this name does not belong to it. Open the link that it printed."),
        AccessError::Origin => ErrorPage::new(StatusCode::FORBIDDEN, "The request came from another site")
            .because("Nothing was changed."),
    }
}
