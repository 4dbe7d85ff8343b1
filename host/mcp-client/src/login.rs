//! OAuth logins to servers through the user's browser. The credentials are stored in a file that only its owner can
//! read, and are bound to the URL they were issued for.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationManager, AuthorizationMetadataResolution,
    AuthorizationRequest, AuthorizationSession, CredentialRefreshGuard, CredentialStore,
    OAuthClientConfig, StoredCredentials, WWWAuthenticateParams,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};
use toolhost_contract::lifecycle::mask_text;
use toolhost_contract::text;
use toolhost_hostfiles::read_text;
use url::Url;

use crate::config::{HiddenValue, OAuth, ServerAddress};
use crate::error::ServerError;
use crate::web::BoundedClient;

mod endpoints;
#[cfg(test)]
mod fuzz;
mod redirect_listener;

use redirect_listener::RedirectListener;

/// How long the user has to complete a login.
const LOGIN_TIMEOUT: Duration = Duration::from_mins(5);
/// Timeout for finding the authorization server, and again for registering with it. There can be many candidates.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a host waits while another one renews the same login.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(60);
const REFRESH_POLL: Duration = Duration::from_millis(50);
/// Maximum size of a login URL, which contains an ID chosen by the authorization server.
const MAX_URL: usize = 8_000;
/// Maximum size of a credentials file.
const MAX_FILE: u64 = 1 << 20;

/// The stored logins, one file per server.
#[derive(Debug)]
pub struct LoginStore {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct StoredLogin {
    /// Tokens for one URL are never sent to another.
    url: String,
    credentials: StoredCredentials,
}

#[derive(Clone)]
struct LoginFile {
    path: PathBuf,
    url: String,
}

impl LoginStore {
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn file(&self, server: &str, address: &ServerAddress) -> LoginFile {
        // A server name consists of letters, digits, `_` and `-`.
        LoginFile {
            path: self.folder.join(format!("{server}.json")),
            url: address.url.to_string(),
        }
    }

