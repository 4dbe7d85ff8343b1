//! Decides whether a request may go to a host, and to the addresses that the host's name resolves to. Pure functions:
//! nothing here resolves names or connects.

use std::net::{IpAddr, SocketAddr};

use crate::address_kind::{AddressKind, unmap_ipv4};
use crate::error::NetError;
use crate::host_rule::HostRule;
use crate::ports;
use crate::target::Target;
use crate::url_host::UrlHost;

/// Allowed and denied hosts. A denied host stays denied whatever allows it. A host without a matching rule is refused.
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts {
    pub rules: Vec<HostRule>,
    pub denied: Vec<HostRule>,
}

/// Names of cloud metadata services, which hand out a machine's credentials. A wildcard does not cover them.
const METADATA_NAMES: &[&str] = &[
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "instance-data",
    "instance-data.ec2.internal",
];

impl AllowedHosts {
    /// Decides before the name is resolved, because a lookup alone can leak data to a name server that the guest chose.
    pub fn check_host(&self, target: &Target) -> Result<(), NetError> {
        if let Some(rule) = self.denied.iter().find(|rule| rule.covers(target)) {
            return Err(NetError::HostDenied {
                host: target.to_string(),
                rule: rule.to_string(),
            });
        }
        if let UrlHost::Address(address) = target.host {
            // An address needs no lookup, so the decision is final and the refusal refers to the address.
            if AddressKind::classify(address) != AddressKind::Public {
                self.check_addresses(target, &[address])?;
            }
        }
        let covering = || self.rules.iter().filter(|rule| rule.covers(target));
        if covering().next().is_none() {
            return Err(NetError::HostNotAllowed {
                host: target.to_string(),
            });
        }
        if ports::is_for_another_protocol(target.port)
            && !covering().any(|rule| rule.port.is_some())
        {
            return Err(NetError::PortNotAllowed {
                host: target.to_string(),
                port: target.port,
            });
        }
        let names_metadata =
            matches!(&target.host, UrlHost::Name(name) if METADATA_NAMES.contains(&name.as_str()));
        if names_metadata && !covering().any(|rule| rule.names_exactly(target)) {
            return Err(NetError::PrivateAddress {
                host: target.to_string(),
                is: format!("names {}", AddressKind::Metadata),
                allow: format!("{}:{}", target.host, target.port),
            });
        }
        Ok(())
    }

    /// Decides after the lookup: every address must be allowed. Returns the addresses that may be dialled, in this
    /// order.
    ///
    /// One refused address refuses the whole name. A name that resolves to both a public and a private address is not
    /// treated as a misconfiguration to work around, because DNS rebinding begins that way.
    pub fn check_addresses(
        &self,
        target: &Target,
        addresses: &[IpAddr],
    ) -> Result<Vec<SocketAddr>, NetError> {
        addresses
            .iter()
            .map(|address| self.check_address(target, unmap_ipv4(*address)))
            .collect()
    }

    fn check_address(&self, target: &Target, address: IpAddr) -> Result<SocketAddr, NetError> {
        if let Some(rule) = self
            .denied
            .iter()
            .find(|rule| rule.network(target, address).is_some())
        {
            return Err(NetError::HostDenied {
                host: target.to_string(),
                rule: rule.to_string(),
            });
        }
        let mut networks = self
            .rules
            .iter()
            .filter_map(|rule| rule.network(target, address));
        let kind = AddressKind::classify(address);
        let allowed = match kind {
            AddressKind::Public => true,
            // A network that happens to contain this address does not allow access to credentials.
            AddressKind::Metadata => networks.any(|net| net.prefix_len() == net.max_prefix_len()),
            AddressKind::Loopback
            | AddressKind::Private
            | AddressKind::LinkLocal
            | AddressKind::Shared
            | AddressKind::Unspecified
            | AddressKind::Multicast
            | AddressKind::Reserved => {
                networks.next().is_some()
                    || (kind.is_local() && self.rules.iter().any(|rule| rule.names_exactly(target)))
            }
        };
        if allowed {
            return Ok(SocketAddr::new(address, target.port));
        }
        let (is, allow) = match target.host {
            UrlHost::Address(_) => (
                format!("is {kind}"),
                format!("{}:{}", target.host, target.port),
            ),
            UrlHost::Name(_) if kind.is_local() => (
                format!("resolves to {address}, {kind}"),
                format!("{}:{}", target.host, target.port),
            ),
            UrlHost::Name(_) => (
                format!("resolves to {address}, {kind}"),
                format!("{}:{}", UrlHost::Address(address), target.port),
            ),
        };
        Err(NetError::PrivateAddress {
            host: target.to_string(),
            is,
            allow,
        })
    }
}

#[cfg(test)]
#[path = "allowed_tests.rs"]
mod tests;
