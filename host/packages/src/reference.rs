//! References: where a plugin comes from.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use toolhost_contract::{Digest, text};
use url::{Host, Url};

/// Maximum length of a reference in bytes.
const MAX_LEN: usize = 512;
const MAX_TAG_LEN: usize = 128;
const DEFAULT_TAG: &str = "latest";
/// Completes a URL of a pattern, which needs no digest.
const ANY_DIGEST: &str = "#sha256=0000000000000000000000000000000000000000000000000000000000000000";
/// Start of the tags with lists of revoked versions.
pub const REVOKED_TAG: &str = "toolhost-revoked";

/// Where a plugin comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Reference {
    Registry(RegistryReference),
    /// One version of a file, which never changes.
    Url {
        url: String,
        digest: Digest,
    },
    File(PathBuf),
}

/// A package in an OCI registry: `HOST[:PORT]/REPOSITORY[:TAG][@DIGEST]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryReference {
    /// Host and port.
    pub registry: String,
    pub repository: String,
    pub tag: String,
    /// The digest of its manifest.
    pub digest: Option<Digest>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{reference}` is not a reference: {reason}")]
pub struct ReferenceError {
    reference: String,
    reason: String,
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(reference: &str) -> Result<Self, ReferenceError> {
        let parsed = if reference.len() > MAX_LEN || reference.chars().any(text::is_hidden) {
            Err(format!("it must have at most {MAX_LEN} visible characters"))
        } else if is_url(reference) {
            parse_url(reference)
        } else if is_path(reference) {
            Ok(Self::File(reference.into()))
        } else {
            parse_registry(reference).map(Self::Registry)
        };
        parsed.map_err(|reason| ReferenceError {
            reference: text::escape_line(reference, 120),
            reason,
        })
    }
}

fn is_path(reference: &str) -> bool {
    let first = reference.split('/').next().unwrap_or_default();
    matches!(first, "" | "." | ".." | "~")
        || Path::new(reference)
            .extension()
            .is_some_and(|extension| extension == "wasm")
}

fn is_url(reference: &str) -> bool {
    reference.starts_with("https://") || reference.starts_with("http://")
}

fn parse_url(url: &str) -> Result<Reference, String> {
    let Some((url, digest)) = url.split_once("#sha256=") else {
        let reason = "a URL needs the digest of the file: append `#sha256=` and the 64 digits";
        return Err(reason.to_owned());
    };
    let digest = Digest::parse(&format!("sha256:{digest}")).map_err(|error| error.to_string())?;
    let url = file_url(url)?.into();
    Ok(Reference::Url { url, digest })
}

/// The address of a file, or its start.
fn file_url(url: &str) -> Result<Url, String> {
    let url = canonical_url(url)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL must not contain a user name or password".to_owned());
    }
    if url.scheme() != "https" && !is_loopback(&url) {
        return Err("http is possible on this machine only; use https".to_owned());
    }
    Ok(url)
}

/// Whether the host is this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn parse_registry(reference: &str) -> Result<RegistryReference, String> {
    let forms = "use `REGISTRY/NAME:TAG` (for example `registry.example.org/ann/notes:1.0`), a path such as `./notes.wasm`, \
                 or `https://…/notes.wasm#sha256=DIGEST`";
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => {
            let digest = Digest::parse(digest).map_err(|error| error.to_string())?;
            (rest, Some(digest))
        }
        None => (reference, None),
    };
    let (registry, rest) = rest.split_once('/').ok_or(forms)?;
    let registry = canonical_registry(registry).ok_or(forms)?;
    let (repository, tag) = rest.rsplit_once(':').unwrap_or((rest, DEFAULT_TAG));
    if !repository.split('/').all(is_path_component) {
        let reason =
            "the name has lower-case letters, digits and single separators (`.`, `_`, `-`)";
        return Err(reason.to_owned());
    }
    if !is_tag(tag) {
        let reason = "a tag has up to 128 letters, digits, `_`, `.` and `-`";
        return Err(reason.to_owned());
    }
    if tag.starts_with("sha256-") || tag.starts_with(REVOKED_TAG) {
        return Err("this tag is for signatures or revocations; name another one".to_owned());
    }
    Ok(RegistryReference {
        registry,
        repository: repository.to_owned(),
        tag: tag.to_owned(),
        digest,
    })
}

