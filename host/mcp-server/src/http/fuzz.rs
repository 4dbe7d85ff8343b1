//! Fuzz targets for HTTP request bodies and heads.

use std::panic::AssertUnwindSafe;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde_json::Value;
use toolhost_contract::value_counter::count_values_and_names;
use toolhost_fuzz_input::{assembled, check_message};
use url::Url;

use super::limits::HttpLimits;
use super::message_kind::inspect;
use super::origin_policy::{AllowedOrigin, HostName, OriginPolicy, RequestOrigin};
use super::token::Tokens;
use super::token_quota::TokenQuotas;
use crate::fuzz::message;

#[test]
fn fuzz_body() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let body = message(bytes);
        let looked = inspect(body.as_bytes());
        let Ok(value) = serde_json::from_str::<Value>(&body) else {
            return;
        };
        assert!(
            count(&value) <= count_values_and_names(body.as_bytes()),
            "{body}"
        );
        if !value.is_object() {
            assert!(looked.is_err(), "{body}");
        }
    });
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(elements) => elements.iter().map(count).sum::<usize>(),
        Value::Object(members) => members.values().map(|value| 1 + count(value)).sum(),
        _ => 0,
    }
}

const HEADS: &[&str] = &[
    "\n",
    ": ",
    "/mcp\n",
    "/mcp?token=a\n",
    "*\n",
    "http://",
    "https://",
    "host: ",
    "Host:",
    "origin: ",
    "authorization: ",
    "Bearer ",
    "bearer  ",
    "Basic ",
    "localhost",
    "LOCALHOST",
    "127.0.0.1",
    "[::1]",
    "::1",
    "[0:0:0:0:0:0:0:1]",
    "10.0.0.7",
    "tools.example.org",
    "app.example.org",
    "dev.example.org",
    "evil.example",
    ":8080",
    ":443",
    ":80",
    ":0",
    ":*",
    ".",
    "@",
    "/",
    "#",
    "?",
    "\\",
    "%6c",
    "null",
    "aaaaaaaaaaaaaaaaaaaaaaaa",
    "bbbbbbbbbbbbbbbbbbbbbbbb",
    "é",
    "\t",
    ",",
];

/// Input: a request target in the first line, a header in each other line.
#[test]
fn fuzz_head() {
    let (ann, bob) = ("a".repeat(24), "b".repeat(24));
    let tokens = Tokens::parse(&format!("ann {ann}\nbob {bob}"), "f").unwrap();
    let shares = TokenQuotas::new(Some(tokens), &HttpLimits::default());
    let doors = OriginPolicy::new(
        vec![
            HostName::parse("tools.example.org").unwrap(),
            HostName::parse("10.0.0.7:8080").unwrap(),
        ],
        vec![
            AllowedOrigin::parse("https://app.example.org").unwrap(),
            AllowedOrigin::parse("https://dev.example.org:*").unwrap(),
        ],
    );
    let shares = AssertUnwindSafe(shares);
    bolero::check!().for_each(|bytes: &[u8]| {
        let shares = &*shares;
        let head = assembled(bytes, HEADS);
        let mut lines = head.lines();
        let Ok(target) = lines.next().unwrap_or_default().parse::<Uri>() else {
            return;
        };
        let mut headers = HeaderMap::new();
        for line in lines {
            if let Err(error) = HostName::parse(line) {
                check_message(&error.to_string());
            }
            if let Err(error) = AllowedOrigin::parse(line) {
                check_message(&error.to_string());
            }
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            // As hyper parses it: trimmed, any bytes except control characters.
            let value = HeaderValue::from_bytes(value.trim_matches([' ', '\t']).as_bytes());
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value) {
                headers.append(name, value);
            }
        }
        if let Ok(visitor) = doors.check(&target, &headers) {
            check_door(&target, &headers, visitor);
        }
        let value = match &headers.get_all("authorization").iter().collect::<Vec<_>>()[..] {
            [one] => one.to_str().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        let token = value
            .to_ascii_lowercase()
            .starts_with("bearer ")
            .then(|| value[7..].trim());
        let expected = match token {
            Some(token) if token == ann => Some("ann"),
            Some(token) if token == bob => Some("bob"),
            _ => None,
        };
        let share = shares.authenticate(&headers).ok();
        assert_eq!(
            share.and_then(|share| share.user.name()),
            expected,
            "{value}"
        );
    });
}

/// Checks an accepted request with the URL parser of browsers.
fn check_door(target: &Uri, headers: &HeaderMap, visitor: RequestOrigin) {
    const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
    let text = |name: &str| {
        let mut values = headers.get_all(name).iter();
        let value = values
            .next()
            .map(|value| value.to_str().unwrap().to_owned());
        assert!(values.next().is_none(), "two {name} headers");
        value
    };
    let host = text("host").expect("a host");
    let url = Url::parse(&format!("http://{host}/")).expect(&host);
    assert!(url.username().is_empty() && url.path() == "/", "{host}");
    match url.host_str().unwrap_or_default() {
        "tools.example.org" => {}
        "10.0.0.7" => assert_eq!(url.port(), Some(8080), "{host}"),
        name => assert!(LOCAL.contains(&name), "{host}"),
    }
    if let Some(authority) = target.authority() {
        let named = Url::parse(&format!("http://{authority}/")).unwrap();
        assert_eq!(named.host(), url.host(), "{target}");
        assert_eq!(named.port(), url.port(), "{target}");
    }
    let origin = text("origin");
    assert_eq!(origin.is_some(), visitor == RequestOrigin::WebPage);
    let Some(origin) = origin else { return };
    let page = Url::parse(&origin).expect(&origin);
    match page.host_str().unwrap_or_default() {
        "app.example.org" => assert_eq!(
            page.origin().ascii_serialization(),
            "https://app.example.org"
        ),
        "dev.example.org" => assert_eq!(page.scheme(), "https", "{origin}"),
        name => assert!(LOCAL.contains(&name), "{origin}"),
    }
}
