//! The host of a request or a rule, parsed once: the checked value is the value that is connected to.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::address_kind::unmap_ipv4;

/// A host name in lower case without a trailing dot, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UrlHost {
    Name(String),
    Address(IpAddr),
}

impl UrlHost {
    /// Parses the host of a URL. Each notation of an IPv4 address that some parser accepts (`0x7f.1`, `2130706433`,
    /// `127.1`) becomes that address, so that none of them is treated as a name.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(rest) = text.strip_prefix('[') {
            let inner = rest.strip_suffix(']').ok_or("it has a `[` without a `]`")?;
            let address: Ipv6Addr = inner
                .parse()
                .map_err(|_| "the part in brackets is not an IPv6 address")?;
            return Ok(Self::Address(unmap_ipv4(IpAddr::V6(address))));
        }
        // Some recipients would decode an escape and others would not.
        if text.contains('%') {
            return Err("a host cannot contain `%`");
        }
        match url::Host::parse(text).map_err(|_| "it is not a host name or address")? {
            url::Host::Ipv4(address) => Ok(Self::Address(IpAddr::V4(address))),
            url::Host::Ipv6(address) => Ok(Self::Address(unmap_ipv4(IpAddr::V6(address)))),
            url::Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                if name.len() > 253 || !name.split('.').all(is_label) {
                    return Err(
                        "it is not a host name: labels have 1 to 63 letters, digits, `-` or `_`",
                    );
                }
                Ok(Self::Name(name.to_owned()))
            }
        }
    }
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

impl fmt::Display for UrlHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Splits `host:port`, keeping the brackets of an IPv6 address. The port must be a number from 1.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    if text.starts_with('[') && !text.contains(']') {
        return Err("it has a `[` without a `]`");
    }
    let after = text.rfind(']').map_or(0, |index| index + 1);
    let Some(colon) = text[after..].find(':').map(|index| after + index) else {
        return Ok((text, None));
    };
    let port = &text[colon + 1..];
    let number = port
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| port.parse::<u16>().ok())
        .flatten();
    match number {
        Some(number) if number > 0 => Ok((&text[..colon], Some(number))),
        _ => Err("its port is not a number from 1 to 65535"),
    }
}
