//! Secrets of the host: a guest writes `secret:NAME` and never sees the value.

use std::fmt;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue};
use url::form_urlencoded;

use crate::error::NetError;
use crate::escape::escape;
use crate::headers::is_dropped;
use crate::host_rule::{HostMatcher, HostRule};
use crate::mask::SecretMask;
use crate::target::{Scheme, Target};

const MARK: &str = "secret:";

/// A value that replaces `secret:NAME`, only for its own hosts, and only over TLS unless its rule has the scheme
/// `http://`.
#[derive(Clone)]
pub struct Secret {
    name: String,
    value: String,
    hosts: Vec<HostRule>,
}

/// Why a secret is invalid. The message never contains the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("invalid secret name `{}`; use letters, digits, `-`, `_` and `.`", escape(.0))]
    Name(String),
    #[error(
        "secret `{0}` is empty or contains a byte that is not allowed in a header, such as a line break; check its value"
    )]
    Value(String),
    #[error("secret `{0}` has no hosts, or the host `*`; name the hosts it may be sent to")]
    Hosts(String),
}

impl Secret {
    pub fn new(name: &str, value: &str, hosts: Vec<HostRule>) -> Result<Self, SecretError> {
        if !is_name(name) {
            return Err(SecretError::Name(name.to_owned()));
        }
        let is_sendable = |b: u8| b.is_ascii_graphic() || b == b' ';
        if value.trim() != value || value.is_empty() || !value.bytes().all(is_sendable) {
            return Err(SecretError::Value(name.to_owned()));
        }
        if hosts.is_empty() || hosts.iter().any(|rule| rule.matcher == HostMatcher::Any) {
            return Err(SecretError::Hosts(name.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            value: value.to_owned(),
            hosts,
        })
    }

    fn check_target(&self, target: &Target) -> Result<(), String> {
        let mut covering = self
            .hosts
            .iter()
            .filter(|rule| rule.covers(target))
            .peekable();
        if covering.peek().is_none() {
            return Err(format!(
                "it is not allowed for host `{target}`; the operator can add that host to the secret"
            ));
        }
        if target.scheme == Scheme::Https || covering.any(|rule| rule.scheme == Some(Scheme::Http))
        {
            return Ok(());
        }
        Err(format!(
            "it is not sent over plain http; use `https://{}`",
            target.host
        ))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("name", &self.name)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// Whether a header that will be sent refers to a secret. [`NetClient::send`](crate::NetClient::send) then sends the
/// request with the secret or not at all.
pub fn refers_to_secret(headers: &HeaderMap) -> bool {
    let mut sent = headers.iter().filter(|(name, _)| !is_dropped(name));
    sent.any(|(_, value)| value.to_str().ok().and_then(parse_reference).is_some())
}

/// Replaces references with values, in headers and in the query. Returns the values that were used, so that a response
/// that repeats them can be masked.
pub(crate) fn insert_secrets(
    secrets: &[Secret],
    target: &mut Target,
    headers: &mut HeaderMap,
) -> Result<SecretMask, NetError> {
    let mut used = Vec::new();
    for value in headers.values_mut() {
        let Some((before, name)) = value.to_str().ok().and_then(parse_reference) else {
            continue;
        };
        let secret = find_secret(secrets, target, name)?;
        let mut filled = HeaderValue::try_from(format!("{before}{}", secret.value))
            .expect("a secret contains only bytes that are valid in a header");
        filled.set_sensitive(true);
        used.push(secret.value.clone());
        *value = filled;
    }
    if let Some(query) = target.path.query() {
        let mut parts = Vec::new();
        for part in query.split('&') {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let name = value
                .strip_prefix(MARK)
                .or_else(|| strip_encoded_mark(value))
                .filter(|name| is_name(name));
            parts.push(match name {
                Some(name) => {
                    let secret = find_secret(secrets, target, name)?;
                    let encoded: String =
                        form_urlencoded::byte_serialize(secret.value.as_bytes()).collect();
                    used.extend([secret.value.clone(), encoded.clone()]);
                    format!("{key}={encoded}")
                }
                None => part.to_owned(),
            });
        }
        if !used.is_empty() {
            let path = format!("{}?{}", target.path.path(), parts.join("&"));
            // Escaped values are valid in a query, so only its length can be refused.
            target.path = PathAndQuery::try_from(path).map_err(|_| {
                NetError::bad_request("the query is too long with its secrets".to_owned())
            })?;
        }
    }
    Ok(SecretMask::new(used))
}

fn is_name(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

/// Parses `secret:NAME`, optionally preceded by one word such as `Bearer`.
fn parse_reference(text: &str) -> Option<(&str, &str)> {
    let (before, rest) = match text.split_once(' ') {
        Some((scheme, rest)) => (&text[..=scheme.len()], rest),
        None => ("", text),
    };
    rest.strip_prefix(MARK)
        .filter(|name| is_name(name))
        .map(|name| (before, name))
}

fn strip_encoded_mark(value: &str) -> Option<&str> {
    let rest = value.strip_prefix("secret%3")?;
    rest.strip_prefix(['A', 'a'])
}

fn find_secret<'a>(
    secrets: &'a [Secret],
    target: &Target,
    name: &str,
) -> Result<&'a Secret, NetError> {
    let refuse = |why| NetError::SecretNotAllowed {
        name: escape(name),
        why,
    };
    let secret = secrets
        .iter()
        .find(|secret| secret.name == name)
        .ok_or_else(|| {
            refuse("no secret of that name is configured; the operator can add it".to_owned())
        })?;
    secret.check_target(target).map_err(refuse)?;
    Ok(secret)
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
