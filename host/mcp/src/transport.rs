//! Stdio transport with one JSON message per line.
//!
//! Input is bounded and every request is answered, output keeps its order, and reading pauses while the client leaves
//! too much output unread.

#[cfg(test)]
mod fuzz;
mod open;
mod outbox;
mod reader;
mod scan;
mod stoppable;
#[cfg(test)]
mod tests;

use std::io::{Error, ErrorKind};
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::error::Category;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Duration, Instant, timeout};
use toolhost_contract::numbers::check_integers;

pub(crate) use outbox::Outbox;
pub(crate) use stoppable::Stoppable;

use crate::shape::{MOST_VALUES, values};
use open::Open;

use outbox::Pen;
use reader::{Line, MAX_LINE, Reader};
use scan::{Found, Id, scan};

/// A message up to this size cannot have too many values.
const FEW_BYTES: usize = 64 << 10;
/// Maximum nesting that serde_json parses.
const DEEPEST: usize = 128;
/// Minimum interval between errors without an id. A peer might answer one with another such error, endlessly.
const NAMELESS: Duration = Duration::from_secs(1);
/// How long a client may take to read the remaining output after the session has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(crate) struct Lines<R, W> {
    reader: Reader<R>,
    pen: Arc<Mutex<Pen<W>>>,
    outbox: Arc<Outbox>,
    open: Open,
    /// Number of the last error reply of the transport. It is written before the next line is read.
    owed: Option<u64>,
    /// When the last error without an id was sent.
    nameless: Option<Instant>,
    /// Used when the input ends.
    at_end: Option<oneshot::Sender<()>>,
    begun: bool,
    /// The input has ended. Nothing more is written, because the client may have closed its side.
    ended: bool,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(crate) fn new(reader: R, writer: W, at_end: oneshot::Sender<()>) -> Self {
        Self {
            reader: Reader::new(reader),
            pen: Arc::new(Mutex::new(Pen::new(writer))),
            outbox: Arc::default(),
            open: Open::default(),
            owed: None,
            nameless: None,
            at_end: Some(at_end),
            begun: false,
            ended: false,
        }
    }

    /// Returns the queue of unwritten output.
    pub(crate) fn outbox(&self) -> Arc<Outbox> {
        Arc::clone(&self.outbox)
    }

    /// Returns the next message. Cancel safe, which rmcp relies on.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(owed) = self.owed {
                write(&self.pen, &self.outbox, owed).await.ok()?;
                self.owed = None;
            }
            if self.open.is_full() {
                // Ending a request needs `&mut self`, so this future is dropped and started again.
                std::future::pending::<()>().await;
            }
            self.outbox.room().await;
            let message = match self.reader.next().await {
                Line::Whole => {
                    let message = self.read();
                    self.reader.done();
                    message
                }
                Line::Long(found) => {
                    let most = MAX_LINE >> 20;
                    let why = format!("the line is longer than {most} MiB; send a shorter message");
                    self.refuse(found, &ErrorData::invalid_request(why, None))
                }
                Line::End => return None,
            };
            match message {
                Some(message) if self.is_stray(&message) => {}
                Some(message) => return Some(message),
                None => {}
            }
        }
    }

    /// Parses the current line, or queues an error reply.
    fn read(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = self.reader.line();
        if line.len() > FEW_BYTES && values(line) > MOST_VALUES {
            let why = format!("the message holds more than {MOST_VALUES} JSON values");
            let found = scan(line).found;
            return self.refuse(found, &ErrorData::invalid_request(why, None));
        }
        if let Err(inexact) = check_integers(line) {
            let found = scan(line).found;
            return self.refuse(found, &ErrorData::invalid_params(inexact.to_string(), None));
        }
        match serde_json::from_slice(line) {
            Ok(message) => {
                let bytes = line.len();
                self.admit(message, bytes)
            }
            // Empty lines are ignored.
            Err(_) if line.is_empty() => None,
            Err(error) => {
                let seen = scan(line);
                let why = fault(&error, seen.deepest);
                self.refuse(seen.found, &why)
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
                if let Err(why) = self.open.begin(&request.id, &request.request, bytes) {
                    self.answer(Some(request.id.clone()), why);
                    return None;
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.cancel(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Some(message)
    }

    /// Replies to each message of an invalid line. A response to a server request is passed on as an error, so that the
    /// server request ends.
    fn refuse(&mut self, found: Vec<Found>, why: &ErrorData) -> Option<ClientJsonRpcMessage> {
        let mut answered = None;
        let mut nameless = found.is_empty();
        for Found {
            id,
            method,
            outcome,
            whole,
        } in found
        {
            match id {
                Id::Known(id) if method => self.answer(Some(id), why.clone()),
                Id::Known(id) if outcome => {
                    answered.get_or_insert(JsonRpcMessage::error(why.clone(), Some(id)));
                }
                // A notification gets no response.
                Id::Missing if method && whole => {}
                Id::Known(_) | Id::Missing | Id::Unreadable => nameless = true,
            }
        }
        let now = Instant::now();
        if nameless && self.nameless.is_none_or(|last| now >= last + NAMELESS) {
            self.nameless = Some(now);
            self.answer(None, why.clone());
        }
        answered
    }

    fn answer(&mut self, id: Option<RequestId>, why: ErrorData) {
        // An error can always be serialized.
        if let Ok(line) = line(&ServerJsonRpcMessage::error(why, id)) {
            self.owed = Some(self.outbox.say(line));
        }
    }

    /// Whether the message is not a request and arrived before the first one (other than `ping` and
    /// `server/discover`). Such messages are ignored, because rmcp would end the session.
    fn is_stray(&mut self, message: &ClientJsonRpcMessage) -> bool {
        if let JsonRpcMessage::Request(request) = message {
            self.begun |= !matches!(
                request.request,
                ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_)
            );
            return false;
        }
        !self.begun
    }
}

/// Returns the error for a line that could not be parsed.
fn fault(error: &serde_json::Error, deepest: usize) -> ErrorData {
    match error.classify() {
        Category::Data => {
            let why = "the line is not a JSON-RPC 2.0 message";
            ErrorData::invalid_request(why, None)
        }
        Category::Syntax if deepest >= DEEPEST => {
            let why = format!("the message is nested deeper than {DEEPEST} levels");
            ErrorData::invalid_request(why, None)
        }
        Category::Syntax | Category::Eof | Category::Io => {
            ErrorData::parse_error(format!("the line is not JSON: {error}"), None)
        }
    }
}

fn line(message: &ServerJsonRpcMessage) -> Result<Vec<u8>, Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes queued lines up to this number.
async fn write<W: AsyncWrite + Unpin>(
    pen: &Mutex<Pen<W>>,
    outbox: &Outbox,
    until: u64,
) -> Result<(), Error> {
    pen.lock().await.write(outbox, until).await
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
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
            JsonRpcMessage::Response(response) => self.open.end(&response.id),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.open.end(id);
                }
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        // Serialized now, not when it is written, so that its size and position are fixed.
        let said = (!self.ended).then(|| line(&message).map(|line| self.outbox.say(line)));
        let (pen, outbox) = (Arc::clone(&self.pen), Arc::clone(&self.outbox));
        async move {
            match said {
                Some(said) => write(&pen, &outbox, said?).await,
                None => Err(ErrorKind::BrokenPipe.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let outbox = self.outbox();
        let message = tokio::select! {
            biased;
            // The client can no longer read a response.
            () = outbox.gone() => None,
            message = self.next() => message,
        };
        if message.is_none() {
            self.ended = true;
            // Fails if the session has not begun.
            let _ = self.at_end.take().map(|at_end| at_end.send(()));
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        let last = self.outbox.said();
        let written = timeout(LAST_WORDS, write(&self.pen, &self.outbox, last)).await;
        // Pending writes fail, which releases the output.
        self.outbox.break_off();
        written.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
    }
}
