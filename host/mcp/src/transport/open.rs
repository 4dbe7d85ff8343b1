//! The requests that have no answer yet: no two with one id, and no more than we can hold.

use std::collections::HashMap;

use rmcp::model::{ClientRequest, ErrorData, RequestId};
use tokio::time::{Duration, Instant};
use toolhost_contract::text;

/// All open requests together. Calls have a smaller limit of their own; this is for streams.
const REQUESTS: usize = 2048;
/// Their bytes as they came in. They are refused and not left unread, for behind them may be what ends one of them.
const BYTES: usize = 32 << 20;
/// So many requests that wait for nobody may be under way, before the next line is read.
const QUICK: usize = 64;
/// So long nobody may use the id of a cancelled request, since what is left of it would be taken for the answer.
const FADING: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Open {
    requests: HashMap<RequestId, Request>,
    bytes: usize,
    quick: usize,
}

struct Request {
    bytes: usize,
    is_quick: bool,
    /// It was cancelled, and its id is free from here on.
    fading: Option<Instant>,
}

impl Open {
    pub(super) fn begin(
        &mut self,
        id: &RequestId,
        request: &ClientRequest,
        bytes: usize,
    ) -> Result<(), ErrorData> {
        if let Some(other) = self.requests.get(id)
            && other.fading.is_none_or(|until| Instant::now() < until)
        {
            let id = text::inline(&id.to_string(), 80);
            let message = format!("the id {id} belongs to a request that is open; take another");
            return Err(ErrorData::invalid_request(message, None));
        }
        if self.requests.len() >= REQUESTS {
            let now = Instant::now();
            self.requests
                .retain(|_, request| request.fading.is_none_or(|until| now < until));
        }
        // One alone is always taken: it is not longer than a line.
        if self.requests.len() >= REQUESTS || (self.bytes > 0 && self.bytes + bytes > BYTES) {
            let message = "too many requests are open; wait for some answers before the next one";
            return Err(ErrorData::internal_error(message, None));
        }
        let request = Request {
            bytes,
            is_quick: is_quick(request),
            fading: None,
        };
        self.bytes += bytes;
        self.quick += usize::from(request.is_quick);
        self.requests.insert(id.clone(), request);
        Ok(())
    }

    /// The request has its answer.
    pub(super) fn end(&mut self, id: &RequestId) {
        if let Some(request) = self.requests.remove(id) {
            self.release(&request);
        }
    }

    /// The client takes the request back. There will be no answer.
    pub(super) fn cancel(&mut self, id: &RequestId) {
        let Some(mut request) = self.requests.remove(id) else {
            return;
        };
        self.release(&request);
        request.fading.get_or_insert(Instant::now() + FADING);
        self.requests.insert(id.clone(), request);
    }

    fn release(&mut self, request: &Request) {
        if request.fading.is_none() {
            self.bytes -= request.bytes;
            self.quick -= usize::from(request.is_quick);
        }
    }

    /// Enough answers are being made, and will come without another word of the client.
    pub(super) fn is_full(&self) -> bool {
        self.quick >= QUICK
    }
}

/// The answer of such a request waits for no person, no tool and no client.
fn is_quick(request: &ClientRequest) -> bool {
    !matches!(
        request,
        ClientRequest::InitializeRequest(_)
            | ClientRequest::CallToolRequest(_)
            | ClientRequest::GetPromptRequest(_)
            | ClientRequest::SubscriptionsListenRequest(_)
            | ClientRequest::CustomRequest(_)
    )
}
