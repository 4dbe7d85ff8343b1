//! The body of a request: counted, and compared with the declared length.

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::error::NetError;

/// Maximum number of empty chunks before the task yields: a guest can write them at no cost.
const MAX_EMPTY_CHUNKS: usize = 32;

/// Why an upload failed. The HTTP library only reports that it did.
pub(crate) type BodyFailure = Arc<OnceLock<NetError>>;

pub(crate) struct RequestBody<B> {
    body: Pin<Box<B>>,
    host: String,
    limit: u64,
    declared: Option<u64>,
    sent: u64,
    failure: BodyFailure,
}

impl<B: Body> RequestBody<B> {
    /// Refuses a body that is known to be too large or of the wrong length, before a connection is made.
    pub(crate) fn new(
        body: B,
        host: String,
        declared: Option<u64>,
        limit: u64,
        failure: BodyFailure,
    ) -> Result<Self, NetError> {
        let hint = body.size_hint();
        if hint.lower().max(declared.unwrap_or(0)) > limit {
            return Err(NetError::UploadTooLarge { host, limit });
        }
        if let (Some(declared), Some(exact)) = (declared, hint.exact())
            && declared != exact
        {
            return Err(mismatch(declared, exact));
        }
        Ok(Self {
            body: Box::pin(body),
            host,
            limit,
            declared: declared.or(hint.exact()),
            sent: 0,
            failure,
        })
    }

    fn fail(&self, error: NetError) -> Poll<Option<Result<Frame<Bytes>, NetError>>> {
        let _ = self.failure.set(error.clone());
        Poll::Ready(Some(Err(error)))
    }
}

fn mismatch(declared: u64, sent: u64) -> NetError {
    NetError::bad_request(format!(
        "header `content-length` is {declared}, but the body has {sent} bytes; remove the header"
    ))
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = NetError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NetError>>> {
        for _ in 0..MAX_EMPTY_CHUNKS {
            match self.body.as_mut().poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    return match self.declared {
                        Some(declared) if declared != self.sent => {
                            self.fail(mismatch(declared, self.sent))
                        }
                        Some(_) | None => Poll::Ready(None),
                    };
                }
                // The guest's own error is not repeated, because the guest knows it already.
                Poll::Ready(Some(Err(_))) => {
                    return self.fail(NetError::bad_request(
                        "the body ended early while it was sent".to_owned(),
                    ));
                }
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else {
                        let reason = "trailers are not supported; send them as headers".to_owned();
                        return self.fail(NetError::bad_request(reason));
                    };
                    if data.is_empty() {
                        continue;
                    }
                    self.sent += data.len() as u64;
                    if self.sent > self.limit {
                        return self.fail(NetError::UploadTooLarge {
                            host: self.host.clone(),
                            limit: self.limit,
                        });
                    }
                    if let Some(declared) = self.declared
                        && self.sent > declared
                    {
                        return self.fail(mismatch(declared, self.sent));
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.declared.is_none_or(|declared| declared == self.sent) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.declared.map_or_else(SizeHint::default, |declared| {
            SizeHint::with_exact(declared.saturating_sub(self.sent))
        })
    }
}

#[cfg(test)]
#[path = "upload_tests.rs"]
mod tests;
