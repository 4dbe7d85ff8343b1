//! Tests of the transport with misbehaving clients.

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{ServerNotification, ServerResult, ToolListChangedNotification};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};

use super::*;

/// Capacity of the pipe, in bytes.
const PIPE: usize = 1 << 16;

type Ours = LineTransport<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

struct Client {
    writer: WriteHalf<DuplexStream>,
    reader: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
}

impl Client {
    fn new() -> (Self, Ours) {
        let (client, server) = duplex(PIPE);
        let (reader, writer) = split(server);
        let (at_end, _) = oneshot::channel();
        let lines = LineTransport::new(reader, writer, at_end);
        let (reader, writer) = split(client);
        let reader = BufReader::new(reader).lines();
        (Self { writer, reader }, lines)
    }

    async fn send(&mut self, line: &[u8]) {
        self.writer.write_all(line).await.unwrap();
        self.writer.write_all(b"\n").await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = self.reader.next_line().await.unwrap().expect("a line");
        serde_json::from_str(&line).expect("one message")
    }
}

fn request(id: impl Into<Value>, method: &str) -> Vec<u8> {
    let id: Value = id.into();
    let params = json!({"name": "tool", "_meta": meta("2026-07-28")});
    let message = json!({"method": method, "params": params, "jsonrpc": "2.0", "id": id});
    message.to_string().into_bytes()
}

fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn result(id: i64, bytes: usize) -> ServerJsonRpcMessage {
    let text = ServerResult::CustomResult(rmcp::model::CustomResult(json!("x".repeat(bytes))));
    ServerJsonRpcMessage::response(text, RequestId::Number(id))
}

/// Sends a message like rmcp, which writes concurrently.
fn send(lines: &mut Ours, message: ServerJsonRpcMessage) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(lines.send(message))
}

fn list_changed() -> ServerJsonRpcMessage {
    let notification =
        ServerNotification::ToolListChangedNotification(ToolListChangedNotification::default());
    ServerJsonRpcMessage::notification(notification)
}

