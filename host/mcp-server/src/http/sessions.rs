//! Sessions of the older protocols, each owned by one user and ended when idle.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::Stream;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::{SessionId, SessionManager};
use tokio::time::{Instant, timeout};
use toolhost_contract::SessionKey;
use toolhost_kernel::Kernel;

use super::body::Guarded;
use super::token_quota::{CURRENT_REQUEST, SessionRefusal, TokenQuota};
use crate::client_label;

/// A session used more recently than this is not evicted.
const MIN_IDLE_FOR_EVICTION: Duration = Duration::from_secs(60);
/// How long a new session waits for the end of the evicted one.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct HttpSessions {
    inner: LocalSessionManager,
    open: Mutex<HashMap<SessionId, Arc<HttpSession>>>,
    kernel: Arc<Kernel>,
    most: usize,
    idle: Duration,
}

/// The kernel's key for the session of a request. It differs from the protocol's session id, with which a reader of
/// the records could use the session.
#[derive(Clone)]
pub(crate) struct RequestSession(pub(crate) SessionKey);

struct HttpSession {
    owner: Arc<TokenQuota>,
    key: SessionKey,
    kernel: Arc<Kernel>,
    last_used: Mutex<Instant>,
    streams: AtomicUsize,
    /// Ids of running requests. With a duplicate id, rmcp would send a response to the wrong stream.
    in_flight_ids: Mutex<HashSet<RequestId>>,
    client: Mutex<Option<String>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionsError {
    #[error(transparent)]
    Session(#[from] LocalSessionManagerError),
    #[error("too many sessions are open")]
    TooMany,
    #[error("a request with this id is running")]
    IdInUse,
    #[error("unknown session")]
    NotFound,
}

impl HttpSessions {
    pub(crate) fn new(kernel: Arc<Kernel>, most: usize, idle: Duration) -> Self {
        let mut inner = LocalSessionManager::default();
        // rmcp would end sessions with a quiet stream or a long call; `sweep` does not.
        inner.session_config.keep_alive = None;
        Self {
            inner,
            open: Mutex::default(),
            kernel,
            most,
            idle,
        }
    }

    /// Ends idle sessions.
    pub(crate) fn sweep(self: &Arc<Self>) {
        let old: Vec<_> = lock(&self.open)
            .iter()
            .filter(|(_, session)| {
                session
                    .idle_time()
                    .is_some_and(|unused| unused >= self.idle)
            })
            .map(|(id, _)| SessionId::clone(id))
            .collect();
        for id in old {
            let sessions = Arc::clone(self);
            // Ending may take long if the client does not read.
            tokio::spawn(async move { sessions.end(&id).await });
        }
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.open).len()
    }

    fn get(&self, id: &SessionId) -> Result<Arc<HttpSession>, SessionsError> {
        let open = lock(&self.open);
        let session = open.get(id).filter(|session| session.is_of_current());
        session.map(Arc::clone).ok_or(SessionsError::NotFound)
    }

    async fn end(&self, id: &SessionId) -> Result<(), SessionsError> {
        let session = lock(&self.open).remove(id);
        if let Some(session) = session {
            let client = lock(&session.client).take();
            match client {
                Some(client) => self.kernel.close_session(&session.key, &client),
                None => self.kernel.end_session(&session.key),
            }
        }
        Ok(self.inner.close_session(id).await?)
    }

    /// Returns the session to evict for a new one of this owner, or `None` if there is room. Fails if all are in use.
    fn session_to_evict(
        &self,
        owner: &Arc<TokenQuota>,
    ) -> Result<Option<SessionId>, SessionsError> {
        let open = lock(&self.open);
        let theirs = || {
            open.iter()
                .filter(|(_, session)| Arc::ptr_eq(&session.owner, owner))
        };
        if theirs().count() < self.most {
            return Ok(None);
        }
        theirs()
            .filter_map(|(id, session)| Some((session.idle_time()?, id)))
            .filter(|(unused, _)| *unused >= MIN_IDLE_FOR_EVICTION)
            .max_by_key(|(unused, _)| *unused)
            .map(|(_, id)| Some(SessionId::clone(id)))
            .ok_or(SessionsError::TooMany)
    }
}

impl Drop for HttpSession {
    /// Requests hold their session, so this runs after the last one. A request that was running when the session ended
    /// may have started another call.
    fn drop(&mut self) {
        self.kernel.end_session(&self.key);
    }
}

impl HttpSession {
    fn is_of_current(&self) -> bool {
        let same = CURRENT_REQUEST.try_with(|current| Arc::ptr_eq(&current.quota, &self.owner));
        // Outside of a request, the caller is rmcp itself.
        same.unwrap_or(true)
    }