/// Returns a pattern for sources in the form in which sources are compared with it. `*` at its end matches any rest. A
/// pattern that can match no source is an error.
pub fn source_pattern(pattern: &str) -> Result<String, String> {
    let canonical = if pattern.len() > MAX_LEN || pattern.chars().any(text::is_hidden) {
        Err(format!("it must have at most {MAX_LEN} visible characters"))
    } else {
        match pattern.strip_suffix('*') {
            Some("") => Ok(pattern.to_owned()),
            Some(start) if !start.contains('*') => canonical_start(start).map(|start| start + "*"),
            None if !pattern.contains('*') => canonical_whole(pattern),
            Some(_) | None => Err("`*` is possible at its end only".to_owned()),
        }
    };
    canonical.map_err(|reason| {
        let pattern = text::escape_line(pattern, 120);
        format!("`{pattern}` matches no source: {reason}")
    })
}

/// The canonical form of a pattern without `*`: a reference whose tag or digest can be omitted.
fn canonical_whole(pattern: &str) -> Result<String, String> {
    if pattern.is_empty() {
        return Err("it is empty; write `*` for all sources".to_owned());
    }
    if pattern.ends_with('/') {
        return Err("add `*` at its end for all names that start with it".to_owned());
    }
    if is_url(pattern) {
        let has_digest = pattern.contains("#sha256=");
        let digest = if has_digest { "" } else { ANY_DIGEST };
        let url = parse_url(&format!("{pattern}{digest}"))?.to_string();
        let whole = if has_digest {
            &url
        } else {
            url.trim_end_matches(ANY_DIGEST)
        };
        return Ok(whole.to_owned());
    }
    if is_path(pattern) {
        check_path(pattern)?;
        let path = canonical_path(pattern, pattern);
        return if Path::new(&path).is_dir() {
            Err("it is a directory; add `/*` for the files in it".to_owned())
        } else {
            Ok(path)
        };
    }
    if pattern.contains('@') {
        return Err("omit the digest".to_owned());
    }
    let reference = parse_registry(pattern)?;
    let (_, rest) = pattern.split_once('/').unwrap_or_default();
    Ok(format!("{}/{rest}", reference.registry))
}

/// The canonical form of the text before the `*` of a pattern, which can end within a name.
fn canonical_start(start: &str) -> Result<String, String> {
    if is_url(start) {
        let url = file_url(start)?;
        let is_digest = |fragment: &str| {
            let hex = fragment.strip_prefix("sha256=");
            "sha256=".starts_with(fragment)
                || hex.is_some_and(|hex| Digest::parse(&format!("sha256:{hex:0<64}")).is_ok())
        };
        return if url.fragment().is_none_or(is_digest) {
            Ok(url.into())
        } else {
            Err("after `#` comes `sha256=` and the digest".to_owned())
        };
    }
    if is_path(start) {
        check_path(start)?;
        let (directory, _) = start.rsplit_once('/').unwrap_or_default();
        return Ok(canonical_path(start, directory));
    }
    if start.contains('@') {
        return Err("omit the digest".to_owned());
    }
    let (host, rest) = start
        .split_once('/')
        .ok_or("write `REGISTRY/*` for all packages of a registry")?;
    let registry = canonical_registry(host).ok_or("it does not start with a registry")?;
    // What is complete by adding a character is the start of something valid.
    parse_registry(&format!("{start}0"))?;
    Ok(format!("{registry}/{rest}"))
}

/// Refuses a path that no file has in its canonical form.
fn check_path(path: &str) -> Result<(), String> {
    if !path.starts_with('/') {
        return Err("start a path with `/`".to_owned());
    }
    if path.split('/').any(|part| part == ".." || part == ".") {
        return Err("its path has `.` or `..`".to_owned());
    }
    if path.contains("//") {
        return Err("its path has an empty name".to_owned());
    }
    Ok(())
}

