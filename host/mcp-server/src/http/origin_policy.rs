//! Host and origin checks against DNS rebinding and cross-site requests.
//!
//! A web page can send requests to this machine, under any host name if it controls a DNS server. It cannot forge
//! `Origin` or `Host`, so these are checked first.

use http::header::{HOST, HeaderMap, ORIGIN};
use http::uri::{Authority, Uri};
use http::{HeaderValue, StatusCode};
use toolhost_contract::text;

const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginPolicyError {
    #[error("`{0}` is not a host; use a name or an address with an optional port")]
    Host(String),
    #[error(
        "`{0}` is not an origin; use the form `https://app.example.org`, with a port or `:*` if not the default"
    )]
    Origin(String),
}

/// An accepted value of `Host`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName {
    name: String,
    /// `None`: any port.
    port: Option<u16>,
}

impl HostName {
    /// Parses an operator's setting. Also accepts an IPv6 address without brackets.
    pub fn parse(text: &str) -> Result<Self, OriginPolicyError> {
        match text.parse::<std::net::Ipv6Addr>() {
            Ok(address) => Self::parse_header(&format!("[{address}]")),
            Err(_) => Self::parse_header(text),
        }
    }

    /// Parses a `Host` header.
    fn parse_header(text: &str) -> Result<Self, OriginPolicyError> {
        let wrong = || OriginPolicyError::Host(text::escape_line(text, 100));
        let authority: Authority = text.parse().map_err(|_| wrong())?;
        if authority.host().is_empty() || text.contains('@') || text.contains('*') {
            return Err(wrong());
        }
        // An invalid port must not count as any port.
        if authority.port_u16().is_none() && authority.as_str() != authority.host() {
            return Err(wrong());
        }
        Ok(Self {
            name: normalize_host(authority.host()),
            port: authority.port_u16(),
        })
    }
}

/// An accepted value of `Origin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedOrigin {
    scheme: String,
    name: String,
    /// `None`: any port.
    port: Option<u16>,
}

impl AllowedOrigin {
    pub fn parse(text: &str) -> Result<Self, OriginPolicyError> {
        let wrong = || OriginPolicyError::Origin(text::escape_line(text, 100));
        let (base, any) = match text.strip_suffix(":*") {
            Some(base) => (base, true),
            None => (text, false),
        };
        let (scheme, name, port) = parse_origin(base).ok_or_else(wrong)?;
        Ok(Self {
            scheme,
            name,
            port: (!any).then_some(port),
        })
    }

    fn covers(&self, (scheme, name, port): &(String, String, u16)) -> bool {
        self.scheme == *scheme
            && self.name == *name
            && self.port.is_none_or(|allowed| allowed == *port)
    }
}

/// Sender of a request: a program, or a web page that may read the responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOrigin {
    Program,
    WebPage,
}

#[derive(Debug, Clone, Default)]
pub struct OriginPolicy {
    hosts: Vec<HostName>,
    origins: Vec<AllowedOrigin>,
}

impl OriginPolicy {
    /// `hosts` and `origins` are accepted in addition to those of this machine.
    pub fn new(hosts: Vec<HostName>, origins: Vec<AllowedOrigin>) -> Self {
        Self { hosts, origins }
    }

    /// Checks host and origin. A `target` in absolute form contains a host too, which proxies use instead of `Host`, so
    /// both must be equal.
    pub fn check(
        &self,
        target: &Uri,
        headers: &HeaderMap,
    ) -> Result<RequestOrigin, (StatusCode, &'static str)> {
        let host = single_header(headers, &HOST).map_err(|DuplicateHeader| {
            (
                StatusCode::BAD_REQUEST,
                "the request has several Host headers",
            )
        })?;
        let host = host
            .and_then(|host| HostName::parse_header(host.to_str().ok()?).ok())
            .ok_or((
                StatusCode::BAD_REQUEST,
                "the Host header is missing or invalid",
            ))?;
        if let Some(authority) = target.authority() {
            let named = HostName::parse_header(authority.as_str());
            if target.scheme_str() != Some("http") || named.as_ref() != Ok(&host) {
                return Err((
                    StatusCode::BAD_REQUEST,
                    "the request target and the Host header name different hosts",
                ));
            }
        }
        let known = self.hosts.iter().any(|known| {
            known.name == host.name && known.port.is_none_or(|port| host.port == Some(port))
        });
        if !known && !LOCAL_HOSTS.contains(&host.name.as_str()) {
            return Err((
                StatusCode::FORBIDDEN,
                "unknown host; start the server with `--http-host NAME` to accept it",
            ));
        }
        let foreign = (
            StatusCode::FORBIDDEN,
            "origin not allowed; start the server with `--http-origin ORIGIN` to allow it",
        );
        let Some(origin) = single_header(headers, &ORIGIN).map_err(|DuplicateHeader| foreign)?
        else {
            return Ok(RequestOrigin::Program);
        };
        let origin = origin.to_str().ok().and_then(parse_origin).ok_or(foreign)?;
        let is_named = self.origins.iter().any(|named| named.covers(&origin));
        if is_named || LOCAL_HOSTS.contains(&origin.1.as_str()) {
            Ok(RequestOrigin::WebPage)
        } else {
            Err(foreign)
        }
    }
}

/// A header with several values, of which a proxy may use another than this server.
struct DuplicateHeader;

fn single_header<'a>(
    headers: &'a HeaderMap,
    name: &http::HeaderName,
) -> Result<Option<&'a HeaderValue>, DuplicateHeader> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    values.next().map_or(Ok(first), |_| Err(DuplicateHeader))
}

