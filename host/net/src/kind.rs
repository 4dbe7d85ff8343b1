//! What an address is for, by the special-purpose registries of IANA: a guest that may reach "any host" may reach
//! public ones, and this table says which those are.
//!
//! The standard library's `is_global` is unstable and knows no cloud metadata services, hence a table of our own.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// The use of one address, as far as it matters to who may connect there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reachable from the whole internet.
    Public,
    /// Hands out the machine's own credentials to whoever asks.
    Metadata,
    Loopback,
    Private,
    LinkLocal,
    /// Between a provider and its customers (RFC 6598).
    Shared,
    /// "This host" or "this network"; connecting there often ends at loopback.
    Unspecified,
    Multicast,
    /// Documentation, benchmarking, tunnels and whatever is not assigned.
    Reserved,
}

impl Kind {
    /// Classifies an address; one that carries an IPv4 address inside is what the inner one is.
    pub fn of(address: IpAddr) -> Self {
        match plain(address) {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// An address of this machine or its surroundings, which a rule may reach by naming a host and its port.
    pub(crate) fn is_near(self) -> bool {
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

impl fmt::Display for Kind {
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

/// `::ffff:a.b.c.d` reaches the same place as `a.b.c.d`, so it is handled, dialled and shown as that.
pub(crate) fn plain(address: IpAddr) -> IpAddr {
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

/// The first line that holds the address answers; an exception therefore stands above its block.
const V4: &[(Ipv4Net, Kind)] = &[
    (v4(169, 254, 169, 254, 32), Kind::Metadata), // most clouds
    (v4(169, 254, 170, 2, 32), Kind::Metadata),   // credentials of a container
    (v4(169, 254, 170, 23, 32), Kind::Metadata),  // credentials of a pod
    (v4(169, 254, 0, 23, 32), Kind::Metadata),
    (v4(100, 100, 100, 200, 32), Kind::Metadata),
    (v4(168, 63, 129, 16, 32), Kind::Metadata), // lies among public addresses
    (v4(192, 0, 0, 192, 32), Kind::Metadata),
    (v4(0, 0, 0, 0, 8), Kind::Unspecified),
    (v4(10, 0, 0, 0, 8), Kind::Private),
    (v4(100, 64, 0, 0, 10), Kind::Shared),
    (v4(127, 0, 0, 0, 8), Kind::Loopback),
    (v4(169, 254, 0, 0, 16), Kind::LinkLocal),
    (v4(172, 16, 0, 0, 12), Kind::Private),
    (v4(192, 0, 0, 9, 32), Kind::Public),     // PCP anycast
    (v4(192, 0, 0, 10, 32), Kind::Public),    // TURN anycast
    (v4(192, 0, 0, 0, 24), Kind::Reserved),   // IETF protocol assignments
    (v4(192, 0, 2, 0, 24), Kind::Reserved),   // documentation
    (v4(192, 88, 99, 0, 24), Kind::Reserved), // 6to4 relays, deprecated
    (v4(192, 168, 0, 0, 16), Kind::Private),
    (v4(198, 18, 0, 0, 15), Kind::Reserved),   // benchmarking
    (v4(198, 51, 100, 0, 24), Kind::Reserved), // documentation
    (v4(203, 0, 113, 0, 24), Kind::Reserved),  // documentation
    (v4(224, 0, 0, 0, 4), Kind::Multicast),
    (v4(240, 0, 0, 0, 4), Kind::Reserved), // future use, and broadcast
];

/// What is in none of these lines is reserved: only `2000::/3` is handed out as global unicast.
const V6: &[(Ipv6Net, Kind)] = &[
    (
        v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128),
        Kind::Metadata,
    ),
    (
        v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128),
        Kind::Metadata,
    ),
    (
        v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
        Kind::Metadata,
    ),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Kind::Unspecified),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Kind::Loopback),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Kind::Private), // unique local
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Kind::LinkLocal),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Kind::Private), // site-local, deprecated
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Kind::Multicast),
    (v6([0x2001, 1, 0, 0, 0, 0, 0, 1], 128), Kind::Public), // PCP anycast
    (v6([0x2001, 1, 0, 0, 0, 0, 0, 2], 128), Kind::Public), // TURN anycast
    (v6([0x2001, 1, 0, 0, 0, 0, 0, 3], 128), Kind::Public), // DNS-SD anycast
    (v6([0x2001, 3, 0, 0, 0, 0, 0, 0], 32), Kind::Public),  // AMT
    (v6([0x2001, 4, 0x112, 0, 0, 0, 0, 0], 48), Kind::Public), // AS112
    (v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28), Kind::Public), // ORCHIDv2
    (v6([0x2001, 0x30, 0, 0, 0, 0, 0, 0], 28), Kind::Public), // drone identifiers
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Kind::Reserved), // IETF protocol assignments, Teredo among them
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Kind::Reserved), // documentation
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), Kind::Reserved), // 6to4: a tunnel to any IPv4 address
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Kind::Reserved), // documentation
    (v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), Kind::Public),
];

fn of_v4(address: Ipv4Addr) -> Kind {
    V4.iter()
        .find(|(net, _)| net.contains(&address))
        .map_or(Kind::Public, |(_, kind)| *kind)
}

fn of_v6(address: Ipv6Addr) -> Kind {
    if let Some(inner) = embedded(address) {
        // A translator or a tunnel may carry a packet to the inner address, so it must be public as well. A tunnel
        // to a public address stays what it is, which no name of the public internet needs.
        let inner = of_v4(inner);
        if inner != Kind::Public {
            return inner;
        }
        if address.segments()[0] == 0x64 {
            return Kind::Public;
        }
    }
    V6.iter()
        .find(|(net, _)| net.contains(&address))
        .map_or(Kind::Reserved, |(_, kind)| *kind)
}

/// The IPv4 address inside a translated (`64:ff9b::/96`), tunnelled (`2002::/16`) or IPv4-compatible (`::/96`) one.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match s {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(join(high, low)),
        // `::` and `::1` have lines of their own.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(join(high, low)),
        _ => None,
    }
}

#[cfg(test)]
#[path = "kind_tests.rs"]
mod tests;
