//! Tests of servers at a URL, over a local socket.

mod oauth;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::config::{HiddenValue, TransportConfig};
use crate::server::Server;
use crate::testing::{approved, call, config, legacy_response, server_context, tool};

/// A request as the server received it: its first line, its headers in lower case, and its message.
struct Request {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
    message: Value,
}

type Answer = dyn Fn(&Request) -> (u16, Vec<(String, String)>, String) + Send + Sync;

/// Serves until the test ends; returns the URL.
async fn serve(answer: Arc<Answer>) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let _ = converse(stream, &*answer).await;
            });
        }
    });
    format!("http://127.0.0.1:{port}/mcp")
}

async fn converse(stream: TcpStream, answer: &Answer) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut request = Request {
            line: String::new(),
            headers: BTreeMap::new(),
            body: String::new(),
            message: Value::Null,
        };
        if stream.read_line(&mut request.line).await? == 0 {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim().split_once(':') else {
                break;
            };
            request
                .headers
                .insert(name.to_lowercase(), value.trim().to_owned());
        }
        let length = request.headers.get("content-length");
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).await?;
        request.message = serde_json::from_slice(&body).unwrap_or_default();
        request.body = String::from_utf8(body).unwrap();
        let (status, headers, body) = answer(&request);
        let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        stream
            .write_all(format!("{head}\r\n{body}").as_bytes())
            .await?;
    }
}

fn json_answer(lines: Vec<String>) -> (u16, Vec<(String, String)>, String) {
    let kind = ("content-type".to_owned(), "application/json".to_owned());
    match lines.into_iter().next() {
        Some(line) => (200, vec![kind], line),
        None => (202, Vec::new(), String::new()),
    }
}

fn start(url: &str, headers: &[(&str, &str)]) -> Server {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), HiddenValue((*value).to_owned())));
    let address = ServerAddress::parse("one", url, headers.collect(), false).unwrap();
    let mut config = config("one");
    config.transport = TransportConfig::Http(address.clone());
    let dial = Box::new(HttpDialer {
        server: "one".to_owned(),
        address,
        logins: None,
    });
    let (context, _) = server_context(&approved(&config));
    Server::start(config, dial, context)
}

// R-426
#[tokio::test]
async fn a_legacy_server_receives_the_operator_s_headers() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let url = {
        let keys = Arc::clone(&keys);
        serve(Arc::new(move |request: &Request| {
            if !request.line.starts_with("POST") {
                return (405, Vec::new(), String::new());
            }
            keys.lock()
                .unwrap()
                .push(request.headers.get("x-key").cloned());
            if request.message["method"] == "tools/call" {
                let result = json!({"content": [{"type": "text", "text": "hi"}]});
                return json_answer(vec![crate::testing::reply(&request.message, &result)]);
            }
            json_answer(legacy_response(&request.message, &json!([tool("greet")])))
        }))
        .await
    };
    let server = start(&url, &[("X-Key", "s3cret")]);
    let listing = server.shared().first_listing().await.unwrap();
    assert_eq!(listing.version, "2025-11-25");
    let outcome = call(&server, "mcp__one__greet", json!({})).await.unwrap();
    assert_eq!(outcome.model_text(), "hi");
    server.stop().await;
    let keys = keys.lock().unwrap();
    assert!(keys.len() >= 4, "{keys:?}");
    assert!(
        keys.iter().all(|key| key.as_deref() == Some("s3cret")),
        "{keys:?}"
    );
}

