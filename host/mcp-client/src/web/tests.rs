//! A server behind an address, played over a real socket of this machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::config::{Hidden, Way};
use crate::server::Server;
use crate::testing::{approved, call, config, decent, surroundings, tool};

/// A request as the server got it: its first line, its headers in small letters, its message.
struct Request {
    line: String,
    headers: BTreeMap<String, String>,
    message: Value,
}

type Answer = dyn Fn(&Request) -> (u16, Vec<(String, String)>, String) + Send + Sync;

/// Serves until the test ends; the address.
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
        .map(|(name, value)| ((*name).to_owned(), Hidden((*value).to_owned())));
    let address = Address::parse("one", url, headers.collect(), false).unwrap();
    let mut config = config("one");
    config.way = Way::Http(address.clone());
    let dial = Box::new(Web {
        server: "one".to_owned(),
        address,
        logins: None,
    });
    let (around, _) = surroundings(&approved(&config));
    Server::start(config, dial, around)
}

//
#[tokio::test]
async fn a_server_of_the_older_era_is_spoken_to_with_the_operator_s_headers() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let url = {
        let seen = Arc::clone(&seen);
        serve(Arc::new(move |request: &Request| {
            if !request.line.starts_with("POST") {
                return (405, Vec::new(), String::new());
            }
            seen.lock()
                .unwrap()
                .push(request.headers.get("x-key").cloned());
            if request.message["method"] == "tools/call" {
                let result = json!({"content": [{"type": "text", "text": "hi"}]});
                return json_answer(vec![crate::testing::reply(&request.message, &result)]);
            }
            json_answer(decent(&request.message, &json!([tool("greet")])))
        }))
        .await
    };
    let server = start(&url, &[("X-Key", "s3cret")]);
    let listing = server.shared().first().await.unwrap();
    assert_eq!(listing.version, "2025-11-25");
    let outcome = call(&server, "mcp__one__greet", json!({})).await.unwrap();
    assert_eq!(outcome.model_text(), "hi");
    server.stop().await;
    let seen = seen.lock().unwrap();
    assert!(seen.len() >= 4, "{seen:?}");
    assert!(
        seen.iter().all(|key| key.as_deref() == Some("s3cret")),
        "{seen:?}"
    );
}

#[tokio::test]
async fn headers_of_the_operator_follow_nobody_to_another_host() {
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
async fn one_that_wants_a_login_says_how_and_is_not_asked_again() {
    let url = serve(Arc::new(|_: &Request| {
        let challenge = ("www-authenticate".to_owned(), "Bearer".to_owned());
        (401, vec![challenge], String::new())
    }))
    .await;
    let server = start(&url, &[]);
    let error = first_failure(&server).await;
    assert_eq!(
        error,
        "server `one` wants to be logged in to; run `host mcp login one`"
    );
    assert_eq!(server.shared().state().word(), "failed");
}

#[tokio::test]
async fn nobody_there_is_said() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let server = start(&format!("http://127.0.0.1:{port}/mcp"), &[]);
    let error = first_failure(&server).await;
    assert!(
        error.starts_with("server `one` is down: cannot be reached: "),
        "{error}"
    );
    assert!(error.contains("refused"), "{error}");
}

async fn first_failure(server: &Server) -> String {
    server.shared().first().await.unwrap_err().to_string()
}
