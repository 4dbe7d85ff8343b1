//! Tests with a scripted server; sends to it can be blocked.

use std::collections::VecDeque;
use std::io;

use rmcp::model::{ClientRequest, ClientResult, EmptyResult, PingRequest};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;

struct ScriptedTransport {
    messages: VecDeque<Value>,
    listens: bool,
}

impl Transport<RoleClient> for ScriptedTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        _item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let listens = self.listens;
        async move {
            if !listens {
                std::future::pending::<()>().await;
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.messages.pop_front()?;
        Some(serde_json::from_value(message).unwrap())
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn guard(
    messages: impl IntoIterator<Item = Value>,
    listens: bool,
) -> (ThrottledTransport<ScriptedTransport>, Arc<ServerLogger>) {
    let log = Arc::new(ServerLogger::new(Arc::new(|_: &str| ())));
    let messages = messages.into_iter().collect();
    let guard = ThrottledTransport::new(ScriptedTransport { messages, listens }, Arc::clone(&log));
    (guard, log)
}

fn ping(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn take_back(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

fn answer(id: i64) -> TxJsonRpcMessage<RoleClient> {
    JsonRpcMessage::response(
        ClientResult::EmptyResult(EmptyResult {}),
        RequestId::Number(id),
    )
}

/// Returns how many requests are read within `time`. If `answers`, each one is answered.
async fn read(
    guard: &mut ThrottledTransport<ScriptedTransport>,
    answers: bool,
    time: Duration,
) -> usize {
    let mut count = 0;
    let end = Instant::now() + time;
    while let Ok(Some(message)) = timeout_at(end, guard.receive()).await {
        if let JsonRpcMessage::Request(request) = message {
            count += 1;
            let RequestId::Number(id) = request.id else {
                unreachable!()
            };
            if answers {
                tokio::spawn(guard.send(answer(id)));
            }
        }
    }
    count
}

#[tokio::test(start_paused = true)]
async fn reading_stops_at_the_limit_of_open_requests() {
    let (mut deaf, _) = guard((0..1_000).map(ping), false);
    let second = Duration::from_secs(1);
    assert_eq!(read(&mut deaf, true, second).await, MAX_OPEN_REQUESTS);
    let (mut transport, _) = guard((0..200).map(ping), true);
    assert_eq!(read(&mut transport, true, second).await, 200);
}

#[tokio::test(start_paused = true)]
async fn reused_ids_do_not_bypass_the_limit() {
    // Not answered yet, so reusing the ID violates the protocol.
    let (mut same, log) = guard((0..1_000).map(|_| ping(1)), false);
    assert_eq!(read(&mut same, false, Duration::from_secs(1)).await, 1);
    let logged = log.tail().unwrap();
    assert!(
        logged.contains("two open requests with the id 1"),
        "{logged}"
    );
    // Answered, but the response was not read.
    let (mut same, _) = guard((0..1_000).map(|_| ping(1)), false);
    assert_eq!(read(&mut same, true, Duration::from_secs(1)).await, 1);
    // Answered and read: unusual, but harmless.
    let (mut same, _) = guard((0..200).map(|_| ping(1)), true);
    assert_eq!(read(&mut same, true, Duration::from_secs(1)).await, 200);
}

#[tokio::test(start_paused = true)]
async fn long_ids_end_the_connection() {
    let id = |bytes: usize| "x".repeat(bytes);
    let request = |bytes| json!({"jsonrpc": "2.0", "id": id(bytes), "method": "ping"});
    let progress = |bytes| {
        let params = json!({"progressToken": id(bytes), "progress": 1});
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    };
    let messages = [request(MAX_ID_BYTES), progress(MAX_ID_BYTES)];
    let (mut transport, _) = guard(messages, true);
    assert!(transport.receive().await.is_some());
    assert!(transport.receive().await.is_some());
    for message in [request(MAX_ID_BYTES + 1), progress(MAX_ID_BYTES + 1)] {
        let (mut transport, log) = guard([message], true);
        assert!(transport.receive().await.is_none());
        let logged = log.tail().unwrap();
        assert!(logged.contains("an id of 257 bytes"), "{logged}");
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_requests_count_for_a_while() {
    let messages = (0..1_000).flat_map(|id| [ping(id), take_back(id)]);
    let (mut guard, _) = guard(messages, false);
    assert_eq!(
        read(&mut guard, false, CANCELLED_PERIOD / 2).await,
        MAX_OPEN_REQUESTS
    );
    // The last one was not cancelled, because its cancellation was no longer read.
    assert_eq!(
        read(&mut guard, false, CANCELLED_PERIOD).await,
        MAX_OPEN_REQUESTS - 1
    );
}

#[tokio::test(start_paused = true)]
async fn unsolicited_responses_are_throttled() {
    let reply = |id: i64| json!({"jsonrpc": "2.0", "id": id, "result": {}});
    let count = i64::from(BURST + 5 * PER_SECOND);
    let begun = Instant::now();
    let (mut bogus, _) = guard((0..count).map(reply), true);
    while bogus.receive().await.is_some() {}
    assert!(
        begun.elapsed() >= Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );

    let begun = Instant::now();
    let (mut transport, _) = guard((0..count).map(reply), true);
    for id in 0..count {
        let ping = ClientRequest::PingRequest(PingRequest::default());
        let sent = transport.send(JsonRpcMessage::request(ping, RequestId::Number(id)));
        timeout(Duration::from_secs(1), sent)
            .await
            .unwrap()
            .unwrap();
        assert!(transport.receive().await.is_some());
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert!(transport.requested.is_empty());
}
