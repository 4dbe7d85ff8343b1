//! Open requests: rejects duplicate ids and limits number and size.

use std::collections::HashMap;

use rmcp::model::{ClientRequest, ErrorData, RequestId};
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use toolhost_contract::text;

/// Maximum number of open requests. Calls have a lower limit; this one bounds streams.
const MAX_REQUESTS: usize = 2048;
/// Maximum total size of open requests, in bytes. More are rejected instead of left unread, because the input behind
/// them may contain a cancellation.
const MAX_BYTES: usize = 32 << 20;
/// Maximum size of a request id, in bytes.
pub(super) const MAX_ID: usize = 256;
/// Maximum number of open requests that need no input. Reading pauses at this limit.
const MAX_IMMEDIATE: usize = 64;
/// How long the id of a cancelled request stays reserved, because a late response could be taken for the new one's.
const ID_RESERVATION: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct OpenRequests {
    requests: HashMap<RequestId, OpenRequest>,
    bytes: usize,
    immediate: usize,
}

struct OpenRequest {
    bytes: usize,
    is_immediate: bool,
    /// When the id becomes free, if the request was cancelled.
    reserved_until: Option<Instant>,
    /// Cancels a request that rmcp does not handle.
    cancellation: Option<CancellationToken>,
}

impl OpenRequests {
    pub(super) fn begin(
        &mut self,
        id: &RequestId,
        request: &ClientRequest,
        bytes: usize,
    ) -> Result<(), ErrorData> {
        // The ids of cancelled requests are kept for a while.
        if let RequestId::String(text) = id
            && text.len() > MAX_ID
        {
            let message = format!(
                "the request id has {} bytes; the limit is {MAX_ID}",
                text.len()
            );
            return Err(ErrorData::invalid_request(message, None));
        }
        if let Some(other) = self.requests.get(id)
            && other
                .reserved_until
                .is_none_or(|until| Instant::now() < until)
        {
            let id = text::escape_line(&id.to_string(), 80);
            let message = format!("request id {id} is already in use; use another");
            return Err(ErrorData::invalid_request(message, None));
        }
        if self.requests.len() >= MAX_REQUESTS {
            let now = Instant::now();
            self.requests
                .retain(|_, request| request.reserved_until.is_none_or(|until| now < until));
        }
        // A single request is always accepted: its size is limited by the line length.
        if self.requests.len() >= MAX_REQUESTS || (self.bytes > 0 && self.bytes + bytes > MAX_BYTES)
        {
            let message = "too many open requests; wait for responses before the next request";
            return Err(ErrorData::internal_error(message, None));
        }
        let request = OpenRequest {
            bytes,
            is_immediate: is_immediate(request),
            reserved_until: None,
            cancellation: None,
        };
        self.bytes += bytes;
        self.immediate += usize::from(request.is_immediate);
        self.requests.insert(id.clone(), request);
        Ok(())
    }

    /// Sets the token that [`Self::cancel`] cancels.
    pub(super) fn set_cancellation(&mut self, id: &RequestId, cancellation: CancellationToken) {
        if let Some(request) = self.requests.get_mut(id) {
            request.cancellation = Some(cancellation);
        }
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
        if let Some(cancellation) = request.cancellation.take() {
            cancellation.cancel();
        }
        request
            .reserved_until
            .get_or_insert(Instant::now() + ID_RESERVATION);
        self.requests.insert(id.clone(), request);
    }

    fn release(&mut self, request: &OpenRequest) {
        if request.reserved_until.is_none() {
            self.bytes -= request.bytes;
            self.immediate -= usize::from(request.is_immediate);
        }
    }

    /// Whether reading must pause until some requests that need no input are answered.
    pub(super) fn is_full(&self) -> bool {
        self.immediate >= MAX_IMMEDIATE
    }
}

/// Whether the request is answered without waiting for a user, tool or client.
fn is_immediate(request: &ClientRequest) -> bool {
    !matches!(
        request,
        ClientRequest::InitializeRequest(_)
            | ClientRequest::CallToolRequest(_)
            | ClientRequest::GetPromptRequest(_)
            | ClientRequest::SubscriptionsListenRequest(_)
            | ClientRequest::CustomRequest(_)
    )
}
