//! Tests of the table of special addresses, at the edges of every block.

use std::net::{IpAddr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// Checks rows of a kind and its addresses, separated by spaces.
fn check(rows: &[(AddressKind, &str)]) {
    for (kind, addresses) in rows {
        for text in addresses.split_whitespace() {
            let address: IpAddr = text
                .parse()
                .unwrap_or_else(|_| panic!("{text} is not an address"));
            assert_eq!(AddressKind::classify(address), *kind, "{text}");
            // The same address mapped to IPv6 has the same kind.
            if let IpAddr::V4(v4) = address {
                assert_eq!(
                    AddressKind::classify(IpAddr::V6(v4.to_ipv6_mapped())),
                    *kind,
                    "::ffff:{text}"
                );
            }
        }
    }
}

// NET-04
#[test]
fn ipv4_blocks_match_the_registry() {
    check(&[
        (AddressKind::Unspecified, "0.0.0.0 0.0.0.1 0.255.255.255"),
        (
            AddressKind::Private,
            "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0",
        ),
        (
            AddressKind::Private,
            "192.168.1.1 192.168.255.255 10.96.0.1 172.17.0.1",
        ),
        (AddressKind::Shared, "100.64.0.0 100.64.0.1 100.127.255.255"),
        (
            AddressKind::Loopback,
            "127.0.0.0 127.0.0.1 127.0.0.53 127.1.2.3 127.255.255.255",
        ),
        (
            AddressKind::LinkLocal,
            "169.254.0.0 169.254.1.1 169.254.169.253 169.254.255.255",
        ),
        (
            AddressKind::Reserved,
            "192.0.0.0 192.0.0.8 192.0.0.170 192.0.0.255 192.0.2.0 192.0.2.255",
        ),
        (
            AddressKind::Reserved,
            "192.88.99.0 192.88.99.1 192.88.99.255 198.18.0.0 198.19.255.255",
        ),
        (
            AddressKind::Reserved,
            "198.51.100.0 198.51.100.255 203.0.113.0 203.0.113.255",
        ),
        (
            AddressKind::Reserved,
            "240.0.0.0 250.1.2.3 255.255.255.254 255.255.255.255",
        ),
        (
            AddressKind::Multicast,
            "224.0.0.0 224.0.0.251 239.255.255.250 239.255.255.255",
        ),
        (
            AddressKind::Public,
            "1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255",
        ),
        (
            AddressKind::Public,
            "100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0",
        ),
        (
            AddressKind::Public,
            "172.15.255.255 172.32.0.0 191.255.255.255 192.0.0.9 192.0.0.10",
        ),
        (
            AddressKind::Public,
            "192.0.1.0 192.0.3.0 192.31.196.1 192.52.193.1 192.88.98.255",
        ),
        (
            AddressKind::Public,
            "192.88.100.0 192.167.255.255 192.169.0.0 192.175.48.1 198.17.255.255",
        ),
        (
            AddressKind::Public,
            "198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0",
        ),
        (AddressKind::Public, "223.255.255.255"),
    ]);
}

// NET-05
#[test]
fn metadata_services_in_public_blocks_are_recognized() {
    check(&[
        (
            AddressKind::Metadata,
            "169.254.169.254 169.254.170.2 169.254.170.23 169.254.0.23",
        ),
        (
            AddressKind::Metadata,
            "100.100.100.200 168.63.129.16 192.0.0.192",
        ),
        (
            AddressKind::Metadata,
            "fd00:ec2::254 fd00:ec2::23 fd20:ce::254",
        ),
        (
            AddressKind::Metadata,
            "64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 ::169.254.169.254",
        ),
        (AddressKind::Public, "168.63.129.15 168.63.129.17"),
        (AddressKind::Shared, "100.100.100.199"),
    ]);
}

#[test]
fn ipv6_blocks_match_the_registry() {
    check(&[
        (AddressKind::Unspecified, "::"),
        (AddressKind::Loopback, "::1"),
        (
            AddressKind::Private,
            "fc00:: fc00::1 fd00::1 fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ),
        (AddressKind::Private, "fec0::1 feff:ffff::1"),
        (
            AddressKind::LinkLocal,
            "fe80:: fe80::1 febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ),
        (
            AddressKind::Multicast,
            "ff00:: ff02::1 ff05::2 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ),
        (
            AddressKind::Reserved,
            "::2 ::ffff 100:: 100::1 100:0:0:1::1 200::1 400:: 1fff:ffff::1",
        ),
        (
            AddressKind::Reserved,
            "2001:: 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1",
        ),
        (
            AddressKind::Reserved,
            "2001:1:: 2001:1::4 2001:10::1 2001:1ff:ffff::1 2001:db8:: 2001:db8::1",
        ),
        (
            AddressKind::Reserved,
            "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff 3fff:: 3fff:fff:ffff::1",
        ),
        (
            AddressKind::Reserved,
            "4000:: 5f00::1 8000::1 e000::1 f000::1 fbff::1 fe00::1 fe7f::1",
        ),
        (
            AddressKind::Public,
            "2000::1 2001:1::1 2001:1::2 2001:1::3 2001:3::1 2001:4:112::1",
        ),
        (
            AddressKind::Public,
            "2001:20::1 2001:3f:ffff::1 2001:200::1 2001:4860:4860::8888 2001:db7::1",
        ),
        (
            AddressKind::Public,
            "2001:db9::1 2003::1 2606:4700:4700::1111 2620:4f:8000::1 2620:fe::fe",
        ),
        (
            AddressKind::Public,
            "2a00:1450:4001::1 3ffe::1 3fff:1000::1",
        ),
    ]);
}

#[test]
fn embedded_ipv4_addresses_are_classified() {
    check(&[
        (
            AddressKind::Loopback,
            "64:ff9b::7f00:1 2002:7f00:1:: 2002:7f00:1::1 ::127.0.0.1",
        ),
        (
            AddressKind::Private,
            "64:ff9b::a00:1 2002:c0a8:101::1 ::10.0.0.1 64:ff9b::192.168.0.1",
        ),
        (AddressKind::LinkLocal, "64:ff9b::169.254.1.1"),
        (AddressKind::Unspecified, "64:ff9b:: 2002::1"),
        // With a translator, an IPv6-only machine reaches the public IPv4 internet this way.
        (AddressKind::Public, "64:ff9b::8.8.8.8"),
        // A tunnel, a network-specific translator and a deprecated form; none of them is needed.
        (
            AddressKind::Reserved,
            "2002:808:808::1 64:ff9b:1::808:808 64:ff9b:1::7f00:1 ::8.8.8.8",
        ),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_address_of_a_special_block_is_public(row in 0..V4.len(), low in any::<u32>()) {
        let (net, kind) = V4[row];
        prop_assume!(kind != AddressKind::Public);
        let address = Ipv4Addr::from(u32::from(net.network()) | (low & u32::from(net.hostmask())));
        let is_exception = V4.iter().any(|(net, kind)| *kind == AddressKind::Public && net.contains(&address));
        prop_assert!(is_exception || AddressKind::classify(IpAddr::V4(address)) != AddressKind::Public, "{address}");
        prop_assert_eq!(AddressKind::classify(IpAddr::V6(address.to_ipv6_mapped())), AddressKind::classify(IpAddr::V4(address)));
        let [a, b] = [(u32::from(address) >> 16) as u16, (u32::from(address) & 0xffff) as u16];
        for carrier in [
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b),
            Ipv6Addr::new(0x2002, a, b, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0, 0, 0, 0, 0, 0, a, b),
        ] {
            prop_assert!(is_exception || AddressKind::classify(IpAddr::V6(carrier)) != AddressKind::Public, "{carrier}");
        }
    }

    #[test]
    fn outside_global_unicast_only_the_translator_is_public(bits in any::<u128>()) {
        let address = Ipv6Addr::from(bits);
        let global = address.segments()[0] & 0xe000 == 0x2000;
        prop_assume!(!global && address.to_ipv4_mapped().is_none());
        prop_assert!(AddressKind::classify(IpAddr::V6(address)) != AddressKind::Public);
    }
}
