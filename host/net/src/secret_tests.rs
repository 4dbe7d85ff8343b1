//! Tests of where a secret is sent and where it is refused.

use expect_test::{Expect, expect};
use http::HeaderName;

use super::*;

const VALUE: &str = "s3cr3t value&x";

fn hosts(rules: &str) -> Vec<HostRule> {
    let rules = rules.split(' ');
    rules.map(|rule| HostRule::parse(rule).unwrap()).collect()
}

fn secrets() -> Vec<Secret> {
    vec![
        Secret::new(
            "KEY",
            VALUE,
            hosts("api.example.org *.example.net http://127.0.0.1:9000"),
        )
        .unwrap(),
        Secret::new("other", "second-value", hosts("other.example")).unwrap(),
    ]
}

fn check(url: &str, header: (&str, &str), expected: Expect) {
    let mut target = Target::parse(&url.parse().unwrap(), 8192).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(
        HeaderName::try_from(header.0).unwrap(),
        HeaderValue::try_from(header.1).unwrap(),
    );
    let text = match insert_secrets(&secrets(), &mut target, &mut headers) {
        Ok(_) => format!(
            "{} {}",
            headers.values().next().unwrap().to_str().unwrap(),
            target.path
        ),
        Err(error) => {
            assert_eq!(error.code(), "secret_not_allowed");
            assert!(
                !format!("{error} {error:?}").contains("s3cr3t"),
                "{error:?}"
            );
            error.to_string()
        }
    };
    expected.assert_eq(&text);
}

#[test]
fn references_are_replaced_for_the_secret_s_hosts() {
    let own = "https://api.example.org/a?b=c";
    check(
        own,
        ("x-api-key", "secret:KEY"),
        expect!["s3cr3t value&x /a?b=c"],
    );
    check(
        own,
        ("authorization", "Bearer secret:KEY"),
        expect!["Bearer s3cr3t value&x /a?b=c"],
    );
    check(
        own,
        ("authorization", "token secret:KEY"),
        expect!["token s3cr3t value&x /a?b=c"],
    );
    check(
        "https://api.example.org/?q=a&key=secret:KEY&z",
        ("a", "b"),
        expect!["b /?q=a&key=s3cr3t+value%26x&z"],
    );
    check(
        "https://api.example.org/?key=secret%3aKEY",
        ("a", "b"),
        expect!["b /?key=s3cr3t+value%26x"],
    );
    check(
        "https://eu.example.net/",
        ("x-api-key", "secret:KEY"),
        expect!["s3cr3t value&x /"],
    );
    check(
        "http://127.0.0.1:9000/",
        ("x-api-key", "secret:KEY"),
        expect!["s3cr3t value&x /"],
    );
}

#[test]
fn text_that_resembles_a_reference_is_unchanged() {
    let own = "https://api.example.org/secret:KEY?secret:KEY&a=xsecret:KEY";
    check(
        own,
        ("x-note", "the secret:KEY of it"),
        expect!["the secret:KEY of it /secret:KEY?secret:KEY&a=xsecret:KEY"],
    );
    check(
        own,
        ("x-note", "secret: KEY"),
        expect!["secret: KEY /secret:KEY?secret:KEY&a=xsecret:KEY"],
    );
    check(
        "https://evil.example/",
        ("x-note", "keep it secret: KEY"),
        expect!["keep it secret: KEY /"],
    );
}

