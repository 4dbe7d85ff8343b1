//! Runs `tools/call` requests without rmcp, which spawns one task for each request and another for its response.
//!
//! Most calls complete when they are polled once. The reading task polls a call that arrived alone. Calls that arrived
//! together are divided among at most as many tasks as there are workers, and those of a task are answered with one write.

use std::borrow::Cow;
use std::fmt::{self, Formatter};
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientJsonRpcMessage,
    ClientRequest, ErrorData, GetMeta, JsonRpcMessage, JsonRpcRequest, JsonRpcVersion2_0,
    ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RequestContext, Service};
use rmcp::{Peer, RoleServer, ServerHandler};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tokio::io::AsyncWrite;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Responder;
use crate::server::Server;

/// How long a task polls calls that arrived together. The first response waits for this time and for the last poll, which
/// ends when a guest that computes yields to the epoch.
const POLL_TIME: Duration = Duration::from_micros(500);

/// A `tools/call` request, parsed without the intermediate values that rmcp needs to find the type of a message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallMessage {
    jsonrpc: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(rename = "method")]
    _method: CallToolRequestMethod,
    params: Object<CallToolRequestParams>,
}

/// A value that is deserialized from a JSON object. Derived implementations also accept an array of the members.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Returns the message in a line if it is an ordinary `tools/call` request.
pub(super) fn parse_call(line: &[u8]) -> Option<ClientJsonRpcMessage> {
    // Serde does not check the encoding of members that it ignores.
    let line = std::str::from_utf8(line).ok()?;
    let Object(CallMessage {
        jsonrpc,
        id,
        _method,
        params: Object(mut params),
    }) = serde_json::from_str(line).ok()?;
    let meta = params.meta.take();
    let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    if let Some(meta) = meta {
        *request.get_meta_mut() = meta;
    }
    Some(JsonRpcMessage::Request(JsonRpcRequest {
        jsonrpc,
        id,
        request,
    }))
}

/// State shared by the calls of a session. rmcp handles all requests until [`Self::begin`] sets the peer.
pub(crate) struct DirectCalls {
    server: Arc<Server>,
    peer: OnceLock<Peer<RoleServer>>,
    tasks: TaskTracker,
    /// Cancelled at the end of the input.
    ended: CancellationToken,
}

impl DirectCalls {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            peer: OnceLock::new(),
            tasks: TaskTracker::new(),
            ended: CancellationToken::new(),
        }
    }

    pub(crate) fn begin(&self, peer: Peer<RoleServer>) {
        let _ = self.peer.set(peer);
    }

    /// Returns the peer if this request can run without rmcp. rmcp associates the host's requests with the call that
    /// caused them, so it handles the calls of clients that receive such requests.
    pub(super) fn peer_for(&self, request: &ClientRequest) -> Option<&Peer<RoleServer>> {
        let is_call = matches!(request, ClientRequest::CallToolRequest(_));
        let peer = self.peer.get().filter(|_| is_call)?;
        (!self.server.may_send_requests()).then_some(peer)
    }

    pub(super) fn protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        ServerHandler::supported_protocol_versions(&self.server)
    }

    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Waits until all calls have ended.
    pub(super) async fn wait(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Returns a token for one call, which [`Self::end`] cancels too.
    pub(super) fn cancellation(&self) -> CancellationToken {
        self.ended.child_token()
    }

    /// Returns a call whose response `responder` will send.
    pub(super) fn prepare<W>(
        &self,
        request: JsonRpcRequest<ClientRequest>,
        peer: &Peer<RoleServer>,
        cancellation: CancellationToken,
        responder: Responder<W>,
    ) -> PreparedCall<W> {
        let JsonRpcRequest {
            id, mut request, ..
        } = request;
        let mut context = RequestContext::new(id.clone(), peer.clone());
        context.ct = cancellation;
        std::mem::swap(&mut context.meta, request.get_meta_mut());
        let server = Arc::clone(&self.server);
        let response = Box::pin(async move {
            // A panic in the reading task would end the session.
            let handled = AssertUnwindSafe(server.handle_request(request, context));
            match handled.catch_unwind().await {
                Ok(Ok(result)) => JsonRpcMessage::response(result, id),
                Ok(Err(error)) => JsonRpcMessage::error(error, Some(id)),
                Err(_) => {
                    let error = ErrorData::internal_error("the call panicked", None);
                    JsonRpcMessage::error(error, Some(id))
                }
            }
        });
        PreparedCall {
            response,
            responder,
        }
    }

    /// Runs calls that arrived together. A single call is polled once before this returns.
    pub(super) fn run<W: AsyncWrite + Send + Unpin + 'static>(&self, calls: Vec<PreparedCall<W>>) {
        if calls.len() <= 1 {
            return poll_in_turn(&self.tasks, calls);
        }
        let workers = Handle::current().metrics().num_workers();
        let mut parts: Vec<Vec<_>> = Vec::new();
        parts.resize_with(workers.clamp(1, calls.len()), Vec::new);
        let count = parts.len();
        // In turn, so that a call does not start long before the ones that arrived before it.
        for (number, call) in calls.into_iter().enumerate() {
            parts[number % count].push(call);
        }
        for part in parts {
            let tasks = self.tasks.clone();
            self.tasks.spawn(async move { poll_in_turn(&tasks, part) });
        }
    }
}

