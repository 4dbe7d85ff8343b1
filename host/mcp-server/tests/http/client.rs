//! Raw HTTP client for malformed, slow and hostile requests.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::test_server::NEVER;

pub const MODERN: &str = "2026-07-28";

#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl HttpResponse {
    /// Returns the response message of the body.
    pub fn json(&self) -> Value {
        if let Ok(message) = serde_json::from_str(&self.body) {
            return message;
        }
        self.body
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data:")?).ok())
            .find(|message| message.get("result").is_some() || message.get("error").is_some())
            .unwrap_or_else(|| panic!("no answer in {self:?}"))
    }

    pub fn text(&self) -> String {
        let answer = self.json();
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }

    pub fn code(&self) -> i64 {
        let answer = self.json();
        answer["error"]["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("{answer}"))
    }
}

pub struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
    token: Option<String>,
    session: Option<String>,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        Self {
            stream: BufReader::new(TcpStream::connect(address).await.unwrap()),
            address,
            token: None,
            session: None,
        }
    }

    /// Connects with a small receive buffer.
    pub async fn connect_narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Self {
            stream: BufReader::new(socket.connect(address).await.unwrap()),
            address,
            token: None,
            session: None,
        }
    }

    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    pub fn session(&self) -> &str {
        self.session.as_deref().expect("a session")
    }

    pub fn use_session(&mut self, session: &str) {
        self.session = Some(session.to_owned());
    }

    /// Returns a request head with the headers of a well-behaved client. `extra` replaces defaults; an empty value
    /// removes one.
    pub fn head(&self, line: &str, extra: &[(&str, &str)], size: Option<usize>) -> String {
        let mut headers = vec![
            ("host", self.address.to_string()),
            ("accept", "application/json, text/event-stream".to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        if let Some(token) = &self.token {
            headers.push(("authorization", format!("Bearer {token}")));
        }
        if let Some(session) = &self.session {
            headers.push(("mcp-session-id", session.clone()));
        }
        headers.retain(|(name, _)| extra.iter().all(|(other, _)| name != other));
        let extra = extra.iter().filter(|(_, value)| !value.is_empty());
        headers.extend(extra.map(|(name, value)| (*name, (*value).to_owned())));
        if let Some(size) = size {
            headers.push(("content-length", size.to_string()));
        }
        let mut lines = vec![format!("{line} HTTP/1.1")];
        lines.extend(
            headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}")),
        );
        lines.join("\r\n") + "\r\n\r\n"
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        // Fails if the server rejected the request and closed the connection.
        let _ = self.stream.get_mut().write_all(bytes).await;
    }

    pub async fn send(&mut self, line: &str, extra: &[(&str, &str)], body: &str) {
        let head = self.head(line, extra, Some(body.len()));
        self.write(head.as_bytes()).await;
        self.write(body.as_bytes()).await;
    }

    pub async fn request(
        &mut self,
        line: &str,
        extra: &[(&str, &str)],
        body: &str,
    ) -> HttpResponse {
        self.send(line, extra, body).await;
        self.read_response().await
    }

    pub async fn post(&mut self, extra: &[(&str, &str)], body: &str) -> HttpResponse {
        self.request("POST /mcp", extra, body).await
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(NEVER, self.stream.read_line(&mut line)).await;
        assert!(read.expect("an answer").unwrap() > 0, "the server hung up");
        line.trim_end().to_owned()
    }

    /// Reads status and headers, without the body.
    pub async fn read_head(&mut self) -> HttpResponse {
        let status = self.line().await;
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = HashMap::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        HttpResponse {
            status,
            headers,
            body: String::new(),
        }
    }

    pub async fn read_response(&mut self) -> HttpResponse {
        let mut answer = self.read_head().await;
        if answer
            .headers
            .get("transfer-encoding")
            .is_some_and(|kind| kind == "chunked")
        {
            while let Some(chunk) = self.chunk().await {
                answer.body.push_str(&chunk);
            }
        } else {
            let size = answer.headers.get("content-length");
            let size = size.map_or(0, |size| size.parse().unwrap());
            answer.body = self.take(size).await;
        }
        answer
    }

    pub async fn chunk(&mut self) -> Option<String> {
        let size = usize::from_str_radix(&self.line().await, 16).unwrap();
        let chunk = self.take(size).await;
        self.take(2).await;
        (size > 0).then_some(chunk)
    }

    async fn take(&mut self, size: usize) -> String {
        let mut bytes = vec![0; size];
        let read = timeout(NEVER, self.stream.read_exact(&mut bytes)).await;
        read.expect("the rest").unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Whether the server has closed this connection.
    pub async fn is_closed(&mut self) -> bool {
        let read = timeout(NEVER, self.stream.fill_buf()).await;
        read.expect("an end").is_ok_and(<[u8]>::is_empty)
    }

    /// Sends `initialize`.
    pub async fn initialize(&mut self) -> HttpResponse {
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        self.post(&[], &request(0, "initialize", hello).to_string())
            .await
    }

    /// Starts a session.
    pub async fn start_session(&mut self) -> HttpResponse {
        let answer = self.initialize().await;
        if answer.status == 200 {
            self.session = answer.headers.get("mcp-session-id").cloned();
            let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            assert_eq!(self.post(&[], notification).await.status, 202);
        }
        answer
    }

    /// A call in the session.
    pub async fn call(&mut self, id: u32, tool: &str, arguments: Value) -> HttpResponse {
        self.post(&[], &call(id, tool, arguments).to_string()).await
    }

    /// A stateless call.
    pub async fn call_modern(&mut self, id: u32, tool: &str, arguments: Value) -> HttpResponse {
        self.send_modern(id, tool, arguments).await;
        self.read_response().await
    }

    pub async fn send_modern(&mut self, id: u32, tool: &str, arguments: Value) {
        let message = modern(call(id, tool, arguments)).to_string();
        self.send("POST /mcp", &headers("tools/call", tool), &message)
            .await;
    }
}

/// Returns the headers of a 2026-07-28 request.
pub fn headers<'a>(method: &'a str, name: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("mcp-protocol-version", MODERN),
        ("mcp-method", method),
        ("mcp-name", name),
    ]
}

#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
pub fn request(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Adds the `_meta` of a 2026-07-28 request.
pub fn modern(mut request: Value) -> Value {
    let meta = &mut request["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    request
}

#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
pub fn call(id: u32, tool: &str, arguments: Value) -> Value {
    request(
        id,
        "tools/call",
        json!({"name": tool, "arguments": arguments}),
    )
}
