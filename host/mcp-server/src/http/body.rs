//! HTTP request bodies with size and time limits, and response bodies that hold resources.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http::StatusCode;
use http::header::{EXPECT, HeaderMap};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use tokio::time::timeout;

pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// How long a complete request may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to read the rest of a body that is too large. A connection that closes while the client still writes is
/// reset, and the client never sees the response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of bytes read from the body of a rejected request.
const MAX_DRAIN: usize = 64 << 10;

pub(crate) fn text_body(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

/// Status and message for a body that was not accepted.
pub(crate) type BodyError = (StatusCode, &'static str);

const TOO_LARGE: BodyError = (
    StatusCode::PAYLOAD_TOO_LARGE,
    "the request body is larger than the limit of this server",
);

/// Reads a body of at most `most` bytes. Rejects one that declares a larger size without reading it if the client
/// waits for `100 Continue`.
pub(crate) async fn read<B>(
    body: RequestBody<B>,
    declared: Option<u64>,
    most: usize,
) -> Result<Bytes, BodyError>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    if body.is_awaiting_continue() && declared.is_some_and(|size| size > most as u64) {
        return Err(TOO_LARGE);
    }
    let slow = (
        StatusCode::REQUEST_TIMEOUT,
        "the request body did not arrive within a minute",
    );
    timeout(BODY_TIMEOUT, collect(body, most))
        .await
        .map_err(|_| slow)?
}

async fn collect<B>(mut body: B, most: usize) -> Result<Bytes, BodyError>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| (StatusCode::BAD_REQUEST, "the request body is incomplete"))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if data.len() > most - first.len() - rest.len() {
            // The response is the same whether the client stops sending or not.
            let _ = timeout(DRAIN_TIMEOUT, discard(body, most.saturating_mul(4))).await;
            return Err(TOO_LARGE);
        }
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}

/// Discards the body of a rejected request. Returns whether it was complete.
pub(crate) async fn drain<B>(body: RequestBody<B>) -> bool
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    if body.is_awaiting_continue() {
        return false;
    }
    body.is_end_stream()
        || timeout(DRAIN_TIMEOUT, discard(body, MAX_DRAIN))
            .await
            .unwrap_or(false)
}

/// A request body. A client may hold it back until the first read, which makes hyper send `100 Continue`.
pub(crate) struct RequestBody<B> {
    body: B,
    awaits_continue: bool,
}

impl<B> RequestBody<B> {
    pub(crate) fn new(body: B, headers: &HeaderMap) -> Self {
        let expects = headers.get(EXPECT).and_then(|value| value.to_str().ok());
        let held = expects.is_some_and(|value| value.trim().eq_ignore_ascii_case("100-continue"));
        Self {
            body,
            awaits_continue: held,
        }
    }

    /// The client waits for `100 Continue`.
    pub(crate) fn is_awaiting_continue(&self) -> bool {
        self.awaits_continue
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.awaits_continue = false;
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn discard<B>(mut body: B, most: usize) -> bool
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return false;
        };
        received += frame.data_ref().map_or(0, Bytes::len);
        if received > most {
            return false;
        }
    }
    true
}

/// A body or stream that holds a value until it ends.
pub(crate) struct Guarded<S, T> {
    inner: Pin<Box<S>>,
    /// Dropped at the end of the stream, not only when the stream is dropped.
    guard: Option<T>,
}

impl<S, T> Guarded<S, T> {
    pub(crate) fn new(inner: S, held: T) -> Self {
        Self {
            inner: Box::pin(inner),
            guard: Some(held),
        }
    }
}

impl<S: Stream, T: Unpin> Stream for Guarded<S, T> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let polled = self.inner.as_mut().poll_next(context);
        if let Poll::Ready(None) = polled {
            self.guard = None;
        }
        polled
    }
}

impl<B: HttpBody, T: Unpin> HttpBody for Guarded<B, T> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = self.inner.as_mut().poll_frame(context);
        if let Poll::Ready(None) = polled {
            self.guard = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::StreamBody;

    use super::*;

    fn upload<B>(body: B) -> RequestBody<B> {
        RequestBody::new(body, &HeaderMap::new())
    }

    async fn check(sizes: &[usize], most: usize) -> Result<usize, u16> {
        let frames: Vec<_> = sizes
            .iter()
            .map(|size| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; *size]))))
            .collect();
        let body = StreamBody::new(stream::iter(frames));
        let bytes = read(upload(body), None, most).await;
        bytes
            .map(|bytes| bytes.len())
            .map_err(|(status, _)| status.as_u16())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_up_to_its_limit() {
        assert_eq!(check(&[], 4).await, Ok(0));
        assert_eq!(check(&[4], 4).await, Ok(4));
        assert_eq!(check(&[1, 2, 1], 4).await, Ok(4));
        assert_eq!(check(&[5], 4).await, Err(413));
        assert_eq!(check(&[1, 2, 2], 4).await, Err(413));
        assert_eq!(check(&[9, 9, 9, 9, 9, 9], 4).await, Err(413));
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_body_is_drained_and_a_long_one_is_not() {
        let of = |size: usize| upload(Full::new(Bytes::from(vec![b'x'; size])));
        assert!(drain(of(0)).await);
        assert!(drain(of(MAX_DRAIN)).await);
        assert!(!drain(of(MAX_DRAIN + 1)).await);
        let never = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        assert!(!drain(upload(never)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_times_out() {
        let body = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        assert_eq!(
            read(upload(body), None, 4).await.unwrap_err().0,
            StatusCode::REQUEST_TIMEOUT
        );
        let begun = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(
            b"12345",
        )))]);
        let body = StreamBody::new(futures::StreamExt::chain(begun, stream::pending()));
        assert_eq!(
            read(upload(body), None, 4).await.unwrap_err().0,
            StatusCode::PAYLOAD_TOO_LARGE
        );
    }
}
