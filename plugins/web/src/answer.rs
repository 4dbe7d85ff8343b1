//! Helpers for HTTP requests and response status texts.

use toolhost_sdk::services::http::Request;
use url::Url;

use crate::body::ENCODINGS;

/// Limit of a response body, compressed or not. The host fails at 10 MiB; stopping before keeps the data.
pub const MAX_BODY: usize = (10 << 20) - 1;

/// Default limit of characters shown per call.
pub const SHOWN: usize = 38_000;

pub const USER_AGENT: &str = concat!("toolhost-web/", env!("CARGO_PKG_VERSION"));

pub fn request(method: &str, url: &Url, accept: &str) -> Request {
    let mut request = Request::new(method, url.as_str())
        .header("accept", accept)
        .header("accept-encoding", ENCODINGS)
        .header("user-agent", USER_AGENT);
    request.max_bytes = MAX_BODY;
    request
}

/// `404 Not Found`
pub fn status_line(status: u16) -> String {
    let text = status_text(status);
    if text.is_empty() {
        status.to_string()
    } else {
        format!("{status} {text}")
    }
}

/// Reason phrases of RFC 9110, because servers can send any text.
pub fn status_text(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

/// `12 bytes`, `3.4 MiB`
pub fn size(bytes: usize) -> String {
    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    let tenths = |unit: usize| format!("{}.{}", bytes / unit, bytes % unit * 10 / unit);
    match bytes {
        1 => "1 byte".to_owned(),
        0..KIB => format!("{bytes} bytes"),
        KIB..MIB => format!("{} KiB", tenths(KIB)),
        _ => format!("{} MiB", tenths(MIB)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_statuses_are_described_in_text() {
        let sizes = [0, 1, 1023, 1024, 1536, 10 << 20].map(size);
        assert_eq!(
            sizes,
            [
                "0 bytes",
                "1 byte",
                "1023 bytes",
                "1.0 KiB",
                "1.5 KiB",
                "10.0 MiB"
            ]
        );
        assert_eq!(status_line(404), "404 Not Found");
        assert_eq!(status_line(299), "299");
    }
}
