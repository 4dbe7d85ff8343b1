//! Strict parsing of URLs, so that the URL that a rule approved is the one fetched.

use toolhost_sdk::prelude::*;
use url::{Host, Url};

use crate::untrusted_text::inline;

/// The host's limit of a URL, in bytes.
const MAX_BYTES: usize = 8 << 10;

/// Parses an absolute `http` or `https` URL and removes its fragment.
pub fn parse(text: &str) -> Result<Url> {
    let bad = |why: &str| {
        Error::invalid_input(format!("`{}` cannot be fetched: {why}", inline(text)))
            .code("invalid_url")
            .recommend("write the complete URL, for example `https://example.org/page?x=1`")
    };
    if text.len() > MAX_BYTES {
        return Err(bad("it is longer than 8192 bytes"));
    }
    // Parsers disagree about these characters, so a host rule may have seen a different host.
    if text
        .chars()
        .any(|c| c == '\\' || c.is_control() || c.is_whitespace())
    {
        return Err(bad(
            "it contains white space, a control character or a backslash; encode them as `%XX`",
        ));
    }
    if !text.contains("://") {
        return Err(bad("it has no scheme; put `https://` before it"));
    }
    let mut url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("only `http` and `https` are supported"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        // Not shown, because it may contain a password.
        return Err(
            Error::invalid_input("the URL contains a user name or password; remove them")
                .code("invalid_url")
                .recommend("send a header `authorization` with `http_request` instead"),
        );
    }
    // A host has several spellings, and a rule may know a different one.
    let host = url.host_str().unwrap_or_default();
    if !host_of(text).eq_ignore_ascii_case(host) {
        return Err(bad(&format!(
            "its host is another spelling of `{host}`; write that"
        )));
    }
    url.set_fragment(None);
    Ok(url)
}

/// Replaces `http` by `https`, except for URLs without TLS support, and returns a note.
pub fn upgrade(url: Url, text: &str) -> (Url, Option<String>) {
    if url.scheme() != "http" || is_local(&url) || has_port(text) {
        return (url, None);
    }
    let mut safe = url.clone();
    if safe.set_scheme("https").is_err() {
        return (url, None);
    }
    let host = safe.host_str().unwrap_or_default();
    let note = format!(
        "fetched over https instead of http; to force http, add the port: http://{host}:80/"
    );
    (safe, Some(note))
}

/// Local names, names without a dot, and IP addresses have no certificates.
fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => !name.contains('.') || name.ends_with(".localhost"),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => true,
        None => false,
    }
}

/// `Url` drops the default port of a scheme, so the text is inspected.
fn has_port(text: &str) -> bool {
    let authority = authority(text);
    authority.len() > host_of(text).len() + 1
}

fn authority(text: &str) -> &str {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// The host as written.
fn host_of(text: &str) -> &str {
    let authority = authority(text);
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
        Some(_) | None => authority,
    }
}

/// The raw file instead of GitHub's page. GitHub redirects to another host, and the redirect has to come from GitHub:
/// the host refuses URLs that neither the input nor a response named.
pub fn github_raw(url: &Url) -> Option<Url> {
    if url.host_str() != Some("github.com") {
        return None;
    }
    let pieces: Vec<&str> = url.path_segments()?.collect();
    let [owner, repository, "blob", rest @ ..] = pieces.as_slice() else {
        return None;
    };
    if rest.len() < 2 || rest.iter().any(|piece| piece.is_empty()) {
        return None;
    }
    let path = rest.join("/");
    Url::parse(&format!(
        "https://github.com/{owner}/{repository}/raw/{path}"
    ))
    .ok()
}

/// Whether a redirect leads from GitHub to its file server.
pub fn is_github_file(from: &Url, to: &Url) -> bool {
    from.host_str() == Some("github.com") && to.host_str() == Some("raw.githubusercontent.com")
}

/// Whether both have the same host and port; the default ports of http and https are equivalent.
pub fn same_host(a: &Url, b: &Url) -> bool {
    let port = |url: &Url| url.port();
    a.host_str() == b.host_str() && port(a) == port(b)
}

