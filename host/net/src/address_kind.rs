//! Kinds of IP addresses according to the special-purpose registries of IANA. A guest that may connect to any host may
//! connect to public addresses only, as defined by this table.
//!
//! The standard library's `is_global` is unstable and does not know cloud metadata services.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// The kind of one address, as far as it matters for access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// Reachable from the whole internet.
    Public,
    /// Hands out the machine's own credentials to any client.
    Metadata,
    Loopback,
    Private,
    LinkLocal,
    /// Shared between a provider and its customers (RFC 6598).
    Shared,
    /// "This host" or "this network"; connecting there often ends at loopback.
    Unspecified,
    Multicast,
    /// Documentation, benchmarking, tunnels and unassigned addresses.
    Reserved,
}

impl AddressKind {
    /// Classifies an address. An address that embeds an IPv4 address has the kind of that address.
    pub fn classify(address: IpAddr) -> Self {
        match unmap_ipv4(address) {
            IpAddr::V4(address) => classify_v4(address),
            IpAddr::V6(address) => classify_v6(address),
        }
    }

    /// Whether this is an address of this machine or its surroundings, which a rule can allow by naming a host and its
    /// port.
    pub(crate) fn is_local(self) -> bool {
        match self {
            Self::Loopback | Self::Private | Self::LinkLocal | Self::Shared => true,
            Self::Public
            | Self::Metadata
            | Self::Unspecified
            | Self::Multicast
            | Self::Reserved => false,
        }
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Metadata => "a cloud metadata service",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::Shared => "an address shared between provider and customers",
            Self::Unspecified => "an unspecified address",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
        })
    }
}

/// Converts `::ffff:a.b.c.d` to `a.b.c.d`, which reaches the same host, so that both are checked, dialled and shown
/// alike.
pub(crate) fn unmap_ipv4(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(a: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(
        Ipv6Addr::new(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]),
        prefix,
    )
}

/// The first matching line applies, so an exception must precede its block.
const V4: &[(Ipv4Net, AddressKind)] = &[
    (v4(169, 254, 169, 254, 32), AddressKind::Metadata), // most clouds
    (v4(169, 254, 170, 2, 32), AddressKind::Metadata),   // credentials of a container
    (v4(169, 254, 170, 23, 32), AddressKind::Metadata),  // credentials of a pod
    (v4(169, 254, 0, 23, 32), AddressKind::Metadata),
    (v4(100, 100, 100, 200, 32), AddressKind::Metadata),
    (v4(168, 63, 129, 16, 32), AddressKind::Metadata), // inside a public block
    (v4(192, 0, 0, 192, 32), AddressKind::Metadata),
    (v4(0, 0, 0, 0, 8), AddressKind::Unspecified),
    (v4(10, 0, 0, 0, 8), AddressKind::Private),
    (v4(100, 64, 0, 0, 10), AddressKind::Shared),
    (v4(127, 0, 0, 0, 8), AddressKind::Loopback),
    (v4(169, 254, 0, 0, 16), AddressKind::LinkLocal),
    (v4(172, 16, 0, 0, 12), AddressKind::Private),
    (v4(192, 0, 0, 9, 32), AddressKind::Public), // PCP anycast
    (v4(192, 0, 0, 10, 32), AddressKind::Public), // TURN anycast
    (v4(192, 0, 0, 0, 24), AddressKind::Reserved), // IETF protocol assignments
    (v4(192, 0, 2, 0, 24), AddressKind::Reserved), // documentation
    (v4(192, 88, 99, 0, 24), AddressKind::Reserved), // 6to4 relays, deprecated
    (v4(192, 168, 0, 0, 16), AddressKind::Private),
    (v4(198, 18, 0, 0, 15), AddressKind::Reserved), // benchmarking
    (v4(198, 51, 100, 0, 24), AddressKind::Reserved), // documentation
    (v4(203, 0, 113, 0, 24), AddressKind::Reserved), // documentation
    (v4(224, 0, 0, 0, 4), AddressKind::Multicast),
    (v4(240, 0, 0, 0, 4), AddressKind::Reserved), // future use, and broadcast
];

/// Addresses that match no line are reserved: only `2000::/3` is allocated as global unicast.
const V6: &[(Ipv6Net, AddressKind)] = &[
    (
        v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128),
        AddressKind::Metadata,
    ),
    (
        v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128),
        AddressKind::Metadata,
    ),
    (
        v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
        AddressKind::Metadata,
    ),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), AddressKind::Unspecified),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), AddressKind::Loopback),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), AddressKind::Private), // unique local
    (
        v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
        AddressKind::LinkLocal,
    ),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), AddressKind::Private), // site-local, deprecated
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), AddressKind::Multicast),
    (v6([0x2001, 1, 0, 0, 0, 0, 0, 1], 128), AddressKind::Public), // PCP anycast
    (v6([0x2001, 1, 0, 0, 0, 0, 0, 2], 128), AddressKind::Public), // TURN anycast
    (v6([0x2001, 1, 0, 0, 0, 0, 0, 3], 128), AddressKind::Public), // DNS-SD anycast
    (v6([0x2001, 3, 0, 0, 0, 0, 0, 0], 32), AddressKind::Public),  // AMT
    (
        v6([0x2001, 4, 0x112, 0, 0, 0, 0, 0], 48),
        AddressKind::Public,
    ), // AS112
    (
        v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28),
        AddressKind::Public,
    ), // ORCHIDv2
    (
        v6([0x2001, 0x30, 0, 0, 0, 0, 0, 0], 28),
        AddressKind::Public,
    ), // drone identifiers
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), AddressKind::Reserved), // IETF protocol assignments, Teredo among them
    (
        v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
        AddressKind::Reserved,
    ), // documentation
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), AddressKind::Reserved), // 6to4: a tunnel to any IPv4 address
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), AddressKind::Reserved), // documentation
    (v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), AddressKind::Public),
];

fn classify_v4(address: Ipv4Addr) -> AddressKind {
    V4.iter()
        .find(|(net, _)| net.contains(&address))
        .map_or(AddressKind::Public, |(_, kind)| *kind)
}

fn classify_v6(address: Ipv6Addr) -> AddressKind {
    if let Some(inner) = embedded_ipv4(address) {
        // A translator or tunnel can forward a packet to the embedded address, so that address must be public too. A
        // tunnel to a public address remains reserved; no name of the public internet needs it.
        let inner = classify_v4(inner);
        if inner != AddressKind::Public {
            return inner;
        }
        if address.segments()[0] == 0x64 {
            return AddressKind::Public;
        }
    }
    V6.iter()
        .find(|(net, _)| net.contains(&address))
        .map_or(AddressKind::Reserved, |(_, kind)| *kind)
}

/// The IPv4 address embedded in a translated (`64:ff9b::/96`), tunnelled (`2002::/16`) or IPv4-compatible (`::/96`)
/// one.
fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match s {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(join(high, low)),
        // `::` and `::1` have separate lines.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(join(high, low)),
        _ => None,
    }
}

#[cfg(test)]
#[path = "kind_tests.rs"]
mod tests;
