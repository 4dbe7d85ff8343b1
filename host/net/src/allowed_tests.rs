//! Tests of decisions as tables: rules, a request, the addresses of its host, and the result.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use http::Uri;
use proptest::prelude::*;

use super::*;

fn allowed(rules: &str) -> AllowedHosts {
    let mut allowed = AllowedHosts::default();
    for rule in rules.split_whitespace() {
        match rule.strip_prefix('!') {
            Some(rule) => allowed.denied.push(HostRule::parse(rule).unwrap()),
            None => allowed.rules.push(HostRule::parse(rule).unwrap()),
        }
    }
    allowed
}

/// `URL` or `URL = ADDRESS,ADDRESS`.
fn decide(rules: &str, request: &str) -> Result<Vec<SocketAddr>, NetError> {
    let allowed = allowed(rules);
    let (url, addresses) = request
        .split_once(" = ")
        .unwrap_or((request, "93.184.215.14"));
    let target = Target::parse(&url.parse::<Uri>().expect(url), 8192)?;
    allowed.check_host(&target)?;
    let addresses: Vec<IpAddr> = match target.host {
        UrlHost::Address(address) => vec![address],
        UrlHost::Name(_) => addresses
            .split(',')
            .map(|text| text.parse().expect(text))
            .collect(),
    };
    allowed.check_addresses(&target, &addresses)
}

fn check(rules: &str, requests: &[&str], expected: Expect) {
    let mut lines = String::new();
    for request in requests {
        let answer = match decide(rules, request) {
            Ok(addresses) => format!("{addresses:?}"),
            Err(error) => format!("{}: {error}", error.code()),
        };
        writeln!(lines, "{request} -> {answer}").unwrap();
    }
    expected.assert_eq(&lines);
}

