//! The lifecycle of one server while the host runs: connect, list, watch, and reconnect after a loss.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use toolhost_contract::BoxFuture;

use rmcp::model::SubscriptionFilter;
use rmcp::service::{RoleClient, RunningService, Subscription, SubscriptionEnd};

use crate::config::{ServerConfig, TransportConfig};
use crate::connection::{self, Connection, ConnectionHandle};
use crate::dial::Dial;
use crate::error::{ServerError, format_last_lines};
use crate::handler::Handler;
use crate::listing::{Listing, ListingChecks, list};
use crate::log::{ServerLogger, WriteLine};
use crate::running_calls::AskUser;
use crate::server_state::ServerState;

/// Maximum number of concurrent calls of one server.
const MAX_CONCURRENT_CALLS: u32 = 16;
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Consecutive failures after which a server is not restarted.
const MAX_FAILURES: u32 = 5;
/// How long a server must be up until its failures are reset.
const RECOVERY_PERIOD: Duration = Duration::from_secs(60);
/// Minimum time between two lists, however often a server announces changes. It doubles each time the server announces
/// a change right after a list.
const MIN_LIST_PAUSE: Duration = Duration::from_secs(1);
const MAX_LIST_PAUSE: Duration = Duration::from_secs(64);
/// A list is not repeated before this many times the duration of the previous one.
const LIST_PAUSE_FACTOR: u32 = 10;
/// How often to check the approvals of the server and its tools, which another program can change.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Timeout for closing a connection before it is dropped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);

/// An event of a server.
pub enum ServerEvent {
    /// Its tools were listed for the first time, or have changed.
    Listed(Arc<Listing>),
    /// It was lost or could not be reached, and will be retried.
    Lost { reason: String, wait: Duration },
    /// It is not retried.
    GaveUp(ServerError),
}

pub type EventListener = dyn Fn(&Arc<ServerShared>, ServerEvent) + Send + Sync;

/// The host's resources that a server needs.
pub struct ServerContext {
    pub checks: ListingChecks,
    /// The destination of its log lines.
    pub log: Arc<WriteLine>,
    /// For calls that cannot ask the user themselves.
    pub ask: Option<Arc<AskUser>>,
    pub on_event: Box<EventListener>,
}

/// The state that calls share with the supervisor of the server.
pub struct ServerShared {
    pub config: ServerConfig,
    pub log: Arc<ServerLogger>,
    pub ask: Option<Arc<AskUser>>,
    permits: Semaphore,
    state: watch::Sender<ServerState>,
    listing: watch::Sender<Option<Arc<Listing>>>,
    relist: Notify,
}

/// A running server. Dropping it ends the server abruptly; see [`Server::stop`].
pub struct Server {
    shared: Arc<ServerShared>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    pub fn start(config: ServerConfig, dial: Box<dyn Dial>, context: ServerContext) -> Self {
        let shared = Arc::new(ServerShared {
            log: Arc::new(ServerLogger::with_secrets(config.secrets(), context.log)),
            config,
            ask: context.ask,
            permits: Semaphore::new(MAX_CONCURRENT_CALLS as usize),
            state: watch::Sender::new(ServerState::Starting),
            listing: watch::Sender::default(),
            relist: Notify::new(),
        });
        let (stop, stopped) = watch::channel(false);
        let minder = ServerSupervisor {
            shared: Arc::clone(&shared),
            is_legacy: AtomicBool::new(false),
            dial,
            checks: context.checks,
            on_event: context.on_event,
            stop: stopped,
        };
        let task = tokio::spawn(minder.run());
        Self { shared, stop, task }
    }

    pub fn shared(&self) -> &Arc<ServerShared> {
        &self.shared
    }

    /// Ends the server gracefully: its input is closed, then it gets three seconds, SIGTERM, three more seconds, and
    /// SIGKILL.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        let _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ServerShared {
    pub fn state(&self) -> ServerState {
        self.state.borrow().clone()
    }

