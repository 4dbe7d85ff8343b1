//! Requests to one registry: addresses, login, redirects and limits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use docker_credential::{CredentialRetrievalError, DockerCredential};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use serde::Deserialize;
use toolhost_contract::text;
use toolhost_net::{
    AllowedHosts, HostRule, NetClient, NetError, NetLimits, NetSettings, ResponseBody, Timeouts,
};
use url::{Origin, Url};

use crate::error::PackageError;
use crate::fetch::MAX_PLUGIN;
use crate::reference::is_loopback;

/// Maximum size of a manifest, an index, a token or an error, in bytes.
pub const MAX_DOCUMENT: u64 = 256 << 10;
const MAX_REDIRECTS: usize = 3;
const DOCUMENT_TIMEOUT: Duration = Duration::from_mins(1);
const FILE_TIMEOUT: Duration = Duration::from_mins(10);
const CREDENTIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// A synchronization of a thousand packages takes about seven requests each.
const MAX_REQUESTS_PER_MINUTE: usize = 10_000;

/// What may be done with a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    Pull,
    Push,
}

/// The download of a plugin file that is running, in bytes. Both are 0 without one.
#[derive(Debug, Default)]
pub struct Transfer {
    received: AtomicU64,
    /// 0 if the server does not state it.
    total: AtomicU64,
}

impl Transfer {
    fn set(&self, received: u64, total: u64) {
        self.received.store(received, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// How much was received, and how much there is.
    pub fn progress(&self) -> (u64, u64) {
        let received = self.received.load(Ordering::Relaxed);
        (received, self.total.load(Ordering::Relaxed))
    }
}

pub struct Connections {
    pub transfer: Arc<Transfer>,
    /// For documents.
    documents: NetClient,
    /// For plugin files, with a longer timeout.
    files: NetClient,
    /// Values of the header `Authorization`, by registry, repository and access.
    logins: Mutex<HashMap<(String, String, Access), HeaderValue>>,
}

/// A request to a repository.
pub struct Call<'a> {
    pub registry: &'a str,
    pub repository: &'a str,
    pub access: Access,
    pub method: Method,
    /// Below `/v2/`, or absolute. Without a repository, the address of a file.
    pub path: &'a str,
    pub accept: &'a [&'a str],
    pub body: Option<(&'a str, Bytes)>,
    pub limit: u64,
    /// For errors.
    pub what: &'a str,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The media type without parameters.
    pub fn media_type(&self) -> String {
        let value = self.header("content-type").unwrap_or_default();
        let media_type = value.split(';').next().unwrap_or_default();
        media_type.trim().to_ascii_lowercase()
    }
}

impl Default for Connections {
    fn default() -> Self {
        let client = |response_bytes, total| {
            NetClient::new(NetSettings {
                limits: NetLimits {
                    response_bytes,
                    upload_bytes: MAX_PLUGIN,
                    per_minute: MAX_REQUESTS_PER_MINUTE,
                    per_host_per_minute: MAX_REQUESTS_PER_MINUTE,
                    longest: Timeouts {
                        total,
                        ..Timeouts::default()
                    },
                    ..NetLimits::default()
                },
                ..NetSettings::default()
            })
        };
        Self {
            transfer: Arc::default(),
            documents: client(MAX_DOCUMENT, DOCUMENT_TIMEOUT),
            files: client(MAX_PLUGIN, FILE_TIMEOUT),
            logins: Mutex::default(),
        }
    }
}

/// The address of a registry. On this machine, registries use http.
fn base(registry: &str) -> Result<Url, PackageError> {
    // The API of Docker Hub has another name.
    let host = if registry == "docker.io" {
        "registry-1.docker.io"
    } else {
        registry
    };
    let parse = |scheme: &str| Url::parse(&format!("{scheme}://{host}/v2/"));
    let url = parse("https").map_err(|_| PackageError::NotARegistry {
        registry: registry.to_owned(),
        what: "an address".to_owned(),
        reason: "it is not a host".to_owned(),
    })?;
    let url = if is_loopback(&url) {
        parse("http")
    } else {
        Ok(url)
    };
    Ok(url.expect("it was parsed with another scheme"))
}

/// The rule that allows this origin, and private addresses only for the host that the user named.
fn rule(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(443);
    format!("{}://{host}:{port}", url.scheme())
}

impl Connections {
    /// Sends a request, logs in if the registry requires it, and follows redirects of downloads.
    pub async fn send(&self, call: &Call<'_>) -> Result<Answer, PackageError> {
        let base = match Url::parse(call.path) {
            Ok(file) if call.repository.is_empty() => file,
            _ => base(call.registry)?,
        };
        let url = base.join(call.path).map_err(|_| PackageError::Redirect {
            registry: call.registry.to_owned(),
            reason: "it is not a URL".to_owned(),
        })?;
        // A registry that names another host for an upload must not get the file or the login.
        if url.origin() != base.origin() {
            return Err(PackageError::Redirect {
                registry: call.registry.to_owned(),
                reason: format!("it leads to {}", rule(&url)),
            });
        }
        let (answer, from) = self.follow(call, url.clone(), self.login(call)).await?;
        // Another server, to which the registry redirected, must not get the login.
        if answer.status != StatusCode::UNAUTHORIZED || from != base.origin() {
            return Ok(answer);
        }
        let Some(login) = self.log_in(call, &base, &answer).await? else {
            return Err(PackageError::Unauthorized {
                registry: call.registry.to_owned(),
                tried: "without login",
            });
        };
        let (answer, _) = self.follow(call, url, Some(login)).await?;
        if matches!(
            answer.status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
        ) {
            return Err(PackageError::Unauthorized {
                registry: call.registry.to_owned(),
                tried: "with the login of the Docker configuration, if there is one",
            });
        }
        Ok(answer)
    }

