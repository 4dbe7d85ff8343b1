//! Checks the metadata of an authorization server against the server that named it.

use rmcp::transport::auth::{AuthorizationMetadata, StoredCredentials};
use toolhost_contract::text;
use url::{Host, Url};

use crate::config::ServerAddress;

/// Refuses metadata that would send a login, a code or a secret to the wrong host. An error is a complete message.
///
/// - Every endpoint must use TLS, unless the operator allows plain http for the server itself.
/// - The login page must belong to the issuer. Otherwise an issuer that names the page of another authorization server
///   would receive the code of that login together with the code verifier (a mix-up attack).
pub fn check_metadata(
    address: &ServerAddress,
    metadata: &AuthorizationMetadata,
) -> Result<(), String> {
    let page = check_endpoint(
        address,
        "authorization_endpoint",
        &metadata.authorization_endpoint,
    )?;
    check_endpoint(address, "token_endpoint", &metadata.token_endpoint)?;
    if let Some(registration) = &metadata.registration_endpoint {
        check_endpoint(address, "registration_endpoint", registration)?;
    }
    let issuer = match &metadata.issuer {
        Some(issuer) => check_endpoint(address, "issuer", issuer)?,
        None => address.url.clone(),
    };
    if is_related(&issuer, &page) || address.oauth.hosts.iter().any(|host| is_host(&page, host)) {
        return Ok(());
    }
    Err(format!(
        "the authorization server {} sends the login to {}, another host; if they belong together, add \
         `hosts = [\"{}\"]` to `oauth` of the server",
        host(&issuer),
        host(&page),
        host(&page)
    ))
}

/// A client secret is sent only to the authorization server that it was used with before.
pub fn check_issuer(
    known: Option<&StoredCredentials>,
    metadata: &AuthorizationMetadata,
) -> Result<(), String> {
    let Some(before) = known.and_then(|known| known.issuer.as_deref()) else {
        return Ok(());
    };
    let now = metadata.issuer.as_deref();
    if now == Some(before) {
        return Ok(());
    }
    Err(format!(
        "its authorization server is now {}, and the client secret was used with {}; if that is right, remove the \
         server and add it again",
        text::escape_line(now.unwrap_or("not named"), 200),
        text::escape_line(before, 200)
    ))
}

