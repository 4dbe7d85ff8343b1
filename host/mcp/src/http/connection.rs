//! Connections: how many there are, how slow they may be, and how they end.

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

use super::endpoint::Endpoint;
use super::newcomers::{Newcomer, Newcomers};
use super::sessions::Sessions;
use crate::running::{Count, Running};

/// For the head of a request to arrive, and between two requests. The first has less: see `newcomers.rs`.
const HEAD: Duration = Duration::from_secs(30);
/// Of one head, and of what is read ahead.
const BUFFER: usize = 128 << 10;
/// How long a client may leave what we wrote unread.
const STALL: Duration = Duration::from_secs(60);
/// How long a client may be quiet before its system is asked whether it is there, how often, and how many times.
const QUIET: Duration = Duration::from_secs(30);
const PROBE: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;
/// Between two looks for sessions that nobody uses, and for what was kept long enough.
const SWEEP: Duration = Duration::from_secs(15);
/// For calls that were cancelled to be recorded.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// After a failure to accept, which is mostly a lack of descriptors.
const BREATH: Duration = Duration::from_millis(100);
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Serves until `stop`. Then no new request comes in, those that run may end within the grace, and what is left then,
/// or when somebody says `hurry`, is cancelled.
pub(crate) async fn serve(
    listener: TcpListener,
    endpoint: Arc<Endpoint>,
    sessions: Arc<Sessions>,
    cancel: CancellationToken,
    stop: impl Future<Output = ()>,
    hurry: impl Future<Output = ()>,
) {
    let open = Count::default();
    let newcomers = Newcomers::new(endpoint.limits.connections);
    let draining = CancellationToken::new();
    let cut = CancellationToken::new();
    let _cut_at_the_end = cut.clone().drop_guard();
    let mut sweep = interval(SWEEP.min(endpoint.limits.idle.max(Duration::from_millis(10))));
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            _ = sweep.tick() => {
                sessions.sweep();
                endpoint.shared.sweep();
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if open.now() >= endpoint.limits.connections && !newcomers.oust() => refuse(stream),
                Ok((stream, _)) => {
                    let newcomer = newcomers.enter();
                    let one = connection(stream, Arc::clone(&endpoint), newcomer, draining.clone());
                    let (open, cut) = (Running::begin(&open), cut.clone());
                    tokio::spawn(async move {
                        let _open = open;
                        tokio::select! {
                            () = one => {}
                            () = cut.cancelled() => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    sleep(BREATH).await;
                }
            },
        }
    }
    drop(listener);
    draining.cancel();
    tokio::select! {
        () = endpoint.shared.running.none() => {}
        () = sleep(endpoint.limits.grace) => {}
        () = hurry => {}
    }
    cancel.cancel();
    // Tasks and calls that wait for an answer belong to no request.
    endpoint.shared.end(&endpoint.run);
    let ended = async {
        endpoint.shared.running.none().await;
        open.none().await;
        while sessions.count() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    // Whoever is still there has had every chance.
    let _ = timeout(LAST_WORDS, ended).await;
}

fn refuse(stream: TcpStream) {
    // One try: whoever cannot take these few bytes at once learns it from the end of the connection.
    let _ = stream.into_std().and_then(|mut stream| stream.write(FULL));
}

async fn connection(
    stream: TcpStream,
    endpoint: Arc<Endpoint>,
    newcomer: Newcomer,
    draining: CancellationToken,
) {
    // Answers go out in several small writes. Without this each waits for the client to acknowledge the one before.
    let _ = stream.set_nodelay(true);
    // Without it the connection is only slower to go when its client is.
    let _ = probe(&stream);
    let newcomer = &newcomer;
    let service = service_fn(|request| {
        newcomer.heard();
        let endpoint = Arc::clone(&endpoint);
        async move { Ok::<_, Infallible>(endpoint.answer(request, newcomer).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(Patient::new(stream)), service);
    let mut serving = pin!(serving);
    let result = tokio::select! {
        // What has come counts, however late it is looked at.
        biased;
        result = &mut serving => result,
        () = newcomer.is_over() => return,
        () = draining.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// Asks now and then whether a quiet client is still there: a machine that was switched off says no goodbye, and its
/// calls would run on for nobody.
fn probe(stream: &TcpStream) -> rustix::io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_tcp_keepidle(stream, QUIET)?;
    sockopt::set_tcp_keepintvl(stream, PROBE)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    sockopt::set_socket_keepalive(stream, true)
}

/// A connection that ends when its client does not read for long.
struct Patient<S> {
    inner: S,
    stall: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
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
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(STALL)));
        ready!(stall.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
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
    async fn whoever_does_not_read_is_left_after_a_minute() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut patient = Patient::new(ours);
        let start = Instant::now();
        patient.write_all(&[0; 16]).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        let error = patient.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!(
            (error.kind(), start.elapsed()),
            (io::ErrorKind::TimedOut, STALL)
        );
    }
}