// NET-01
#[test]
fn uncovered_hosts_are_refused_with_a_remedy() {
    check(
        "example.org *.example.net:8443",
        &[
            "https://example.org/a",
            "https://other.example",
            "https://a.example.net:8443",
            "https://a.example.net",
            "https://8.8.8.8",
            "http://example.org:25",
        ],
        expect![[r#"
            https://example.org/a -> [93.184.215.14:443]
            https://other.example -> host_not_allowed: host `other.example` is not allowed: no rule covers it; to allow: `--allow-host other.example`
            https://a.example.net:8443 -> [93.184.215.14:8443]
            https://a.example.net -> host_not_allowed: host `a.example.net` is not allowed: no rule covers it; to allow: `--allow-host a.example.net`
            https://8.8.8.8 -> host_not_allowed: host `8.8.8.8` is not allowed: no rule covers it; to allow: `--allow-host 8.8.8.8`
            http://example.org:25 -> host_not_allowed: host `example.org:25` is not allowed: port 25 belongs to another protocol, and no rule names it; to allow: `--allow-host example.org:25`
        "#]],
    );
    check(
        "",
        &["https://example.org", "http://127.0.0.1:80"],
        expect![[r#"
            https://example.org -> host_not_allowed: host `example.org` is not allowed: no rule covers it; to allow: `--allow-host example.org`
            http://127.0.0.1:80 -> private_address: host `127.0.0.1` is not allowed: it is a loopback address, which needs a rule that names it; to allow: `--allow-host 127.0.0.1:80`
        "#]],
    );
}

// NET-03, NET-26
#[test]
fn every_address_of_a_name_must_be_allowed() {
    check(
        "*",
        &[
            "https://good.example = 93.184.215.14,2606:2800:21f::1",
            "https://bad.example = 93.184.215.14,127.0.0.1",
            "https://bad.example = 2606:2800:21f::1,::ffff:10.0.0.1",
            "https://bad.example = 169.254.169.254",
            "https://bad.example = 0.0.0.0",
            "https://bad.example = 64:ff9b::7f00:1",
        ],
        expect![[r#"
            https://good.example = 93.184.215.14,2606:2800:21f::1 -> [93.184.215.14:443, [2606:2800:21f::1]:443]
            https://bad.example = 93.184.215.14,127.0.0.1 -> private_address: host `bad.example` is not allowed: it resolves to 127.0.0.1, a loopback address, which needs a rule that names it; to allow: `--allow-host bad.example:443`
            https://bad.example = 2606:2800:21f::1,::ffff:10.0.0.1 -> private_address: host `bad.example` is not allowed: it resolves to 10.0.0.1, a private address, which needs a rule that names it; to allow: `--allow-host bad.example:443`
            https://bad.example = 169.254.169.254 -> private_address: host `bad.example` is not allowed: it resolves to 169.254.169.254, a cloud metadata service, which needs a rule that names it; to allow: `--allow-host 169.254.169.254:443`
            https://bad.example = 0.0.0.0 -> private_address: host `bad.example` is not allowed: it resolves to 0.0.0.0, an unspecified address, which needs a rule that names it; to allow: `--allow-host 0.0.0.0:443`
            https://bad.example = 64:ff9b::7f00:1 -> private_address: host `bad.example` is not allowed: it resolves to 64:ff9b::7f00:1, a loopback address, which needs a rule that names it; to allow: `--allow-host bad.example:443`
        "#]],
    );
}

// NET-04
#[test]
fn a_wildcard_covers_only_public_hosts() {
    let urls = "http://127.0.0.1 http://localhost.:80 http://0x7f.1 http://0x7f000001 http://2130706433 http://127.1
        http://0177.0.0.1 http://017700000001 http://0 http://0.0.0.0 http://[::] http://[::1] http://[::ffff:127.0.0.1]
        http://[::ffff:7f00:1] http://[64:ff9b::7f00:1] http://[2002:7f00:1::] http://[fe80::1] http://10.0.0.1
        http://192.168.1.1:8080 http://172.16.0.1 http://100.64.0.1 http://169.254.169.254/latest/meta-data/
        http://[fd00:ec2::254] http://100.100.100.200 http://168.63.129.16 http://metadata.google.internal
        http://METADATA.google.internal. http://instance-data http://224.0.0.1 http://255.255.255.255
        http://192.0.2.1 http://[ff02::1] http://[fd00::1] http://127.0.0.1. http://0x7F.0x0.0x0.0x1";
    for url in urls.split_whitespace() {
        let request = format!("{url} = 127.0.0.1");
        let error = decide("* *.localhost *.google.internal", &request).unwrap_err();
        assert_eq!(error.code(), "private_address", "{url}: {error}");
        assert!(error.to_string().contains("--allow-host"), "{error}");
    }
}

#[test]
fn local_addresses_need_a_specific_rule() {
    for (rules, requests, ok) in [
        (
            "localhost:8080",
            "http://localhost:8080 = 127.0.0.1,::1",
            true,
        ),
        ("localhost", "http://localhost:8080 = 127.0.0.1", false),
        ("localhost:8080", "http://localhost:8081 = 127.0.0.1", false),
        ("localhost:8080", "http://127.0.0.1:8080", false),
        ("*.corp:80 *", "http://db.corp = 10.0.0.1", false),
        ("db.corp:80", "http://db.corp = 10.0.0.1", true),
        ("http://db.corp", "http://db.corp = 10.0.0.1", true),
        ("http://db.corp", "https://db.corp = 10.0.0.1", false),
        ("db.corp:80", "http://db.corp = 100.64.0.9", true),
        ("db.corp:80", "http://db.corp = 0.0.0.0", false),
        ("db.corp:80", "http://db.corp = 224.0.0.1", false),
        ("db.corp:80", "http://db.corp = 169.254.169.254", false),
        ("* 10.0.0.0/8", "http://db.corp = 10.0.0.1", true),
        ("* 10.0.0.0/8:81", "http://db.corp = 10.0.0.1", false),
        (
            "* 10.0.0.0/8",
            "http://db.corp = 10.0.0.1,192.168.0.1",
            false,
        ),
        ("10.0.0.0/8", "http://db.corp = 10.0.0.1", false),
        ("10.0.0.0/8", "http://10.9.9.9:8080", true),
        ("127.0.0.1:9000", "http://127.1:9000", true),
        ("127.0.0.1:9000", "http://127.0.0.1:9001", false),
        ("[::1]", "http://[::1]:1234", true),
        ("169.254.0.0/16", "http://169.254.1.1", true),
        ("169.254.0.0/16", "http://169.254.169.254", false),
        ("169.254.169.254", "http://169.254.169.254", true),
        (
            "metadata.google.internal:80",
            "http://metadata.google.internal = 169.254.169.254",
            false,
        ),
        (
            "metadata.google.internal:80 169.254.169.254",
            "http://metadata.google.internal = 169.254.169.254",
            true,
        ),
        (
            "*.google.internal 169.254.169.254",
            "http://metadata.google.internal = 169.254.169.254",
            false,
        ),
        ("0.0.0.0", "http://0.0.0.0:80", true),
        ("example.org:25", "http://example.org:25", true),
        ("example.org", "http://example.org:6667", false),
        ("* !example.org", "http://example.org", false),
        ("* !example.org", "http://www.example.org", true),
        ("example.org !*.org", "http://example.org", false),
        (
            "example.org:80 !example.org:443",
            "http://example.org",
            true,
        ),
        (
            "* !93.184.215.0/24",
            "http://example.org = 93.184.215.14",
            false,
        ),
        (
            "localhost:80 !127.0.0.0/8",
            "http://localhost = 127.0.0.1",
            false,
        ),
        ("localhost:80 !*", "http://localhost = 127.0.0.1", false),
    ] {
        let answer = decide(rules, requests);
        assert_eq!(answer.is_ok(), ok, "{rules} and {requests}: {answer:?}");
    }
}

// NET-07, NET-09, NET-27
#[test]
fn ambiguous_urls_are_refused() {
    let mut parsed = 0;
    for url in [
        "http://allowed.com@evil.com/",
        "http://allowed.com:80@evil.com/",
        "http://user:hunter2@allowed.com/",
        "http://allowed.com:99999/",
        "http://allowed.com:0/",
        "http://allowed.com:/",
        "http://allowed.com:+80/",
        "http://allowed.com%00.evil.com/",
        "http://allowed.com%2eevil.com/",
        "http://allowed.com,evil.com/",
        "http://allowed..com/",
        "http://.allowed.com/",
        "http://-/",
        "http://[fe80::1%25lo]/",
        "http://[::1.2.3]/",
        "http://1.2.3.4.5/",
        "http://256.256.256.256/",
        "http://0x100000000/",
        "http://allowed.com\\@evil.com/",
        "http://evil.com#@allowed.com/",
        "http://[::1/",
        "http:// allowed.com/",
        "http://allowed.com/a b",
        "http://allowed.com/ä",
        "http://xn--a/",
        "ftp://allowed.com/",
        "file:///etc/passwd",
        "data:text/plain,x",
        "gopher://allowed.com/",
        "allowed.com",
        "/path",
        "*",
    ] {
        // The `Uri` type refuses many of them; the parser must refuse the rest.
        let Ok(uri) = url.parse::<Uri>() else {
            continue;
        };
        parsed += 1;
        let answer =
            Target::parse(&uri, 8192).and_then(|target| allowed("allowed.com").check_host(&target));
        let error = answer.expect_err(url);
        assert!(
            matches!(error.code(), "bad_request" | "host_not_allowed"),
            "{url}: {error}"
        );
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    assert!(parsed >= 15, "only {parsed} reached the parser");
}

// NET-17
#[test]
fn url_length_is_limited() {
    let uri: Uri = format!("http://allowed.com/{}", "a".repeat(9000))
        .parse()
        .unwrap();
    assert_eq!(Target::parse(&uri, 8192).unwrap_err().code(), "bad_request");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn special_addresses_need_a_rule_that_names_them(bits in any::<u128>(), low in any::<u32>(), v4 in any::<bool>(), port in 1024u16..) {
        let address = if v4 { IpAddr::V4(std::net::Ipv4Addr::from_bits(low)) } else { IpAddr::from(bits.to_be_bytes()) };
        let wide = allowed("* *:8080 *.example.org example.org");
        let named = allowed("* example.org:443 example.org");
        let target = Target::parse(&format!("https://example.org:{port}").parse().unwrap(), 8192).unwrap();
        let public = AddressKind::classify(address) == AddressKind::Public;
        prop_assert_eq!(wide.check_addresses(&target, &[address]).is_ok(), public);
        prop_assert_eq!(named.check_addresses(&target, &[address]).is_ok(), public);
    }

    #[test]
    fn parsers_do_not_panic(text in "\\PC{0,40}", host in "[a-z0-9.\\[\\]:%x*/-]{0,24}") {
        for text in [text, host] {
            if let Ok(rule) = HostRule::parse(&text) {
                prop_assert!(!rule.to_string().is_empty());
            }
            if let Ok(uri) = format!("http://{text}/").parse::<Uri>() {
                let _ = Target::parse(&uri, 8192).and_then(|target| allowed("*").check_host(&target));
            }
        }
    }
}
