//! HTTP requests over `wasi:http`.

use std::time::Instant;

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, HeaderError, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme,
};
use wasip2::io::poll::poll;
use wasip2::io::streams::StreamError;

use crate::services::http::{Request, Response, request_error, reserved_header};
use crate::{Error, Result};

/// Bytes per write: the limit of `blocking-write-and-flush`.
const PIECE: usize = 4096;

pub(super) fn fetch(request: &Request) -> Result<Response> {
    let outgoing = OutgoingRequest::new(headers(request)?);
    let address = Address::parse(&request.url)?;
    let bad = |part: &str, value: &str| {
        Error::invalid_input(format!("{value:?} is not a valid {part}")).code("bad_request")
    };
    let refused = |(): ()| bad("address", &request.url);
    outgoing
        .set_method(&method(&request.method))
        .map_err(|()| bad("method", &request.method))?;
    outgoing
        .set_scheme(Some(&address.scheme))
        .map_err(refused)?;
    outgoing
        .set_authority(Some(address.authority))
        .map_err(refused)?;
    outgoing
        .set_path_with_query(Some(&address.path))
        .map_err(refused)?;
    let body = outgoing
        .body()
        .map_err(|()| Error::failed("the request has no body to write"))?;
    // The host's timeouts restart with each chunk; this deadline covers the whole response.
    let over = Instant::now() + request.timeout;
    let options = RequestOptions::new();
    let timeout = u64::try_from(request.timeout.as_nanos()).unwrap_or(u64::MAX);
    // A host that does not support one of these timeouts uses its own.
    _ = options.set_connect_timeout(Some(timeout));
    _ = options.set_first_byte_timeout(Some(timeout));
    _ = options.set_between_bytes_timeout(Some(timeout));

    let answer = outgoing_handler::handle(outgoing, Some(options)).map_err(explain)?;
    {
        let stream = body
            .write()
            .map_err(|()| Error::failed("the request's body cannot be written"))?;
        for piece in request.body.chunks(PIECE) {
            // The response may arrive before the body is complete, and explains the failure.
            if stream.blocking_write_and_flush(piece).is_err() {
                break;
            }
        }
    }
    // Errors of the body are reported by the response as well.
    _ = OutgoingBody::finish(body, None);

    answer.subscribe().block();
    match answer.get() {
        Some(Ok(Ok(response))) => read(&response, request.max_bytes, over),
        Some(Ok(Err(error))) => Err(explain(error)),
        Some(Err(())) | None => Err(Error::failed("the host returned no response")),
    }
}

fn read(response: &IncomingResponse, max_bytes: usize, over: Instant) -> Result<Response> {
    let headers = response
        .headers()
        .entries()
        .into_iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(&value).into_owned();
            (name.to_ascii_lowercase(), value)
        })
        .collect();
    let mut answer = Response {
        status: response.status(),
        headers,
        ..Response::default()
    };
    let body = response
        .consume()
        .map_err(|()| Error::failed("the response has no body"))?;
    let stream = body
        .stream()
        .map_err(|()| Error::failed("the response body cannot be read"))?;
    let ready = stream.subscribe();
    loop {
        let left = over.saturating_duration_since(Instant::now());
        let left = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        let first = poll(&[&ready, &subscribe_duration(left)]);
        if !first.contains(&0) {
            return Err(explain(ErrorCode::HttpResponseTimeout));
        }
        match stream.read(64 << 10) {
            Ok(piece) if answer.body.len() + piece.len() > max_bytes => {
                let room = max_bytes - answer.body.len();
                answer.body.extend_from_slice(&piece[..room]);
                answer.truncated = true;
                return Ok(answer);
            }
            Ok(piece) => answer.body.extend_from_slice(&piece),
            Err(StreamError::Closed) => return Ok(answer),
            Err(StreamError::LastOperationFailed(error)) => {
                let code = wasip2::http::types::http_error_code(&error);
                return Err(match code {
                    Some(code) => explain(code),
                    None => Error::failed("the response was cut off").code("connection_lost"),
                });
            }
        }
    }
}

fn headers(request: &Request) -> Result<Fields> {
    let headers = Fields::new();
    for (name, value) in &request.headers {
        headers
            .append(name, value.as_bytes())
            .map_err(|error| match error {
                HeaderError::Forbidden => reserved_header(name),
                HeaderError::InvalidSyntax | HeaderError::Immutable => {
                    let message =
                        format!("header {name:?} cannot be sent: its name or value is invalid");
                    Error::invalid_input(message).code("bad_request")
                }
            })?;
    }
    if let Some(length) = request.missing_content_length() {
        let length = length.to_string();
        // The host accepts this header; without it the body is sent in chunks.
        _ = headers.append("content-length", length.as_bytes());
    }
    Ok(headers)
}

fn method(name: &str) -> Method {
    match name.to_ascii_uppercase().as_str() {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

/// The parts of a URL that WASI requires separately. The host parses them again, strictly.
struct Address<'a> {
    scheme: Scheme,
    authority: &'a str,
    path: String,
}

impl<'a> Address<'a> {
    fn parse(url: &'a str) -> Result<Self> {
        let bad = || {
            let message = format!("{url:?} is not a URL such as `https://example.org/page`");
            Error::invalid_input(message).code("invalid_url")
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(bad()),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.is_empty() {
            return Err(bad());
        }
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        Ok(Self {
            scheme,
            authority,
            path,
        })
    }
}

/// The host writes `code: sentence` for errors that WASI does not define.
fn explain(error: ErrorCode) -> Error {
    let timeout = |operation: &str| request_error("timeout", format!("timed out: {operation}"));
    match error {
        ErrorCode::InternalError(Some(text)) => {
            let is_code = |code: &str| code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            match text.split_once(": ").filter(|(code, _)| is_code(code)) {
                Some((code, message)) => request_error(code, message),
                None => request_error("network_error", text),
            }
        }
        ErrorCode::ConnectionTimeout => timeout("no connection"),
        ErrorCode::ConnectionReadTimeout | ErrorCode::HttpResponseTimeout => timeout("no answer"),
        ErrorCode::DnsTimeout => timeout("no address for this name"),
        other => request_error("network_error", format!("the request failed: {other:?}")),
    }
}
