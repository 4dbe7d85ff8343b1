//! End-to-end test from a call of a kernel to the requests that a collector receives.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolhost_contract::{
    Annotations, Backend, BoxFuture, Call, CallError, CallId, Descriptor, Grant, NoSink, Outcome,
    PluginName, Principal, Sink, ToolName,
};
use toolhost_kernel::{
    BatchCall, BatchRequest, CallRequest, Kernel, KernelSettings, NoPrompter, PluginInfo, schedule,
};
use toolhost_telemetry::{Telemetry, TelemetryError};

struct Echo([Descriptor; 1]);

impl Backend for Echo {
    fn tools(&self) -> &[Descriptor] {
        &self.0
    }

    fn invoke(
        &self,
        call: Call,
        _: Grant,
        _: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(async move { Ok(Outcome::text(call.input.to_string())) })
    }
}

fn kernel() -> Kernel {
    let kernel = Kernel::new(KernelSettings::default(), Arc::new(NoPrompter)).unwrap();
    let mut tool = Descriptor::new(ToolName::parse("echo").unwrap(), "");
    tool.annotations = Annotations {
        read_only: Some(true),
        ..Annotations::default()
    };
    tool.input_schema = json!({"type": "object"});
    let plugin = PluginInfo {
        name: PluginName::parse("p").unwrap(),
        version: "1.0.0".to_owned(),
        digest: None,
        timeout: None,
    };
    kernel.register(plugin, Arc::new(Echo([tool]))).unwrap();
    kernel
}

fn input() -> Value {
    json!({"text": "private input"})
}

struct Collector {
    listener: TcpListener,
    status: &'static str,
}

struct Received {
    head: String,
    body: Vec<u8>,
}

impl Received {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Collector {
    async fn new(status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener, status }
    }

    fn telemetry(&self, more: &[(&str, &str)]) -> Telemetry {
        let endpoint = format!("http://{}", self.listener.local_addr().unwrap());
        let var = |name: &str| {
            if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
                return Some(endpoint.clone());
            }
            let found = more.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Telemetry::from_env(var).unwrap().unwrap()
    }

    /// Accepts requests until one of each signal has arrived: traces, then metrics.
    async fn receive(self) -> [Received; 2] {
        let (mut traces, mut metrics) = (None, None);
        while traces.is_none() || metrics.is_none() {
            let (stream, _) = self.listener.accept().await.unwrap();
            let received = answer(stream, self.status).await;
            if received.head.starts_with("POST /v1/traces ") {
                traces = Some(received);
            } else if received.head.starts_with("POST /v1/metrics ") {
                metrics = Some(received);
            } else {
                panic!("{}", received.head);
            }
        }
        [traces.unwrap(), metrics.unwrap()]
    }
}

/// Reads one request of a connection and answers it.
async fn answer(mut stream: TcpStream, status: &str) -> Received {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
    };
    let head = String::from_utf8(bytes[..end].to_vec())
        .unwrap()
        .to_lowercase()
        .replacen("post", "POST", 1);
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.unwrap().parse().unwrap();
    while bytes.len() < end + length {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
    }
    let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(response.as_bytes()).await.unwrap();
    let body = bytes[end..].to_vec();
    Received { head, body }
}

/// Runs a batch of one call, and a single call.
async fn calls(kernel: &Kernel) {
    let batch = BatchRequest {
        id: "b-1".to_owned(),
        caller: Principal::default(),
        calls: vec![BatchCall {
            id: CallId("c-1".to_owned()),
            tool: "echo".to_owned(),
            only_paths: None,
            input: input(),
        }],
        strategy: schedule::Strategy::default(),
        context: toolhost_kernel::CallContext::default(),
    };
    let reports = kernel.schedule(batch, Arc::new(NoSink)).await.unwrap();
    assert!(reports[0].result.is_ok(), "{:?}", reports[0].result);
    let call = CallRequest::new(
        CallId("c-2".to_owned()),
        "echo",
        input(),
        Principal::default(),
    );
    let report = kernel.call(call, Arc::new(NoSink)).await;
    assert!(report.result.is_ok(), "{:?}", report.result);
}

#[tokio::test]
async fn a_collector_receives_spans_and_metrics_without_inputs() {
    let collector = Collector::new("200 OK").await;
    let kernel = kernel();
    let following = collector.telemetry(&[]).spawn(kernel.subscribe(None, None));
    calls(&kernel).await;
    let (ended, [traces, metrics]) = tokio::join!(following.shutdown(), collector.receive());
    ended.unwrap();
    for received in [&traces, &metrics] {
        assert!(
            received
                .head
                .contains("content-type: application/x-protobuf"),
            "{}",
            received.head
        );
        assert!(!received.text().contains("private input"));
    }
    for expected in ["execute_tool echo", "toolhost.batch", "gen_ai.tool.call.id"] {
        assert!(traces.text().contains(expected), "{}", traces.text());
    }
    for expected in [
        "toolhost.calls",
        "toolhost.call.duration",
        "toolhost.call.waiting",
    ] {
        assert!(metrics.text().contains(expected), "{}", metrics.text());
    }
}

#[tokio::test]
async fn spans_continue_the_trace_of_the_parent_process() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let collector = Collector::new("200 OK").await;
    let kernel = kernel();
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let following = collector
        .telemetry(&[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("TRACEPARENT", &parent),
        ])
        .spawn(kernel.subscribe(None, None));
    calls(&kernel).await;
    let (ended, [traces, _]) = tokio::join!(following.shutdown(), collector.receive());
    ended.unwrap();
    let export: Value = serde_json::from_slice(&traces.body).unwrap();
    let resource = &export["resourceSpans"][0]["resource"]["attributes"];
    let service = json!({"key": "service.name", "value": {"stringValue": "toolhost"}});
    assert!(
        resource.as_array().unwrap().contains(&service),
        "{resource}"
    );
    let spans = export["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .unwrap();
    let names: Vec<&str> = spans
        .iter()
        .map(|span| span["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["execute_tool echo", "toolhost.batch", "execute_tool echo"]
    );
    for span in spans {
        assert_eq!(span["traceId"], TRACE);
    }
    assert_eq!(spans[0]["parentSpanId"], spans[1]["spanId"]);
    assert_eq!(spans[1]["parentSpanId"], "b7ad6b7169203331");
    assert_eq!(spans[2]["parentSpanId"], "b7ad6b7169203331");
}

#[tokio::test]
async fn rejected_data_is_reported_at_shutdown() {
    let collector = Collector::new("400 Bad Request").await;
    let kernel = kernel();
    let following = collector.telemetry(&[]).spawn(kernel.subscribe(None, None));
    calls(&kernel).await;
    let (ended, _) = tokio::join!(following.shutdown(), collector.receive());
    let error = ended.unwrap_err().to_string();
    assert!(error.starts_with("telemetry was not delivered: 127.0.0.1:"));
    assert!(
        error.contains("/v1/traces answered 400 Bad Request"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_collector_delays_neither_calls_nor_shutdown() {
    // The listener never accepts, but the backlog takes the connections.
    let collector = Collector::new("").await;
    let kernel = kernel();
    let following = collector.telemetry(&[]).spawn(kernel.subscribe(None, None));
    calls(&kernel).await;
    let ended = following.shutdown().await;
    assert!(matches!(ended, Err(TelemetryError::Timeout)), "{ended:?}");
}