/// A call that has not been polled.
pub(super) struct PreparedCall<W> {
    response: BoxFuture<'static, ServerJsonRpcMessage>,
    responder: Responder<W>,
}

/// Polls each call once and writes the responses together. Separate tasks run the calls that need more than one poll, and
/// those that are left after [`POLL_TIME`].
fn poll_in_turn<W: AsyncWrite + Send + Unpin + 'static>(
    tasks: &TaskTracker,
    calls: Vec<PreparedCall<W>>,
) {
    let start = Instant::now();
    let mut queued = None;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for call in calls {
        let PreparedCall {
            mut response,
            responder,
        } = call;
        if start.elapsed() < POLL_TIME
            && let Poll::Ready(response) = response.as_mut().poll(&mut context)
        {
            queued = responder.queue(&response).or(queued);
            continue;
        }
        tasks.spawn(async move {
            if let Some(queued) = responder.queue(&response.await) {
                queued.write();
            }
        });
    }
    if let Some(queued) = queued {
        queued.write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_parsed_as_rmcp_parses_them() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"params":{"arguments":{"x":[1,-2,0.5,null,"é"]},"name":"a"},"method":"tools/call","id":"b","jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","arguments":{},
                "_meta":{"progressToken":7,"other":{"y":1}},"requestState":"s"}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a","extra":true,"_meta":{}}}"#,
        ] {
            let direct = parse_call(line.as_bytes()).expect(line);
            let expected: ClientJsonRpcMessage = serde_json::from_str(line).unwrap();
            let (JsonRpcMessage::Request(direct), JsonRpcMessage::Request(expected)) =
                (direct, expected)
            else {
                panic!("{line}");
            };
            assert_eq!(direct.id, expected.id, "{line}");
            let (direct, expected): (ClientRequest, ClientRequest) =
                (direct.request, expected.request);
            assert_eq!(direct.get_meta(), expected.get_meta(), "{line}");
            let (ClientRequest::CallToolRequest(direct), ClientRequest::CallToolRequest(expected)) =
                (direct, expected)
            else {
                panic!("{line}");
            };
            assert_eq!(direct.params, expected.params, "{line}");
        }
    }

    #[test]
    fn other_messages_are_left_to_rmcp() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
            r#"["2.0",1,"tools/call",{"name":"a"}]"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[null,"a",{},null,null]}"#,
        ] {
            assert!(parse_call(line.as_bytes()).is_none(), "{line}");
        }
    }
}
