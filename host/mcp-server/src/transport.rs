//! Stdio transport with one JSON message per line.
//!
//! Input is bounded and every request is answered, output keeps its order, and reading pauses while the client leaves
//! too much output unread.

mod closed_output;
mod direct_calls;
#[cfg(test)]
mod fuzz;
mod id_scanner;
mod line_reader;
mod open_requests;
mod outbox;
mod stoppable;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::{Error, ErrorKind};
use std::mem;
use std::sync::{Arc, MutexGuard, PoisonError};

use futures::FutureExt as _;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, CustomRequest, ErrorData,
    GetMeta as _, InitializeRequestParams, JsonRpcMessage, ProtocolVersion, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::error::Category;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Duration, Instant, timeout};
use tokio_util::sync::CancellationToken;
use toolhost_contract::exact_integers::check_integers;
use toolhost_contract::text::escape_line;
use toolhost_contract::value_counter::{MAX_VALUES, count_values_and_names};

pub(crate) use closed_output::wait_until_closed;
pub(crate) use direct_calls::DirectCalls;
pub(crate) use id_scanner::request_id;
pub(crate) use outbox::Outbox;
pub(crate) use stoppable::StoppableReader;

use direct_calls::PreparedCall;
use open_requests::OpenRequests;

use id_scanner::{ScannedId, ScannedMessage, scan};
use line_reader::{LineReader, MAX_LINE, ReadLine};
use outbox::LineWriter;