    pub fn forget(&self, server: &str) -> io::Result<()> {
        match fs::remove_file(self.folder.join(format!("{server}.json"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns a client that sends the token and renews it, or `None` without a login at the authorization server that
    /// the server names now.
    pub async fn client(
        &self,
        server: &str,
        address: &ServerAddress,
        client: BoundedClient,
    ) -> Result<Option<AuthClient<BoundedClient>>, ServerError> {
        let file = self.file(server, address);
        let failed = |error: AuthError| ServerError::Connect {
            server: server.to_owned(),
            reason: sanitize(address, &format!("its login: {error}"), 300),
        };
        let unfit = |reason: String| ServerError::Connect {
            server: server.to_owned(),
            reason: sanitize(address, &format!("its login: {reason}"), 300),
        };
        let Some(stored) = file.read().map_err(failed)? else {
            return Ok(None);
        };
        let mut manager = AuthorizationManager::new(address.url.clone())
            .await
            .map_err(failed)?;
        manager.set_credential_store(file);
        let found = timeout(DISCOVERY_TIMEOUT, manager.resolve_metadata())
            .await
            .map_err(|_| unfit(discovery_timeout()))?
            .map_err(failed)?;
        // A refresh token is sent only to the server that issued it.
        if found.metadata.issuer != stored.issuer {
            return Ok(None);
        }
        endpoints::check_metadata(address, &found.metadata).map_err(unfit)?;
        let secret = client_secret(&address.oauth, &stored, &found);
        manager.set_metadata(found.metadata);
        if !manager.initialize_from_store().await.map_err(failed)? {
            return Ok(None);
        }
        if let Some(secret) = secret {
            // The stored registration contains no secret, which is required for renewal.
            let known = OAuthClientConfig::new(stored.client_id, address.url.as_str())
                .with_client_secret(&secret.0);
            manager.configure_client(known).map_err(failed)?;
        }
        Ok(Some(AuthClient::new(client, manager)))
    }

    /// Performs a login. `challenge` is the server's authentication challenge, if known; `show` receives the URL that
    /// the user must open.
    pub async fn login(
        &self,
        server: &str,
        address: &ServerAddress,
        challenge: Option<String>,
        show: impl FnOnce(&LoginPage<'_>),
    ) -> Result<(), ServerError> {
        crate::web::install_crypto_provider();
        let failed = |reason: String| ServerError::Connect {
            server: server.to_owned(),
            reason: sanitize(address, &format!("logging in: {reason}"), 500),
        };
        let refused = |error: AuthError| failed(error.to_string());
        let back = RedirectListener::listen()
            .await
            .map_err(|error| failed(error.to_string()))?;
        let begun = timeout(
            DISCOVERY_TIMEOUT,
            self.begin(server, address, challenge, &back.url),
        )
        .await;
        let session = begun
            .map_err(|_| failed(discovery_timeout()))?
            .map_err(failed)?;
        let page = LoginPage::of(session.get_authorization_url()).map_err(failed)?;
        show(&page);
        let answered = timeout(LOGIN_TIMEOUT, back.wait_for_redirect(&page.state)).await;
        let query = answered
            .map_err(|_| {
                failed(format!(
                    "the login was not completed within {} s",
                    LOGIN_TIMEOUT.as_secs()
                ))
            })?
            .map_err(|error| failed(error.to_string()))?;
        // A host that renews the earlier login must not write over this one.
        let file = self.file(server, address);
        let _guard = file.acquire_refresh_guard().await.map_err(refused)?;
        session
            .handle_callback_url(&format!("{}?{query}", back.url))
            .await
            .map_err(refused)?;
        Ok(())
    }

    /// Finds the authorization server and registers with it if needed.
    async fn begin(
        &self,
        server: &str,
        address: &ServerAddress,
        challenge: Option<String>,
        back: &str,
    ) -> Result<AuthorizationSession, String> {
        let message = |error: AuthError| match error {
            AuthError::NoAuthorizationSupport => {
                "the server offers no OAuth login; set a token in its `headers` as \
                 `Authorization = \"Bearer …\"`"
                    .to_owned()
            }
            error => error.to_string(),
        };
        let mut manager = AuthorizationManager::new(address.url.clone())
            .await
            .map_err(message)?;
        let file = self.file(server, address);
        let known = file.read().map_err(message)?;
        manager.set_credential_store(file);
        let challenge = match challenge {
            Some(challenge) => Some(challenge),
            None => probe_challenge(server, address).await,
        };
        let found = manager
            .resolve_metadata_from_challenge(challenge.as_deref())
            .await
            .map_err(message)?;
        endpoints::check_metadata(address, &found.metadata)?;
        if address.oauth.client_secret.is_some() {
            endpoints::check_issuer(known.as_ref(), &found.metadata)?;
        }
        manager.set_metadata(found.metadata);
        let request = authorization_request(address, back, challenge, known);
        let session = Box::pin(AuthorizationSession::new(manager, request)).await;
        session.map_err(|(_, error)| error.to_string())
    }
}

/// The page that the user opens in a browser.
#[derive(Debug)]
pub struct LoginPage<'a> {
    pub url: &'a str,
    /// The host where the user logs in.
    pub host: String,
    /// The scopes that the login requests.
    pub scopes: String,
    state: String,
}

impl<'a> LoginPage<'a> {
    fn of(url: &'a str) -> Result<Self, String> {
        if url.len() > MAX_URL {
            return Err(format!(
                "the login URL is {} bytes, the limit is {MAX_URL}",
                url.len()
            ));
        }
        let parsed = Url::parse(url).map_err(|error| error.to_string())?;
        let member = |wanted: &str| {
            let found = parsed.query_pairs().filter(|(name, _)| name == wanted);
            // The last occurrence is ours: the authorization endpoint can contain a query.
            found.last().map(|(_, value)| value.into_owned())
        };
        Ok(Self {
            url,
            host: parsed.host_str().unwrap_or_default().to_owned(),
            scopes: member("scope").unwrap_or_default(),
            state: member("state").ok_or("the login URL has no `state`")?,
        })
    }
}

fn discovery_timeout() -> String {
    format!(
        "its authorization server was not found within {} s",
        DISCOVERY_TIMEOUT.as_secs()
    )
}

/// Text of other parties for a message: secrets masked, escaped and truncated.
fn sanitize(address: &ServerAddress, message: &str, max: usize) -> String {
    text::escape_line(&mask_text(&address.mask(message)), max)
}

/// Returns the operator's client secret if the login was made with it and its recipient has not changed.
fn client_secret<'a>(
    oauth: &'a OAuth,
    stored: &StoredCredentials,
    found: &AuthorizationMetadataResolution,
) -> Option<&'a HiddenValue> {
    let issuer = &found.metadata.issuer;
    // Without a named issuer, the server itself issues tokens.
    let same = stored.issuer == *issuer && (issuer.is_some() || !found.source.is_discovered());
    let known = oauth.client_id.as_ref() == Some(&stored.client_id) && same;
    oauth.client_secret.as_ref().filter(|_| known)
}

fn authorization_request(
    address: &ServerAddress,
    back: &str,
    challenge: Option<String>,
    known: Option<StoredCredentials>,
) -> AuthorizationRequest {
    let oauth = &address.oauth;
    let mut request = AuthorizationRequest::new(back).with_client_name("Toolhost");
    if let Some(id) = &oauth.client_id {
        request = request.with_preregistered_client(id);
    }
    if let Some(secret) = &oauth.client_secret {
        request = request.with_client_secret(&secret.0);
    }
    if let Some(url) = &oauth.client_metadata_url {
        request = request.with_client_metadata_url(url);
    }
    // Requests for more scopes keep the granted ones.
    let wanted = challenge
        .as_deref()
        .and_then(|challenge| WWWAuthenticateParams::parse(challenge, &address.url).scope);
    let mut scopes: Vec<String> = oauth.scopes.clone();
    if let (Some(wanted), Some(known)) = (wanted, known) {
        scopes.extend(known.granted_scopes);
        scopes.extend(wanted.split_whitespace().map(str::to_owned));
    }
    scopes.sort_unstable();
    scopes.dedup();
    if !scopes.is_empty() {
        request = request.with_scopes(scopes);
    }
    if let Some(challenge) = challenge {
        request = request.with_challenge(challenge);
    }
    request
}

/// Sends a request to the server to obtain its authentication challenge.
async fn probe_challenge(server: &str, address: &ServerAddress) -> Option<String> {
    let client = crate::web::client(server, address).ok()?;
    let message =
        serde_json::json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {}});
    let mut request = client
        .post(address.url.clone())
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(message.to_string());
    for (name, value) in &address.headers {
        request = request.header(name, &value.0);
    }
    let answer = timeout(Duration::from_secs(20), request.send()).await;
    let answer = answer.ok()?.ok()?;
    let challenge = answer.headers().get("www-authenticate")?;
    challenge.to_str().ok().map(str::to_owned)
}

impl LoginFile {
    fn read(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let broken = |message: String| {
            let path = self.path.display();
            let remedy = "delete this file and log in again";
            AuthError::CredentialStoreError(format!("{path}: {message}; {remedy}"))
        };
        let text = match read_text(&self.path, MAX_FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(broken(error.to_string())),
        };
        let stored: StoredLogin =
            serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
        Ok((stored.url == self.url).then_some(stored.credentials))
    }
}

#[async_trait]
impl CredentialStore for LoginFile {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        self.read()
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let stored = StoredLogin {
            url: self.url.clone(),
            credentials,
        };
        write(&self.path, &stored)
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(AuthError::CredentialStoreError(error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Several hosts share a login. A server that replaces refresh tokens can revoke all of them if one is used twice.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let path = self.path.with_extension("lock");
        let failed = |error: io::Error| {
            AuthError::CredentialStoreError(format!("cannot lock {}: {error}", path.display()))
        };
        create_folder(&path).map_err(failed)?;
        let mut options = File::options();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        let end = Instant::now() + REFRESH_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(CredentialRefreshGuard::new(file))),
                Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(REFRESH_POLL).await,
                Err(error) => return Err(failed(error.into())),
            }
        }
    }
}

