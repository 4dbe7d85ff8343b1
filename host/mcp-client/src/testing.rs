//! Test helpers: a server configuration, scripted servers, and a sink that records events.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use toolhost_contract::{
    BoxFuture, Call, CallError, CallId, Descriptor, Event, NoSink, Outcome, Principal, Sink,
    ToolName,
};

use crate::approvals::Approvals;
use crate::backend::ServerTools;
use crate::config::{Program, ServerConfig, TIMEOUT, Way};
use crate::dial::{Dial, Dialed, Wire};
use crate::error::ServerError;
use crate::listing::Judges;
use crate::log::Log;
use crate::server::{News, Server, Shared, Surroundings};

pub fn config(name: &str) -> ServerConfig {
    ServerConfig {
        name: name.to_owned(),
        way: Way::Stdio(Program {
            command: "server".into(),
            args: Vec::new(),
            env: std::collections::BTreeMap::new(),
            cwd: PathBuf::from("/"),
        }),
        include: Vec::new(),
        exclude: Vec::new(),
        timeout: TIMEOUT,
        trust: false,
    }
}

#[derive(Default)]
pub struct Heard(Mutex<Vec<Event>>);

impl Heard {
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }
}

impl Sink for Heard {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// A server played by a test, which gets the number of the attempt and the other end of the pipes.
pub struct Played(Box<dyn Fn(usize, DuplexStream) + Send + Sync>, AtomicUsize);

impl Played {
    pub fn by(play: impl Fn(usize, DuplexStream) + Send + Sync + 'static) -> Box<dyn Dial> {
        Box::new(Self(Box::new(play), AtomicUsize::new(0)))
    }

    /// A server that answers each message with these lines.
    pub fn script(answer: impl Fn(&Value) -> Vec<String> + Send + Sync + 'static) -> Box<dyn Dial> {
        let answer = Arc::new(answer);
        Self::by(move |_, pipes| {
            let answer = Arc::clone(&answer);
            tokio::spawn(speak(pipes, move |message| answer(message)));
        })
    }
}

impl Dial for Played {
    fn dial(&self, _log: Arc<Log>) -> BoxFuture<'_, Result<Dialed, ServerError>> {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        (self.0)(self.1.fetch_add(1, Ordering::Relaxed), theirs);
        let (read, write) = tokio::io::split(ours);
        Box::pin(async {
            Ok(Dialed {
                wire: Wire::Pipes {
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
pub async fn speak(pipes: DuplexStream, answer: impl Fn(&Value) -> Vec<String>) {
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
pub fn decent(message: &Value, tools: &Value) -> Vec<String> {
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
pub type Told = Arc<Mutex<Vec<String>>>;

pub fn surroundings(approvals: &Arc<Approvals>) -> (Surroundings, Told) {
    let told = Told::default();
    let hear = {
        let told = Arc::clone(&told);
        move |_: &Arc<Shared>, news: News| {
            let words = match news {
                News::Listed(listing) => {
                    let names = listing
                        .tools
                        .iter()
                        .map(|one| one.descriptor.name.to_string());
                    let left = listing
                        .left_out
                        .iter()
                        .map(|one| format!("not {}", one.tool));
                    format!("listed {}", names.chain(left).collect::<Vec<_>>().join(" "))
                }
                News::Lost { reason, wait } => format!("lost: {reason}; {} s", wait.as_secs()),
                News::GaveUp(error) => format!("gave up: {error}"),
            };
            told.lock().unwrap().push(words);
        }
    };
    let around = Surroundings {
        judges: Judges {
            accept: Arc::new(|_: &Descriptor| Ok(())),
            approvals: Arc::clone(approvals),
        },
        log: Arc::new(|_: &str| ()),
        ask: None,
        hear: Box::new(hear),
    };
    (around, told)
}

/// In memory, with this server approved.
pub fn approved(config: &ServerConfig) -> Arc<Approvals> {
    let approvals = Approvals::in_memory();
    approvals.approve(&config.name, config.digest()).unwrap();
    Arc::new(approvals)
}

/// Starts a server with everything approved.
pub fn start(dial: Box<dyn Dial>) -> (Server, Told) {
    let config = config("one");
    let (around, told) = surroundings(&approved(&config));
    (Server::start(config, dial, around), told)
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
    let call = Call {
        id: CallId("c-1".to_owned()),
        tool: ToolName::parse(tool).unwrap(),
        input,
        caller: Principal::default(),
    };
    tools.run(call, limit, sink).await
}
