//! The body of a response: counted, cut at its limit, timed and masked. It owns its connection, so dropping it closes
//! the connection.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use crate::error::{NetError, TimeoutPhase};
use crate::mask::SecretMask;
use crate::request_body::BodyFailure;

/// Limits and context of a body.
#[derive(Debug)]
pub(crate) struct BodyContext {
    pub host: String,
    pub limit: u64,
    pub idle_timeout: Duration,
    pub total: Duration,
    pub deadline: Instant,
    pub mask: SecretMask,
    pub upload: BodyFailure,
    /// The slot among the concurrent requests, released together with the connection.
    #[expect(dead_code, reason = "released on drop")]
    pub permits: Option<[OwnedSemaphorePermit; 2]>,
}

/// The body of a response. Errors are final: after one, the body has ended.
#[derive(Debug)]
pub struct ResponseBody {
    open: Option<OpenBody>,
    /// The item that follows the bytes returned last.
    last: Option<Result<Frame<Bytes>, NetError>>,
}

#[derive(Debug)]
struct OpenBody {
    incoming: Incoming,
    terms: BodyContext,
    left: u64,
    /// Set only while the body is being polled: a slow guest must not count as a silent server.
    idle_timer: Option<Pin<Box<Sleep>>>,
    _connection: AbortOnDropHandle<()>,
}

enum BodyChunk {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
}

impl ResponseBody {
    pub(crate) fn new(
        incoming: Incoming,
        terms: BodyContext,
        connection: AbortOnDropHandle<()>,
    ) -> Self {
        let left = terms.limit;
        Self {
            open: Some(OpenBody {
                incoming,
                terms,
                left,
                idle_timer: None,
                _connection: connection,
            }),
            last: None,
        }
    }
}

impl OpenBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<BodyChunk, NetError>> {
        if Instant::now() >= self.terms.deadline {
            return Poll::Ready(Err(self.timeout(TimeoutPhase::Total)));
        }
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(frame) => {
                self.idle_timer = None;
                Poll::Ready(match frame {
                    None => Ok(BodyChunk::End),
                    Some(Err(error)) => Err(self.explain(&error)),
                    Some(Ok(frame)) => Ok(match frame.into_data() {
                        Ok(data) => BodyChunk::Data(data),
                        Err(frame) => frame
                            .into_trailers()
                            .map_or(BodyChunk::End, BodyChunk::Trailers),
                    }),
                })
            }
            Poll::Pending => {
                let wake = self
                    .terms
                    .deadline
                    .min(Instant::now() + self.terms.idle_timeout);
                let quiet = self
                    .idle_timer
                    .get_or_insert_with(|| Box::pin(sleep_until(wake)));
                if quiet.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let phase = if Instant::now() >= self.terms.deadline {
                    TimeoutPhase::Total
                } else {
                    TimeoutPhase::BetweenBytes
                };
                Poll::Ready(Err(self.timeout(phase)))
            }
        }
    }

    fn timeout(&self, phase: TimeoutPhase) -> NetError {
        let after = if phase == TimeoutPhase::Total {
            self.terms.total
        } else {
            self.terms.idle_timeout
        };
        NetError::Timeout {
            host: self.terms.host.clone(),
            phase,
            after,
        }
    }

    fn explain(&self, error: &hyper::Error) -> NetError {
        if let Some(failure) = self.terms.upload.get() {
            return failure.clone();
        }
        if Instant::now() >= self.terms.deadline {
            return self.timeout(TimeoutPhase::Total);
        }
        let io = error
            .source()
            .and_then(|source| source.downcast_ref::<io::Error>());
        let why = match io.map(io::Error::kind) {
            None | Some(io::ErrorKind::UnexpectedEof) => {
                "the connection closed before the end of the body".to_owned()
            }
            Some(kind) => format!("the body ended early ({kind})"),
        };
        NetError::BadResponse {
            host: self.terms.host.clone(),
            why,
        }
    }

    /// Returns the bytes up to the limit, and whether these are all of them.
    fn count(&mut self, data: Bytes) -> (Bytes, bool) {
        let length = data.len() as u64;
        if length <= self.left {
            self.left -= length;
            return (data, true);
        }
        let fits = usize::try_from(self.left).unwrap_or(usize::MAX);
        self.left = 0;
        (data.slice(..fits), false)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = NetError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NetError>>> {
        let this = self.get_mut();
        loop {
            let Some(open) = this.open.as_mut() else {
                return Poll::Ready(this.last.take());
            };
            let piece = match open.poll_chunk(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(piece) => piece,
            };
            let (bytes, last) = match piece {
                Ok(BodyChunk::Data(data)) => {
                    let (data, complete) = open.count(data);
                    let shown = open.terms.mask.push(data);
                    if complete {
                        if shown.is_empty() {
                            continue;
                        }
                        return Poll::Ready(Some(Ok(Frame::data(shown))));
                    }
                    let error = NetError::BodyTooLarge {
                        host: open.terms.host.clone(),
                        limit: open.terms.limit,
                    };
                    (shown, Some(Err(error)))
                }
                Ok(BodyChunk::Trailers(mut trailers)) => {
                    open.terms.mask.mask_headers(&mut trailers);
                    (
                        open.terms.mask.finish(),
                        Some(Ok(Frame::trailers(trailers))),
                    )
                }
                Ok(BodyChunk::End) => (open.terms.mask.finish(), None),
                Err(error) => (Bytes::new(), Some(Err(error))),
            };
            // The connection and the slot are released now, not when the guest drops the body.
            this.open = None;
            this.last = last;
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.open {
            Some(open) => open.terms.mask.is_empty() && open.incoming.is_end_stream(),
            None => self.last.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.open {
            Some(open) if open.terms.mask.is_empty() => open.incoming.size_hint(),
            Some(_) | None => SizeHint::default(),
        }
    }
}