/// A message up to this size cannot have too many values.
const MIN_CHECKED_BYTES: usize = 64 << 10;
/// Maximum nesting that serde_json parses.
const MAX_DEPTH: usize = 128;
/// Minimum interval between errors without an id. A peer might answer one with another such error, endlessly.
const NULL_ID_ERROR_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum length of the reason why a message is invalid, in characters.
const MAX_REASON: usize = 300;
/// How long a client may take to read the remaining output after the session has ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct LineTransport<R, W> {
    reader: LineReader<R>,
    line_writer: Arc<Mutex<LineWriter<W>>>,
    outbox: Arc<Outbox>,
    open: Arc<std::sync::Mutex<OpenRequests>>,
    direct_calls: Option<Arc<DirectCalls>>,
    /// Number of the last error reply of the transport. It is written before the next line is read.
    pending_reply: Option<u64>,
    /// When the last error without an id was sent.
    last_null_id_error: Option<Instant>,
    /// Used when the input ends.
    on_end: Option<oneshot::Sender<()>>,
    /// Versions of the protocol that a session can use.
    versions: Cow<'static, [ProtocolVersion]>,
    begun: bool,
    /// Calls that were read and do not run yet.
    batch: Vec<PreparedCall<W>>,
    /// The input has ended. Nothing more is written, because the client may have closed its side.
    ended: bool,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(crate) fn new(reader: R, writer: W, at_end: oneshot::Sender<()>) -> Self {
        Self {
            reader: LineReader::new(reader),
            line_writer: Arc::new(Mutex::new(LineWriter::new(writer))),
            outbox: Arc::default(),
            open: Arc::default(),
            direct_calls: None,
            pending_reply: None,
            last_null_id_error: None,
            on_end: Some(at_end),
            versions: Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
            begun: false,
            batch: Vec::new(),
            ended: false,
        }
    }

    /// Runs `tools/call` requests without rmcp.
    pub(crate) fn with_direct_calls(mut self, calls: Arc<DirectCalls>) -> Self {
        self.versions = calls.protocol_versions();
        self.direct_calls = Some(calls);
        self
    }

    /// Returns the queue of unwritten output.
    pub(crate) fn outbox(&self) -> Arc<Outbox> {
        Arc::clone(&self.outbox)
    }

    /// Returns the next message. Cancel safe, which rmcp relies on.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // Calls whose lines are in the buffer run together.
            let more_can_join = self.reader.has_complete_line() && self.may_read();
            if !self.batch.is_empty() && !more_can_join {
                self.run_batch();
            }
            if let Some(owed) = self.pending_reply {
                write_until(&self.line_writer, &self.outbox, owed)
                    .await
                    .ok()?;
                self.pending_reply = None;
            }
            if self.open().is_full() {
                // Ending a request needs `&mut self`, so this future is dropped and started again.
                std::future::pending::<()>().await;
            }
            self.outbox.wait_for_room().await;
            let message = match self.reader.next().await {
                ReadLine::Whole => {
                    let message = self.parse_line();
                    self.reader.done();
                    message
                }
                ReadLine::TooLong(found) => {
                    let most = MAX_LINE >> 20;
                    let why = format!("the line is longer than {most} MiB; send a shorter message");
                    self.reject(found, &ErrorData::invalid_request(why, None))
                }
                ReadLine::End => return None,
            };
            match message {
                Some(message) if self.is_premature(&message) => {}
                Some(message) => {
                    if let Some(message) = self.run_directly(message) {
                        return Some(message);
                    }
                }
                None => {}
            }
        }
    }

    /// Whether the next line can be read without waiting.
    fn may_read(&self) -> bool {
        self.pending_reply.is_none() && !self.open().is_full() && self.outbox.has_room()
    }

    fn open(&self) -> MutexGuard<'_, OpenRequests> {
        lock(&self.open)
    }

    /// Runs the message if it is a `tools/call` request that does not need rmcp. Returns any other message.
    fn run_directly(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        let Some(calls) = &self.direct_calls else {
            return Some(message);
        };
        let JsonRpcMessage::Request(request) = message else {
            return Some(message);
        };
        let Some(peer) = calls.peer_for(&request.request) else {
            return Some(JsonRpcMessage::Request(request));
        };
        let cancellation = calls.cancellation();
        self.open()
            .set_cancellation(&request.id, cancellation.clone());
        let responder = Responder {
            id: request.id.clone(),
            cancellation: cancellation.clone(),
            open: Arc::clone(&self.open),
            output: QueuedLine {
                outbox: Arc::clone(&self.outbox),
                line_writer: Arc::clone(&self.line_writer),
                number: 0,
            },
        };
        let call = calls.prepare(request, peer, cancellation, responder);
        self.batch.push(call);
        None
    }

    /// Runs the calls that were read together.
    fn run_batch(&mut self) {
        if let Some(calls) = &self.direct_calls {
            calls.run(mem::take(&mut self.batch));
        }
    }

    /// Parses the current line, or queues an error reply.
    fn parse_line(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = self.reader.line();
        if line.len() > MIN_CHECKED_BYTES && count_values_and_names(line) > MAX_VALUES {
            let why = format!("the message holds more than {MAX_VALUES} JSON values");
            let found = scan(line).messages;
            return self.reject(found, &ErrorData::invalid_request(why, None));
        }
        if let Err(inexact) = check_integers(line) {
            let found = scan(line).messages;
            return self.reject(found, &ErrorData::invalid_params(inexact.to_string(), None));
        }
        let parsed = match direct_calls::parse_call(line) {
            Some(call) => Ok(call),
            None => serde_json::from_slice(line),
        };
        match parsed {
            Ok(message) => {
                let bytes = line.len();
                self.admit(message, bytes)
            }
            // Empty lines are ignored.
            Err(_) if line.is_empty() => None,
            Err(error) => {
                let scanned = scan(line);
                let why = parse_error(&error, scanned.max_depth);
                self.reject(scanned.messages, &why)
            }
        }
    }

    fn admit(
        &mut self,
        message: ClientJsonRpcMessage,
        bytes: usize,
    ) -> Option<ClientJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Request(request) => {
                if let ClientRequest::CustomRequest(custom) = &request.request
                    && custom.method == "initialize"
                {
                    self.reply_error(Some(request.id.clone()), initialize_error(custom));
                    return None;
                }
                let begun = self.open().begin(&request.id, &request.request, bytes);
                if let Err(why) = begun {
                    self.reply_error(Some(request.id.clone()), why);
                    return None;
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open().cancel(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Some(message)
    }

    /// Replies to each message of an invalid line. A response to a server request is passed on as an error, so that the
    /// server request ends.
    fn reject(
        &mut self,
        found: Vec<ScannedMessage>,
        why: &ErrorData,
    ) -> Option<ClientJsonRpcMessage> {
        let mut answered = None;
        let mut nameless = found.is_empty();
        for ScannedMessage {
            id,
            has_method: method,
            is_response: outcome,
            is_complete: whole,
        } in found
        {
            match id {
                ScannedId::Known(id) if method => self.reply_error(Some(id), why.clone()),
                ScannedId::Known(id) if outcome => {
                    answered.get_or_insert(JsonRpcMessage::error(why.clone(), Some(id)));
                }
                // A notification gets no response.
                ScannedId::Missing if method && whole => {}
                ScannedId::Known(_) | ScannedId::Missing | ScannedId::Unreadable => nameless = true,
            }
        }
        let now = Instant::now();
        if nameless
            && self
                .last_null_id_error
                .is_none_or(|last| now >= last + NULL_ID_ERROR_INTERVAL)
        {
            self.last_null_id_error = Some(now);
            self.reply_error(None, why.clone());
        }
        answered
    }

    fn reply_error(&mut self, id: Option<RequestId>, why: ErrorData) {
        // An error can always be serialized.
        if let Ok(line) = serialize_line(&ServerJsonRpcMessage::error(why, id)) {
            self.pending_reply = Some(self.outbox.push(line));
        }
    }

    /// Whether the message is not a request and arrived before the one that begins the session. Such messages are ignored,
    /// because rmcp would end the session.
    fn is_premature(&mut self, message: &ClientJsonRpcMessage) -> bool {
        if let JsonRpcMessage::Request(request) = message {
            self.begun = self.begun || self.begins_session(&request.request);
            return false;
        }
        !self.begun
    }

    /// Whether rmcp begins the session with this request. It answers others and waits for the next one.
    fn begins_session(&self, request: &ClientRequest) -> bool {
        match request {
            ClientRequest::InitializeRequest(_) => true,
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
            request => {
                let meta = request.get_meta();
                let version = meta.protocol_version();
                let is_complete = meta
                    .missing_required_keys(&ProtocolVersion::V_2026_07_28)
                    .is_empty();
                is_complete && version.is_some_and(|version| self.versions.contains(&version))
            }
        }
    }
}

/// Returns the error for an `initialize` request that rmcp takes for one of an unknown method, because it is invalid.
fn initialize_error(request: &CustomRequest) -> ErrorData {
    let params = request.params.clone().unwrap_or_default();
    let error = serde_json::from_value::<InitializeRequestParams>(params).err();
    let why = error.map_or_else(String::new, |error| {
        format!(": {}", escape_line(&error.to_string(), MAX_REASON))
    });
    ErrorData::invalid_params(format!("the `initialize` request is invalid{why}"), None)
}

/// Returns the error for a line that could not be parsed.
fn parse_error(error: &serde_json::Error, deepest: usize) -> ErrorData {
    match error.classify() {
        Category::Data => {
            let why = "the line is not a JSON-RPC 2.0 message";
            ErrorData::invalid_request(why, None)
        }
        Category::Syntax if deepest >= MAX_DEPTH => {
            let why = format!("the message is nested deeper than {MAX_DEPTH} levels");
            ErrorData::invalid_request(why, None)
        }
        Category::Syntax | Category::Eof | Category::Io => {
            ErrorData::parse_error(format!("the line is not JSON: {error}"), None)
        }
    }
}

fn serialize_line(message: &ServerJsonRpcMessage) -> Result<Vec<u8>, Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes queued lines up to this number.
async fn write_until<W: AsyncWrite + Unpin>(
    writer: &Mutex<LineWriter<W>>,
    outbox: &Outbox,
    until: u64,
) -> Result<(), Error> {
    writer.lock().await.write_until(outbox, until).await
}

fn lock(open: &std::sync::Mutex<OpenRequests>) -> MutexGuard<'_, OpenRequests> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the response of one direct call.
struct Responder<W> {
    id: RequestId,
    cancellation: CancellationToken,
    open: Arc<std::sync::Mutex<OpenRequests>>,
    output: QueuedLine<W>,
}

impl<W> Responder<W> {
    /// Queues the response. Returns `None` if there is nothing to write.
    fn queue(mut self, response: &ServerJsonRpcMessage) -> Option<QueuedLine<W>> {
        let line = match serialize_line(response) {
            Ok(line) => line,
            Err(error) => {
                tracing::error!("failed to serialize a response: {error}");
                return None;
            }
        };
        // Held until the response is queued, because a cancellation by the client and the end of the input hold it,
        // and a request with the same id can follow.
        let mut open = lock(&self.open);
        // A cancelled request gets no response, and its id stays reserved for a while.
        if self.cancellation.is_cancelled() {
            return None;
        }
        open.end(&self.id);
        self.output.number = self.output.outbox.push(line);
        drop(open);
        Some(self.output)
    }
}

/// A line in the queue of the output.
struct QueuedLine<W> {
    outbox: Arc<Outbox>,
    line_writer: Arc<Mutex<LineWriter<W>>>,
    number: u64,
}

impl<W: AsyncWrite + Send + Unpin + 'static> QueuedLine<W> {
    /// Writes this line and those before it, now or in another task.
    fn write(self) {
        if !write_now(&self.line_writer, &self.outbox, self.number) {
            tokio::spawn(async move {
                // A failure closes the outbox, which ends the session.
                let _ = write_until(&self.line_writer, &self.outbox, self.number).await;
            });
        }
    }
}