/// Creates the directory of a file. Only the user can read it.
fn create_folder(path: &Path) -> io::Result<&Path> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    Ok(folder)
}

/// The file is never readable by others, not even temporarily.
fn write(path: &Path, stored: &StoredLogin) -> io::Result<()> {
    let folder = create_folder(path)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o600))?;
    serde_json::to_writer(&mut file, stored)?;
    file.flush()?;
    // A server can have invalidated the earlier tokens.
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn address(url: &str) -> ServerAddress {
        ServerAddress::parse("one", url, BTreeMap::new(), false).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn hosts_renew_a_login_one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let logins = LoginStore::in_folder(dir.path().to_owned());
        let one = logins.file("one", &address("https://example.org/mcp"));
        let same = logins.file("one", &address("https://example.org/mcp"));
        let guard = one.acquire_refresh_guard().await.unwrap();
        let mut second = std::pin::pin!(same.acquire_refresh_guard());
        let waiting = timeout(Duration::from_secs(10), &mut second).await;
        assert!(waiting.is_err());
        drop(guard);
        assert!(second.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn tokens_are_private_and_bound_to_one_url() {
        let dir = tempfile::tempdir().unwrap();
        let logins = LoginStore::in_folder(dir.path().join("logins"));
        let file = logins.file("one", &address("https://example.org/mcp"));
        assert!(file.load().await.unwrap().is_none());
        let credentials =
            StoredCredentials::new("me".to_owned(), None, vec!["read".to_owned()], None);
        file.save(credentials).await.unwrap();
        let mode = file.path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(file.load().await.unwrap().unwrap().client_id, "me");
        let other = logins.file("one", &address("https://evil.example.net/mcp"));
        assert!(other.load().await.unwrap().is_none());
        logins.forget("one").unwrap();
        logins.forget("one").unwrap();
        assert!(file.load().await.unwrap().is_none());
        fs::write(&file.path, "{").unwrap();
        assert!(file.load().await.is_err());
    }

    #[test]
    fn requesting_more_scopes_keeps_the_granted_ones() {
        let known = StoredCredentials::new("me".to_owned(), None, vec!["read".to_owned()], None);
        let challenge = r#"Bearer error="insufficient_scope", scope="write read""#.to_owned();
        let request = authorization_request(
            &address("https://example.org/mcp"),
            "http://b",
            Some(challenge),
            Some(known),
        );
        assert_eq!(request.scopes, ["read", "write"]);
    }
}
