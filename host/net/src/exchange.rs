//! Sends one request and receives its response over a connection that is used for nothing else.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::error::{NetError, TimeoutPhase};
use crate::headers::strip_hop_by_hop;
use crate::limits::NetLimits;
use crate::request_body::RequestBody;
use crate::response_body::{BodyContext, ResponseBody};

/// The minimum that hyper accepts.
const SMALLEST_BUFFER: usize = 8192;

pub(crate) async fn exchange<S, B>(
    stream: S,
    request: Request<RequestBody<B>>,
    terms: BodyContext,
    first_byte: Duration,
    limits: &NetLimits,
) -> Result<Response<ResponseBody>, NetError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(limits.headers)
        .max_buf_size(limits.header_bytes.max(SMALLEST_BUFFER))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| explain(&error, &terms))?;
    let deadline = terms.deadline;
    // The connection is a separate task, because an upload must continue while the response is not being read. The task
    // ends with the response's body, with the deadline or with this future.
    let task = AbortOnDropHandle::new(tokio::spawn(async move {
        let _ = timeout_at(deadline, connection).await;
    }));
    let until = deadline.min(Instant::now() + first_byte);
    let answer = match timeout_at(until, sender.send_request(request)).await {
        Ok(answer) => answer.map_err(|error| explain(&error, &terms))?,
        Err(_) => return Err(timeout_error(&terms, first_byte)),
    };
    let (mut parts, incoming) = answer.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        let why = "the server wants to switch protocols, which is not supported".to_owned();
        return Err(NetError::BadResponse {
            host: terms.host,
            why,
        });
    }
    strip_hop_by_hop(&mut parts.headers);
    terms.mask.mask_headers(&mut parts.headers);
    Ok(Response::from_parts(
        parts,
        ResponseBody::new(incoming, terms, task),
    ))
}

fn timeout_error(terms: &BodyContext, first_byte: Duration) -> NetError {
    let (phase, after) = if Instant::now() >= terms.deadline {
        (TimeoutPhase::Total, terms.total)
    } else {
        (TimeoutPhase::FirstByte, first_byte)
    };
    NetError::Timeout {
        host: terms.host.clone(),
        phase,
        after,
    }
}

fn explain(error: &hyper::Error, terms: &BodyContext) -> NetError {
    if let Some(failure) = terms.upload.get() {
        return failure.clone();
    }
    if Instant::now() >= terms.deadline {
        return timeout_error(terms, Duration::ZERO);
    }
    let io = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>());
    let why = if error.is_parse() {
        // A fixed message of the library, such as "message head is too large"; it contains no text of the server.
        format!("the response cannot be parsed ({error})")
    } else if let Some(io) = io {
        format!("the connection failed ({})", io.kind())
    } else {
        "the connection closed before a response was received".to_owned()
    };
    NetError::BadResponse {
        host: terms.host.clone(),
        why,
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
pub(crate) mod tests;
