//! Checks and rewrites the head of a request. Guests cannot set headers that control the connection.

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::error::NetError;
use crate::escape::escape;
use crate::limits::NetLimits;
use crate::target::Target;
use crate::url_host::{UrlHost, split_port};

/// Removed silently: many HTTP libraries send them by default, and requests work without them.
const DROPPED: &[&str] = &["connection", "keep-alive", "te"];

/// Refused: each could make two recipients disagree about where the request ends or who sent it.
const REFUSED: &[&str] = &[
    "transfer-encoding",
    "upgrade",
    "trailer",
    "expect",
    "http2-settings",
    "forwarded",
];
const REFUSED_PREFIXES: &[&str] = &["proxy-", "x-forwarded-"];

/// CONNECT opens a tunnel. TRACE and TRACK return the head, including inserted secrets.
const REFUSED_METHODS: &[&str] = &["CONNECT", "TRACE", "TRACK"];

pub(crate) fn check_method(method: &Method) -> Result<(), NetError> {
    let text = method.as_str();
    let usual = text.len() <= 20 && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    if usual && !REFUSED_METHODS.contains(&text) {
        return Ok(());
    }
    Err(NetError::bad_request(format!(
        "method `{}` is not supported; use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS",
        escape(text)
    )))
}

/// Sets `Host` to the host of the URL and removes hop-by-hop headers. Returns the declared length of the body, to be
/// checked against the body itself.
pub(crate) fn sanitize(
    headers: &mut HeaderMap,
    target: &Target,
    limits: &NetLimits,
) -> Result<Option<u64>, NetError> {
    if headers.len() > limits.headers {
        let reason = format!(
            "{} headers, the limit is {}; send fewer",
            headers.len(),
            limits.headers
        );
        return Err(NetError::bad_request(reason));
    }
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    if bytes > limits.header_bytes {
        let reason = format!(
            "headers of {bytes} bytes, the limit is {}; send large data in the body",
            limits.header_bytes
        );
        return Err(NetError::bad_request(reason));
    }
    if let Some(name) = headers.keys().find(|name| is_refused(name)) {
        return Err(NetError::bad_request(format!(
            "header `{}` is reserved for the host; remove it",
            escape(name.as_str())
        )));
    }
    for value in headers.get_all(HOST) {
        if !value
            .to_str()
            .is_ok_and(|text| matches_target(text, target))
        {
            return Err(NetError::bad_request(format!(
                "header `host` is `{}`, but the URL has `{target}`; remove the header",
                escape(&String::from_utf8_lossy(value.as_bytes()))
            )));
        }
    }
    let length = declared_length(headers)?;
    for name in DROPPED {
        headers.remove(*name);
    }
    let host = HeaderValue::try_from(target.to_string()).expect("a parsed host is printable ASCII");
    headers.insert(HOST, host);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(length)
}

pub(crate) fn is_dropped(name: &HeaderName) -> bool {
    DROPPED.contains(&name.as_str())
}

fn is_refused(name: &HeaderName) -> bool {
    REFUSED.contains(&name.as_str())
        || REFUSED_PREFIXES
            .iter()
            .any(|prefix| name.as_str().starts_with(prefix))
}

fn matches_target(text: &str, target: &Target) -> bool {
    split_port(text)
        .and_then(|(host, port)| Ok((UrlHost::parse(host)?, port)))
        .is_ok_and(|(host, port)| {
            host == target.host && port.unwrap_or(target.scheme.port()) == target.port
        })
}

fn declared_length(headers: &mut HeaderMap) -> Result<Option<u64>, NetError> {
    let values: Vec<HeaderValue> = headers.get_all(CONTENT_LENGTH).iter().cloned().collect();
    headers.remove(CONTENT_LENGTH);
    let wrong = |problem: &str| {
        NetError::bad_request(format!("header `content-length` {problem}; remove it"))
    };
    match values.as_slice() {
        [] => Ok(None),
        [value] => {
            let text = value.to_str().unwrap_or("");
            if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
                return Err(wrong("is not a number"));
            }
            text.parse().map(Some).map_err(|_| wrong("is too large"))
        }
        _ => Err(wrong("is set more than once")),
    }
}

/// Removes a server's headers about its own connection, which mean nothing to a guest.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    for name in [
        "keep-alive",
        "transfer-encoding",
        "upgrade",
        "proxy-authenticate",
        "proxy-connection",
        "trailer",
    ] {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
    headers.remove(TE);
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