/// Parses scheme, host and port of an origin as sent by browsers. Returns `None` for `null`.
fn parse_origin(text: &str) -> Option<(String, String, u16)> {
    let uri: Uri = text.parse().ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let authority = uri.authority()?;
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() || authority.as_str().contains('@')
    {
        return None;
    }
    let host = HostName::parse_header(authority.as_str()).ok()?;
    let port = match (host.port, scheme.as_str()) {
        (Some(port), _) => port,
        (None, "http") => 80,
        (None, "https") => 443,
        (None, _) => return None,
    };
    Some((scheme, host.name, port))
}

fn normalize_host(host: &str) -> String {
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&'static str, &str)], expected: Result<RequestOrigin, u16>) {
        check_target("/mcp", headers, expected);
    }

    fn check_target(
        target: &str,
        headers: &[(&'static str, &str)],
        expected: Result<RequestOrigin, u16>,
    ) {
        let doors = OriginPolicy::new(
            vec![
                HostName::parse("tools.example.org").unwrap(),
                HostName::parse("10.0.0.7:8080").unwrap(),
            ],
            vec![
                AllowedOrigin::parse("https://app.example.org").unwrap(),
                AllowedOrigin::parse("https://dev.example.org:*").unwrap(),
            ],
        );
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let got = doors.check(&target.parse().unwrap(), &map);
        let got = got.map_err(|(status, _)| status.as_u16());
        assert_eq!(got, expected, "{target} {headers:?}");
    }

    #[test]
    fn only_accepted_hosts_are_served() {
        for (host, expected) in [
            ("localhost", Ok(RequestOrigin::Program)),
            ("LOCALHOST:8080", Ok(RequestOrigin::Program)),
            ("127.0.0.1:1", Ok(RequestOrigin::Program)),
            ("[::1]:8080", Ok(RequestOrigin::Program)),
            ("tools.example.org", Ok(RequestOrigin::Program)),
            ("tools.example.org:444", Ok(RequestOrigin::Program)),
            ("10.0.0.7:8080", Ok(RequestOrigin::Program)),
            ("10.0.0.7:8081", Err(403)),
            ("evil.example", Err(403)),
            ("localhost.evil.example", Err(403)),
            ("127.0.0.1.evil.example", Err(403)),
            ("evil@localhost", Err(400)),
            ("localhost:x", Err(400)),
            // A parser that splits at the last colon reads a port.
            ("::1", Err(400)),
            ("", Err(400)),
        ] {
            check(&[("host", host)], expected);
        }
        check(&[], Err(400));
        check(&[("host", "localhost"), ("host", "evil.example")], Err(400));
    }

    #[test]
    fn c_10_an_absolute_target_must_match_the_host_header() {
        for (target, host, expected) in [
            (
                "http://localhost:8080/mcp",
                "localhost:8080",
                Ok(RequestOrigin::Program),
            ),
            (
                "http://LOCALHOST/mcp",
                "localhost",
                Ok(RequestOrigin::Program),
            ),
            ("http://evil.example/mcp", "localhost", Err(400)),
            ("http://evil.example/mcp", "evil.example", Err(403)),
            ("http://localhost/mcp", "evil.example", Err(400)),
            ("http://localhost:1/mcp", "localhost:2", Err(400)),
            ("http://me@localhost/mcp", "localhost", Err(400)),
            ("ftp://localhost/mcp", "localhost", Err(400)),
            // As in CONNECT.
            ("localhost:8080", "localhost:8080", Err(400)),
        ] {
            check_target(target, &[("host", host)], expected);
        }
    }

    #[test]
    fn only_local_and_configured_origins_are_allowed() {
        for (origin, expected) in [
            ("http://localhost:3000", Ok(RequestOrigin::WebPage)),
            ("https://127.0.0.1", Ok(RequestOrigin::WebPage)),
            ("http://[::1]:9", Ok(RequestOrigin::WebPage)),
            ("https://app.example.org", Ok(RequestOrigin::WebPage)),
            ("https://app.example.org:443", Ok(RequestOrigin::WebPage)),
            ("https://dev.example.org:8443", Ok(RequestOrigin::WebPage)),
            ("https://app.example.org:8443", Err(403)),
            ("http://app.example.org", Err(403)),
            ("http://evil.example", Err(403)),
            ("http://localhost.evil.example", Err(403)),
            ("http://localhost:3000@evil.example", Err(403)),
            ("http://localhost/path", Err(403)),
            ("localhost", Err(403)),
            ("null", Err(403)),
            ("", Err(403)),
        ] {
            check(&[("host", "localhost"), ("origin", origin)], expected);
        }
        let twice = [
            ("host", "localhost"),
            ("origin", "http://localhost"),
            ("origin", "http://evil.example"),
        ];
        check(&twice, Err(403));
    }

    #[test]
    fn invalid_hosts_and_origins_are_rejected() {
        for host in ["", "*", "a b", "a:b", "a@b", "http://a", "a/b"] {
            assert!(HostName::parse(host).is_err(), "{host}");
        }
        for origin in [
            "",
            "*",
            "null",
            "app.example.org",
            "https://a/b",
            "ftp://a",
            "https://*.a",
        ] {
            assert!(AllowedOrigin::parse(origin).is_err(), "{origin}");
        }
        assert_eq!(
            HostName::parse("::1").unwrap(),
            HostName::parse("[::1]").unwrap()
        );
    }
}