fn canonical_url(url: &str) -> Result<Url, String> {
    let mut url = Url::parse(url).map_err(|error| error.to_string())?;
    // `example.org.` is the same host.
    let host = url.host_str().and_then(|host| host.strip_suffix('.'));
    if let Some(host) = host.map(str::to_owned) {
        url.set_host(Some(&host))
            .map_err(|error| error.to_string())?;
    }
    Ok(url)
}

/// Replaces symbolic links in the part of a path that exists, because sources of files are paths without them. `complete` is
/// the part of the path that has complete names only.
fn canonical_path(path: &str, complete: &str) -> String {
    for existing in Path::new(complete).ancestors() {
        let real = existing.canonicalize().ok();
        if let Some(real) = real.as_deref().and_then(Path::to_str) {
            let rest = &path[existing.as_os_str().len()..];
            if rest.is_empty() {
                return real.to_owned();
            }
            let rest = rest.trim_start_matches('/');
            return format!("{}/{rest}", real.trim_end_matches('/'));
        }
    }
    path.to_owned()
}

/// A host with a dot or a port, so that a directory is not taken for a host. Each host has one form, because rules are
/// compared with it.
fn canonical_registry(registry: &str) -> Option<String> {
    let registry = registry.to_ascii_lowercase();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    let is_named = registry == "localhost" || registry.contains(['.', ':']);
    if !is_named || registry.len() > 255 || !registry.chars().all(is_allowed) {
        return None;
    }
    let url = canonical_url(&format!("https://{registry}/")).ok()?;
    let host = url.host_str()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        // Also for the default port.
        None => host.to_owned(),
    })
}

/// A component of a name, as defined by the OCI distribution specification.
fn is_path_component(part: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.starts_with(is_word)
        && part.ends_with(is_word)
        && part.chars().all(|c| is_word(c) || "._-".contains(c))
        && !["..", "._", "_.", "___", ".-", "-.", "_-", "-_"]
            .iter()
            .any(|separators| part.contains(separators))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.len() <= MAX_TAG_LEN
        && tag.starts_with(is_word)
        && tag.chars().all(|c| is_word(c) || c == '.' || c == '-')
}

impl RegistryReference {
    /// The reference to a manifest with this digest in the same repository.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self {
            digest: Some(digest),
            ..self.clone()
        }
    }

    #[must_use]
    pub fn with_tag(&self, tag: &str) -> Self {
        Self {
            tag: tag.to_owned(),
            digest: None,
            ..self.clone()
        }
    }

    /// The last component of the repository.
    pub fn name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for RegistryReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.registry, self.repository, self.tag)?;
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(reference) => fmt::Display::fmt(reference, f),
            Self::Url { url, digest } => write!(f, "{url}#sha256={}", digest.hex()),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> Self {
        reference.to_string()
    }
}

impl TryFrom<String> for Reference {
    type Error = ReferenceError;

    fn try_from(text: String) -> Result<Self, ReferenceError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_parse_and_print() {
        let digest = "sha256:".to_owned() + &"ab".repeat(32);
        let pinned = format!("r.example.org/ann/notes:1@{digest}");
        let url = format!("https://example.org/n.wasm#sha256={}", "ab".repeat(32));
        for (text, printed) in [
            ("r.example.org/ann/notes", "r.example.org/ann/notes:latest"),
            ("127.0.0.1:5000/n:1.0-a", "127.0.0.1:5000/n:1.0-a"),
            ("[::1]:5000/n:1", "[::1]:5000/n:1"),
            ("LOCALHOST:05000/n:1", "localhost:5000/n:1"),
            ("r.example.org:443/n:1", "r.example.org/n:1"),
            ("r.example.org./n:1", "r.example.org/n:1"),
            (&pinned, &pinned),
            (&url, &url),
            ("./notes.wasm", "./notes.wasm"),
            ("dir/notes.wasm", "dir/notes.wasm"),
            ("/a/b", "/a/b"),
        ] {
            let parsed: Reference = text.parse().unwrap();
            assert_eq!(parsed.to_string(), printed);
        }
    }

