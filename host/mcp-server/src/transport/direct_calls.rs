//! Runs `tools/call` requests without rmcp, which starts a task for each request and passes its response through two
//! more.
//!
//! A call is polled once where its line was read, and most calls end there. Others continue in a task of their own.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use futures::FutureExt as _;
use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientJsonRpcMessage,
    ClientRequest, ErrorData, GetMeta, JsonRpcMessage, JsonRpcRequest, JsonRpcVersion2_0,
    RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RequestContext, Service};
use rmcp::{Peer, RoleServer};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::server::Server;

/// A `tools/call` request, parsed without the intermediate values that rmcp needs to find the type of a message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallLine {
    jsonrpc: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(rename = "method")]
    _method: CallToolRequestMethod,
    params: CallToolRequestParams,
}

/// Returns the message in a line if it is an ordinary `tools/call` request.
pub(super) fn parse_call(line: &[u8]) -> Option<ClientJsonRpcMessage> {
    let CallLine {
        jsonrpc,
        id,
        _method,
        mut params,
    } = serde_json::from_slice(line).ok()?;
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

/// What the calls of a session need. The peer is set when the session has begun; until then rmcp handles all requests.
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

    /// Returns the client, once the session has begun.
    pub(super) fn peer(&self) -> Option<&Peer<RoleServer>> {
        self.peer.get()
    }

    /// Whether this request can run without rmcp. A call during which the host sends requests to the client needs rmcp,
    /// which associates them with the call.
    pub(super) fn accepts(&self, request: &ClientRequest) -> bool {
        matches!(request, ClientRequest::CallToolRequest(_)) && !self.server.sends_requests()
    }

    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Waits until all calls have ended.
    pub(super) async fn wait(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(super) fn cancellation(&self) -> CancellationToken {
        self.ended.child_token()
    }

    /// Runs a call and passes its response to `respond`. With `inline`, it is polled once before this returns.
    pub(super) fn run(
        &self,
        request: JsonRpcRequest<ClientRequest>,
        peer: &Peer<RoleServer>,
        cancellation: CancellationToken,
        inline: bool,
        respond: impl FnOnce(ServerJsonRpcMessage) + Send + 'static,
    ) {
        let JsonRpcRequest {
            id, mut request, ..
        } = request;
        let mut context = RequestContext::new(id.clone(), peer.clone());
        context.ct = cancellation;
        std::mem::swap(&mut context.meta, request.get_meta_mut());
        let server = Arc::clone(&self.server);
        let mut call = Box::pin(async move {
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
        if inline {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            if let Poll::Ready(response) = call.as_mut().poll(&mut context) {
                return respond(response);
            }
        }
        self.tasks.spawn(async move { respond(call.await) });
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
        ] {
            assert!(parse_call(line.as_bytes()).is_none(), "{line}");
        }
    }
}