fn check_endpoint(address: &ServerAddress, name: &str, endpoint: &str) -> Result<Url, String> {
    let refuse =
        |reason: &str| format!("its {name} `{}` {reason}", text::escape_line(endpoint, 200));
    let url = Url::parse(endpoint).map_err(|_| refuse("is not a URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("contains a password"));
    }
    let is_open = address.url.scheme() == "http"
        && (url.host() == address.url.host() || is_loopback(&url) && is_loopback(&address.url));
    match url.scheme() {
        "https" if url.host().is_some() => Ok(url),
        "http" if is_open => Ok(url),
        "http" => Err(refuse("would be used without encryption")),
        _ => Err(refuse("is neither https nor http")),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// Whether the hosts are equal, or one is a subdomain of the other. Two subdomains of a common domain can have
/// different owners.
fn is_related(issuer: &Url, page: &Url) -> bool {
    match (issuer.host(), page.host()) {
        (Some(Host::Domain(a)), Some(Host::Domain(b))) => {
            a == b || is_subdomain(a, b) || is_subdomain(b, a)
        }
        (a, b) => a == b,
    }
}

fn is_subdomain(name: &str, above: &str) -> bool {
    // A name without a dot, such as `com`, has no single owner.
    above.contains('.')
        && name
            .strip_suffix(above)
            .is_some_and(|front| front.ends_with('.'))
}

fn is_host(url: &Url, host: &str) -> bool {
    url.host_str()
        .is_some_and(|own| own.eq_ignore_ascii_case(host))
}

fn host(url: &Url) -> String {
    text::escape_line(url.host_str().unwrap_or_default(), 200)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn metadata(issuer: &str, page: &str, token: &str) -> AuthorizationMetadata {
        let mut document = json!({"authorization_endpoint": page, "token_endpoint": token});
        if !issuer.is_empty() {
            document["issuer"] = json!(issuer);
        }
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn w_01_w_02_a_login_uses_tls_and_the_issuer() {
        let https = "https://mcp.example.org/mcp";
        let token = "https://tokens.example.net/token";
        for (server, issuer, page, token, refused) in [
            (
                https,
                "https://auth.example.net",
                "https://auth.example.net/a",
                token,
                "",
            ),
            (
                https,
                "https://example.net/x",
                "https://login.example.net/a",
                token,
                "",
            ),
            (
                https,
                "https://mcp.example.net",
                "https://example.net/a",
                token,
                "",
            ),
            (https, "", "https://mcp.example.org/authorize", token, ""),
            // A page with a different owner, including under a common domain.
            (
                https,
                "https://evil.example",
                "https://accounts.example.net/a",
                token,
                "another host",
            ),
            (
                https,
                "https://evil.workers.dev",
                "https://good.workers.dev/a",
                token,
                "another host",
            ),
            (
                https,
                "https://example.net",
                "https://evilexample.net/a",
                token,
                "another host",
            ),
            (
                https,
                "https://com",
                "https://example.com/a",
                token,
                "another host",
            ),
            (
                https,
                "",
                "https://accounts.example.net/a",
                token,
                "another host",
            ),
            (
                https,
                "https://1.2.3.4",
                "https://2.3.4/a",
                token,
                "another host",
            ),
            // Without encryption, or not a web page.
            (
                https,
                "https://a.example",
                "http://a.example/a",
                token,
                "without encryption",
            ),
            (
                https,
                "https://a.example",
                "https://a.example/a",
                "http://a.example/t",
                "without encryption",
            ),
            (
                https,
                "http://a.example",
                "https://a.example/a",
                token,
                "without encryption",
            ),
            (
                https,
                "https://a.example",
                "javascript:alert(1)",
                token,
                "neither https nor http",
            ),
            (
                https,
                "https://a.example",
                "file:///etc/passwd",
                token,
                "neither https nor http",
            ),
            (
                https,
                "https://a.example",
                "https://u:p@a.example/",
                token,
                "password",
            ),
            (
                https,
                "https://a.example",
                "https://a.example/a",
                "no address",
                "not a URL",
            ),
            (
                https,
                "http://127.0.0.1:1",
                "http://127.0.0.1:1/a",
                token,
                "without encryption",
            ),
            // On this machine.
            (
                "http://127.0.0.1:1/mcp",
                "http://127.0.0.1:2",
                "http://127.0.0.1:2/a",
                "http://localhost:2/t",
                "",
            ),
            (
                "http://127.0.0.1:1/mcp",
                "http://a.example",
                "http://a.example/a",
                token,
                "without encryption",
            ),
        ] {
            let address = ServerAddress::parse("one", server, BTreeMap::new(), false).unwrap();
            let found = check_metadata(&address, &metadata(issuer, page, token)).err();
            let found = found.unwrap_or_default();
            assert!(
                found.contains(refused) && found.is_empty() == refused.is_empty(),
                "{issuer} {page} {token}: {found}"
            );
        }
    }

    #[test]
    fn w_02_the_operator_can_allow_another_login_host() {
        let mut address =
            ServerAddress::parse("one", "https://mcp.example.org/mcp", BTreeMap::new(), false)
                .unwrap();
        let metadata_document = metadata(
            "https://a.example",
            "https://login.example.net/a",
            "https://a.example/t",
        );
        let refused = check_metadata(&address, &metadata_document).unwrap_err();
        assert!(
            refused.contains(r#"`hosts = ["login.example.net"]`"#),
            "{refused}"
        );
        address.oauth.hosts = vec!["Login.example.net".to_owned()];
        assert_eq!(check_metadata(&address, &metadata_document), Ok(()));
    }

    #[test]
    fn w_04_a_client_secret_stays_with_its_authorization_server() {
        let known = |issuer: Option<&str>| {
            StoredCredentials::new("me".to_owned(), None, Vec::new(), None)
                .with_issuer(issuer.map(str::to_owned))
        };
        let metadata_document = metadata(
            "https://a.example",
            "https://a.example/a",
            "https://a.example/t",
        );
        assert_eq!(check_issuer(None, &metadata_document), Ok(()));
        assert_eq!(check_issuer(Some(&known(None)), &metadata_document), Ok(()));
        assert_eq!(
            check_issuer(Some(&known(Some("https://a.example"))), &metadata_document),
            Ok(())
        );
        for before in ["https://b.example", "https://a.example/"] {
            assert!(check_issuer(Some(&known(Some(before))), &metadata_document).is_err());
        }
        let silent = metadata("", "https://a.example/a", "https://a.example/t");
        assert!(check_issuer(Some(&known(Some("https://a.example"))), &silent).is_err());
    }
}
