//! Test helpers: a server configuration, scripted servers, and a sink that records events.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use toolhost_contract::{
    BoxFuture, Call, CallError, CallEvent, Descriptor, NoSink, Outcome, Sink, ToolName,
};

use crate::approvals::Approvals;
use crate::backend::ServerTools;
use crate::config::{ServerConfig, ServerProgram, TIMEOUT, TransportConfig};
use crate::dial::{ClientTransport, Dial, DialedConnection};
use crate::error::ServerError;
use crate::listing::ListingChecks;
use crate::log::ServerLogger;
use crate::server::{Server, ServerContext, ServerEvent, ServerShared};

pub fn config(name: &str) -> ServerConfig {
    ServerConfig {
        name: name.to_owned(),
        transport: TransportConfig::Stdio(ServerProgram {
            command: "server".into(),
            args: Vec::new(),
            env: std::collections::BTreeMap::new(),
            cwd: PathBuf::from("/"),
            sandbox: crate::sandbox::ServerSandbox::Unconfined,
        }),
        include: Vec::new(),
        exclude: Vec::new(),
        timeout: TIMEOUT,
        is_trusted: false,
    }
}

#[derive(Default)]
pub struct RecordingSink(Mutex<Vec<CallEvent>>);

impl RecordingSink {
    pub fn events(&self) -> Vec<CallEvent> {
        self.0.lock().unwrap().clone()
    }
}

impl Sink for RecordingSink {
    fn event(&self, event: CallEvent) {
        self.0.lock().unwrap().push(event);
    }
}

/// A server played by a test, which gets the number of the attempt and the other end of the pipes.
pub struct ScriptedServer(Box<dyn Fn(usize, DuplexStream) + Send + Sync>, AtomicUsize);

impl ScriptedServer {
    pub fn dial(play: impl Fn(usize, DuplexStream) + Send + Sync + 'static) -> Box<dyn Dial> {
        Box::new(Self(Box::new(play), AtomicUsize::new(0)))
    }

    /// A server that answers each message with these lines.
    pub fn script(answer: impl Fn(&Value) -> Vec<String> + Send + Sync + 'static) -> Box<dyn Dial> {
        let answer = Arc::new(answer);
        Self::dial(move |_, pipes| {
            let answer = Arc::clone(&answer);
            tokio::spawn(respond(pipes, move |message| answer(message)));
        })
    }
}

impl Dial for ScriptedServer {
    fn dial(
        &self,
        _log: Arc<ServerLogger>,
    ) -> BoxFuture<'_, Result<DialedConnection, ServerError>> {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        (self.0)(self.1.fetch_add(1, Ordering::Relaxed), theirs);
        let (read, write) = tokio::io::split(ours);
        Box::pin(async {
            Ok(DialedConnection {
                wire: ClientTransport::Pipes {
                    read: Box::new(read),
                    write: Box::new(write),
                },
                child: None,
                stderr: None,
            })
        })
    }
}

/// Reads lines of JSON and writes the lines that `answer` returns for each; ends at `EOF`.
pub async fn respond(pipes: DuplexStream, answer: impl Fn(&Value) -> Vec<String>) {
    let (read, mut write) = tokio::io::split(pipes);
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        for answer in answer(&message) {
            if answer == "EOF"
                || write
                    .write_all(format!("{answer}\n").as_bytes())
                    .await
                    .is_err()
            {
                return;
            }
        }
    }
}

/// The answers of a well-behaved server of the legacy protocol to everything but `tools/call`.
pub fn legacy_response(message: &Value, tools: &Value) -> Vec<String> {
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "decent", "version": "1"},
            "capabilities": {"tools": {"listChanged": true}, "resources": {}},
        }),
        Some("tools/list") => json!({"tools": tools}),
        Some(_) if message.get("id").is_some() => {
            let error = json!({"code": -32601, "message": "no such method"});
            return vec![
                json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string(),
            ];
        }
        _ => return Vec::new(),
    };
    vec![reply(message, &result)]
}

pub fn reply(message: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()
}

pub fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does it.", "inputSchema": {"type": "object"}})
}

/// The events of a server that a test records.
pub type EventLog = Arc<Mutex<Vec<String>>>;

pub fn server_context(approvals: &Arc<Approvals>) -> (ServerContext, EventLog) {
    let events = EventLog::default();
    let on_event = {
        let events = Arc::clone(&events);
        move |_: &Arc<ServerShared>, server_event: ServerEvent| {
            let event = match server_event {
                ServerEvent::Listed(listing) => {
                    let names = listing
                        .tools
                        .iter()
                        .map(|one| one.descriptor.name.to_string());
                    let left = listing
                        .excluded
                        .iter()
                        .map(|one| format!("not {}", one.tool));
                    format!("listed {}", names.chain(left).collect::<Vec<_>>().join(" "))
                }
                ServerEvent::Lost { reason, wait } => {
                    format!("lost: {reason}; {} s", wait.as_secs())
                }
                ServerEvent::GaveUp(error) => format!("gave up: {error}"),
            };
            events.lock().unwrap().push(event);
        }
    };
    let context = ServerContext {
        checks: ListingChecks {
            accept: Arc::new(|_: &Descriptor| Ok(())),
            approvals: Arc::clone(approvals),
        },
        log: Arc::new(|_: &str| ()),
        ask: None,
        on_event: Box::new(on_event),
    };
    (context, events)
}

/// In memory, with this server approved.
pub fn approved(config: &ServerConfig) -> Arc<Approvals> {
    let approvals = Approvals::in_memory();
    let reads = std::collections::BTreeSet::new();
    approvals
        .approve(&config.name, config.digest(), &reads)
        .unwrap();
    Arc::new(approvals)
}

/// Starts a server with everything approved.
pub fn start(dial: Box<dyn Dial>) -> (Server, EventLog) {
    let config = config("one");
    let (context, events) = server_context(&approved(&config));
    (Server::start(config, dial, context), events)
}

pub async fn call(server: &Server, tool: &str, input: Value) -> Result<Outcome, CallError> {
    call_for(
        server,
        tool,
        input,
        Duration::from_secs(60),
        Arc::new(NoSink),
    )
    .await
}

pub async fn call_for(
    server: &Server,
    tool: &str,
    input: Value,
    limit: Duration,
    sink: Arc<dyn Sink>,
) -> Result<Outcome, CallError> {
    let listing = server.shared().listing().expect("it was listed");
    let tools = ServerTools::new(server.shared(), &listing);
    let call = Call::new("c-1", ToolName::parse(tool).unwrap(), input);
    tools.run(call, limit, sink).await
}