/// Writes queued lines up to this number without waiting for the client or another writer. Returns whether it wrote all
/// of them.
fn write_now<W: AsyncWrite + Unpin>(
    writer: &Mutex<LineWriter<W>>,
    outbox: &Outbox,
    until: u64,
) -> bool {
    let Ok(mut writer) = writer.try_lock() else {
        return false;
    };
    let written = writer.write_until(outbox, until).now_or_never();
    written.is_some_and(|written| written.is_ok())
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match &message {
            JsonRpcMessage::Response(response) => self.open().end(&response.id),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.open().end(id);
                }
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        // Serialized now, not when it is written, so that its size and position are fixed.
        let ticket =
            (!self.ended).then(|| serialize_line(&message).map(|line| self.outbox.push(line)));
        // Written at once if the client has room, because rmcp polls the future in another task.
        if let Some(Ok(ticket)) = &ticket {
            // A failure closes the outbox, and the future returns it.
            write_now(&self.line_writer, &self.outbox, *ticket);
        }
        let (writer, outbox) = (Arc::clone(&self.line_writer), Arc::clone(&self.outbox));
        async move {
            match ticket {
                Some(ticket) => write_until(&writer, &outbox, ticket?).await,
                None => Err(ErrorKind::BrokenPipe.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let outbox = self.outbox();
        let message = tokio::select! {
            biased;
            // The client can no longer read a response.
            () = outbox.wait_closed() => None,
            message = self.next() => message,
        };
        if message.is_none() {
            self.ended = true;
            if let Some(calls) = &self.direct_calls {
                let _open = self.open();
                calls.end();
            }
            // Fails if the session has not begun.
            let _ = self.on_end.take().map(|at_end| at_end.send(()));
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        if let Some(calls) = &self.direct_calls {
            calls.end();
            let _ = timeout(CLOSE_TIMEOUT, calls.wait()).await;
        }
        let last = self.outbox.last_number();
        let written = timeout(
            CLOSE_TIMEOUT,
            write_until(&self.line_writer, &self.outbox, last),
        )
        .await;
        // Pending writes fail, which releases the output.
        self.outbox.close();
        written.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
    }
}
