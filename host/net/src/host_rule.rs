//! Rules of an allow list or a deny list of hosts.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::escape::escape;
use crate::target::{Scheme, Target};
use crate::url_host::{UrlHost, split_port};

/// Why a text is not a rule. The message is for the author of the rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid host rule `{}`: {why}", escape(.rule))]
pub struct RuleError {
    rule: String,
    why: String,
}

/// `example.org`, `*.example.org`, `https://api.example.org:8443`, `*`, `localhost:8080`, `10.0.0.0/8`, `[::1]:9000`.
///
/// - Without a scheme it covers http and https; with a scheme and no port, only the default port of that scheme.
/// - Without a scheme or port it covers every port, except those of other protocols.
/// - `*.example.org` covers every name below `example.org`, but not `example.org` itself.
/// - `*` and name patterns cover public addresses only. A local address (loopback, private, link-local) requires a rule
///   with an address, a network, or that host name with its port; a cloud metadata service requires its exact address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    text: String,
    pub(crate) scheme: Option<Scheme>,
    pub(crate) matcher: HostMatcher,
    pub(crate) port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostMatcher {
    Any,
    Name(String),
    /// Every name that ends with a dot and this name.
    Subdomains(String),
    /// A network; a single address is a network of one address.
    Network(IpNet),
}

impl HostRule {
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        parse(text).map_err(|why| RuleError {
            rule: text.to_owned(),
            why,
        })
    }

    /// Whether the rule `*` covers everything that this rule covers. It does not cover local addresses, or ports that
    /// only a rule with a port covers.
    pub fn is_within_any(&self) -> bool {
        self.port.is_none() && !matches!(self.matcher, HostMatcher::Network(_))
    }

    /// Whether the rule covers this scheme and port.
    fn covers_port(&self, scheme: Scheme, port: u16) -> bool {
        self.scheme.is_none_or(|own| own == scheme) && self.port.is_none_or(|own| own == port)
    }

    /// Whether the rule covers the host of the URL.
    pub(crate) fn covers(&self, target: &Target) -> bool {
        self.covers_port(target.scheme, target.port)
            && match (&self.matcher, &target.host) {
                (HostMatcher::Any, _) => true,
                (HostMatcher::Name(own), UrlHost::Name(name)) => own == name,
                (HostMatcher::Subdomains(own), UrlHost::Name(name)) => name
                    .strip_suffix(own.as_str())
                    .is_some_and(|rest| rest.ends_with('.')),
                (HostMatcher::Network(own), UrlHost::Address(address)) => own.contains(address),
                (HostMatcher::Name(_) | HostMatcher::Subdomains(_), UrlHost::Address(_))
                | (HostMatcher::Network(_), UrlHost::Name(_)) => false,
            }
    }

    /// Returns the rule's network if it contains the address, and the rule covers the target's scheme and port.
    pub(crate) fn network(&self, target: &Target, address: IpAddr) -> Option<IpNet> {
        match self.matcher {
            HostMatcher::Network(own)
                if self.covers_port(target.scheme, target.port) && own.contains(&address) =>
            {
                Some(own)
            }
            HostMatcher::Network(_)
            | HostMatcher::Any
            | HostMatcher::Name(_)
            | HostMatcher::Subdomains(_) => None,
        }
    }

    /// Whether the rule names exactly the target's host, with a port.
    pub(crate) fn names_exactly(&self, target: &Target) -> bool {
        self.port.is_some() && matches!(self.matcher, HostMatcher::Name(_)) && self.covers(target)
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for HostRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        Self::parse(text)
    }
}

fn parse(text: &str) -> Result<HostRule, String> {
    if text.is_empty() {
        return Err("it is empty; write a host such as `example.org`".to_owned());
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("it contains whitespace; write one rule per host".to_owned());
    }
    if text.contains('@') {
        return Err("it contains a user name; write only the host".to_owned());
    }
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => {
            let known = Scheme::parse(scheme)
                .ok_or_else(|| format!("scheme `{}` is not http or https", escape(scheme)))?;
            (Some(known), rest.strip_suffix('/').unwrap_or(rest))
        }
        None => (None, text),
    };
    let (matcher, port) = parse_host_and_port(rest)?;
    let port = port.or(scheme.map(Scheme::port));
    Ok(HostRule {
        text: text.to_owned(),
        scheme,
        matcher,
        port,
    })
}

fn parse_host_and_port(text: &str) -> Result<(HostMatcher, Option<u16>), String> {
    // `::1` and `fd00::/8` contain colons, so addresses are parsed before ports.
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((
            HostMatcher::Network(check_network(IpNet::from(address))?),
            None,
        ));
    }
    if let Ok(net) = text.parse::<IpNet>() {
        return Ok((HostMatcher::Network(check_network(net)?), None));
    }
    let (host, port) = split_port(text)?;
    if host == "*" {
        return Ok((HostMatcher::Any, port));
    }
    if let Some((address, prefix)) = host.split_once('/') {
        let address = address.trim_start_matches('[').trim_end_matches(']');
        let net = format!("{address}/{prefix}")
            .parse::<IpNet>()
            .map_err(|_| {
                "a rule applies to a host; remove the path, or write a network such as `10.0.0.0/8`"
                    .to_owned()
            })?;
        return Ok((HostMatcher::Network(check_network(net)?), port));
    }
    let (below, name) = host
        .strip_prefix("*.")
        .map_or((false, host), |rest| (true, rest));
    if name.contains('*') {
        return Err(
            "`*` can only be the whole host or its first label, as in `*.example.org`".to_owned(),
        );
    }
    match (below, UrlHost::parse(name)?) {
        (true, UrlHost::Name(name)) => Ok((HostMatcher::Subdomains(name), port)),
        (false, UrlHost::Name(name)) => Ok((HostMatcher::Name(name), port)),
        (true, UrlHost::Address(_)) => {
            Err("an address has no subdomains; write a network".to_owned())
        }
        (false, UrlHost::Address(address)) => {
            let plain = UrlHost::Address(address).to_string();
            if !name.starts_with('[') && plain != name {
                return Err(format!("write the address as `{plain}`"));
            }
            Ok((
                HostMatcher::Network(check_network(IpNet::from(address))?),
                port,
            ))
        }
    }
}

fn check_network(net: IpNet) -> Result<IpNet, String> {
    if let IpNet::V6(v6) = net {
        if let (Some(inner), 128) = (v6.addr().to_ipv4_mapped(), v6.prefix_len()) {
            return Ok(IpNet::from(IpAddr::V4(inner)));
        }
        if v6.addr().to_ipv4_mapped().is_some() {
            return Err("write an IPv4 network directly, such as `10.0.0.0/8`".to_owned());
        }
    }
    let widest = if net.addr().is_ipv4() { 8 } else { 7 };
    if net.prefix_len() < widest {
        return Err(format!(
            "a network prefix is at least /{widest}; write `*` for every public host"
        ));
    }
    if net.trunc() != net {
        return Err(format!("write the network as `{}`", net.trunc()));
    }
    Ok(net)
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
