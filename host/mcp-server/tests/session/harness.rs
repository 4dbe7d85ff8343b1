//! Test client that reads and writes raw lines, and simple tools behind a real kernel.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf,
    WriteHalf,
};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, timeout};
use toolhost_contract::{
    Annotations, Backend, BoxFuture, Call, CallError, CallEvent, Concurrency, Descriptor, Digest,
    EffectBounds, ErrorClass, Failure, Grant, LogLevel, Outcome, Part, PluginName, Sink, ToolName,
    UserQuestion,
};
use toolhost_kernel::{Kernel, KernelSettings, NoServices, PluginInfo};
use toolhost_mcp_server::{
    ClientAgents, ClientRequestSettings, ElicitationPrompter, Readiness, ServeError, ServeOptions,
    SessionEnd,
};

/// The clock is paused in these tests, so a wait without an event fails immediately instead of hanging.
const NEVER: Duration = Duration::from_hours(1);

pub struct Client {
    writer: Option<WriteHalf<DuplexStream>>,
    reader: Lines<BufReader<ReadHalf<DuplexStream>>>,
    server: JoinHandle<Result<SessionEnd, ServeError>>,
    pub tools: Arc<Tools>,
    pub kernel: Arc<Kernel>,
}

impl Client {
    pub fn new() -> Self {
        Self::of(None)
    }

    /// A client of a host that prompts its clients.
    pub fn with_prompts(key: Option<&[u8]>) -> Self {
        let asks = ClientRequestSettings {
            questions: true,
            sampling: true,
        };
        let prompter = ElicitationPrompter::new(asks, key.map(<[u8]>::to_vec)).unwrap();
        Self::of(Some(Arc::new(prompter)))
    }

    /// A client of a host that restricts calls to the client's roots.
    pub fn with_roots() -> Self {
        Self::changed(None, |info| info.roots = true)
    }

    /// A client of a host that has no tools until [`Self::register`].
    pub fn while_starting(readiness: watch::Receiver<Readiness>) -> Self {
        Self::changed(None, |info| info.readiness = Some(readiness))
    }

    fn of(prompter: Option<Arc<ElicitationPrompter>>) -> Self {
        Self::changed(prompter, |_| {})
    }

    pub fn register(&self) {
        register(&self.kernel, &self.tools);
    }

