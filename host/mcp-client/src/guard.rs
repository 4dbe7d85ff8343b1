//! Stands between a server and the library that speaks with it: a server that floods is read more slowly, and one that
//! asks without listening is not read at all. Its own calls wait; nobody else's do.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{JsonRpcMessage, RequestId, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use toolhost_contract::BoxFuture;

/// Messages that nobody asked for, per second; short bursts may be larger.
const PER_SECOND: u32 = 500;
const BURST: u32 = 1_000;
/// Questions of a server that are not answered yet.
const OPEN_REQUESTS: usize = 32;

pub struct Guard<T> {
    inner: T,
    /// When the next message may be read, were there no bursts.
    due: Instant,
    open: Arc<Open>,
}

/// Questions of the server by their id: is the answer on its way?
#[derive(Default)]
struct Open {
    requests: Mutex<HashMap<RequestId, bool>>,
    fewer: Notify,
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, bool>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, id: &RequestId) {
        self.lock().remove(id);
        self.fewer.notify_one();
    }

    /// A question that was taken back gets no answer; one whose answer is being sent stays open until it is.
    fn take_back(&self, id: &RequestId) {
        let mut requests = self.lock();
        if requests.get(id) == Some(&false) {
            requests.remove(id);
        }
    }
}

impl<T> Guard<T> {
    pub fn new(inner: T) -> Self {
        Self {
            inner,
            due: Instant::now(),
            open: Arc::default(),
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Guard<T> {
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
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = &answers
            && let Some(sending) = self.open.lock().get_mut(id)
        {
            *sending = true;
        }
        let open = Arc::clone(&self.open);
        let send: BoxFuture<'static, _> = Box::pin(self.inner.send(item));
        let sent: BoxFuture<'static, _> = Box::pin(async move {
            let sent = send.await;
            if let Some(id) = answers {
                open.close(&id);
            }
            sent
        });
        sent
    }

    // Boxed: the compiler does not see through the borrows of a future inside another one's bounds.
    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        let next: BoxFuture<'_, _> = Box::pin(self.next());
        next
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let close: BoxFuture<'_, _> = Box::pin(self.inner.close());
        close
    }
}

impl<T: Transport<RoleClient>> Guard<T> {
    // Dropped while it waits, it has lost nothing: it waits before it reads.
    async fn next(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        while self.open.lock().len() >= OPEN_REQUESTS {
            self.open.fewer.notified().await;
        }
        let burst = Duration::from_secs(1) / PER_SECOND * BURST;
        let at = self.due.checked_sub(burst).unwrap_or(self.due);
        if at > Instant::now() {
            sleep_until(at).await;
        }
        let message = self.inner.receive().await?;
        match &message {
            JsonRpcMessage::Request(request) => {
                self.open.lock().insert(request.id.clone(), false);
                self.charge();
            }
            JsonRpcMessage::Notification(said) => {
                if let ServerNotification::CancelledNotification(cancelled) = &said.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.take_back(id);
                }
                self.charge();
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Some(message)
    }

    fn charge(&mut self) {
        self.due = self.due.max(Instant::now()) + Duration::from_secs(1) / PER_SECOND;
    }
}
