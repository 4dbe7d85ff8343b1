//! Tests of the syntax of rules: what each covers, and which are refused.

use expect_test::{Expect, expect};
use http::Uri;

use super::*;

/// Checks a rule against URLs that it covers and URLs that it does not.
fn check(rule: &str, covers: &str, not: &str) {
    let rule = HostRule::parse(rule).unwrap();
    for (urls, expected) in [(covers, true), (not, false)] {
        for url in urls.split_whitespace() {
            let target = Target::parse(&url.parse::<Uri>().unwrap(), 8192).unwrap();
            assert_eq!(rule.covers(&target), expected, "{rule} and {url}");
        }
    }
}

// NET-08
#[test]
fn a_name_covers_only_itself() {
    check(
        "example.org",
        "https://example.org http://example.org:8080/x https://EXAMPLE.org https://example.org. https://example.ORG.:444/",
        "https://example.org.evil.net https://evilexample.org https://www.example.org https://example.com
         https://example http://org https://example-org",
    );
    check(
        "EXAMPLE.org.",
        "https://example.org",
        "https://a.example.org",
    );
    check(
        "bücher.example",
        "https://xn--bcher-kva.example",
        "https://bucher.example",
    );
}

#[test]
fn a_wildcard_covers_all_subdomains_but_not_the_name() {
    check(
        "*.example.org",
        "https://a.example.org https://a.b.c.example.org http://A.Example.Org:99",
        "https://example.org https://aexample.org https://example.org.a https://a.example.org.evil https://1.2.3.4",
    );
    check(
        "*.example.org:8443",
        "https://a.example.org:8443",
        "https://a.example.org",
    );
}

#[test]
fn a_scheme_or_port_narrows_a_rule() {
    check(
        "https://api.example.org:8443",
        "https://api.example.org:8443/v1",
        "https://api.example.org http://api.example.org:8443",
    );
    check(
        "https://api.example.org",
        "https://api.example.org:443",
        "http://api.example.org https://api.example.org:444",
    );
    check(
        "http://api.example.org/",
        "http://api.example.org",
        "https://api.example.org http://api.example.org:8080",
    );
    check(
        "localhost:8080",
        "http://localhost:8080 https://localhost:8080",
        "http://localhost http://localhost:80",
    );
    check(
        "*:8443",
        "https://a.b:8443 https://1.1.1.1:8443",
        "https://a.b",
    );
    check("https://*", "https://a.b", "http://a.b https://a.b:8443");
}

// NET-04
#[test]
fn an_address_covers_all_its_notations() {
    check(
        "127.0.0.1:9000",
        "http://127.0.0.1:9000 http://2130706433:9000 http://0x7f.1:9000 http://0177.0.0.1:9000 http://127.1:9000
         http://[::ffff:127.0.0.1]:9000 http://[::ffff:7f00:1]:9000 http://127.0.0.1.:9000",
        "http://127.0.0.1 http://127.0.0.2:9000 http://localhost:9000 http://[::1]:9000 http://[64:ff9b::7f00:1]:9000",
    );
    check(
        "10.0.0.0/8",
        "http://10.1.2.3 https://10.255.255.255:99",
        "http://11.0.0.0 http://ten.example",
    );
    check("10.0.0.0/8:80", "http://10.1.2.3", "https://10.1.2.3");
    check(
        "[::1]",
        "http://[::1] http://[0:0:0:0:0:0:0:1]:9",
        "http://[::2] http://127.0.0.1",
    );
    check("::1", "http://[::1]:9", "http://[::2]");
    check("[::1]:8080", "http://[::1]:8080", "http://[::1]");
    check("fd00::/8", "http://[fd12::1]", "http://[fc00::1]");
    check("[fd00::]/8:80", "http://[fd12::1]", "https://[fd12::1]");
    check("::ffff:10.0.0.1", "http://10.0.0.1", "http://10.0.0.2");
}

fn refused(rules: &[&str], expected: Expect) {
    let errors: Vec<String> = rules
        .iter()
        .map(|rule| HostRule::parse(rule).unwrap_err().to_string() + "\n")
        .collect();
    expected.assert_eq(&errors.concat());
}

