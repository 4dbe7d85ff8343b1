//! An HTTP proxy for one local program: `CONNECT`, and requests with an absolute URL. It applies the rules of a
//! [`NetClient`], so the program reaches allowed hosts only. What goes through a tunnel is not seen.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{EXPECT, HOST, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::client::NetClient;
use crate::error::NetError;
use crate::limits::{NetLimits, Timeouts};

/// Maximum number of connections of the program; further ones wait.
const MAX_CONNECTIONS: usize = 64;
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_HEAD: usize = 64 << 10;
/// The pause after a failed `accept`, for example without free descriptors.
const RETRY: Duration = Duration::from_millis(100);

/// The host of a request with its port, and the error if it was refused or failed.
pub type OnProxyRequest = dyn Fn(&str, Option<&NetError>) + Send + Sync;

type Body = BoxBody<Bytes, NetError>;

/// Limits of the requests of a program that the operator has installed, which may download packages.
pub fn proxy_limits() -> NetLimits {
    let long = Duration::from_mins(30);
    NetLimits {
        upload_bytes: 1 << 30,
        response_bytes: 1 << 30,
        concurrent: MAX_CONNECTIONS,
        per_minute: 1200,
        per_host_per_minute: 1200,
        longest: Timeouts {
            first_byte: Duration::from_mins(5),
            between_bytes: Duration::from_mins(5),
            total: long,
            ..Timeouts::default()
        },
        ..NetLimits::default()
    }
}

/// Serves the connections of the program until this future is dropped, which ends them.
pub async fn serve_proxy(
    listener: std::net::TcpListener,
    client: NetClient,
    on_request: Arc<OnProxyRequest>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let (client, on_request) = (client.clone(), Arc::clone(&on_request));
        connections.spawn(async move {
            let _permit = permit;
            serve_connection(stream, client, on_request).await;
        });
    }
}

/// The tunnel that a `CONNECT` has requested runs in this task too, so that it ends with the proxy.
async fn serve_connection(stream: TcpStream, client: NetClient, on_request: Arc<OnProxyRequest>) {
    let (tunnels, mut opened) = tokio::sync::mpsc::unbounded_channel();
    let service = service_fn(|request: Request<Incoming>| {
        let (client, on_request, tunnels) =
            (client.clone(), Arc::clone(&on_request), tunnels.clone());
        async move {
            let host = shown_host(&request);
            let answer = if request.method() == Method::CONNECT {
                let opening = client.open_tunnel(request.uri()).await;
                opening.map(|target| {
                    let _ = tunnels.send((hyper::upgrade::on(request), target));
                    Response::new(empty())
                })
            } else {
                forward(&client, request).await
            };
            on_request(&host, answer.as_ref().err());
            Ok::<_, NetError>(answer.unwrap_or_else(|error| refusal(&error)))
        }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD);
    let served = server
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if served.is_ok()
        && let Ok((upgrade, mut target)) = opened.try_recv()
        && let Ok(upgraded) = upgrade.await
    {
        let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(upgraded), &mut target).await;
    }
}

/// The host that the program asks for, for messages: without path and query.
fn shown_host(request: &Request<Incoming>) -> String {
    let authority = request.uri().authority();
    let host = authority.map_or_else(String::new, ToString::to_string);
    // A user name and a password are refused, and are not shown.
    let host = host.rsplit('@').next().unwrap_or_default();
    crate::escape::escape(host)
}

async fn forward(
    client: &NetClient,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, NetError> {
    let headers = request.headers_mut();
    let own = headers
        .keys()
        .filter(|name| name.as_str().starts_with("proxy-"))
        .cloned();
    let own: Vec<_> = own
        .chain([HOST, EXPECT, TRAILER, TRANSFER_ENCODING, UPGRADE])
        .collect();
    for name in own {
        headers.remove(name);
    }
    let response = client.send(request, Timeouts::MAX).await?;
    Ok(response.map(http_body_util::BodyExt::boxed))
}

fn refusal(error: &NetError) -> Response<Body> {
    let status = if error.is_refusal() {
        StatusCode::FORBIDDEN
    } else {
        StatusCode::BAD_GATEWAY
    };
    let text = Full::new(Bytes::from(format!(
        "the sandbox of this program: {error}\n"
    )));
    let mut response = Response::new(text.map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}

/// The URL of a tunnel. Its content is usually TLS, and its port is always explicit.
pub(crate) fn tunnel_url(uri: &Uri) -> Result<Uri, NetError> {
    let authority = uri
        .authority()
        .filter(|authority| authority.port().is_some());
    let authority = authority.ok_or_else(|| {
        NetError::bad_request(
            "CONNECT needs a host and a port, such as `example.org:443`".to_owned(),
        )
    })?;
    let url = Uri::builder()
        .scheme("https")
        .authority(authority.clone())
        .path_and_query("/");
    url.build()
        .map_err(|error| NetError::bad_request(error.to_string()))
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
