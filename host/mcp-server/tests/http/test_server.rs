//! Test server on its own port, with simple tools.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use toolhost_contract::{
    Annotations, Backend, BoxFuture, Call, CallError, Concurrency, Descriptor, Grant, Outcome,
    Part, PluginName, Principal, Sink, ToolName,
};
use toolhost_formats::profile::{Profile, UnmappedTools};
use toolhost_kernel::{Kernel, KernelSettings, NoPrompter, PluginInfo, Prompter};
use toolhost_mcp_server::http::{Exposure, HttpLimits, HttpOptions, HttpServer, Tokens};
use toolhost_mcp_server::{ClientRequestSettings, ElicitationPrompter, ServeError, ServeOptions};

use crate::client::Client;

/// Timeout that is longer than any step takes, even on a busy machine.
pub const NEVER: Duration = Duration::from_secs(60);

/// Size of one text of `big`, in bytes.
const PART: u64 = 128 << 10;

pub const ANN: &str = "ann-has-this-token-and-no-other";
pub const BOB: &str = "bob-has-this-token-and-no-other";

pub struct TestServer {
    pub address: SocketAddr,
    pub tools: Arc<Tools>,
    stop: Option<oneshot::Sender<()>>,
    hurry: Option<oneshot::Sender<()>>,
    server: JoinHandle<Result<(), ServeError>>,
}

pub fn without_tokens() -> HttpOptions {
    HttpOptions {
        tokens: None,
        exposure: Exposure::Loopback,
        hosts: Vec::new(),
        origins: Vec::new(),
        limits: HttpLimits::default(),
    }
}

pub fn with_tokens() -> HttpOptions {
    let tokens = Tokens::parse(&format!("ann {ANN}\nbob {BOB}"), "tokens").unwrap();
    HttpOptions {
        tokens: Some(tokens),
        ..without_tokens()
    }
}

pub fn with_limits(limits: HttpLimits) -> HttpOptions {
    HttpOptions {
        limits,
        ..without_tokens()
    }
}

impl TestServer {
    pub async fn start(options: HttpOptions) -> Self {
        Self::start_with(options, None, Duration::from_secs(10), false).await
    }

    /// A server whose calls become tasks immediately.
    pub async fn start_tasking(options: HttpOptions) -> Self {
        Self::start_with(options, None, Duration::ZERO, false).await
    }

    /// A server that prompts its clients, with a tool `wipe` that needs approval.
    pub async fn start_asking(options: HttpOptions) -> Self {
        let asks = ClientRequestSettings {
            questions: true,
            sampling: false,
        };
        let elicitation_prompter = ElicitationPrompter::new(asks, None).unwrap();
        Self::start_with(
            options,
            Some(Arc::new(elicitation_prompter)),
            Duration::from_secs(10),
            false,
        )
        .await
    }

    /// A server that restricts calls to the client's roots.
    pub async fn start_with_roots(options: HttpOptions) -> Self {
        Self::start_with(options, None, Duration::from_secs(10), true).await
    }

    async fn start_with(
        options: HttpOptions,
        elicitation_prompter: Option<Arc<ElicitationPrompter>>,
        tasks_after: Duration,
        roots: bool,
    ) -> Self {
        let tools = Arc::new(Tools::new(elicitation_prompter.is_some()));
        let prompter: Arc<dyn Prompter> = match &elicitation_prompter {
            Some(elicitation_prompter) => Arc::clone(elicitation_prompter) as _,
            None => Arc::new(NoPrompter),
        };
        let kernel = Kernel::new(KernelSettings::default(), prompter).unwrap();
        let plugin = PluginInfo {
            name: PluginName::parse("fake").unwrap(),
            version: "1.0.0".to_owned(),
            digest: None,
            timeout: None,
        };
        kernel.register(plugin, Arc::clone(&tools) as _).unwrap();
        let info = ServeOptions {
            name: "host".to_owned(),
            version: "1.2.3".to_owned(),
            instructions: None,
            profile: Profile::Native,
            others: UnmappedTools::default(),
            prompter: elicitation_prompter,
            roots,
            structured: false,
            own_folders: Arc::default(),
            readiness: None,
            tasks_after: Some(tasks_after),
        };
        let port = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = HttpServer::bind(port, options).await.unwrap();
        let url = server.url();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp");
        let address = address.unwrap().parse().unwrap();
        let (stop, stopped) = oneshot::channel();
        let (hurry, hurried) = oneshot::channel();
        let server = tokio::spawn(server.serve(
            Arc::new(kernel),
            info,
            Box::pin(async move { stopped.await.unwrap_or_default() }),
            Box::pin(async move { hurried.await.unwrap_or_default() }),
        ));
        Self {
            address,
            tools,
            stop: Some(stop),
            hurry: Some(hurry),
            server,
        }
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    pub fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    pub fn hurry(&mut self) {
        let _ = self.hurry.take().unwrap().send(());
    }

    pub async fn end(self) {
        let ended = timeout(NEVER, self.server).await.expect("an end");
        ended.unwrap().unwrap();
    }
}

/// Tools `echo`, `wait`, which waits for the test, and `big`, which returns a number of bytes.
pub struct Tools {
    descriptors: Vec<Descriptor>,
    /// Lets one `wait` continue.
    pub go: Notify,
    /// Notified when a call of `wait` starts, and when it is dropped before its end.
    pub begun: Notify,
    pub dropped: Notify,
    pub calls: Mutex<Vec<(String, Principal)>>,
}

struct OnDrop<'a>(&'a Notify);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Tools {
    fn new(asks: bool) -> Self {
        let mut descriptors = Vec::from(["echo", "wait", "big"].map(|name| {
            let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), format!("does {name}"));
            tool.annotations = Annotations {
                read_only: Some(true),
                ..Annotations::default()
            };
            tool.concurrency = Concurrency::Parallel;
            tool.input_schema = json!({"type": "object"});
            tool
        }));
        if asks {
            let wipe = ToolName::parse("wipe").unwrap();
            descriptors.push(Descriptor::new(wipe, "destroys everything"));
        }
        Self {
            descriptors,
            go: Notify::new(),
            begun: Notify::new(),
            dropped: Notify::new(),
            calls: Mutex::default(),
        }
    }

    async fn run(&self, call: Call) -> Outcome {
        let recorded = (call.id.to_string(), call.caller.clone());
        self.calls.lock().unwrap().push(recorded);
        match call.tool.as_str() {
            "echo" => Outcome::text(call.input["text"].as_str().unwrap_or_default()),
            "wipe" => Outcome::text("wiped"),
            "big" => {
                let size = call.input["size"].as_u64().unwrap();
                // In parts that are short enough not to be truncated.
                let parts =
                    (0..size.div_ceil(PART)).map(|at| size.saturating_sub(at * PART).min(PART));
                let part = |size| Part::Text("x".repeat(usize::try_from(size).unwrap()));
                Outcome {
                    llm: parts.map(part).collect(),
                    ..Outcome::default()
                }
            }
            _ => {
                let on_drop = OnDrop(&self.dropped);
                self.begun.notify_one();
                self.go.notified().await;
                std::mem::forget(on_drop);
                Outcome::text("waited")
            }
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
        _sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(async { Ok(self.run(call).await) })
    }
}
