//! Server requests to a client with a session, sent while its own request is running.

use rmcp::model::{InputRequest, ServerRequest};
use rmcp::service::{PeerRequestOptions, RequestHandle};
use rmcp::{Peer, RoleServer};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{InputRequestBatch, is_refusal};

/// Awaits the call and sends its requests to the client, one at a time.
pub(crate) async fn await_with_requests<F: Future>(
    requests: &mut mpsc::Receiver<InputRequestBatch>,
    peer: &Peer<RoleServer>,
    call: F,
) -> F::Output {
    let asking = async {
        while let Some(request) = requests.recv().await {
            send_batch(peer, request).await;
        }
        std::future::pending::<()>().await;
    };
    // Must run in the task of the request: rmcp uses it to choose the stream for server requests.
    tokio::select! {
        biased;
        output = call => output,
        () = asking => unreachable!("the loop never ends"),
    }
}

/// Sends the requests and replies with the answers. Without an answer, the reply channel is dropped.
async fn send_batch(peer: &Peer<RoleServer>, wanted: InputRequestBatch) {
    let InputRequestBatch {
        requests,
        mut reply,
        ..
    } = wanted;
    let mut answers = Vec::with_capacity(requests.len());
    for (_, request) in requests {
        let Some(answer) = send_request(peer, request, &mut reply).await else {
            return;
        };
        let is_last = is_refusal(&answer);
        answers.push(answer);
        if is_last {
            break;
        }
    }
    // Fails if the call has ended.
    let _ = reply.send(answers);
}

async fn send_request(
    peer: &Peer<RoleServer>,
    request: InputRequest,
    reply: &mut oneshot::Sender<Vec<Value>>,
) -> Option<Value> {
    let request = match request {
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return None,
    };
    let options = PeerRequestOptions::no_options();
    let handle = peer.send_cancellable_request(request, options).await;
    let mut shown = SentRequest(Some(handle.ok()?));
    let answer = tokio::select! {
        biased;
        () = reply.closed() => return None,
        answer = shown.answer() => answer,
    };
    answer.map(|answer| json!(answer))
}

/// A request sent to the client. It is cancelled if this is dropped before the answer arrives.
struct SentRequest(Option<RequestHandle<RoleServer>>);

impl SentRequest {
    async fn answer(&mut self) -> Option<rmcp::model::ClientResult> {
        let handle = self.0.as_mut()?;
        let answer = (&mut handle.rx).await;
        self.0 = None;
        answer.ok()?.ok()
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            let why = "the call no longer needs an answer".to_owned();
            // Sending is asynchronous and `drop` cannot await.
            tokio::spawn(handle.cancel(Some(why)));
        }
    }
}
