//! Tests of logins with a hostile server or authorization server.

use toolhost_contract::text;
use url::Url;

use super::*;
use crate::error::ServerError;

/// The responses of a local authorization server.
#[derive(Clone)]
struct AuthorizationServer {
    /// Members of its metadata that replace the defaults; null omits one.
    metadata: Value,
    registration: (u16, String),
    token: (u16, String),
}

impl Default for AuthorizationServer {
    fn default() -> Self {
        let token = json!({"access_token": "new", "token_type": "bearer", "refresh_token": "r"});
        Self {
            metadata: json!({}),
            registration: (
                201,
                json!({"client_id": "me", "redirect_uris": []}).to_string(),
            ),
            token: (200, token.to_string()),
        }
    }
}

/// Starts a server that is its own authorization server. Returns its URL and the requests that it received.
async fn start_issuer(
    authorization_server: AuthorizationServer,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    let at: Arc<Mutex<String>> = Arc::default();
    let url = {
        let (received, at) = (Arc::clone(&received), Arc::clone(&at));
        serve(Arc::new(move |request: &Request| {
            let host = at.lock().unwrap().clone();
            let line = request.line.as_str();
            received
                .lock()
                .unwrap()
                .push(format!("{line} {}", request.body));
            let json = |(status, body): &(u16, String)| {
                let kind = ("content-type".to_owned(), "application/json".to_owned());
                (*status, vec![kind], body.clone())
            };
            if line.contains("/.well-known/oauth-protected-resource") {
                let document =
                    json!({"resource": format!("{host}/mcp"), "authorization_servers": [host]});
                json(&(200, document.to_string()))
            } else if line.contains("/.well-known/oauth-authorization-server") {
                let mut document = json!({
                    "issuer": host, "authorization_endpoint": format!("{host}/authorize"),
                    "token_endpoint": format!("{host}/token"), "response_types_supported": ["code"],
                    "registration_endpoint": format!("{host}/register"),
                    "code_challenge_methods_supported": ["S256"],
                });
                for (name, value) in authorization_server.metadata.as_object().unwrap() {
                    document[name] = value.clone();
                }
                document
                    .as_object_mut()
                    .unwrap()
                    .retain(|_, value| !value.is_null());
                json(&(200, document.to_string()))
            } else if line.contains("/register") {
                json(&authorization_server.registration)
            } else if line.contains("/token") {
                json(&authorization_server.token)
            } else {
                let challenge = ("www-authenticate".to_owned(), "Bearer".to_owned());
                (401, vec![challenge], String::new())
            }
        }))
        .await
    };
    url.strip_suffix("/mcp")
        .unwrap()
        .clone_into(&mut at.lock().unwrap());
    (url, received)
}

/// A login by a user who accepts everything. Returns its result and the URLs that were opened.
async fn login(url: &str, folder: &std::path::Path) -> (Result<(), ServerError>, Vec<String>) {
    let mut address = ServerAddress::parse("one", url, BTreeMap::new(), false).unwrap();
    address.oauth.scopes = vec!["read".to_owned()];
    let opened = Arc::new(Mutex::new(Vec::new()));
    let show = |page: &crate::login::LoginPage<'_>| {
        opened.lock().unwrap().push(page.url.to_owned());
        let url = Url::parse(page.url).unwrap();
        let member = |wanted: &str| {
            let found = url.query_pairs().find(|(name, _)| name == wanted);
            found.unwrap().1.into_owned()
        };
        assert_eq!(member("code_challenge_method"), "S256");
        assert_eq!(page.scopes, "read");
        let back = format!(
            "{}?code=c-1&state={}",
            member("redirect_uri"),
            member("state")
        );
        tokio::spawn(async move {
            let _ = reqwest::get(back).await;
        });
    };
    let ended = LoginStore::in_folder(folder.to_owned())
        .login("one", &address, None, show)
        .await;
    let opened = opened.lock().unwrap().clone();
    (ended, opened)
}

#[tokio::test]
async fn a_successful_login_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let (url, _) = start_issuer(AuthorizationServer::default()).await;
    let (ended, opened) = login(&url, dir.path()).await;
    ended.unwrap();
    assert_eq!(opened.len(), 1);
    assert!(dir.path().join("one.json").exists());
}

