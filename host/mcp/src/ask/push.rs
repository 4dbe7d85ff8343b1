//! Questions to a client with a session: requests of ours, sent while its own request goes on.

use rmcp::model::{InputRequest, ServerRequest};
use rmcp::service::{PeerRequestOptions, RequestHandle};
use rmcp::{Peer, RoleServer};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::Wish;

/// Awaits the call, and asks the client meanwhile what the call wants to know. One thing after the other: nobody
/// answers two forms at once.
pub(crate) async fn push_all<F: Future>(
    wishes: &mut mpsc::Receiver<Wish>,
    peer: &Peer<RoleServer>,
    call: F,
) -> F::Output {
    let asking = async {
        while let Some(wish) = wishes.recv().await {
            push(peer, wish).await;
        }
        std::future::pending::<()>().await;
    };
    // In the task of the request, because that is how rmcp knows on which stream our requests belong.
    tokio::select! {
        biased;
        output = call => output,
        () = asking => unreachable!("it waits for ever"),
    }
}

/// No answer at all is known by the reply being dropped.
async fn push(peer: &Peer<RoleServer>, wish: Wish) {
    let Wish {
        requests,
        mut reply,
        ..
    } = wish;
    let mut answers = Vec::with_capacity(requests.len());
    for (_, request) in requests {
        let Some(answer) = one(peer, request, &mut reply).await else {
            return;
        };
        let enough = matches!(answer["action"].as_str(), Some("decline" | "cancel"));
        answers.push(answer);
        if enough {
            // Whoever does not want to answer the first question is not asked the second.
            break;
        }
    }
    // The call may have ended meanwhile.
    let _ = reply.send(answers);
}

async fn one(
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
    let mut shown = Shown(Some(handle.ok()?));
    let answer = tokio::select! {
        biased;
        () = reply.closed() => return None,
        answer = shown.answer() => answer,
    };
    answer.map(|answer| json!(answer))
}

/// A request of ours that the client may still be showing. Dropped before its answer, it is taken back.
struct Shown(Option<RequestHandle<RoleServer>>);

impl Shown {
    async fn answer(&mut self) -> Option<rmcp::model::ClientResult> {
        let handle = self.0.as_mut()?;
        let answer = (&mut handle.rx).await;
        self.0 = None;
        answer.ok()?.ok()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            let why = "there is nobody left to answer".to_owned();
            // To send is to wait, which nothing that is being dropped can do.
            tokio::spawn(handle.cancel(Some(why)));
        }
    }
}
