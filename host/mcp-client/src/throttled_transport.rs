//! A transport wrapper that limits a server. A server that floods is read more slowly, and a server that sends requests
//! without reading the responses is no longer read. Only its own calls are delayed.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    ClientNotification, JsonRpcMessage, NumberOrString, RequestId, ServerNotification,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use toolhost_contract::{BoxFuture, text};

use crate::log::ServerLogger;

/// Maximum rate of unsolicited messages per second. Short bursts can be larger.
const PER_SECOND: u32 = 500;
const BURST: u32 = 1_000;
/// Maximum number of open requests of a server.
const MAX_OPEN_REQUESTS: usize = 32;
/// How long a cancelled request still counts, because work that was started for it takes time to end.
const CANCELLED_PERIOD: Duration = Duration::from_secs(30);
/// Maximum length of a request ID and of a progress token, which are kept.
const MAX_ID_BYTES: usize = 256;
/// How long a program may take to read a message, including the messages before it.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// How long messages that are being sent delay the end of a connection.
const CLOSE_PERIOD: Duration = Duration::from_secs(1);

pub struct ThrottledTransport<T> {
    inner: T,
    /// The earliest time for the next message, not considering bursts.
    due: Instant,
    open: Arc<OpenRequests>,
    /// Our own requests without a response.
    requested: HashSet<RequestId>,
    /// A message that was read but not passed on yet.
    held: Option<RxJsonRpcMessage<RoleClient>>,
    send_timeout: Option<Duration>,
    /// Set when the connection must end. Messages that are still being sent are dropped.
    ended: Arc<watch::Sender<bool>>,
    /// Set when the server no longer knows the session.
    session_expired: Arc<AtomicBool>,
    log: Arc<ServerLogger>,
}

/// Open requests of the server by ID.
#[derive(Default)]
struct OpenRequests {
    requests: Mutex<HashMap<RequestId, RequestState>>,
    fewer: Notify,
}

#[derive(Clone, Copy)]
enum RequestState {
    Open,
    /// The response is being sent.
    Answering,
    Cancelled(Instant),
}

impl OpenRequests {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, RequestState>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns false if a request with this ID is open already, which violates the protocol.
    fn open(&self, id: &RequestId) -> bool {
        self.lock().insert(id.clone(), RequestState::Open).is_none()
    }

    fn mark_answering(&self, id: &RequestId) {
        if let Some(stand) = self.lock().get_mut(id) {
            *stand = RequestState::Answering;
        }
    }

    fn close(&self, id: &RequestId) {
        self.lock().remove(id);
        self.fewer.notify_one();
    }

    /// Marks a request as cancelled. It gets no response. A request whose response is being sent remains open until it
    /// is sent.
    fn cancel(&self, id: &RequestId) {
        if let Some(stand @ RequestState::Open) = self.lock().get_mut(id) {
            *stand = RequestState::Cancelled(Instant::now());
        }
    }

    /// Waits while the response to a request with this ID is being sent: the server can read the response and reuse the
    /// ID before the send completes here.
    async fn wait_answered(&self, id: &RequestId) {
        while matches!(self.lock().get(id), Some(RequestState::Answering)) {
            self.fewer.notified().await;
        }
    }

    /// Waits until the server may open another request.
    async fn wait_for_slot(&self) {
        loop {
            let mut first: Option<Instant> = None;
            {
                let now = Instant::now();
                let mut requests = self.lock();
                requests.retain(|_, stand| match stand {
                    RequestState::Cancelled(at) => {
                        let end = *at + CANCELLED_PERIOD;
                        first = Some(first.map_or(end, |first| first.min(end)));
                        end > now
                    }
                    RequestState::Open | RequestState::Answering => true,
                });
                if requests.len() < MAX_OPEN_REQUESTS {
                    return;
                }
            }
            let fewer = self.fewer.notified();
            match first {
                Some(end) => drop(timeout_at(end, fewer).await),
                None => fewer.await,
            }
        }
    }
}

impl<T> ThrottledTransport<T> {
    pub fn new(inner: T, log: Arc<ServerLogger>) -> Self {
        Self {
            inner,
            due: Instant::now(),
            open: Arc::default(),
            requested: HashSet::new(),
            held: None,
            send_timeout: None,
            ended: Arc::new(watch::Sender::new(false)),
            session_expired: Arc::default(),
            log,
        }
    }

    /// Sets the flag when the server no longer knows the session. The owner of the connection ends it.
    pub fn with_session_flag(mut self, session_expired: Arc<AtomicBool>) -> Self {
        self.session_expired = session_expired;
        self
    }