    /// Waits until another call may run: concurrently, or exclusively if the server asks questions that cannot be
    /// assigned to a call.
    pub async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        let alone = matches!(self.state(), ServerState::Up(live) if live.is_ambiguous());
        let wanted = if alone { MAX_CONCURRENT_CALLS } else { 1 };
        self.permits.acquire_many(wanted).await.ok()
    }

    /// The last listing.
    pub fn listing(&self) -> Option<Arc<Listing>> {
        self.listing.borrow().clone()
    }

    /// Waits for the end of the first attempt.
    pub async fn first_listing(&self) -> Result<Arc<Listing>, ServerError> {
        let mut state = self.state.subscribe();
        let over = state.wait_for(|state| !matches!(state, ServerState::Starting));
        let state = over.await.map(|state| state.clone());
        match (state.unwrap_or(ServerState::Stopped), self.listing()) {
            (ServerState::Up(_), Some(listing)) => Ok(listing),
            (ServerState::GaveUp { error }, _) => Err(error),
            // The caller does not wait for the next attempt.
            (ServerState::Waiting { reason, .. }, _) => Err(ServerError::Down {
                server: self.config.name.clone(),
                reason,
            }),
            (state, _) => Err(self.unavailable(&state)),
        }
    }

    /// The connection; waits while there is none yet.
    pub async fn live(&self) -> Result<Arc<ConnectionHandle>, ServerError> {
        self.wait_live(|_| true).await
    }

    /// The connection after `previous`.
    pub async fn next_live(
        &self,
        previous: &Arc<ConnectionHandle>,
    ) -> Result<Arc<ConnectionHandle>, ServerError> {
        self.wait_live(|live| !Arc::ptr_eq(live, previous)).await
    }

    async fn wait_live(
        &self,
        is_wanted: impl Fn(&Arc<ConnectionHandle>) -> bool,
    ) -> Result<Arc<ConnectionHandle>, ServerError> {
        let mut state = self.state.subscribe();
        let over = state.wait_for(|state| match state {
            ServerState::Starting => false,
            ServerState::Up(live) => is_wanted(live),
            ServerState::Waiting { .. } | ServerState::GaveUp { .. } | ServerState::Stopped => true,
        });
        match over.await.map(|state| state.clone()) {
            Ok(ServerState::Up(live)) => Ok(live),
            Ok(ServerState::GaveUp { error }) => Err(error),
            Ok(state) => Err(self.unavailable(&state)),
            Err(_) => Err(self.unavailable(&ServerState::Stopped)),
        }
    }

    /// Requests a new listing, for example after definitions were approved.
    pub fn list_again(&self) {
        self.relist.notify_one();
    }

    /// Requests a new listing and waits for it. Returns whether other tools are served or left out; false if the server is
    /// not connected or does not list its tools within `limit`.
    pub async fn has_changed(&self, limit: Duration) -> bool {
        let mut stored = self.listing.subscribe();
        let before = stored.borrow_and_update().clone();
        if !matches!(self.state(), ServerState::Up(_)) {
            return false;
        }
        self.list_again();
        let is_listed = matches!(timeout(limit, stored.changed()).await, Ok(Ok(())));
        let now = stored.borrow();
        match (&before, &*now) {
            (Some(before), Some(now)) => is_listed && !before.is_same(now),
            _ => is_listed,
        }
    }

    fn unavailable(&self, state: &ServerState) -> ServerError {
        let server = self.config.name.clone();
        match state {
            ServerState::Waiting { reason, wait } => ServerError::Down {
                server,
                reason: format!(
                    "{reason}; the next attempt starts within {} s",
                    wait.as_secs().max(1)
                ),
            },
            ServerState::GaveUp { error } => error.clone(),
            ServerState::Starting | ServerState::Up(_) | ServerState::Stopped => {
                ServerError::Stopped { server }
            }
        }
    }

    fn set_state(&self, state: ServerState) {
        self.state.send_replace(state);
    }

    fn store_listing(&self, listing: &Arc<Listing>) {
        self.listing.send_replace(Some(Arc::clone(listing)));
    }
}