fn id(message: Option<ClientJsonRpcMessage>) -> i64 {
    match message.expect("a message") {
        JsonRpcMessage::Request(request) => match request.id {
            RequestId::Number(id) => id,
            RequestId::String(id) => panic!("{id}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Checks the errors that a line causes, as ids and codes, before the session continues.
async fn check(line: &[u8], expected: &[(Value, i64)]) {
    let (mut client, mut lines) = Client::new();
    let exchange = async {
        client.send(&request(0, "tools/call")).await;
        client.send(line).await;
        client.send(&request(99, "ping")).await;
        let mut received = Vec::new();
        for _ in expected {
            let answer = client.receive().await;
            received.push((
                answer["id"].clone(),
                answer["error"]["code"].as_i64().unwrap(),
            ));
        }
        received
    };
    let serve = async {
        assert_eq!(id(lines.receive().await), 0);
        assert_eq!(id(lines.receive().await), 99);
    };
    let (received, ()) = tokio::join!(exchange, serve);
    let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
    assert_eq!(received, expected, "{shown}");
    // No other output.
    lines.send(list_changed()).await.unwrap();
    assert_eq!(client.receive().await["id"], Value::Null, "{shown}");
}

#[tokio::test]
async fn a_response_is_written_before_its_future_is_polled() {
    let (mut client, mut lines) = Client::new();
    let unpolled = send(&mut lines, result(1, 1));
    assert_eq!(client.receive().await["id"], 1);
    // What the pipe does not take follows when the future is polled.
    let rest = send(&mut lines, result(2, 2 * PIPE));
    let (written, received) = tokio::join!(rest, client.receive());
    assert_eq!((written.unwrap(), &received["id"]), ((), &json!(2)));
    unpolled.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_request_is_answered_and_notifications_are_not() {
    let long = "x".repeat(MAX_LINE);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let many = vec!["[0]"; MAX_VALUES / 2].join(",");
    let ping = r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#;
    let batch = format!("[{ping},{}]", ping.replace('5', "6"));
    let both = format!("{ping}{}", ping.replace('5', "6"));
    let with =
        |x: &str| format!(r#"{{"method":"tools/call","params":{x},"jsonrpc":"2.0","id":5}}"#);
    let (invalid, broken) = (-32600, -32700);
    for (line, expected) in [
        (
            with(&format!(r#"{{"name":"{long}"}}"#)),
            vec![(json!(5), invalid)],
        ),
        (long.clone(), vec![(Value::Null, invalid)]),
        (format!(r#"{{"method":"m","x":"{long}"}}"#), vec![]),
        (with(&deep), vec![(json!(5), invalid)]),
        (deep, vec![(Value::Null, broken)]),
        (with(&format!("[{many}]")), vec![(json!(5), invalid)]),
        (with("oops"), vec![(json!(5), broken)]),
        (
            with("oops").replace('5', "\"a b\""),
            vec![(json!("a b"), broken)],
        ),
        (with("{"), vec![(Value::Null, broken)]),
        (both, vec![(json!(5), broken), (json!(6), broken)]),
        (batch, vec![(json!(5), invalid), (json!(6), invalid)]),
        (format!("oops {ping}"), vec![(json!(5), broken)]),
        ("{not json".to_owned(), vec![(Value::Null, broken)]),
        ("{}".to_owned(), vec![(Value::Null, invalid)]),
        (ping.replace('5', "null"), vec![(Value::Null, invalid)]),
        (ping.replace('5', "1.5"), vec![(Value::Null, invalid)]),
        (ping.replace("2.0", "1.0"), vec![(json!(5), invalid)]),
        (
            ping.replace("\"2.0\"", "\"2.0"),
            vec![(Value::Null, broken)],
        ),
        (
            r#"{"jsonrpc":"1.0","method":"notifications/x"}"#.to_owned(),
            vec![],
        ),
        (String::new(), vec![]),
        (" \r".to_owned(), vec![]),
    ] {
        check(line.as_bytes(), &expected).await;
    }
    let bytes = b"{\"method\":\"ping\",\"x\":\"\xff\xfe\",\"id\":5,\"jsonrpc\":\"2.0\"}";
    check(bytes, &[(json!(5), broken)]).await;
}

#[tokio::test(start_paused = true)]
async fn errors_without_id_are_limited_to_one_per_second() {
    let (mut client, mut lines) = Client::new();
    for (pause, answers) in [(0, 1), (900, 0), (100, 1), (2000, 1)] {
        tokio::time::advance(Duration::from_millis(pause)).await;
        for _ in 0..3 {
            client.send(b"{").await;
        }
        client.send(&request(1, "tools/call")).await;
        assert_eq!(id(lines.receive().await), 1);
        lines.send(result(1, 0)).await.unwrap();
        for _ in 0..answers {
            assert_eq!(client.receive().await["error"]["code"], json!(-32700));
        }
        assert_eq!(client.receive().await["id"], json!(1), "after {pause}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_response_ends_the_server_request() {
    let (mut client, mut lines) = Client::new();
    client.send(&request(1, "tools/call")).await;
    assert_eq!(id(lines.receive().await), 1);
    client
        .send(b"{\"jsonrpc\":\"2.0\",\"result\":{\"x\":\xff},\"id\":7}")
        .await;
    match lines.receive().await {
        Some(JsonRpcMessage::Error(error)) => assert_eq!(error.id, Some(RequestId::Number(7))),
        other => panic!("{other:?}"),
    }
    lines.send(list_changed()).await.unwrap();
    assert!(
        client.receive().await["error"].is_null(),
        "no other error is sent"
    );
}

#[tokio::test(start_paused = true)]
async fn an_id_in_use_is_rejected() {
    let (mut client, mut lines) = Client::new();
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}});
    let cancel = cancel.to_string().into_bytes();
    let six = request(6, "tools/call");
    client.send(&six).await;
    client.send(&six).await;
    client.send(&request("6", "tools/call")).await;
    client.send(&request(7, "tools/call")).await;
    assert_eq!(id(lines.receive().await), 6);
    assert!(
        matches!(lines.receive().await, Some(JsonRpcMessage::Request(other)) if other.id == RequestId::String("6".into()))
    );
    assert_eq!(id(lines.receive().await), 7);
    let answer = client.receive().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(6), &json!(-32600))
    );

    // A response frees the id, and so does a cancellation, after the reservation ends.
    lines.send(result(6, 0)).await.unwrap();
    client.receive().await;
    client.send(&six).await;
    assert_eq!(id(lines.receive().await), 6);
    client.send(&cancel).await;
    assert!(matches!(
        lines.receive().await,
        Some(JsonRpcMessage::Notification(_))
    ));
    client.send(&six).await;
    client.send(&request(8, "tools/call")).await;
    assert_eq!(id(lines.receive().await), 8);
    assert_eq!(client.receive().await["error"]["code"], json!(-32600));
    tokio::time::advance(Duration::from_secs(1)).await;
    client.send(&six).await;
    assert_eq!(id(lines.receive().await), 6);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_open_requests_is_limited() {
    let (mut client, mut lines) = Client::new();
    for number in 0..2048 {
        client.send(&request(number, "subscriptions/listen")).await;
        assert_eq!(id(lines.receive().await), number);
    }
    client.send(&request(5000, "tools/call")).await;
    let cancel =
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#;
    client.send(cancel).await;
    assert!(
        matches!(lines.receive().await, Some(JsonRpcMessage::Notification(_))),
        "cancellations are still read"
    );
    assert_eq!(client.receive().await["error"]["code"], json!(-32603));
    tokio::time::advance(Duration::from_secs(1)).await;
    client.send(&request(5000, "tools/call")).await;
    assert_eq!(id(lines.receive().await), 5000);
}

#[tokio::test(start_paused = true)]
async fn the_size_of_open_requests_is_limited() {
    let (mut client, mut lines) = Client::new();
    let large = "x".repeat(7 << 20);
    let call = |number| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"{large}"}}}}"#
        )
    };
    for number in 0..4 {
        let call = call(number);
        let ((), message) = tokio::join!(client.send(call.as_bytes()), lines.receive());
        assert_eq!(id(message), number);
    }
    let exchange = async {
        client.send(call(4).as_bytes()).await;
        client.send(&request(5, "tools/call")).await;
    };
    let ((), message) = tokio::join!(exchange, lines.receive());
    assert_eq!(id(message), 5);
    assert_eq!(client.receive().await["id"], json!(4));
}

#[tokio::test(start_paused = true)]
async fn reading_pauses_while_too_much_output_is_unread() {
    let (mut client, mut lines) = Client::new();
    let (each, count) = (1 << 20, 17);
    for number in 0..count {
        client.send(&request(number, "tools/call")).await;
        assert_eq!(id(lines.receive().await), number);
    }
    let sends: Vec<_> = (0..count)
        .map(|number| send(&mut lines, result(number, each)))
        .collect();
    client.send(&request(100, "tools/call")).await;
    assert!(lines.receive().now_or_never().is_none());
    // The order is independent of which write is polled first.
    let sends = tokio::spawn(futures::future::join_all(sends.into_iter().rev()));
    for number in 0..count {
        assert_eq!(client.receive().await["id"], json!(number));
    }
    assert!(sends.await.unwrap().iter().all(Result::is_ok));
    assert_eq!(id(lines.receive().await), 100);
}

#[tokio::test(start_paused = true)]
async fn immediate_requests_are_limited() {
    let (mut client, mut lines) = Client::new();
    for number in 0..65 {
        client.send(&request(number, "tools/list")).await;
    }
    for number in 0..64 {
        assert_eq!(id(lines.receive().await), number);
    }
    assert!(lines.receive().now_or_never().is_none());
    lines.send(result(9, 0)).await.unwrap();
    assert_eq!(id(lines.receive().await), 64);
}

#[tokio::test(start_paused = true)]
async fn the_session_ends_when_output_fails() {
    let (to_us, from_client) = duplex(PIPE);
    let (to_client, from_us) = duplex(PIPE);
    let (at_end, end) = oneshot::channel();
    let mut lines = LineTransport::new(from_client, to_client, at_end);
    let mut to_us = to_us;
    to_us.write_all(&request(1, "tools/call")).await.unwrap();
    to_us.write_all(b"\n").await.unwrap();
    assert_eq!(id(lines.receive().await), 1);
    drop(from_us);
    to_us.write_all(&request(2, "tools/call")).await.unwrap();
    to_us.write_all(b"\n").await.unwrap();
    let write: BoxFuture<'static, _> = Box::pin(lines.send(list_changed()));
    {
        let mut waiting = Box::pin(lines.next());
        assert!(
            waiting.as_mut().now_or_never().is_some(),
            "reading continues until a write fails"
        );
    }
    write.await.unwrap_err();
    to_us.write_all(&request(3, "tools/call")).await.unwrap();
    to_us.write_all(b"\n").await.unwrap();
    assert!(lines.receive().await.is_none());
    end.await.unwrap();
    lines.send(list_changed()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn output_queued_before_the_end_of_input_is_written() {
    let (mut client, mut lines) = Client::new();
    client.send(&request(1, "tools/call")).await;
    client.send(b"{").await;
    client.writer.write_all(b"{\"jsonrpc\":").await.unwrap();
    client.writer.shutdown().await.unwrap();
    assert_eq!(id(lines.receive().await), 1);
    // Not polled: the session ends.
    let answer = send(&mut lines, result(1, 10));
    assert!(lines.receive().await.is_none());
    lines.close().await.unwrap();
    drop((answer, lines));
    assert_eq!(client.receive().await["id"], json!(1));
    assert_eq!(client.receive().await["error"]["code"], json!(-32700));
    assert!(client.reader.next_line().await.unwrap().is_none());
}

#[tokio::test]
async fn a_request_that_does_not_begin_the_session_leaves_it_unbegun() {
    let (mut client, mut lines) = Client::new();
    let early = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    for (id, first) in [(1, json!({"_meta": meta("2099-01-01")})), (2, json!({}))] {
        let first = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": first});
        client.send(first.to_string().as_bytes()).await;
        client.send(early.as_bytes()).await;
    }
    let odd = json!({"capabilities": {}, "clientInfo": {"name": "a", "version": "1"}, "protocolVersion": 5});
    let odd = json!({"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": odd});
    client.send(odd.to_string().as_bytes()).await;
    client.send(early.as_bytes()).await;
    client.send(&request(4, "ping")).await;
    for expected in [1, 2, 4] {
        assert_eq!(id(lines.receive().await), expected);
    }
    let refused = client.receive().await;
    assert_eq!(refused["id"], 3);
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("invalid type: integer `5`"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_does_not_block_the_end() {
    let (client, mut lines) = Client::new();
    let stuck = tokio::spawn(send(&mut lines, result(1, 2 * PIPE)));
    let rest = send(&mut lines, result(2, PIPE));
    lines.close().await.unwrap_err();
    stuck.abort();
    rest.await.unwrap_err();
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn c_05_nothing_is_written_after_the_end_of_input() {
    let (mut client, mut lines) = Client::new();
    client.send(&request(1, "tools/call")).await;
    client.send(&request(2, "ping")).await;
    assert_eq!(id(lines.receive().await), 1);
    assert_eq!(id(lines.receive().await), 2);
    send(&mut lines, result(2, 1)).await.unwrap();
    client.writer.shutdown().await.unwrap();
    assert!(lines.receive().await.is_none());
    let failed = ErrorData::internal_error("too late", None);
    let failed = ServerJsonRpcMessage::error(failed, Some(RequestId::Number(1)));
    send(&mut lines, failed).await.unwrap_err();
    send(&mut lines, list_changed()).await.unwrap_err();
    lines.close().await.unwrap();
    drop(lines);
    assert_eq!(client.receive().await["id"], 2);
    assert_eq!(client.reader.next_line().await.unwrap(), None);
}
