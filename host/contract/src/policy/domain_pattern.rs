//! Hosts of URLs, and domain patterns of rules.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The host of a URL in lower case without a trailing dot; `None` if the URL cannot be evaluated.
pub(super) fn host_of(url: &str) -> Option<String> {
    // URL parsers disagree about backslashes and whitespace, which is a known way to bypass filters.
    if url.len() > 8_192
        || url
            .chars()
            .any(|c| c == '\\' || c.is_control() || c.is_whitespace())
    {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    if scheme.is_empty()
        || !scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split_once(']')?.0,
        None => host.split_once(':').map_or(host, |(host, _)| host),
    };
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let fits = !host.is_empty()
        && host.len() <= 253
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c));
    fits.then(|| normalize_host(&host)).flatten()
}

/// Normalizes a host, or rejects one that has another spelling: `2130706433` and `0x7f.1` connect to 127.0.0.1 but
/// would not match a rule for it. A name with an empty label is rejected too.
fn normalize_host(host: &str) -> Option<String> {
    if host.contains(':') {
        let address: Ipv6Addr = host.parse().ok()?;
        return Some(match address.to_ipv4_mapped() {
            Some(mapped) => mapped.to_string(),
            None => address.to_string(),
        });
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x");
    let is_number = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit())
        || hex.is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    let is_plain = !host.split('.').any(str::is_empty);
    (is_plain && (!is_number || host.parse::<Ipv4Addr>().is_ok())).then(|| host.to_owned())
}

/// `example.com`, `*.example.com` (subdomains only) or `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DomainPattern(String);

impl DomainPattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        let lower = lower.strip_suffix('.').unwrap_or(&lower);
        let host = lower.strip_prefix("*.").unwrap_or(lower);
        let fits = host == "*"
            || !host.is_empty()
                && !host.contains('*')
                && host
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c));
        let own = match host {
            "*" => Some(lower.to_owned()),
            _ if lower.len() > host.len() => normalize_host(host).map(|host| format!("*.{host}")),
            _ => normalize_host(host),
        };
        match own.filter(|_| fits) {
            Some(own) => Ok(Self(own)),
            None => Err(format!(
                "`{}` is not a domain; write `example.com` or `*.example.com`, in its ASCII form and without scheme or port",
                crate::text::escape_line(text, 80)
            )),
        }
    }

    pub(super) fn matches(&self, host: &str) -> bool {
        match self.0.strip_prefix("*.") {
            _ if self.0 == "*" => true,
            Some(parent) => host
                .strip_suffix(parent)
                .is_some_and(|front| front.len() > 1 && front.ends_with('.')),
            None => self.0 == host,
        }
    }
}

/// Matches a pattern in which `*` stands for any characters; no other character is special.
pub(super) fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// A scalar member of the input as text.
pub(super) fn scalar_text(value: &serde_json::Value) -> Option<Cow<'_, str>> {
    match value {
        serde_json::Value::String(text) => Some(Cow::Borrowed(text)),
        serde_json::Value::Null => Some(Cow::Borrowed("null")),
        serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {
            Some(Cow::Owned(value.to_string()))
        }
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
    }
}
