//! One JSON message per line: what is read is bounded and always answered, what is written keeps its order, and
//! nothing is read for a client that does not listen.

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

/// What is shorter cannot hold too many values.
const FEW_BYTES: usize = 64 << 10;
/// serde_json reads no deeper.
const DEEPEST: usize = 128;
/// An answer to something without an id may be taken for another such thing, and answered. That goes on no faster.
const NAMELESS: Duration = Duration::from_secs(1);
/// So long a client may take to read what is left when the session has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(crate) struct Lines<R, W> {
    reader: Reader<R>,
    pen: Arc<Mutex<Pen<W>>>,
    outbox: Arc<Outbox>,
    open: Open,
    /// The number of our last own answer. We write those ourselves, before the next line is read.
    owed: Option<u64>,
    /// When something without an id was answered last.
    nameless: Option<Instant>,
    /// Taken when the input has ended.
    at_end: Option<oneshot::Sender<()>>,
    begun: bool,
    /// The input has ended. The client may have closed its side of the output, and nothing more is written.
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

    /// Where what is said waits until it is read.
    pub(crate) fn outbox(&self) -> Arc<Outbox> {
        Arc::clone(&self.outbox)
    }

    /// The next message. Like all that it awaits it may be dropped at any time, and rmcp does so all the time.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(owed) = self.owed {
                write(&self.pen, &self.outbox, owed).await.ok()?;
                self.owed = None;
            }
            if self.open.is_full() {
                // Whoever ends a request needs `self` for it, and so drops this and looks again.
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
                    let why = format!("the line is longer than {most} MiB; send less at once");
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

    /// The message of the line that was read, or an answer to what is wrong with it.
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
            // An empty line is none.
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

    /// Answers each message of a line that could not be read. An answer to a question of ours goes on as an error, so
    /// that the question does not wait for another.
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
                // A notification. Nobody waits for an answer.
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
        // There is nothing in an error that has no JSON.
        if let Ok(line) = line(&ServerJsonRpcMessage::error(why, id)) {
            self.owed = Some(self.outbox.say(line));
        }
    }

    /// rmcp ends the session when its first message, or the next after a ping or a look at what we are, is not a
    /// request. A stray notification is no reason for that.
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

/// What to say about a line that could not be read.
fn fault(error: &serde_json::Error, deepest: usize) -> ErrorData {
    match error.classify() {
        Category::Data => {
            let why = "the line is not one message of JSON-RPC 2.0";
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

/// Returns when the line with this number was written.
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
        // Written out now and not when it is its turn: so its size is known, and its place among the others.
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
            // What is asked now would be done for nobody.
            () = outbox.gone() => None,
            message = self.next() => message,
        };
        if message.is_none() {
            self.ended = true;
            // Nobody listens any more when the session has not begun: then there is nothing to stop.
            let _ = self.at_end.take().map(|at_end| at_end.send(()));
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        let last = self.outbox.said();
        let written = timeout(LAST_WORDS, write(&self.pen, &self.outbox, last)).await;
        // Whatever is still about to be written gives up, and so lets go of the output.
        self.outbox.break_off();
        written.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
    }
}