struct ServerSupervisor {
    shared: Arc<ServerShared>,
    /// Whether it supports only the legacy protocol.
    is_legacy: AtomicBool,
    dial: Box<dyn Dial>,
    checks: ListingChecks,
    on_event: Box<EventListener>,
    stop: watch::Receiver<bool>,
}

impl ServerSupervisor {
    async fn run(self) {
        let mut failures = 0;
        loop {
            let mut stopped = self.stop.clone();
            let attempt = tokio::select! {
                attempt = self.connect() => attempt,
                _ = stopped.wait_for(|stop| *stop) => break,
            };
            let reason = match attempt {
                Ok((link, listing)) => {
                    let begun = Instant::now();
                    self.shared.store_listing(&listing);
                    // The tools are stored before the state becomes "up", so that waiters find them.
                    self.emit(ServerEvent::Listed(listing));
                    self.shared
                        .set_state(ServerState::Up(Arc::clone(&link.live)));
                    let end = self.watch(link).await;
                    if begun.elapsed() >= RECOVERY_PERIOD {
                        failures = 0;
                    }
                    match end {
                        ConnectionEnd::Stopped => break,
                        // Servers end sessions that are not used, so it is no failure.
                        ConnectionEnd::SessionExpired => continue,
                        ConnectionEnd::Lost(reason) => format!("{reason}{}", self.last_lines()),
                        ConnectionEnd::Refused(error) => {
                            self.give_up(error);
                            return;
                        }
                    }
                }
                Err(error @ (ServerError::Config { .. } | ServerError::LoginRequired { .. })) => {
                    self.give_up(error);
                    return;
                }
                Err(error) => error.reason(),
            };
            failures += 1;
            if failures >= MAX_FAILURES {
                let server = self.shared.config.name.clone();
                let reason = format!(
                    "{reason}; it failed {MAX_FAILURES} times in a row and is not restarted"
                );
                self.give_up(ServerError::Down { server, reason });
                return;
            }
            let wait = (MIN_BACKOFF * 2_u32.pow(failures - 1)).min(MAX_BACKOFF);
            self.shared.set_state(ServerState::Waiting {
                reason: reason.clone(),
                wait,
            });
            self.emit(ServerEvent::Lost { reason, wait });
            tokio::select! {
                () = sleep(wait) => {}
                _ = stopped.wait_for(|stop| *stop) => break,
            }
        }
        self.shared.set_state(ServerState::Stopped);
    }

    fn give_up(&self, error: ServerError) {
        self.shared.set_state(ServerState::GaveUp {
            error: error.clone(),
        });
        self.emit(ServerEvent::GaveUp(error));
    }

    /// The last lines of a program often explain why it ended.
    fn last_lines(&self) -> String {
        match self.shared.config.transport {
            TransportConfig::Stdio(_) => format_last_lines(self.shared.log.tail().as_deref()),
            TransportConfig::Http(_) => String::new(),
        }
    }

    fn emit(&self, event: ServerEvent) {
        (self.on_event)(&self.shared, event);
    }