    #[test]
    fn patterns_have_the_form_of_sources() {
        let directory = tempfile::tempdir().unwrap();
        for (pattern, expected) in [
            ("*", "*"),
            ("R.example.org:443/ann/*", "r.example.org/ann/*"),
            ("r.example.org./n:1", "r.example.org/n:1"),
            ("https://Example.org*", "https://example.org/*"),
            ("/opt/plugins/*", "/opt/plugins/*"),
            ("/opt/plugins/a.wasm", "/opt/plugins/a.wasm"),
            ("r.example.org/*", "r.example.org/*"),
            ("r.example.org/ann/notes", "r.example.org/ann/notes"),
            ("r.example.org/ann/notes-*", "r.example.org/ann/notes-*"),
            ("r.example.org/ann/notes:*", "r.example.org/ann/notes:*"),
            (
                "r.example.org/ann/notes:V1.*",
                "r.example.org/ann/notes:V1.*",
            ),
            ("http://127.0.0.1:80/*", "http://127.0.0.1/*"),
            (
                "https://example.org/n.wasm?a=1",
                "https://example.org/n.wasm?a=1",
            ),
            (
                "https://example.org/n.wasm#sha256=ab*",
                "https://example.org/n.wasm#sha256=ab*",
            ),
        ] {
            assert_eq!(source_pattern(pattern).as_deref(), Ok(expected));
        }
        for (pattern, reason) in [
            ("./plugins/*", "start a path with `/`"),
            ("/opt/../home/*", "`.` or `..`"),
            ("r.example.org/*/n", "at its end only"),
            ("r.example.org*", "write `REGISTRY/*`"),
            ("ann/notes", "use `REGISTRY/NAME:TAG`"),
            ("ann/*", "does not start with a registry"),
            ("r.example.org/n@sha256:12", "omit the digest"),
            ("r.example.org/n@sha256:12*", "omit the digest"),
            ("", "is empty"),
            ("r.example.org/ann/", "add `*`"),
            ("r.example.org/", "add `*`"),
            ("https://example.org/", "add `*`"),
            ("/opt/plugins/", "add `*`"),
            ("/", "add `*`"),
            (directory.path().to_str().unwrap(), "add `/*`"),
            ("/opt//plugins/*", "an empty name"),
            ("r.example.org/ann/notes:", "a tag"),
            ("r.example.org/ann/notes:bad tag", "a tag"),
            ("r.example.org/ann/notes:bad tag*", "a tag"),
            ("r.example.org/ann/notes:-*", "a tag"),
            ("r.example.org/ann/notes:sha256-*", "for signatures"),
            ("r.example.org/ann//x", "lower-case"),
            ("r.example.org/ann//x*", "lower-case"),
            ("r.example.org/ann/no tes", "lower-case"),
            ("r.example.org/ann/no tes/*", "lower-case"),
            ("r.example.org/Ann/*", "lower-case"),
            ("http://example.org/*", "use https"),
            ("https://me@example.org/*", "user name"),
            ("https://example.org/n.wasm#sha1=*", "after `#`"),
            ("r.example.org/\u{202e}*", "visible"),
        ] {
            let error = source_pattern(pattern).unwrap_err();
            assert!(error.contains(reason), "{pattern}: {error}");
        }
    }

    #[test]
    fn invalid_references_name_the_reason() {
        for (text, reason) in [
            ("notes", "use `REGISTRY/NAME:TAG`"),
            ("ann/notes", "use `REGISTRY/NAME:TAG`"),
            ("r.example.org/Ann", "lower-case"),
            ("r.example.org/ann//n", "lower-case"),
            ("r.example.org/..", "lower-case"),
            ("r.example.org/n:", "a tag"),
            ("r.example.org/n:toolhost-revoked-1", "revocations"),
            ("https://me@example.org/n.wasm#sha256=", "not a digest"),
            ("r.example.org/n:a b", "a tag"),
            ("r.example.org/n@sha256:12", "not a digest"),
            ("https://example.org/n.wasm", "needs the digest"),
            (
                &format!("http://example.org/n.wasm{ANY_DIGEST}"),
                "use https",
            ),
            ("r.example.org/n\u{202e}", "visible"),
            ("user:pass@r.example.org/n", "not a digest"),
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!("a".repeat(600).parse::<Reference>().is_err());
    }
}