    fn login(&self, call: &Call<'_>) -> Option<HeaderValue> {
        let logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
        logins.get(&login_key(call)).cloned()
    }

    /// Returns the answer and the origin that it comes from.
    async fn follow(
        &self,
        call: &Call<'_>,
        start: Url,
        login: Option<HeaderValue>,
    ) -> Result<(Answer, Origin), PackageError> {
        let mut url = start.clone();
        for _ in 0..=MAX_REDIRECTS {
            let same_origin = url.origin() == start.origin();
            let login = login.as_ref().filter(|_| same_origin);
            let answer = self.exchange(call, &start, &url, login).await?;
            if !answer.status.is_redirection() || call.method != Method::GET {
                return Ok((answer, url.origin()));
            }
            let refused = |reason: &str| PackageError::Redirect {
                registry: call.registry.to_owned(),
                reason: reason.to_owned(),
            };
            let location = answer.header(LOCATION.as_str());
            let next = location.and_then(|location| url.join(location).ok());
            url = next.ok_or_else(|| refused("it names no URL"))?;
            if url.scheme() != "https" && url.origin() != start.origin() {
                return Err(refused("it does not use https"));
            }
        }
        Err(PackageError::Redirect {
            registry: call.registry.to_owned(),
            reason: format!("more than {MAX_REDIRECTS} redirects"),
        })
    }