#[test]
fn other_hosts_unknown_names_and_plain_http_are_refused() {
    check(
        "https://evil.example/",
        ("authorization", "Bearer secret:KEY"),
        expect![
            "secret `KEY` cannot be used here: it is not allowed for host `evil.example`; the operator can add that host to the secret"
        ],
    );
    check(
        "https://evil.example/?k=secret:KEY",
        ("a", "b"),
        expect![
            "secret `KEY` cannot be used here: it is not allowed for host `evil.example`; the operator can add that host to the secret"
        ],
    );
    check(
        "https://api.example.org.evil.example/",
        ("x", "secret:KEY"),
        expect![
            "secret `KEY` cannot be used here: it is not allowed for host `api.example.org.evil.example`; the operator can add that host to the secret"
        ],
    );
    check(
        "http://api.example.org/",
        ("x", "secret:KEY"),
        expect![
            "secret `KEY` cannot be used here: it is not sent over plain http; use `https://api.example.org`"
        ],
    );
    check(
        "https://127.0.0.1:9000/",
        ("x", "secret:KEY"),
        expect![
            "secret `KEY` cannot be used here: it is not allowed for host `127.0.0.1:9000`; the operator can add that host to the secret"
        ],
    );
    check(
        "https://api.example.org/",
        ("x", "secret:key"),
        expect![
            "secret `key` cannot be used here: no secret of that name is configured; the operator can add it"
        ],
    );
    check(
        "https://api.example.org/",
        ("x", "secret:nope"),
        expect![
            "secret `nope` cannot be used here: no secret of that name is configured; the operator can add it"
        ],
    );
    check(
        "https://other.example/",
        ("x", "secret:KEY"),
        expect![
            "secret `KEY` cannot be used here: it is not allowed for host `other.example`; the operator can add that host to the secret"
        ],
    );
}

#[test]
fn secrets_are_validated_and_never_displayed() {
    let rule = || vec![HostRule::parse("a.example").unwrap()];
    for (name, value, hosts) in [
        ("", "s3cr3t", rule()),
        ("a b", "s3cr3t", rule()),
        ("A", "", rule()),
        ("A", "s3cr3t\n", rule()),
        ("A", "s3cr3t\r\nx: y", rule()),
        ("A", "s3cr3t", vec![]),
        ("A", "s3cr3t", vec![HostRule::parse("*").unwrap()]),
    ] {
        let error = Secret::new(name, value, hosts).unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains("s3cr3t"),
            "{error:?}"
        );
    }
    assert!(!format!("{:?}", secrets()).contains("s3cr3t"));
}

/// A read-only tool may send data only together with a secret, so what looks like a reference must become one.
#[test]
fn a_header_refers_to_a_secret_only_if_the_secret_is_sent() {
    let long = format!("secret:{}", "a".repeat(65));
    let cases = [
        ("x-api-key", "secret:KEY", true),
        ("authorization", "Bearer secret:KEY", true),
        ("x-api-key", "secret:UNKNOWN", true),
        ("x-api-key", long.as_str(), false),
        ("x-api-key", "secret:", false),
        ("x-api-key", "a b secret:KEY", false),
        ("x-api-key", " secret:KEY ", false),
        ("te", "secret:KEY", false),
        ("keep-alive", "secret:KEY", false),
    ];
    for (name, value, expected) in cases {
        let mut target = Target::parse(&"https://api.example.org/".parse().unwrap(), 8192).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(
            HeaderName::try_from(name).unwrap(),
            HeaderValue::try_from(value).unwrap(),
        );
        assert_eq!(refers_to_secret(&headers), expected, "{name}: {value}");
        crate::headers::sanitize(&mut headers, &target, &crate::NetLimits::default()).unwrap();
        let sent = insert_secrets(&secrets(), &mut target, &mut headers)
            .map_or(true, |mask| !mask.is_empty());
        assert_eq!(sent, expected, "{name}: {value}");
    }
}

#[test]
fn a_query_that_is_too_long_with_its_secrets_is_an_error() {
    let secret = Secret::new("k", &"x".repeat(100), hosts("api.example.org")).unwrap();
    let query = vec!["a=secret:k"; 700].join("&");
    let url = format!("https://api.example.org/?{query}").parse().unwrap();
    let mut target = Target::parse(&url, 8192).unwrap();
    let error = insert_secrets(&[secret], &mut target, &mut HeaderMap::new()).unwrap_err();
    assert_eq!(error.code(), "bad_request");
}