    fn connect(&self) -> BoxFuture<'_, Result<(Connection, Arc<Listing>), ServerError>> {
        Box::pin(async {
            let config = &self.shared.config;
            self.checks.check_approved(config).await?;
            let link =
                Connection::connect(&*self.dial, &config.name, &self.shared.log, &self.is_legacy)
                    .await?;
            match self.list(&link.live).await {
                Ok(listing) => Ok((link, listing)),
                Err(error) => {
                    close(link.service, link.child).await;
                    Err(error)
                }
            }
        })
    }

    fn list<'a>(
        &'a self,
        live: &'a ConnectionHandle,
    ) -> BoxFuture<'a, Result<Arc<Listing>, ServerError>> {
        Box::pin(async move {
            let config = &self.shared.config;
            self.checks.check_approved(config).await?;
            let listing = list(config, live, &self.checks).await?;
            Ok(Arc::new(listing))
        })
    }

    /// A server can delay its lists, so its approval is checked without one.
    async fn wait_revoked(&self) -> ServerError {
        loop {
            sleep(RECHECK_INTERVAL).await;
            let checked = self.checks.check_approved(&self.shared.config).await;
            if let Err(error @ ServerError::Config { .. }) = checked {
                return error;
            }
        }
    }

    async fn wait_for_recheck(&self) {
        match self.shared.listing() {
            Some(listing) if !listing.changed.is_empty() => sleep(RECHECK_INTERVAL).await,
            _ => std::future::pending().await,
        }
    }

    /// Stores a listing. No event is sent if the same tools are served, so that they remain available. Tools that wait for
    /// an approval can differ nevertheless.
    fn update_listing(&self, listing: Arc<Listing>) {
        let before = self.shared.listing();
        self.shared.listing.send_if_modified(|stored| {
            *stored = Some(Arc::clone(&listing));
            false
        });
        if before.is_none_or(|before| !before.is_same(&listing)) {
            self.emit(ServerEvent::Listed(listing));
        }
        // Notified when the tools are registered.
        self.shared.listing.send_modify(|_| ());
    }

    async fn watch(&self, link: Connection) -> ConnectionEnd {
        let Connection {
            live,
            service,
            mut child,
            changed,
        } = link;
        let end = tokio::select! {
            end = wait_for_end(self.stop.clone(), &service, &mut child) => end,
            error = self.keep_listed(&live, &changed) => ConnectionEnd::Refused(error),
            error = self.wait_revoked() => ConnectionEnd::Refused(error),
        };
        // Running calls get their error now, not after the cleanup.
        self.shared.set_state(match &end {
            ConnectionEnd::Stopped => ServerState::Stopped,
            // Calls wait for the next session.
            ConnectionEnd::SessionExpired => ServerState::Starting,
            ConnectionEnd::Lost(reason) => ServerState::Waiting {
                reason: reason.clone(),
                wait: MIN_BACKOFF,
            },
            ConnectionEnd::Refused(error) => ServerState::GaveUp {
                error: error.clone(),
            },
        });
        drop(live);
        close(service, child).await;
        end
    }

    /// Lists the tools again whenever they may have changed. Returns when the server is no longer approved.
    ///
    /// A server can delay a listing arbitrarily, so the caller waits for the end of the connection concurrently.
    fn keep_listed<'a>(
        &'a self,
        live: &'a ConnectionHandle,
        changed: &'a Notify,
    ) -> BoxFuture<'a, ServerError> {
        Box::pin(async move {
            let mut listening = subscribe(live).await;
            let mut listed = Instant::now();
            let mut pause = MIN_LIST_PAUSE;
            loop {
                let subscribed = tokio::select! {
                    () = changed.notified() => SubscriptionState::Open,
                    () = self.shared.relist.notified() => SubscriptionState::Open,
                    state = next_change(&mut listening) => state,
                    () = self.wait_for_recheck() => SubscriptionState::Open,
                };
                if subscribed == SubscriptionState::Ended {
                    listening = None;
                    continue;
                }
                let quiet = listed.elapsed();
                sleep(pause.saturating_sub(quiet)).await;
                if subscribed == SubscriptionState::Lagged {
                    listening = subscribe(live).await;
                }
                let begun = Instant::now();
                match self.list(live).await {
                    Ok(listing) => self.update_listing(listing),
                    Err(error @ ServerError::Config { .. }) => return error,
                    Err(error) => self.shared.log.line(&error.to_string()),
                }
                listed = Instant::now();
                pause = next_pause(pause, quiet, begun.elapsed());
            }
        })
    }
}