    fn changed(
        prompter: Option<Arc<ElicitationPrompter>>,
        change: impl FnOnce(&mut ServeOptions),
    ) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let tools = Arc::new(Tools::new());
        let builder = Kernel::builder(KernelSettings::default());
        let builder = match &prompter {
            Some(prompter) => {
                let agents = ClientAgents::new(Arc::clone(prompter), Arc::new(NoServices));
                builder
                    .prompter(Arc::clone(prompter) as _)
                    .agents(Arc::new(agents))
            }
            None => builder,
        };
        let kernel = builder.build().unwrap();
        let mut info = ServeOptions {
            profile: toolhost_formats::profile::Profile::Native,
            others: toolhost_formats::profile::UnmappedTools::default(),
            prompter,
            roots: false,
            structured: false,
            own_folders: Arc::default(),
            readiness: None,
            tasks_after: Some(Duration::from_secs(10)),
            name: "host".to_owned(),
            version: "1.2.3".to_owned(),
            instructions: Some("instructions".to_owned()),
        };
        change(&mut info);
        if info.readiness.is_none() {
            register(&kernel, &tools);
        }
        let transport = tokio::io::split(theirs);
        let kernel = kernel.share();
        let served = Arc::clone(&kernel);
        let server =
            tokio::spawn(
                async move { toolhost_mcp_server::serve(served, info, "s", transport).await },
            );
        let (reader, writer) = tokio::io::split(ours);
        Self {
            writer: Some(writer),
            reader: BufReader::new(reader).lines(),
            server,
            tools,
            kernel,
        }
    }

    /// A client with a session.
    pub async fn initialized() -> Self {
        Self::new().start_session("2025-11-25", json!({})).await
    }

    pub async fn start_session(self, version: &str, capabilities: Value) -> Self {
        let mut client = self;
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}});
        client.request(&request(0, "initialize", params)).await;
        client
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        client
    }

    pub async fn send(&mut self, message: &Value) {
        self.send_line(message.to_string().as_bytes()).await;
    }

    pub async fn send_line(&mut self, line: &[u8]) {
        let writer = self.writer.as_mut().expect("the client is still talking");
        writer.write_all(line).await.unwrap();
        writer.write_all(b"\n").await.unwrap();
    }

    pub async fn receive(&mut self) -> Value {
        let line = timeout(NEVER, self.reader.next_line())
            .await
            .expect("a message")
            .unwrap();
        serde_json::from_str(&line.expect("the server is still talking"))
            .expect("one JSON message per line")
    }

    pub async fn request(&mut self, request: &Value) -> Value {
        self.send(request).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], request["id"], "{answer}");
        answer
    }

    /// Calls a tool and returns the result.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request(&call(1, tool, arguments)).await;
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// Ends the input, checks that the server ends immediately without an error, and returns its remaining output.
    pub async fn close(mut self) -> Vec<Value> {
        let start = Instant::now();
        self.writer
            .as_mut()
            .expect("the client is still talking")
            .shutdown()
            .await
            .unwrap();
        timeout(NEVER, &mut self.server)
            .await
            .expect("an end")
            .unwrap()
            .unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        drop(self.writer.take());
        let mut rest = String::new();
        let mut reader = self.reader.into_inner();
        timeout(NEVER, reader.read_to_string(&mut rest))
            .await
            .expect("an end")
            .unwrap();
        rest.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
pub fn request(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Adds the `_meta` of a 2026-07-28 request.
pub fn modern(request: Value) -> Value {
    with_capabilities(request, json!({}))
}

/// The same with these client capabilities.
pub fn with_capabilities(mut request: Value, capabilities: Value) -> Value {
    let meta = &mut request["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
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

pub struct Tools {
    descriptors: Vec<Descriptor>,
    /// Lets `wait`, or `wipe` with the content `wait`, continue.
    pub go: Notify,
    /// Notified when such a call starts, and when it is dropped before its end.
    pub begun: Notify,
    pub dropped: Notify,
    pub ids: Mutex<Vec<String>>,
}

/// Returns a schema with unconstrained members.
fn members(names: &[&str]) -> Value {
    let members: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| ((*name).to_owned(), json!({})))
        .collect();
    json!({"type": "object", "properties": members})
}

struct OnDrop<'a>(&'a Notify);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Tools {
    fn new() -> Self {
        let reads = Annotations {
            read_only: Some(true),
            ..Annotations::default()
        };
        let mut descriptors: Vec<_> = [
            "echo",
            "count",
            "refuse",
            "break_down",
            "panic",
            "wait",
            "talk",
            "odd_schema",
            "survey",
            "hand_on",
            "look",
        ]
        .into_iter()
        .map(|name| {
            let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), format!("does {name}"));
            tool.annotations = reads;
            tool.concurrency = Concurrency::Parallel;
            tool.input_schema = json!({"type": "object", "x-ours": 1});
            tool
        })
        .collect();
        descriptors[0].input_schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        descriptors[1].output_schema =
            Some(json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
        descriptors[7].input_schema = json!({"type": ["object", "null"]});
        descriptors[10].input_schema = json!({"type": "object", "properties": {"path": {"type": "string", "x-path": "read", "default": "."}}});
        let mut wipe = Descriptor::new(ToolName::parse("wipe").unwrap(), "destroys everything");
        wipe.requires = vec!["fs.write".to_owned()];
        wipe.timeout = Some(Duration::from_mins(10));
        wipe.input_schema = members(&["path", "content", "n"]);
        for (tool, names) in [
            (8, &["queries", "after"][..]),
            (9, &["agent", "prompt", "context"]),
        ] {
            descriptors[tool].input_schema = members(names);
        }
        descriptors.push(wipe);
        Self {
            descriptors,
            go: Notify::new(),
            begun: Notify::new(),
            dropped: Notify::new(),
            ids: Mutex::default(),
        }
    }

    async fn wait(&self) {
        let on_drop = OnDrop(&self.dropped);
        self.begun.notify_one();
        self.go.notified().await;
        std::mem::forget(on_drop);
    }

    async fn run(&self, call: Call, sink: Arc<dyn Sink>) -> Result<Outcome, CallError> {
        self.ids.lock().unwrap().push(call.id.to_string());
        match call.tool.as_str() {
            "echo" => Ok(Outcome::text(
                call.input["text"].as_str().unwrap_or_default(),
            )),
            "count" => Ok(Outcome {
                structured: Some(json!({"n": 3})),
                ..Outcome::default()
            }),
            "refuse" => Ok(Outcome {
                error: Some(Failure::new("exit_status", "it ended with 1")),
                ..Outcome::default()
            }),
            "break_down" => Err(CallError::timed_out(Duration::from_millis(1500))),
            "panic" => panic!("on purpose"),
            "wait" => {
                self.wait().await;
                Ok(Outcome::text("waited"))
            }
            "talk" => {
                let output = CallEvent::Output {
                    stream: "stdout".to_owned(),
                    bytes: b"noise\n".to_vec(),
                };
                let log = |level| CallEvent::Log {
                    level,
                    message: format!("{level:?}"),
                };
                sink.event(output);
                sink.event(log(LogLevel::Debug));
                sink.event(log(LogLevel::Warn));
                for step in [1.0, 2.0, 1.5, 3.0] {
                    sink.event(CallEvent::Progress {
                        message: None,
                        progress: Some(step),
                        total: Some(3.0),
                    });
                }
                Ok(Outcome::text("talked"))
            }
            "look" => Ok(Outcome::text("looked")),
            "wipe" => {
                if call.input["content"] == "wait" {
                    self.wait().await;
                }
                Ok(Outcome::text("wiped"))
            }
            "survey" => {
                let after = call.input["after"].as_u64().unwrap_or_default();
                tokio::time::sleep(Duration::from_secs(after)).await;
                let queries = UserQuestion::parse(call.input["queries"].as_str().unwrap()).unwrap();
                let services = sink.services().expect("a shared kernel lends its services");
                let progress_event = |progress| CallEvent::Progress {
                    message: None,
                    progress: Some(progress),
                    total: None,
                };
                sink.event(progress_event(1.0));
                let replies = services.ask_user(queries).await;
                sink.event(progress_event(2.0));
                Ok(match replies {
                    Ok(replies) => Outcome::text(json!(replies).to_string()),
                    Err(failure) => Outcome {
                        error: Some(failure),
                        ..Outcome::default()
                    },
                })
            }
            "hand_on" => {
                let services = sink.services().expect("a shared kernel lends its services");
                let agents = services.agents().into_iter().map(|agent| agent.name);
                let agents: Vec<String> = agents.collect();
                Ok(match services.run_agent(call.input.clone()).await {
                    Ok(answer) => Outcome::text(answer.to_string()),
                    Err(failure) => Outcome {
                        llm: vec![Part::Text(format!("{agents:?} {}", failure.message))],
                        error: Some(failure),
                        ..Outcome::default()
                    },
                })
            }
            other => Err(CallError::new(
                ErrorClass::Failed,
                format!("unimplemented tool {other}"),
            )),
        }
    }
}

impl Backend for Tools {
    fn tools(&self) -> &[Descriptor] {
        &self.descriptors
    }

    fn invoke(
        &self,
        call: Call,
        _grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(self.run(call, sink))
    }

    fn effect_bounds(&self, _tool: &Descriptor) -> EffectBounds {
        EffectBounds {
            sandboxed: true,
            can_change_files: true,
            can_reach_network: false,
        }
    }
}

fn register(kernel: &Kernel, tools: &Arc<Tools>) {
    let plugin = PluginInfo {
        name: PluginName::parse("fake").unwrap(),
        version: "1.0.0".to_owned(),
        digest: Some(Digest([7; 32])),
        timeout: None,
    };
    kernel.register(plugin, Arc::clone(tools) as _).unwrap();
}
