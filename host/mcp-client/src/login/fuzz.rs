//! Fuzz targets for logins: the metadata of an authorization server, and the redirect from a browser.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use rmcp::transport::auth::AuthorizationMetadata;
use toolhost_fuzz_input::{assembled, check_message};
use url::Url;

use super::endpoints;
use super::redirect_listener::{has_state, read_query};
use crate::config::ServerAddress;

const METADATA: &[&str] = &[
    "{",
    "}",
    ",",
    ":",
    "\"",
    "\"issuer\":",
    "\"authorization_endpoint\":",
    "\"token_endpoint\":",
    "\"registration_endpoint\":",
    "\"https://",
    "\"http://",
    "https://",
    "http://",
    "javascript:",
    "a.example",
    "login.a.example",
    "evil.example",
    "evila.example",
    "localhost",
    "x.localhost",
    "127.0.0.1",
    "[::1]",
    "com",
    ":1",
    "/authorize",
    "/token\"",
    "user:pass@",
    "@",
    "\\\\",
    ".",
    "\\u202e",
    "\\n",
    "#",
    "?",
    "%2e",
    "null",
];

#[test]
fn fuzz_metadata() {
    let servers = ["https://mcp.a.example/mcp", "http://127.0.0.1:1/mcp"];
    let servers =
        servers.map(|url| ServerAddress::parse("one", url, BTreeMap::new(), false).unwrap());
    let servers = std::panic::AssertUnwindSafe(servers);
    bolero::check!().for_each(|bytes: &[u8]| {
        let servers = &*servers;
        let text = assembled(bytes, METADATA);
        let Ok(metadata) = serde_json::from_str::<AuthorizationMetadata>(&text) else {
            return;
        };
        for server in servers {
            match endpoints::check_metadata(server, &metadata) {
                Err(reason) => check_message(&reason),
                Ok(()) => check_endpoints(&server.url, &metadata),
            }
        }
    });
}

/// Nothing leaves the machine without encryption, and the login page belongs to the issuer.
fn check_endpoints(server: &Url, metadata: &AuthorizationMetadata) {
    let is_ours = |url: &Url| {
        let host = url.host_str().unwrap_or_default();
        matches!(host, "127.0.0.1" | "[::1]" | "localhost") || host.ends_with(".localhost")
    };
    let read = |endpoint: &str| {
        let url = Url::parse(endpoint).expect(endpoint);
        assert!(
            url.username().is_empty() && url.password().is_none(),
            "{endpoint}"
        );
        let is_local = server.scheme() == "http" && is_ours(server);
        let in_clear = is_local && url.scheme() == "http";
        let on_machine =
            is_ours(&url) || url.host_str().is_some_and(|host| host.starts_with("127."));
        assert!(
            url.scheme() == "https" || in_clear && on_machine,
            "{endpoint}"
        );
        url
    };
    let page = read(&metadata.authorization_endpoint);
    read(&metadata.token_endpoint);
    metadata
        .registration_endpoint
        .iter()
        .for_each(|endpoint| drop(read(endpoint)));
    let issuer = metadata
        .issuer
        .as_deref()
        .map_or_else(|| server.clone(), read);
    let (page, issuer) = (page.host_str().unwrap(), issuer.host_str().unwrap());
    let is_below = |name: &str, above: &str| name.ends_with(&format!(".{above}"));
    assert!(
        page == issuer || is_below(page, issuer) || is_below(issuer, page),
        "{page} {issuer}"
    );
}

const REQUESTS: &[&str] = &[
    "GET ",
    "POST ",
    "/callback?",
    "/callback",
    "/",
    "http://127.0.0.1/callback?",
    "code=a",
    "state=",
    "s3cret",
    "&",
    "=",
    "+",
    "%73",
    "%26",
    "#",
    "xstate=",
    ";",
    " HTTP/1.1\r\n",
    "\r\n\r\n",
    "\n\n",
    "host: x\r\n",
    " ",
    "\0",
];

#[test]
fn fuzz_callback() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let request = assembled(bytes, REQUESTS);
        let read = read_query(&mut request.as_bytes()).now_or_never();
        let Ok(Some(query)) = read.expect("no read is pending") else {
            return;
        };
        let line = request.lines().next().unwrap_or_default();
        assert!(line.starts_with("GET /callback?"), "{line}");
        if has_state(&query, "s3cret") {
            let url = Url::parse(&format!("http://127.0.0.1/callback?{query}")).expect(&query);
            // A `#` ends the query of a URL, and a browser does not send what follows.
            let pairs = url::form_urlencoded::parse(query.as_bytes());
            let states: Vec<_> = pairs.filter(|(name, _)| name == "state").collect();
            assert!(states.len() == 1 && states[0].1 == "s3cret", "{url}");
        }
    });
}
