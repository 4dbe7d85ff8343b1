//! Tests of request heads: what is sent, removed and refused.

use expect_test::{Expect, expect};

use super::*;

fn check(url: &str, head: &[(&str, &str)], expected: Expect) {
    let target = Target::parse(&url.parse().unwrap(), 8192).unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in head {
        headers.append(
            HeaderName::try_from(*name).unwrap(),
            HeaderValue::try_from(*value).unwrap(),
        );
    }
    let text = match sanitize(&mut headers, &target, &NetLimits::default()) {
        Ok(length) => {
            let lines: Vec<String> = headers
                .iter()
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect();
            format!("length {length:?}, {}", lines.join(", "))
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&text);
}

// NET-10
#[test]
fn the_host_header_matches_the_url() {
    check(
        "http://Example.org/x",
        &[],
        expect!["length None, host: example.org, connection: close"],
    );
    check(
        "https://example.org:8443/",
        &[("host", "EXAMPLE.org:8443"), ("accept", "a")],
        expect!["length None, host: example.org:8443, accept: a, connection: close"],
    );
    check(
        "https://[::1]/",
        &[
            ("connection", "keep-alive, x-a"),
            ("te", "trailers"),
            ("x-a", "1"),
        ],
        expect!["length None, x-a: 1, host: [::1], connection: close"],
    );
    check(
        "http://a.b/",
        &[("content-length", "5")],
        expect!["length Some(5), host: a.b, connection: close"],
    );
}

// NET-10
#[test]
fn request_smuggling_is_refused() {
    check(
        "http://a.b/",
        &[("host", "evil.example")],
        expect![
            "bad request: header `host` is `evil.example`, but the URL has `a.b`; remove the header"
        ],
    );
    check(
        "http://a.b/",
        &[("host", "a.b"), ("host", "evil.example")],
        expect![
            "bad request: header `host` is `evil.example`, but the URL has `a.b`; remove the header"
        ],
    );
    check(
        "http://a.b/",
        &[("host", "a.b:81")],
        expect!["bad request: header `host` is `a.b:81`, but the URL has `a.b`; remove the header"],
    );
    check(
        "http://a.b/",
        &[("transfer-encoding", "chunked")],
        expect!["bad request: header `transfer-encoding` is reserved for the host; remove it"],
    );
    check(
        "http://a.b/",
        &[("upgrade", "websocket")],
        expect!["bad request: header `upgrade` is reserved for the host; remove it"],
    );
    check(
        "http://a.b/",
        &[("proxy-authorization", "Basic x")],
        expect!["bad request: header `proxy-authorization` is reserved for the host; remove it"],
    );
    check(
        "http://a.b/",
        &[("x-forwarded-for", "127.0.0.1")],
        expect!["bad request: header `x-forwarded-for` is reserved for the host; remove it"],
    );
    check(
        "http://a.b/",
        &[("content-length", "+5")],
        expect!["bad request: header `content-length` is not a number; remove it"],
    );
    check(
        "http://a.b/",
        &[("content-length", "5"), ("content-length", "6")],
        expect!["bad request: header `content-length` is set more than once; remove it"],
    );
    check(
        "http://a.b/",
        &[("content-length", "5, 5")],
        expect!["bad request: header `content-length` is not a number; remove it"],
    );
    check(
        "http://a.b/",
        &[("content-length", "99999999999999999999")],
        expect!["bad request: header `content-length` is too large; remove it"],
    );
}

// NET-09
#[test]
fn line_breaks_in_headers_are_refused() {
    for text in ["a\r\nx: y", "a\nb", "a\rb", "a\0b"] {
        HeaderValue::try_from(text).unwrap_err();
        HeaderName::try_from(text).unwrap_err();
        Method::from_bytes(text.as_bytes()).unwrap_err();
        format!("http://a.b/{text}")
            .parse::<http::Uri>()
            .unwrap_err();
    }
}

// NET-14
#[test]
fn a_head_is_bounded() {
    let target = Target::parse(&"http://a.b".parse().unwrap(), 8192).unwrap();
    for (count, length, ok) in [
        (100, 10, true),
        (101, 10, false),
        (9, 8000, false),
        (1, 60_000, true),
    ] {
        let mut headers = HeaderMap::new();
        for index in 0..count {
            let name = HeaderName::try_from(format!("x-{index}")).unwrap();
            headers.append(name, HeaderValue::try_from("v".repeat(length)).unwrap());
        }
        let answer = sanitize(&mut headers, &target, &NetLimits::default());
        assert_eq!(answer.is_ok(), ok, "{count} headers of {length} bytes");
    }
}

// NET-11
#[test]
fn methods_that_tunnel_or_echo_are_refused() {
    for (method, ok) in [
        ("GET", true),
        ("HEAD", true),
        ("POST", true),
        ("PATCH", true),
        ("OPTIONS", true),
        ("PROPFIND", true),
        ("CONNECT", false),
        ("TRACE", false),
        ("TRACK", false),
        ("get", false),
        ("G!T", false),
        ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", false),
    ] {
        let answer = check_method(&Method::from_bytes(method.as_bytes()).unwrap());
        assert_eq!(answer.is_ok(), ok, "{method}: {answer:?}");
    }
}