#[tokio::test]
async fn the_operator_s_headers_are_not_sent_to_another_host() {
    let reached = Arc::new(Mutex::new(0));
    let thief = {
        let reached = Arc::clone(&reached);
        serve(Arc::new(move |_: &Request| {
            *reached.lock().unwrap() += 1;
            (200, Vec::new(), String::new())
        }))
        .await
    };
    let url = serve(Arc::new(move |_: &Request| {
        (
            307,
            vec![("location".to_owned(), thief.clone())],
            String::new(),
        )
    }))
    .await;
    let server = start(&url, &[("Authorization", "Bearer s3cret")]);
    let error = first_failure(&server).await;
    assert!(error.contains("another host"), "{error}");
    assert_eq!(*reached.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_server_that_requires_a_login_is_not_retried() {
    let url = serve(Arc::new(|_: &Request| {
        let challenge = ("www-authenticate".to_owned(), "Bearer".to_owned());
        (401, vec![challenge], String::new())
    }))
    .await;
    let server = start(&url, &[]);
    let error = first_failure(&server).await;
    let login = "server `one` requires a login; run `host mcp login one` or";
    assert!(error.starts_with(login), "{error}");
    assert_eq!(server.shared().state().as_str(), "failed");
}

/// A tool that returns many values, in the format that its name states.
fn many(request: &Request) -> (u16, Vec<(String, String)>, String) {
    if !request.line.starts_with("POST") {
        return (405, Vec::new(), String::new());
    }
    let Some(way) = request.message["params"]["name"].as_str() else {
        let tools = json!([tool("json"), tool("events"), tool("few")]);
        return json_answer(legacy_response(&request.message, &tools));
    };
    let values = if way == "few" { 1_000 } else { 110_000 };
    let result = json!({"content": [], "structuredContent": {"a": vec![json!([]); values]}});
    let line = crate::testing::reply(&request.message, &result);
    if way != "events" {
        return json_answer(vec![line]);
    }
    let small = json!({"content": [{"type": "text", "text": "after it"}]});
    let small = crate::testing::reply(&request.message, &small);
    let kind = ("content-type".to_owned(), "text/event-stream".to_owned());
    (
        200,
        vec![kind],
        format!("data: {line}\n\ndata: {small}\n\n"),
    )
}

#[tokio::test]
async fn a_message_with_too_many_values_is_never_parsed() {
    let server = start(&serve(Arc::new(many)).await, &[]);
    server.shared().first_listing().await.unwrap();
    let error = call(&server, "mcp__one__json", json!({}))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("more than 100000 values"),
        "{error}"
    );
    let outcome = call(&server, "mcp__one__events", json!({})).await.unwrap();
    assert_eq!(outcome.model_text(), "after it");
    assert!(call(&server, "mcp__one__few", json!({})).await.is_ok());
}

/// Renews an expired login of a client with this ID; returns the request that the authorization server received.
async fn renewal(client: &str, issuer: &str) -> Option<String> {
    let received = Arc::new(Mutex::new(None));
    let url = {
        let received = Arc::clone(&received);
        let at = Arc::new(Mutex::new(String::new()));
        let url = {
            let at = Arc::clone(&at);
            serve(Arc::new(move |request: &Request| {
                let host = at.lock().unwrap().clone();
                if request.line.contains("/.well-known/oauth-protected-resource") {
                    let document = json!({"resource": format!("{host}/mcp"), "authorization_servers": [host]});
                    return json_answer(vec![document.to_string()]);
                }
                if request.line.contains("/.well-known/oauth-authorization-server") {
                    let document = json!({
                        "issuer": host, "authorization_endpoint": format!("{host}/authorize"),
                        "token_endpoint": format!("{host}/token"), "response_types_supported": ["code"],
                        "code_challenge_methods_supported": ["S256"],
                        "token_endpoint_auth_methods_supported": ["client_secret_post"],
                    });
                    return json_answer(vec![document.to_string()]);
                }
                if request.line.contains("/token") {
                    *received.lock().unwrap() = Some(request.body.clone());
                    let document = json!({"access_token": "new", "token_type": "bearer", "expires_in": 3600});
                    return json_answer(vec![document.to_string()]);
                }
                if !request.line.starts_with("POST") {
                    return (405, Vec::new(), String::new());
                }
                let token = request.headers.get("authorization").map(String::as_str);
                if token != Some("Bearer new") {
                    let challenge = ("www-authenticate".to_owned(), "Bearer".to_owned());
                    return (401, vec![challenge], String::new());
                }
                json_answer(legacy_response(&request.message, &json!([tool("greet")])))
            }))
            .await
        };
        url.strip_suffix("/mcp")
            .unwrap()
            .clone_into(&mut at.lock().unwrap());
        url
    };
    let dir = tempfile::tempdir().unwrap();
    let issuer = if issuer.is_empty() {
        url.strip_suffix("/mcp").unwrap()
    } else {
        issuer
    };
    let stored = json!({"url": url, "credentials": {
        "client_id": client, "granted_scopes": [], "token_received_at": 1, "issuer": issuer,
        "token_response": {"access_token": "old", "token_type": "bearer", "expires_in": 1, "refresh_token": "r"},
    }});
    std::fs::write(dir.path().join("one.json"), stored.to_string()).unwrap();
    let mut address = ServerAddress::parse("one", url.as_str(), BTreeMap::new(), false).unwrap();
    address.oauth.client_id = Some("me".to_owned());
    address.oauth.client_secret = Some(HiddenValue("s3cret".to_owned()));
    let mut config = config("one");
    config.transport = TransportConfig::Http(address.clone());
    let dial = Box::new(HttpDialer {
        server: "one".to_owned(),
        address,
        logins: Some(Arc::new(LoginStore::in_folder(dir.path().to_owned()))),
    });
    let (context, _) = server_context(&approved(&config));
    let server = Server::start(config, dial, context);
    let _ = server.shared().first_listing().await;
    received.lock().unwrap().clone()
}

#[tokio::test]
async fn the_client_secret_is_used_only_for_its_own_renewal() {
    let own = renewal("me", "").await.unwrap();
    assert!(own.contains("client_secret=s3cret"), "{own}");
    // A client that registered itself before an ID was configured.
    let other = renewal("somebody", "").await.unwrap();
    assert!(!other.contains("s3cret"), "{other}");
    assert_eq!(renewal("me", "http://127.0.0.1:9").await, None);
}

#[tokio::test]
async fn protocol_headers_are_reserved() {
    let server = start("http://127.0.0.1:9/mcp", &[("Mcp-Session-Id", "x")]);
    assert_eq!(
        first_failure(&server).await,
        "server `one`: the header `mcp-session-id` is reserved by the protocol; remove it"
    );
}

#[tokio::test]
async fn unreachable_servers_are_reported() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let server = start(&format!("http://127.0.0.1:{port}/mcp?key=s3cret"), &[]);
    let error = first_failure(&server).await;
    assert!(!error.contains("s3cret"), "{error}");
    assert!(
        error.starts_with("server `one` is down: cannot be reached: "),
        "{error}"
    );
    assert!(error.contains("refused"), "{error}");
}