#[test]
fn ambiguous_rules_are_refused_with_a_remedy() {
    refused(
        &[
            "",
            "a b",
            "ftp://example.org",
            "https://user@example.org",
            "https://example.org/path",
            "example.org/path",
            "example.org:http",
            "example.org:0",
            "example.org:70000",
            "example.org:",
            "ex*mple.org",
            "*.*.org",
            "a.*.org",
            "**",
            "*.1.2.3.4",
            "a..b",
            "0x7f.1",
            "2130706433",
            "１２７.0.0.1",
            "300.1.1.1",
            "10.1.2.3/8",
            "0.0.0.0/0",
            "::/0",
            "::ffff:0:0/96",
            "[::1",
            "[fe80::1%eth0]",
            "a%2eb",
            "a\u{202e}b",
        ],
        expect![[r#"
            invalid host rule ``: it is empty; write a host such as `example.org`
            invalid host rule `a b`: it contains whitespace; write one rule per host
            invalid host rule `ftp://example.org`: scheme `ftp` is not http or https
            invalid host rule `https://user@example.org`: it contains a user name; write only the host
            invalid host rule `https://example.org/path`: a rule applies to a host; remove the path, or write a network such as `10.0.0.0/8`
            invalid host rule `example.org/path`: a rule applies to a host; remove the path, or write a network such as `10.0.0.0/8`
            invalid host rule `example.org:http`: its port is not a number from 1 to 65535
            invalid host rule `example.org:0`: its port is not a number from 1 to 65535
            invalid host rule `example.org:70000`: its port is not a number from 1 to 65535
            invalid host rule `example.org:`: its port is not a number from 1 to 65535
            invalid host rule `ex*mple.org`: `*` can only be the whole host or its first label, as in `*.example.org`
            invalid host rule `*.*.org`: `*` can only be the whole host or its first label, as in `*.example.org`
            invalid host rule `a.*.org`: `*` can only be the whole host or its first label, as in `*.example.org`
            invalid host rule `**`: `*` can only be the whole host or its first label, as in `*.example.org`
            invalid host rule `*.1.2.3.4`: an address has no subdomains; write a network
            invalid host rule `a..b`: it is not a host name: labels have 1 to 63 letters, digits, `-` or `_`
            invalid host rule `0x7f.1`: write the address as `127.0.0.1`
            invalid host rule `2130706433`: write the address as `127.0.0.1`
            invalid host rule `\u{ff11}\u{ff12}\u{ff17}.0.0.1`: write the address as `127.0.0.1`
            invalid host rule `300.1.1.1`: it is not a host name or address
            invalid host rule `10.1.2.3/8`: write the network as `10.0.0.0/8`
            invalid host rule `0.0.0.0/0`: a network prefix is at least /8; write `*` for every public host
            invalid host rule `::/0`: a network prefix is at least /7; write `*` for every public host
            invalid host rule `::ffff:0:0/96`: write an IPv4 network directly, such as `10.0.0.0/8`
            invalid host rule `[::1`: it has a `[` without a `]`
            invalid host rule `[fe80::1%eth0]`: the part in brackets is not an IPv6 address
            invalid host rule `a%2eb`: a host cannot contain `%`
            invalid host rule `a\u{202e}b`: it is not a host name or address
        "#]],
    );
}

#[test]
fn a_rule_for_any_host_contains_neither_addresses_nor_ports() {
    for (rule, expected) in [
        ("*", true),
        ("example.org", true),
        ("*.example.org", true),
        ("localhost", true),
        ("localhost:8080", false),
        ("https://example.org", false),
        ("*:22", false),
        ("127.0.0.1", false),
        ("10.0.0.0/8", false),
        ("[::1]:9000", false),
        ("169.254.169.254", false),
    ] {
        let rule = HostRule::parse(rule).unwrap();
        assert_eq!(rule.is_within_any(), expected, "{rule}");
    }
}
