//! The host as an HTTP server, and a raw HTTP client that uses no MCP library.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Timeout that is longer than any response takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

pub const MODERN: &str = "2026-07-28";

/// A running server, killed on drop.
pub struct Server {
    pub child: Child,
    pub address: String,
    /// The token that the server created and printed, if any.
    pub token: Option<String>,
    /// Output before the server listened.
    pub startup_output: Vec<String>,
}

impl Server {
    /// `command` must contain `--http`.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("host starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut startup_output = Vec::new();
        let address = loop {
            let line = stderr.next().and_then(Result::ok);
            let line =
                line.unwrap_or_else(|| panic!("the server does not listen: {startup_output:#?}"));
            if let Some(url) = line.strip_prefix("listening on http://") {
                break url.strip_suffix("/mcp").expect("the endpoint").to_owned();
            }
            startup_output.push(line);
        };
        // Drains the pipe, so that the server does not block.
        std::thread::spawn(move || stderr.for_each(drop));
        let token = startup_output.iter().find_map(|line| {
            let (token, _) = line
                .strip_prefix("token: ")?
                .split_once(" (newly generated")?;
            Some(token.to_owned())
        });
        Self {
            child,
            address,
            token,
            startup_output,
        }
    }

    pub fn client(&self) -> Client {
        let client = Client::connect(&self.address);
        match &self.token {
            Some(token) => client.with_token(token),
            None => client,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl HttpResponse {
    /// Returns the response message, from a JSON or event stream body.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .ok()
            .or_else(|| self.body.lines().find_map(response_in))
            .unwrap_or_else(|| panic!("no answer in {self:?}"))
    }

    pub fn text(&self) -> String {
        let answer = self.json();
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

fn response_in(line: &str) -> Option<Value> {
    let message: Value = serde_json::from_str(line.strip_prefix("data:")?).ok()?;
    (message.get("result").is_some() || message.get("error").is_some()).then_some(message)
}

pub struct Client {
    stream: BufReader<TcpStream>,
    /// Headers of every request.
    headers: String,
    session: Option<String>,
}

impl Client {
    pub fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let headers = format!(
            "host: {address}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n"
        );
        Self {
            stream: BufReader::new(stream),
            headers,
            session: None,
        }
    }

    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.headers.push_str("authorization: Bearer ");
        self.headers.push_str(token);
        self.headers.push_str("\r\n");
        self
    }

    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// `headers` are complete lines with `\r\n`.
    pub fn send(&mut self, method: &str, headers: &str, body: &str) {
        let session = self.session.as_ref();
        let session = session.map(|id| format!("mcp-session-id: {id}\r\n"));
        let session = session.unwrap_or_default();
        let all = &self.headers;
        let size = body.len();
        let request = format!(
            "{method} /mcp HTTP/1.1\r\n{all}{session}{headers}content-length: {size}\r\n\r\n{body}"
        );
        self.write(request.as_bytes());
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stream
            .get_mut()
            .write_all(bytes)
            .expect("the server reads");
    }

    pub fn receive(&mut self) -> HttpResponse {
        let status = self.line();
        let status = status.split(' ').nth(1).expect("a status line").parse();
        let mut headers = HashMap::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let mut body = Vec::new();
        if headers.contains_key("transfer-encoding") {
            while self.chunk(&mut body) {}
        } else if let Some(size) = headers.get("content-length") {
            self.take(size.parse().expect("a size"), &mut body);
        }
        HttpResponse {
            status: status.expect("a status"),
            headers,
            body: String::from_utf8(body).expect("text"),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let size = self.stream.read_line(&mut line).expect("an answer");
        assert!(size > 0, "the server hung up");
        line.truncate(line.trim_end().len());
        line
    }

    fn chunk(&mut self, body: &mut Vec<u8>) -> bool {
        let size = usize::from_str_radix(&self.line(), 16).expect("the size of a chunk");
        self.take(size, body);
        self.line();
        size > 0
    }

    fn take(&mut self, size: usize, body: &mut Vec<u8>) {
        let start = body.len();
        body.resize(start + size, 0);
        self.stream
            .read_exact(&mut body[start..])
            .expect("the rest");
    }

    pub fn post(&mut self, headers: &str, message: &Value) -> HttpResponse {
        self.send("POST", headers, &message.to_string());
        self.receive()
    }

    /// Starts a session of the older protocols.
    pub fn start_session(&mut self) {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"},
        }});
        let answer = self.post("", &hello);
        assert_eq!(answer.status, 200, "{answer:?}");
        self.session = answer.headers.get("mcp-session-id").cloned();
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post("", &notification).status, 202);
    }

    /// A call in the session.
    pub fn call(&mut self, id: u32, tool: &str, arguments: &Value) -> HttpResponse {
        self.post("", &call(id, tool, arguments))
    }

    /// A stateless call.
    pub fn call_modern(&mut self, id: u32, tool: &str, arguments: &Value) -> HttpResponse {
        self.send_modern(id, tool, arguments);
        self.receive()
    }

    pub fn send_modern(&mut self, id: u32, tool: &str, arguments: &Value) {
        let message = modern(call(id, tool, arguments)).to_string();
        self.send("POST", &modern_headers("tools/call", tool), &message);
    }
}

pub fn call(id: u32, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// Adds the `_meta` of a stateless request.
pub fn modern(mut message: Value) -> Value {
    let meta = &mut message["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    message
}

pub fn modern_headers(method: &str, name: &str) -> String {
    format!("mcp-protocol-version: {MODERN}\r\nmcp-method: {method}\r\nmcp-name: {name}\r\n")
}