/// Opens a session with this ID; its streams request immediate reconnection.
async fn session(id: String) -> (Server, Arc<Mutex<usize>>) {
    let streams = Arc::new(Mutex::new(0));
    let url = {
        let streams = Arc::clone(&streams);
        serve(Arc::new(move |request: &Request| {
            if request.line.starts_with("GET") {
                *streams.lock().unwrap() += 1;
                let kind = ("content-type".to_owned(), "text/event-stream".to_owned());
                return (200, vec![kind], "id: 1\nretry: 0\ndata: \n\n".to_owned());
            }
            let mut answer =
                json_answer(legacy_response(&request.message, &json!([tool("greet")])));
            if request.message["method"] == "initialize" {
                answer.1.push(("mcp-session-id".to_owned(), id.clone()));
            }
            answer
        }))
        .await
    };
    (start(&url, &[]), streams)
}

#[tokio::test]
async fn w_09_session_ids_are_bounded() {
    let (server, _) = session("x".repeat(2_000)).await;
    let error = first_failure(&server).await;
    assert!(
        error.contains("its session id is longer than 1024 bytes"),
        "{error}"
    );
    let (server, _) = session("x".repeat(1_000)).await;
    server.shared().first_listing().await.unwrap();
}

/// Its session ends when `valid` is set to 0. Each new session describes the tool `changes` differently.
async fn forgetful(valid: &Arc<AtomicUsize>) -> Server {
    let (valid, begun) = (Arc::clone(valid), AtomicUsize::new(0));
    let url = serve(Arc::new(move |request: &Request| {
        if !request.line.starts_with("POST") {
            return (405, Vec::new(), String::new());
        }
        let session = request.headers.get("mcp-session-id");
        let current = valid.load(Ordering::SeqCst);
        if session.is_some_and(|session| *session != current.to_string()) {
            return (404, Vec::new(), String::new());
        }
        let mut changes = tool("changes");
        changes["description"] = json!(format!("Session {current}"));
        let answer = match request.message["method"].as_str() {
            Some("tools/call") => {
                let result = json!({"content": [{"type": "text", "text": "hi"}]});
                vec![crate::testing::reply(&request.message, &result)]
            }
            _ => legacy_response(&request.message, &json!([changes, tool("stays")])),
        };
        let mut answer = json_answer(answer);
        if request.message["method"] == "initialize" {
            let id = begun.fetch_add(1, Ordering::SeqCst) + 1;
            valid.store(id, Ordering::SeqCst);
            answer.1.push(("mcp-session-id".to_owned(), id.to_string()));
        }
        answer
    }))
    .await;
    start(&url, &[])
}