    async fn exchange(
        &self,
        call: &Call<'_>,
        start: &Url,
        url: &Url,
        login: Option<&HeaderValue>,
    ) -> Result<Answer, PackageError> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(url.as_str());
        if !call.accept.is_empty() {
            request = request.header(ACCEPT, call.accept.join(", "));
        }
        if let Some(login) = login {
            request = request.header(AUTHORIZATION, login);
        }
        let (media_type, body) = call.body.clone().unwrap_or_default();
        if !media_type.is_empty() {
            request = request.header(CONTENT_TYPE, media_type);
        }
        let request = request.body(Full::new(body)).map_err(|error| {
            let reason = text::escape_line(&error.to_string(), 200);
            PackageError::NotARegistry {
                registry: call.registry.to_owned(),
                what: call.what.to_owned(),
                reason,
            }
        })?;
        let rules = [rule(start), "https://*".to_owned()];
        let rules = rules.iter().map(|rule| HostRule::parse(rule));
        let allowed = AllowedHosts {
            rules: rules
                .collect::<Result<_, _>>()
                .map_err(|error| PackageError::Redirect {
                    registry: call.registry.to_owned(),
                    reason: error.to_string(),
                })?,
            denied: Vec::new(),
        };
        // Uploads take as long as downloads.
        let client = if call.limit > MAX_DOCUMENT || call.body.is_some() {
            &self.files
        } else {
            &self.documents
        };
        let client = client.with_rules(allowed, Vec::new());
        let too_large = || PackageError::TooLarge {
            what: call.what.to_owned(),
            limit: call.limit,
        };
        let failed = |error| match error {
            // The advice is for requests of tools.
            NetError::BodyTooLarge { .. } => too_large(),
            error => PackageError::Net(error),
        };
        let response = client.send(request, Timeouts::MAX).await.map_err(failed)?;
        let (head, body) = response.into_parts();
        let body = self.receive(body, call.limit > MAX_DOCUMENT).await;
        let body = body.map_err(failed)?;
        if body.len() as u64 > call.limit {
            return Err(too_large());
        }
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body,
        })
    }

    async fn receive(&self, mut body: ResponseBody, is_file: bool) -> Result<Vec<u8>, NetError> {
        let total = body.size_hint().exact().unwrap_or(0);
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                bytes.extend_from_slice(&data);
            }
            if is_file {
                self.transfer.set(bytes.len() as u64, total);
            }
        }
        self.transfer.set(0, 0);
        Ok(bytes)
    }

    /// Answers the challenge of a registry. Returns `None` if there is no way to.
    async fn log_in(
        &self,
        call: &Call<'_>,
        base: &Url,
        answer: &Answer,
    ) -> Result<Option<HeaderValue>, PackageError> {
        let challenge = answer.header(WWW_AUTHENTICATE.as_str()).unwrap_or_default();
        let (scheme, parameters) = challenge.split_once(' ').unwrap_or((challenge, ""));
        let credentials = credentials(call.registry).await?;
        let basic = credentials.map(|(user, password)| {
            let encoded = STANDARD.encode(format!("{user}:{password}"));
            format!("Basic {encoded}")
        });
        let login = if scheme.eq_ignore_ascii_case("basic") {
            basic
        } else if scheme.eq_ignore_ascii_case("bearer") {
            Some(self.token(call, base, parameters, basic).await?)
        } else {
            None
        };
        let Some(login) = login else { return Ok(None) };
        let mut value = HeaderValue::from_str(&login).map_err(|_| PackageError::Credentials {
            registry: call.registry.to_owned(),
            reason: "they contain characters that a header cannot contain".to_owned(),
        })?;
        value.set_sensitive(true);
        let mut logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
        logins.insert(login_key(call), value.clone());
        Ok(Some(value))
    }

    /// Gets a token for the repository from the server that the challenge names.
    async fn token(
        &self,
        call: &Call<'_>,
        base: &Url,
        parameters: &str,
        basic: Option<String>,
    ) -> Result<String, PackageError> {
        #[derive(Deserialize)]
        struct Token {
            token: Option<String>,
            access_token: Option<String>,
        }
        let failed = |reason: &str| PackageError::NotARegistry {
            registry: call.registry.to_owned(),
            what: "a login".to_owned(),
            reason: reason.to_owned(),
        };
        let parameters = challenge_parameters(parameters);
        let realm = parameters.get("realm").ok_or_else(|| failed("no realm"))?;
        let mut realm = Url::parse(realm).map_err(|_| failed("the realm is not a URL"))?;
        if realm.scheme() != "https" && realm.origin() != base.origin() {
            return Err(failed("the realm does not use https"));
        }
        let actions = match call.access {
            Access::Pull => "pull",
            Access::Push => "pull,push",
        };
        let scope = format!("repository:{}:{actions}", call.repository);
        {
            let mut query = realm.query_pairs_mut();
            if let Some(service) = parameters.get("service") {
                query.append_pair("service", service);
            }
            query.append_pair("scope", &scope);
        }
        let basic = basic.and_then(|basic| HeaderValue::from_str(&basic).ok());
        let request = Call {
            method: Method::GET,
            accept: &[],
            body: None,
            limit: MAX_DOCUMENT,
            what: "a login",
            ..*call
        };
        // The rules allow private addresses only for the registry itself.
        let answer = self
            .exchange(&request, base, &realm, basic.as_ref())
            .await?;
        if !answer.status.is_success() {
            return Err(PackageError::Unauthorized {
                registry: call.registry.to_owned(),
                tried: "its token server refused",
            });
        }
        let token: Token =
            serde_json::from_slice(&answer.body).map_err(|_| failed("no token in the answer"))?;
        let token = token.token.or(token.access_token);
        let token = token.ok_or_else(|| failed("no token in the answer"))?;
        Ok(format!("Bearer {token}"))
    }
}

