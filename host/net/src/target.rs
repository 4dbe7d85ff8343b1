//! The target of a request: its URL, parsed once, and refused if two parsers could disagree about it.

use std::fmt;

use http::Uri;
use http::uri::PathAndQuery;

use crate::error::NetError;
use crate::escape::escape;
use crate::url_host::{UrlHost, split_port};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "http" => Some(Self::Http),
            "https" => Some(Self::Https),
            _ => None,
        }
    }

    pub(crate) fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A scheme, a host, a port and a path. Displayed without path and query, which can contain a secret.
#[derive(Clone)]
pub struct Target {
    pub scheme: Scheme,
    pub host: UrlHost,
    pub port: u16,
    pub(crate) path: PathAndQuery,
}

impl Target {
    pub fn parse(uri: &Uri, max_bytes: usize) -> Result<Self, NetError> {
        let scheme = uri.scheme_str().unwrap_or("");
        let scheme = Scheme::parse(scheme).ok_or_else(|| {
            NetError::bad_request(format!(
                "scheme `{}` is not supported; use http or https",
                escape(scheme)
            ))
        })?;
        let authority = uri
            .authority()
            .ok_or_else(|| {
                NetError::bad_request("the URL has no host; write `https://HOST/PATH`".to_owned())
            })?
            .as_str();
        let path = uri
            .path_and_query()
            .cloned()
            .unwrap_or_else(|| PathAndQuery::from_static("/"));
        let bytes = authority.len() + path.as_str().len();
        if bytes > max_bytes {
            return Err(NetError::bad_request(format!(
                "the URL has {bytes} bytes, the limit is {max_bytes}; send large data in the body"
            )));
        }
        if authority.contains('@') {
            // Not shown, because it contains a user name and a password.
            return Err(NetError::bad_request(
                "the URL has a user name before its host; remove it and send an `authorization` header".to_owned(),
            ));
        }
        if !path.as_str().starts_with('/') || !path.as_str().bytes().all(|b| b.is_ascii_graphic()) {
            return Err(NetError::bad_request(
                "the path must start with `/` and be printable ASCII; write other bytes as `%XX`"
                    .to_owned(),
            ));
        }
        let wrong =
            |why| NetError::bad_request(format!("invalid host `{}`: {why}", escape(authority)));
        let (host, port) = split_port(authority).map_err(wrong)?;
        let host = UrlHost::parse(host).map_err(wrong)?;
        Ok(Self {
            scheme,
            host,
            port: port.unwrap_or(scheme.port()),
            path,
        })
    }
}

/// As in a `Host` header: the port only if it is not the scheme's default.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.host)?;
        if self.port == self.scheme.port() {
            Ok(())
        } else {
            write!(f, ":{}", self.port)
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("scheme", &self.scheme)
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