/// Whether a redirect leads from https to http.
pub fn is_downgrade(from: &Url, to: &Url) -> bool {
    from.scheme() == "https" && to.scheme() == "http"
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let shown = match parse(text) {
            Ok(url) => {
                let (url, note) = upgrade(url, text);
                let raw = github_raw(&url).map_or_else(String::new, |raw| format!(" raw {raw}"));
                format!("{url}{}{raw}", note.map_or("", |_| " (upgraded)"))
            }
            Err(error) => format!("{} {error}", error.code.as_deref().unwrap_or_default()),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn addresses_are_read_as_browsers_read_them() {
        check("https://a.example", expect!["https://a.example/"]);
        check(
            "HTTPS://A.Example:443/x?q=1#part",
            expect!["https://a.example/x?q=1"],
        );
    }

    #[test]
    fn r_328_plain_http_becomes_https_where_that_can_be_expected() {
        check(
            "http://a.example/x",
            expect!["https://a.example/x (upgraded)"],
        );
        check("http://a.example:80/", expect!["http://a.example/"]);
        check("http://a.example:8080/", expect!["http://a.example:8080/"]);
        check("http://localhost/", expect!["http://localhost/"]);
        check("http://app.localhost/", expect!["http://app.localhost/"]);
        check("http://intranet/", expect!["http://intranet/"]);
        check("http://127.0.0.1/", expect!["http://127.0.0.1/"]);
        check("http://[::1]:80/", expect!["http://[::1]/"]);
        check("http://[::1]/", expect!["http://[::1]/"]);
    }

    #[test]
    fn r_328_a_file_on_github_is_fetched_itself() {
        check(
            "https://github.com/o/r/blob/main/src/lib.rs",
            expect![
                "https://github.com/o/r/blob/main/src/lib.rs raw https://github.com/o/r/raw/main/src/lib.rs"
            ],
        );
        check(
            "https://github.com/o/r/blob/main",
            expect!["https://github.com/o/r/blob/main"],
        );
        check("https://github.com/o/r", expect!["https://github.com/o/r"]);
    }

    #[test]
    fn a_host_is_written_as_it_is_judged() {
        for (text, host) in [
            ("https://bücher.example/", "xn--bcher-kva.example"),
            ("http://0x7f.1/", "127.0.0.1"),
            ("http://2130706433/", "127.0.0.1"),
            ("https://%65vil.example/", "evil.example"),
            ("http://[0:0::1]/", "[::1]"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            let wanted = format!("its host is another spelling of `{host}`; write that");
            assert!(error.ends_with(&wanted), "{error}");
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        check(
            "",
            expect!["invalid_url `` cannot be fetched: it has no scheme; put `https://` before it"],
        );
        check(
            "a.example",
            expect![
                "invalid_url `a.example` cannot be fetched: it has no scheme; put `https://` before it"
            ],
        );
        check(
            "ftp://a.example/",
            expect![
                "invalid_url `ftp://a.example/` cannot be fetched: only `http` and `https` are supported"
            ],
        );
        check(
            "file:///etc/passwd",
            expect![
                "invalid_url `file:///etc/passwd` cannot be fetched: only `http` and `https` are supported"
            ],
        );
        check(
            "https://",
            expect!["invalid_url `https://` cannot be fetched: empty host"],
        );
        check(
            "https://a b/",
            expect![
                "invalid_url `https://a b/` cannot be fetched: it contains white space, a control character or a backslash; encode them as `%XX`"
            ],
        );
        check(
            "https://a.example\\@b.example/",
            expect![[
                r"invalid_url `https://a.example\\@b.example/` cannot be fetched: it contains white space, a control character or a backslash; encode them as `%XX`"
            ]],
        );
        check(
            "https://ann:secret@a.example/",
            expect!["invalid_url the URL contains a user name or password; remove them"],
        );
        check(
            "https://a.example:99999/",
            expect![
                "invalid_url `https://a.example:99999/` cannot be fetched: invalid port number"
            ],
        );
    }
}