    /// Ends the connection when sending a message takes longer. Not for HTTP, where a message is sent when its response
    /// begins.
    pub fn with_send_timeout(mut self, limit: Duration) -> Self {
        self.send_timeout = Some(limit);
        self
    }
}

/// Whether the server no longer knows the session of a message, which it therefore did not process.
pub fn is_session_expired(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    matches!(error, Some(StreamableHttpError::SessionExpired))
}

/// The ID that a message makes the client keep.
fn kept_id(message: &RxJsonRpcMessage<RoleClient>) -> Option<&NumberOrString> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        JsonRpcMessage::Notification(notification) => match &notification.notification {
            ServerNotification::ProgressNotification(progress) => {
                Some(&progress.params.progress_token.0)
            }
            _ => None,
        },
        JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => None,
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ThrottledTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answers = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(request) => {
                self.requested.insert(request.id.clone());
                None
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.requested.remove(id);
                }
                None
            }
        };
        if let Some(id) = &answers {
            self.open.mark_answering(id);
        }
        let open = Arc::clone(&self.open);
        let send: BoxFuture<'static, _> = Box::pin(self.inner.send(item));
        let (ended, limit) = (Arc::clone(&self.ended), self.send_timeout);
        let log = Arc::clone(&self.log);
        let session_expired = Arc::clone(&self.session_expired);
        let sent: BoxFuture<'static, _> = Box::pin(async move {
            let mut end = ended.subscribe();
            let sent = tokio::select! {
                biased;
                sent = send => sent,
                _ = end.wait_for(|ended| *ended) => Ok(()),
                () = sleep(limit.unwrap_or_default()), if limit.is_some() => {
                    let seconds = limit.unwrap_or_default().as_secs();
                    log.line(&format!("it did not read a message within {seconds} s; its connection is closed"));
                    ended.send_replace(true);
                    Ok(())
                }
            };
            if let Some(id) = answers {
                open.close(&id);
            }
            if sent
                .as_ref()
                .err()
                .is_some_and(|error| is_session_expired(error))
            {
                session_expired.store(true, Ordering::Relaxed);
            }
            sent
        });
        sent
    }

    // Boxed, because the compiler cannot prove the bounds of a nested borrowing future.
    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        let next: BoxFuture<'_, _> = Box::pin(self.next());
        next
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let ended = Arc::clone(&self.ended);
        let close: BoxFuture<'_, _> = Box::pin(async move {
            let mut close = pin!(self.inner.close());
            if let Ok(closed) = timeout(CLOSE_PERIOD, &mut close).await {
                return closed;
            }
            ended.send_replace(true);
            close.await
        });
        close
    }
}

impl<T: Transport<RoleClient>> ThrottledTransport<T> {
    // Cancel safe.
    async fn next(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        if self.held.is_none() {
            self.open.wait_for_slot().await;
            let burst = Duration::from_secs(1) / PER_SECOND * BURST;
            let at = self.due.checked_sub(burst).unwrap_or(self.due);
            if at > Instant::now() {
                sleep_until(at).await;
            }
            let mut ended = self.ended.subscribe();
            self.held = tokio::select! {
                message = self.inner.receive() => message,
                _ = ended.wait_for(|ended| *ended) => return None,
            };
        }
        if let Some(NumberOrString::String(id)) = self.held.as_ref().and_then(kept_id)
            && id.len() > MAX_ID_BYTES
        {
            self.log.line(&format!(
                "it sent an id of {} bytes; its connection is closed",
                id.len()
            ));
            return None;
        }
        if let Some(JsonRpcMessage::Request(request)) = &self.held {
            self.open.wait_answered(&request.id).await;
        }
        let message = self.held.take()?;
        let expected = match &message {
            JsonRpcMessage::Request(request) => {
                if !self.open.open(&request.id) {
                    let id = text::escape_line(&request.id.to_string(), 40);
                    self.log.line(&format!(
                        "it sent two open requests with the id {id}; its connection is closed"
                    ));
                    return None;
                }
                false
            }
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.cancel(id);
                }
                false
            }
            JsonRpcMessage::Response(response) => self.requested.remove(&response.id),
            JsonRpcMessage::Error(error) => error
                .id
                .as_ref()
                .is_some_and(|id| self.requested.remove(id)),
        };
        if !expected {
            self.due = self.due.max(Instant::now()) + Duration::from_secs(1) / PER_SECOND;
        }
        Some(message)
    }
}

#[cfg(test)]
mod tests;