#[tokio::test]
async fn the_tools_of_a_new_session_are_listed_and_compared() {
    let valid = Arc::new(AtomicUsize::new(0));
    let server = forgetful(&valid).await;
    let listing = server.shared().first_listing().await.unwrap();
    assert_eq!((listing.tools.len(), listing.changed.len()), (2, 0));
    valid.store(0, Ordering::SeqCst);
    // The call is repeated in the new session.
    let outcome = call(&server, "mcp__one__stays", json!({})).await.unwrap();
    assert_eq!(outcome.model_text(), "hi");
    assert_eq!(valid.load(Ordering::SeqCst), 2);
    let listing = server.shared().listing().unwrap();
    assert_eq!((listing.tools.len(), listing.changed.len()), (1, 1));
    server.stop().await;

    valid.store(0, Ordering::SeqCst);
    let server = forgetful(&valid).await;
    server.shared().first_listing().await.unwrap();
    valid.store(0, Ordering::SeqCst);
    let error = call(&server, "mcp__one__changes", json!({}))
        .await
        .unwrap_err();
    assert!(
        error.message.contains("no longer offers"),
        "{}",
        error.message
    );
    assert_eq!(error.code, "mcp_server_unavailable");
}

#[tokio::test]
async fn w_10_reconnect_intervals_are_limited() {
    let client = BoundedClient {
        client: reqwest::Client::new(),
        log: Arc::new(ServerLogger::new(Arc::new(|_: &str| ()))),
    };
    let sse = |id: &str, retry| {
        Ok(sse_stream::Sse {
            id: Some(id.to_owned()),
            retry: Some(retry),
            ..sse_stream::Sse::default()
        })
    };
    let long = "x".repeat(2_000);
    let events = futures::stream::iter([sse("a", 0), sse(&long, u64::MAX), sse("b", 5_000)]);
    let sifted: Vec<_> = futures::StreamExt::collect(client.limit_events(events)).await;
    let shown: Vec<_> = sifted
        .into_iter()
        .map(|event| event.map(|event| (event.id, event.retry)).unwrap())
        .collect();
    assert_eq!(
        shown,
        [
            (Some("a".to_owned()), Some(1_000)),
            (None, Some(60_000)),
            (Some("b".to_owned()), Some(5_000)),
        ]
    );
}

async fn first_failure(server: &Server) -> String {
    server
        .shared()
        .first_listing()
        .await
        .unwrap_err()
        .to_string()
}