/// How long to wait before the next list: `quiet` passed between the last list and the request for another, which took
/// `took`.
fn next_pause(pause: Duration, quiet: Duration, took: Duration) -> Duration {
    let pause = if quiet > pause * 2 {
        MIN_LIST_PAUSE
    } else {
        pause * 2
    };
    pause.max(took * LIST_PAUSE_FACTOR).min(MAX_LIST_PAUSE)
}

/// Why a connection ended.
enum ConnectionEnd {
    /// The host shuts down.
    Stopped,
    Lost(String),
    /// The server no longer knows the session. Its tools are listed again in the next one, because they can differ.
    SessionExpired,
    /// The server must not be used any longer.
    Refused(ServerError),
}

async fn wait_for_end(
    mut stopped: watch::Receiver<bool>,
    service: &RunningService<RoleClient, Handler>,
    child: &mut Option<toolhost_process::PipedProcess>,
) -> ConnectionEnd {
    tokio::select! {
        _ = stopped.wait_for(|stop| *stop) => ConnectionEnd::Stopped,
        end = wait_closed(service) => end,
        exit = wait_exit(child) => ConnectionEnd::Lost(format!("it ended: {exit}")),
    }
}

/// Subscribes to changes. A server of the current protocol announces changes only to subscribers.
async fn subscribe(live: &ConnectionHandle) -> Option<Subscription> {
    let tells = live.info.capabilities.tools.as_ref()?.list_changed == Some(true);
    if !live.is_modern() || !tells {
        return None;
    }
    let mut filter = SubscriptionFilter::default();
    filter.tools_list_changed = Some(true);
    // A notification can be large, and one is enough to list again.
    let listening = live.peer.listen_with_capacity(filter, NonZeroUsize::MIN);
    let listening = timeout(Duration::from_secs(10), listening);
    listening.await.ok()?.ok()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SubscriptionState {
    Open,
    /// It has ended because notifications arrived faster than they were read.
    Lagged,
    /// There are no further changes.
    Ended,
}

/// Waits for a change.
async fn next_change(listening: &mut Option<Subscription>) -> SubscriptionState {
    let Some(subscription) = listening else {
        return std::future::pending().await;
    };
    match (subscription.next().await, subscription.end()) {
        (Ok(Some(_)), _) => SubscriptionState::Open,
        (Ok(None), Some(SubscriptionEnd::Lagged { .. })) => SubscriptionState::Lagged,
        (Ok(None) | Err(_), _) => SubscriptionState::Ended,
    }
}

async fn wait_closed(service: &RunningService<RoleClient, Handler>) -> ConnectionEnd {
    // There is no event for it. A program, which is the usual case, reports its end.
    const GLANCE: Duration = Duration::from_millis(100);
    while !service.peer().is_transport_closed() && !service.is_closed() {
        if service.service().session_expired.load(Ordering::Relaxed) {
            return ConnectionEnd::SessionExpired;
        }
        sleep(GLANCE).await;
    }
    ConnectionEnd::Lost("its connection was closed".to_owned())
}

async fn wait_exit(child: &mut Option<toolhost_process::PipedProcess>) -> String {
    match child {
        Some(child) => match child.wait().await {
            toolhost_process::ExitReason::Code(code) => format!("exit code {code}"),
            toolhost_process::ExitReason::Signal(signal) => format!("signal {signal}"),
            other => format!("{other:?}").to_lowercase(),
        },
        None => std::future::pending().await,
    }
}

async fn close(
    mut service: RunningService<RoleClient, Handler>,
    child: Option<toolhost_process::PipedProcess>,
) {
    // Closing the connection closes the program's input.
    let _ = service.close_with_timeout(CLOSE_TIMEOUT).await;
    drop(service);
    if let Some(child) = child {
        connection::end_program(child).await;
    }
}

#[cfg(test)]
mod tests;
