//! The head of a request as it may go out: what speaks of the connection rather than of the request is not the
//! guest's to say.

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::error::NetError;
use crate::host::{Host, split_port};
use crate::limits::Limits;
use crate::target::Target;
use crate::text::shown;

/// Taken out without a word: many HTTP libraries write them by habit, and nobody misses them.
const DROPPED: &[&str] = &["connection", "keep-alive", "te"];

/// Refused: each of them would make two readers disagree about where the request ends or who sent it.
const REFUSED: &[&str] = &[
    "transfer-encoding",
    "upgrade",
    "trailer",
    "expect",
    "http2-settings",
    "forwarded",
];
const REFUSED_PREFIXES: &[&str] = &["proxy-", "x-forwarded-"];

/// CONNECT makes a tunnel, TRACE and TRACK send the head back, with what we put into it.
const REFUSED_METHODS: &[&str] = &["CONNECT", "TRACE", "TRACK"];

pub(crate) fn check_method(method: &Method) -> Result<(), NetError> {
    let text = method.as_str();
    let usual = text.len() <= 20 && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    if usual && !REFUSED_METHODS.contains(&text) {
        return Ok(());
    }
    Err(NetError::bad_request(format!(
        "method `{}` is not supported; use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS",
        shown(text)
    )))
}

/// Makes the head ours: `Host` says what the URL says, and the length of the body is handed back to be checked
/// against the body itself.
pub(crate) fn clean(
    headers: &mut HeaderMap,
    target: &Target,
    limits: &Limits,
) -> Result<Option<u64>, NetError> {
    if headers.len() > limits.headers {
        let what = format!(
            "{} headers, more than {}; send fewer",
            headers.len(),
            limits.headers
        );
        return Err(NetError::bad_request(what));
    }
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    if bytes > limits.header_bytes {
        let what = format!(
            "headers of {bytes} bytes, more than {}; send large data in the body",
            limits.header_bytes
        );
        return Err(NetError::bad_request(what));
    }
    if let Some(name) = headers.keys().find(|name| is_refused(name)) {
        return Err(NetError::bad_request(format!(
            "header `{}` is the host's own to send; leave it out",
            shown(name.as_str())
        )));
    }
    for value in headers.get_all(HOST) {
        if !value.to_str().is_ok_and(|text| names(text, target)) {
            return Err(NetError::bad_request(format!(
                "header `host` says `{}`, but the URL says `{target}`; leave the header out",
                shown(&String::from_utf8_lossy(value.as_bytes()))
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

fn is_refused(name: &HeaderName) -> bool {
    REFUSED.contains(&name.as_str())
        || REFUSED_PREFIXES
            .iter()
            .any(|prefix| name.as_str().starts_with(prefix))
}

fn names(text: &str, target: &Target) -> bool {
    split_port(text)
        .and_then(|(host, port)| Ok((Host::parse(host)?, port)))
        .is_ok_and(|(host, port)| {
            host == target.host && port.unwrap_or(target.scheme.port()) == target.port
        })
}

fn declared_length(headers: &mut HeaderMap) -> Result<Option<u64>, NetError> {
    let values: Vec<HeaderValue> = headers.get_all(CONTENT_LENGTH).iter().cloned().collect();
    headers.remove(CONTENT_LENGTH);
    let wrong =
        |what: &str| NetError::bad_request(format!("header `content-length` {what}; leave it out"));
    match values.as_slice() {
        [] => Ok(None),
        [value] => {
            let text = value.to_str().unwrap_or("");
            if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
                return Err(wrong("is no number"));
            }
            text.parse().map(Some).map_err(|_| wrong("is too large"))
        }
        _ => Err(wrong("is there more than once")),
    }
}

/// What a server says about its own connection means nothing to a guest.
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