fn login_key(call: &Call<'_>) -> (String, String, Access) {
    (
        call.registry.to_owned(),
        call.repository.to_owned(),
        call.access,
    )
}

/// The parameters `name="value"` of a challenge.
fn challenge_parameters(text: &str) -> HashMap<String, String> {
    let mut rest = text;
    let mut parameters = HashMap::new();
    while let Some((name, after)) = rest.split_once("=\"") {
        let Some((value, after)) = after.split_once('"') else {
            break;
        };
        let name = name.trim_matches([' ', ',']).to_ascii_lowercase();
        parameters.insert(name, value.to_owned());
        rest = after;
    }
    parameters
}

/// The user name and password of the Docker configuration, or of its credential helper.
async fn credentials(registry: &str) -> Result<Option<(String, String)>, PackageError> {
    let failed = |reason: String| PackageError::Credentials {
        registry: registry.to_owned(),
        reason: text::escape_line(&reason, 200),
    };
    let server = if registry == "docker.io" {
        "https://index.docker.io/v1/".to_owned()
    } else {
        registry.to_owned()
    };
    let asking = tokio::task::spawn_blocking(move || docker_credential::get_credential(&server));
    let answer = tokio::time::timeout(CREDENTIAL_TIMEOUT, asking).await;
    let answer = answer.map_err(|_| failed("the credential helper does not answer".to_owned()))?;
    match answer.map_err(|error| failed(error.to_string()))? {
        Ok(DockerCredential::UsernamePassword(user, password)) => Ok(Some((user, password))),
        Ok(DockerCredential::IdentityToken(_)) => Err(failed(
            "identity tokens are not supported; log in with a user name and an access token"
                .to_owned(),
        )),
        Err(
            CredentialRetrievalError::NoCredentialConfigured
            | CredentialRetrievalError::ConfigNotFound
            | CredentialRetrievalError::ConfigReadError,
        ) => Ok(None),
        // What helpers print for an unknown registry.
        Err(CredentialRetrievalError::HelperFailure { stdout, .. })
            if stdout.starts_with("credentials not found") =>
        {
            Ok(None)
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registries_on_this_machine_use_http() {
        for (registry, url) in [
            ("r.example.org", "https://r.example.org/v2/"),
            ("r.example.org:5000", "https://r.example.org:5000/v2/"),
            ("10.0.0.1:5000", "https://10.0.0.1:5000/v2/"),
            ("127.0.0.1:5000", "http://127.0.0.1:5000/v2/"),
            ("localhost:5000", "http://localhost:5000/v2/"),
            ("[::1]:5000", "http://[::1]:5000/v2/"),
            ("localhost.example.org", "https://localhost.example.org/v2/"),
            ("docker.io", "https://registry-1.docker.io/v2/"),
        ] {
            assert_eq!(base(registry).unwrap().as_str(), url);
        }
    }

    #[test]
    fn challenges_are_parsed() {
        let text = r#"realm="https://a.example/token",service="r",scope="repository:n:pull,push""#;
        let parameters = challenge_parameters(text);
        assert_eq!(parameters["realm"], "https://a.example/token");
        assert_eq!(parameters["scope"], "repository:n:pull,push");
        assert_eq!(parameters.len(), 3);
        assert!(challenge_parameters("realm=\"unfinished").is_empty());
    }
}
