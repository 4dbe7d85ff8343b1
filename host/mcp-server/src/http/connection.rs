//! TCP connections: accept loop, timeouts and graceful shutdown.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Write as _};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use toolhost_connections::{UnauthenticatedConnection, UnauthenticatedConnections};

use super::endpoint::Endpoint;
use super::sessions::HttpSessions;
use crate::running_count::{RunningCount, RunningGuard};

/// Timeout for a request head, and between requests. The first head has a shorter one, see
/// [`UnauthenticatedConnection::wait_closed`].
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a request head and of the read buffer, in bytes.
const MAX_BUFFER: usize = 128 << 10;
/// How long a client may leave written data unread.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// TCP keepalive: idle time, interval and number of probes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// Interval between removals of idle sessions, expired results and expired tasks.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);
/// How long cancelled calls may take to be recorded.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// Delay after a failed `accept`, usually caused by a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
const SERVICE_UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Serves until `stop` resolves. New requests are then rejected, and running ones may finish within the grace period.
/// After it, or once `hurry` resolves, the rest is cancelled.
pub(crate) async fn serve(
    listener: TcpListener,
    endpoint: Arc<Endpoint>,
    sessions: Arc<HttpSessions>,
    cancel: CancellationToken,
    stop: impl Future<Output = ()>,
    hurry: impl Future<Output = ()>,
) {
    let open = RunningCount::default();
    let newcomers = UnauthenticatedConnections::new(endpoint.limits.connections);
    let draining = CancellationToken::new();
    let cut = CancellationToken::new();
    let _cut_at_the_end = cut.clone().drop_guard();
    let mut sweep =
        interval(SWEEP_INTERVAL.min(endpoint.limits.idle.max(Duration::from_millis(10))));
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            _ = sweep.tick() => {
                sessions.sweep();
                endpoint.shared.sweep();
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let Some(newcomer) = newcomers.admit(open.get()) else {
                        reject(stream);
                        continue;
                    };
                    let one = serve_connection(stream, Arc::clone(&endpoint), newcomer, draining.clone());
                    let (open, cut) = (RunningGuard::begin(&open), cut.clone());
                    tokio::spawn(async move {
                        let _open = open;
                        tokio::select! {
                            () = one => {}
                            () = cut.cancelled() => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
        }
    }
    drop(listener);
    draining.cancel();
    tokio::select! {
        () = endpoint.shared.running.wait_for_zero() => {}
        () = sleep(endpoint.limits.grace) => {}
        () = hurry => {}
    }
    cancel.cancel();
    // Tasks and suspended calls do not belong to a request.
    endpoint.shared.end_waiting(&endpoint.run);
    let ended = async {
        endpoint.shared.running.wait_for_zero().await;
        open.wait_for_zero().await;
        while sessions.count() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    // Connections that remain open are dropped.
    let _ = timeout(SHUTDOWN_TIMEOUT, ended).await;
}

fn reject(stream: TcpStream) {
    // A single attempt: if the write would block, the client only sees the connection close.
    let _ = stream
        .into_std()
        .and_then(|mut stream| stream.write(SERVICE_UNAVAILABLE));
}

async fn serve_connection(
    stream: TcpStream,
    endpoint: Arc<Endpoint>,
    newcomer: UnauthenticatedConnection,
    draining: CancellationToken,
) {
    // Responses are several small writes. With Nagle's algorithm, each would wait for the previous acknowledgement.
    let _ = stream.set_nodelay(true);
    // Without keepalive, a dead connection is only detected later.
    let _ = enable_keepalive(&stream);
    let newcomer = &newcomer;
    let service = service_fn(|request| {
        newcomer.mark_head_received();
        let endpoint = Arc::clone(&endpoint);
        async move { Ok::<_, Infallible>(endpoint.answer(request, newcomer).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(WriteTimeoutStream::new(stream)), service);
    let mut serving = pin!(serving);
    let result = tokio::select! {
        // Data that has arrived takes precedence over an expired timeout.
        biased;
        result = &mut serving => result,
        () = newcomer.wait_closed() => return,
        () = draining.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended with an error");
    }
}

/// Enables TCP keepalive, which detects clients that disappeared without closing the connection.
fn enable_keepalive(stream: &TcpStream) -> rustix::io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    sockopt::set_socket_keepalive(stream, true)
}

/// A stream that fails if the client does not read for [`WRITE_TIMEOUT`].
struct WriteTimeoutStream<S> {
    inner: S,
    stall: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeoutStream<S> {
    fn new(inner: S) -> Self {
        Self { inner, stall: None }
    }

    fn check<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stall = None;
            return polled;
        }
        let stall = self
            .stall
            .get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        ready!(stall.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.check(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.check(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(context);
        self.check(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(context);
        self.check(context, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_disconnected_after_a_minute() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut patient = WriteTimeoutStream::new(ours);
        let start = Instant::now();
        patient.write_all(&[0; 16]).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        let error = patient.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!(
            (error.kind(), start.elapsed()),
            (io::ErrorKind::TimedOut, WRITE_TIMEOUT)
        );
    }
}
