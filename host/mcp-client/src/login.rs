//! Logging in to a server by OAuth: the person's browser does it, and what comes back is kept in a file that only its
//! owner reads, bound to the address it was given for.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationManager, AuthorizationMetadataResolution,
    AuthorizationRequest, AuthorizationSession, CredentialStore, OAuthClientConfig,
    StoredCredentials, WWWAuthenticateParams,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use toolhost_contract::text;

use crate::config::{Address, Hidden, OAuth};
use crate::error::ServerError;
use crate::web::Bounded;

/// For a person to find the browser and the password.
const PATIENCE: Duration = Duration::from_mins(5);
const MAX_REQUEST: usize = 16 << 10;

/// What logins brought, a file for each server.
#[derive(Debug)]
pub struct Logins {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    /// Tokens of one address are never sent to another.
    url: String,
    credentials: StoredCredentials,
}

#[derive(Clone)]
struct File {
    path: PathBuf,
    url: String,
}

impl Logins {
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn file(&self, server: &str, address: &Address) -> File {
        // A server's name is letters, digits, `_` and `-`.
        File {
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

    /// A client that sends the token and renews it; None when nobody has logged in.
    pub async fn client(
        &self,
        server: &str,
        address: &Address,
        client: Bounded,
    ) -> Result<Option<AuthClient<Bounded>>, ServerError> {
        let file = self.file(server, address);
        let failed = |error: AuthError| ServerError::Connect {
            server: server.to_owned(),
            reason: address.hide(&text::inline(&format!("its login: {error}"), 300)),
        };
        let Some(stored) = file.read().map_err(failed)? else {
            return Ok(None);
        };
        let mut manager = AuthorizationManager::new(address.url.clone())
            .await
            .map_err(failed)?;
        manager.set_credential_store(file);
        let found = manager.resolve_metadata().await.map_err(failed)?;
        let secret = secret(&address.oauth, &stored, &found);
        manager.set_metadata(found.metadata);
        if !manager.initialize_from_store().await.map_err(failed)? {
            return Ok(None);
        }
        if let Some(secret) = secret {
            // What is kept has no secret in it, and without it nothing is renewed.
            let known = OAuthClientConfig::new(stored.client_id, address.url.as_str())
                .with_client_secret(&secret.0);
            manager.configure_client(known).map_err(failed)?;
        }
        Ok(Some(AuthClient::new(client, manager)))
    }

    /// Runs a login to its end. `challenge` is what the server said, if it is known; `show` gets the address that a
    /// person has to open.
    pub async fn login(
        &self,
        server: &str,
        address: &Address,
        challenge: Option<String>,
        show: impl FnOnce(&str),
    ) -> Result<(), ServerError> {
        crate::web::use_ring();
        let failed = |reason: String| ServerError::Connect {
            server: server.to_owned(),
            reason: address.hide(&text::inline(&format!("logging in: {reason}"), 500)),
        };
        let refused = |error: AuthError| failed(error.to_string());
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .map_err(|error| failed(error.to_string()))?;
        let port = listener
            .local_addr()
            .map_err(|error| failed(error.to_string()))?
            .port();
        let back = format!("http://127.0.0.1:{port}/callback");
        let mut manager = AuthorizationManager::new(address.url.clone())
            .await
            .map_err(refused)?;
        let file = self.file(server, address);
        let known = file.read().map_err(refused)?;
        manager.set_credential_store(file);
        let challenge = match challenge {
            Some(challenge) => Some(challenge),
            None => probe(server, address).await,
        };
        let found = manager
            .resolve_metadata_from_challenge(challenge.as_deref())
            .await
            .map_err(refused)?;
        manager.set_metadata(found.metadata);
        let request = request(address, &back, challenge, known);
        let session = AuthorizationSession::new(manager, request)
            .await
            .map_err(|(_, error)| refused(error))?;
        show(session.get_authorization_url());
        let answered = timeout(PATIENCE, callback(&listener)).await;
        let query = answered
            .map_err(|_| failed(format!("nobody came back within {} s", PATIENCE.as_secs())))?
            .map_err(|error| failed(error.to_string()))?;
        session
            .handle_callback_url(&format!("{back}?{query}"))
            .await
            .map_err(refused)?;
        Ok(())
    }
}

/// The operator's secret, if the login was made with it and those who hear it are those who heard it then.
fn secret<'a>(
    oauth: &'a OAuth,
    stored: &StoredCredentials,
    found: &AuthorizationMetadataResolution,
) -> Option<&'a Hidden> {
    let issuer = &found.metadata.issuer;
    // Where nobody says who issues tokens, the server itself does.
    let same = stored.issuer == *issuer && (issuer.is_some() || !found.source.is_discovered());
    let known = oauth.client_id.as_ref() == Some(&stored.client_id) && same;
    oauth.client_secret.as_ref().filter(|_| known)
}

