//! Open requests: rejects duplicate ids and limits number and size.

use std::collections::HashMap;

use rmcp::model::{ClientRequest, ErrorData, RequestId};
use tokio::time::{Duration, Instant};
use toolhost_contract::text;

/// Maximum number of open requests. Calls have a lower limit; this one bounds streams.
const REQUESTS: usize = 2048;
/// Maximum total size of open requests, in bytes. More are rejected instead of left unread, because the input behind
/// them may contain a cancellation.
const BYTES: usize = 32 << 20;
/// Maximum number of open requests that need no input. Reading pauses at this limit.
const QUICK: usize = 64;
/// How long the id of a cancelled request stays reserved, because a late response could be taken for the new one's.
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
    /// When the id becomes free, if the request was cancelled.
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
            let message = format!("request id {id} is already in use; use another");
            return Err(ErrorData::invalid_request(message, None));
        }
        if self.requests.len() >= REQUESTS {
            let now = Instant::now();
            self.requests
                .retain(|_, request| request.fading.is_none_or(|until| now < until));
        }
        // A single request is always accepted: its size is limited by the line length.
        if self.requests.len() >= REQUESTS || (self.bytes > 0 && self.bytes + bytes > BYTES) {
            let message = "too many open requests; wait for responses before the next request";
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

    /// The request was answered.
    pub(super) fn end(&mut self, id: &RequestId) {
        if let Some(request) = self.requests.remove(id) {
            self.release(&request);
        }
    }

    /// The client cancelled the request, which gets no response.
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

    /// Whether reading must pause until some requests that need no input are answered.
    pub(super) fn is_full(&self) -> bool {
        self.quick >= QUICK
    }
}

/// Whether the request is answered without waiting for a user, tool or client.
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