#[tokio::test]
async fn w_01_w_02_w_06_metadata_is_checked_before_a_page_is_opened() {
    for (metadata, refused) in [
        (
            json!({"authorization_endpoint": "http://localhost:9/a"}),
            "another host",
        ),
        (
            json!({"authorization_endpoint": "http://192.0.2.1/a"}),
            "without encryption",
        ),
        (
            json!({"authorization_endpoint": "javascript:alert(1)"}),
            "neither https nor http",
        ),
        (
            json!({"token_endpoint": "http://192.0.2.1/token"}),
            "without encryption",
        ),
        (json!({"issuer": "https://evil.example"}), "evil.example"),
        (
            json!({"code_challenge_methods_supported": ["plain"]}),
            "PKCE",
        ),
        (json!({"x": "y".repeat(2 << 20)}), "discovery failed"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let authorization_server = AuthorizationServer {
            metadata: metadata.clone(),
            ..AuthorizationServer::default()
        };
        let (url, received) = start_issuer(authorization_server).await;
        let (ended, opened) = login(&url, dir.path()).await;
        let error = ended.unwrap_err().to_string();
        let shown = text::escape_line(&metadata.to_string(), 100);
        assert!(error.contains(refused), "{shown}: {error}");
        assert!(opened.is_empty(), "{shown}: {opened:?}");
        let received = received.lock().unwrap();
        assert!(
            !received.iter().any(|line| line.contains("/token")),
            "{shown}: {received:?}"
        );
    }
}

#[tokio::test]
async fn w_07_authorization_responses_are_bounded_and_escaped() {
    let long = "x".repeat(100_000);
    for (authorization_server, refused) in [
        (
            AuthorizationServer {
                registration: (201, json!({"client_id": long, "redirect_uris": []}).to_string()),
                ..AuthorizationServer::default()
            },
            "the limit is 8000",
        ),
        (
            AuthorizationServer {
                registration: (400, "\u{1b}[2J\u{202e}no".repeat(10_000)),
                ..AuthorizationServer::default()
            },
            "\\u{1b}[2J\\u{202e}no",
        ),
        (
            AuthorizationServer {
                token: (
                    400,
                    json!({"error": "invalid_grant", "error_description": "\u{1b}]0;x\u{7}client_secret=abcdefgh"})
                        .to_string(),
                ),
                ..AuthorizationServer::default()
            },
            "logging in:",
        ),
        (
            AuthorizationServer {
                token: (200, "x".repeat(8 << 20)),
                ..AuthorizationServer::default()
            },
            "logging in:",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (url, _) = start_issuer(authorization_server).await;
        let (ended, _) = login(&url, dir.path()).await;
        let error = ended.unwrap_err().to_string();
        assert!(error.contains(refused), "{error}");
        assert!(error.len() < 5_000, "{}", error.len());
        assert!(!error.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{error:?}");
        assert!(!error.contains("abcdefgh"), "{error}");
        assert!(!dir.path().join("one.json").exists());
    }
}

#[tokio::test]
async fn w_05_a_refresh_token_is_sent_only_to_its_issuer() {
    // The server no longer publishes metadata; without metadata, its own `/token` would be used for the renewal.
    let received = Arc::new(Mutex::new(Vec::new()));
    let url = {
        let received = Arc::clone(&received);
        serve(Arc::new(move |request: &Request| {
            received
                .lock()
                .unwrap()
                .push(format!("{} {}", request.line, request.body));
            if request.line.contains("/.well-known/") {
                return (404, Vec::new(), String::new());
            }
            let challenge = ("www-authenticate".to_owned(), "Bearer".to_owned());
            (401, vec![challenge], String::new())
        }))
        .await
    };
    let dir = tempfile::tempdir().unwrap();
    let stored = json!({"url": url, "credentials": {
        "client_id": "me", "granted_scopes": [], "token_received_at": 1, "issuer": "https://issuer.example",
        "token_response": {
            "access_token": "old", "token_type": "bearer", "expires_in": 1, "refresh_token": "precious",
        },
    }});
    std::fs::write(dir.path().join("one.json"), stored.to_string()).unwrap();
    let address = ServerAddress::parse("one", url.as_str(), BTreeMap::new(), false).unwrap();
    let mut config = config("one");
    config.transport = TransportConfig::Http(address.clone());
    let dial = Box::new(HttpDialer {
        server: "one".to_owned(),
        address,
        logins: Some(Arc::new(LoginStore::in_folder(dir.path().to_owned()))),
    });
    let (context, _) = server_context(&approved(&config));
    let server = Server::start(config, dial, context);
    let error = first_failure(&server).await;
    assert!(error.contains("requires a login"), "{error}");
    let received = received.lock().unwrap();
    assert!(
        !received.iter().any(|line| line.contains("precious")),
        "{received:?}"
    );
    // The stored login remains for when the server names its issuer again.
    assert!(dir.path().join("one.json").exists());
}