fn request(
    address: &Address,
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
    // Whoever needs more keeps what there was.
    let wanted = challenge
        .as_deref()
        .and_then(|said| WWWAuthenticateParams::parse(said, &address.url).scope);
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

/// Asks the server for anything, to hear how it wants to be logged in to.
async fn probe(server: &str, address: &Address) -> Option<String> {
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
    let said = answer.headers().get("www-authenticate")?;
    said.to_str().ok().map(str::to_owned)
}

/// The words after `?` of the one request that brings a code; others are sent away.
async fn callback(listener: &TcpListener) -> io::Result<String> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let read = timeout(Duration::from_secs(10), query(&mut stream)).await;
        let Ok(Ok(Some(query))) = read else {
            let _ = answer(&mut stream, "404 Not Found", "Nothing is here.").await;
            continue;
        };
        let _ = answer(
            &mut stream,
            "200 OK",
            "You can close this page and go back to the terminal.",
        )
        .await;
        return Ok(query);
    }
}

async fn query(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut buffer).await?;
        if count == 0 || head.len() + count > MAX_REQUEST {
            return Ok(None);
        }
        head.extend_from_slice(&buffer[..count]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let query = target.strip_prefix("/callback?");
    Ok(query
        .filter(|query| method == Some("GET") && query.contains("state="))
        .map(str::to_owned))
}

async fn answer(stream: &mut TcpStream, status: &str, words: &str) -> io::Result<()> {
    let length = words.len();
    let reply = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{words}"
    );
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await
}

impl File {
    fn read(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let broken = |words: String| AuthError::CredentialStoreError(words);
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(broken(error.to_string())),
        };
        let kept: Kept = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
        Ok((kept.url == self.url).then_some(kept.credentials))
    }
}

#[async_trait]
impl CredentialStore for File {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        self.read()
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let kept = Kept {
            url: self.url.clone(),
            credentials,
        };
        write(&self.path, &kept).map_err(|error| AuthError::CredentialStoreError(error.to_string()))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(AuthError::CredentialStoreError(error.to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// Never readable to others, not even for a moment.
fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o600))?;
    serde_json::to_writer(&mut file, kept)?;
    file.flush()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn address(url: &str) -> Address {
        Address::parse("one", url, BTreeMap::new(), false).unwrap()
    }

    #[tokio::test]
    async fn tokens_lie_with_their_owner_and_belong_to_one_address() {
        let dir = tempfile::tempdir().unwrap();
        let logins = Logins::at(dir.path().join("logins"));
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

    #[tokio::test]
    async fn only_the_way_back_from_a_login_is_taken_for_one() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let said = |line: &'static str| async move {
            let mut stream = TcpStream::connect(at).await.unwrap();
            stream
                .write_all(format!("{line}\r\n\r\n").as_bytes())
                .await
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer.lines().next().unwrap().to_owned()
        };
        let asks = async {
            for line in [
                "GET / HTTP/1.1",
                "POST /callback?state=x HTTP/1.1",
                "GET /callback?code=x HTTP/1.1",
                "nonsense",
            ] {
                assert_eq!(said(line).await, "HTTP/1.1 404 Not Found", "{line}");
            }
            assert_eq!(
                said("GET /callback?code=a&state=b HTTP/1.1").await,
                "HTTP/1.1 200 OK"
            );
        };
        let (query, ()) = tokio::join!(callback(&listener), asks);
        assert_eq!(query.unwrap(), "code=a&state=b");
    }

    #[test]
    fn whoever_needs_more_keeps_what_there_was() {
        let known = StoredCredentials::new("me".to_owned(), None, vec!["read".to_owned()], None);
        let challenge = r#"Bearer error="insufficient_scope", scope="write read""#.to_owned();
        let request = request(
            &address("https://example.org/mcp"),
            "http://b",
            Some(challenge),
            Some(known),
        );
        assert_eq!(request.scopes, ["read", "write"]);
    }
}