    /// Returns how long the session has been idle, or `None` if it is in use.
    fn idle_time(&self) -> Option<Duration> {
        let busy = self.streams.load(Relaxed) > 0 || !lock(&self.in_flight_ids).is_empty();
        (!busy).then(|| lock(&self.last_used).elapsed())
    }

    fn touch(&self) {
        *lock(&self.last_used) = Instant::now();
    }

    fn track_stream<S>(self: Arc<Self>, stream: S) -> Guarded<S, OpenStream> {
        self.streams.fetch_add(1, Relaxed);
        Guarded::new(stream, OpenStream(self))
    }

    /// Registers the id of a request until its handler drops the message.
    fn register_request(
        self: &Arc<Self>,
        message: &mut ClientJsonRpcMessage,
    ) -> Result<(), SessionsError> {
        let JsonRpcMessage::Request(request) = &*message else {
            return Ok(());
        };
        let id = request.id.clone();
        if !lock(&self.in_flight_ids).insert(id.clone()) {
            set_refusal(SessionRefusal::IdInUse(id));
            return Err(SessionsError::IdInUse);
        }
        message.insert_extension(Arc::new(InFlightId(Arc::clone(self), id)));
        Ok(())
    }
}

/// Counts an open stream until dropped.
pub(crate) struct OpenStream(Arc<HttpSession>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Relaxed);
        self.0.touch();
    }
}

/// Reserves a request id until dropped.
struct InFlightId(Arc<HttpSession>, RequestId);

impl Drop for InFlightId {
    fn drop(&mut self) {
        lock(&self.0.in_flight_ids).remove(&self.1);
        self.0.touch();
    }
}

fn set_refusal(why: SessionRefusal) {
    // Outside of a request there is no response to change.
    let _ = CURRENT_REQUEST.try_with(|current| current.refused.set(Some(why)));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SessionManager for HttpSessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let owner = CURRENT_REQUEST.try_with(|current| Arc::clone(&current.quota));
        let owner = owner.map_err(|_| SessionsError::NotFound)?;
        match self.session_to_evict(&owner) {
            Ok(None) => {}
            // It is not counted any more, even if its worker is slow to end.
            Ok(Some(id)) => drop(timeout(EVICTION_TIMEOUT, self.end(&id)).await),
            Err(error) => {
                set_refusal(SessionRefusal::TooManySessions);
                return Err(error);
            }
        }
        let (id, transport) = self.inner.create_session().await?;
        let session = HttpSession {
            key: SessionKey::new(owner.user.clone(), toolhost_kernel::id::random()),
            kernel: Arc::clone(&self.kernel),
            owner,
            last_used: Mutex::new(Instant::now()),
            streams: AtomicUsize::new(0),
            in_flight_ids: Mutex::default(),
            client: Mutex::default(),
        };
        lock(&self.open).insert(SessionId::clone(&id), Arc::new(session));
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let session = self.get(id)?;
        let name = match &message {
            JsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::InitializeRequest(request) => client_label(Some(&request.params)),
                _ => client_label(None),
            },
            _ => client_label(None),
        };
        let answer = self.inner.initialize_session(id, message).await?;
        if matches!(answer, JsonRpcMessage::Response(_)) {
            self.kernel.open_session(&session.key, &name);
            *lock(&session.client) = Some(name);
        }
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        let Ok(session) = self.get(id) else {
            return Ok(false);
        };
        session.touch();
        self.inner.has_session(id).await.map_err(Into::into)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        if let Err(none) = self.get(id) {
            // Do not reveal whether another user has this session.
            set_refusal(SessionRefusal::NoSession);
            return if CURRENT_REQUEST.try_with(|_| ()).is_ok() {
                Err(none)
            } else {
                // rmcp reports the end of a session that was ended here.
                Ok(())
            };
        }
        self.end(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let session = self.get(id)?;
        session.register_request(&mut message)?;
        message.insert_extension(RequestSession(session.key.clone()));
        let stream = self.inner.create_stream(id, message).await?;
        Ok(session.track_stream(stream))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let session = self.get(id)?;
        let stream = self.inner.create_standalone_stream(id).await?;
        Ok(session.track_stream(stream))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let session = self.get(id)?;
        let stream = self.inner.resume(id, last_event_id).await?;
        Ok(session.track_stream(stream))
    }
}

#[cfg(test)]
mod tests;
