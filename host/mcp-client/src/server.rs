//! The lifecycle of one server while the host runs: connect, list, watch, and reconnect after a loss.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use toolhost_contract::BoxFuture;

use rmcp::model::SubscriptionFilter;
use rmcp::service::{RoleClient, RunningService, Subscription};

use crate::calls::Ask;
use crate::config::{ServerConfig, Way};
use crate::dial::Dial;
use crate::error::{ServerError, wrote};
use crate::handler::Handler;
use crate::link::{self, Link, Live};
use crate::listing::{Judges, Listing, list};
use crate::log::{Log, Write};
use crate::state::State;

/// Maximum number of concurrent calls of one server.
const IN_FLIGHT: u32 = 16;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Consecutive failures after which a server is not restarted.
const FAILURES: u32 = 5;
/// How long a server must be up until its failures are reset.
const STEADY: Duration = Duration::from_secs(60);
/// Minimum time between two lists, however often a server announces changes. It doubles each time the server announces
/// a change right after a list.
const LIST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(64);
/// A list is not repeated before this many times the duration of the previous one.
const LIST_SHARE: u32 = 10;
/// How often to check while tools wait for an approval, which another program can record.
const RECHECK: Duration = Duration::from_secs(60);
/// Timeout for closing a connection before it is dropped.
const CLOSING: Duration = Duration::from_secs(8);

/// An event of a server.
pub enum News {
    /// Its tools were listed for the first time, or have changed.
    Listed(Arc<Listing>),
    /// It was lost or could not be reached, and will be retried.
    Lost { reason: String, wait: Duration },
    /// It is not retried.
    GaveUp(ServerError),
}

pub type Hear = dyn Fn(&Arc<Shared>, News) + Send + Sync;

/// The host's resources that a server needs.
pub struct Surroundings {
    pub judges: Judges,
    /// The destination of its log lines.
    pub log: Arc<Write>,
    /// For calls that cannot ask the user themselves.
    pub ask: Option<Arc<Ask>>,
    pub hear: Box<Hear>,
}

/// The state that calls share with the supervisor of the server.
pub struct Shared {
    pub config: ServerConfig,
    pub log: Arc<Log>,
    pub ask: Option<Arc<Ask>>,
    permits: Semaphore,
    state: watch::Sender<State>,
    listing: Mutex<Option<Arc<Listing>>>,
    relist: Notify,
}

/// A running server. Dropping it ends the server abruptly; see [`Server::stop`].
pub struct Server {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    pub fn start(config: ServerConfig, dial: Box<dyn Dial>, around: Surroundings) -> Self {
        let shared = Arc::new(Shared {
            log: Arc::new(Log::hiding(config.secrets(), around.log)),
            config,
            ask: around.ask,
            permits: Semaphore::new(IN_FLIGHT as usize),
            state: watch::Sender::new(State::Starting),
            listing: Mutex::default(),
            relist: Notify::new(),
        });
        let (stop, stopped) = watch::channel(false);
        let minder = Minder {
            shared: Arc::clone(&shared),
            old: AtomicBool::new(false),
            dial,
            judges: around.judges,
            hear: around.hear,
            stopped,
        };
        let task = tokio::spawn(minder.mind());
        Self { shared, stop, task }
    }

    pub fn shared(&self) -> &Arc<Shared> {
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

impl Shared {
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Waits until another call may run: concurrently, or exclusively if the server asks questions that cannot be
    /// assigned to a call.
    pub async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        let alone = matches!(self.state(), State::Up(live) if live.is_ambiguous());
        let wanted = if alone { IN_FLIGHT } else { 1 };
        self.permits.acquire_many(wanted).await.ok()
    }

    /// The last listing.
    pub fn listing(&self) -> Option<Arc<Listing>> {
        let listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        listing.clone()
    }

    /// Waits for the end of the first attempt.
    pub async fn first(&self) -> Result<Arc<Listing>, ServerError> {
        let mut state = self.state.subscribe();
        let over = state.wait_for(|state| !matches!(state, State::Starting));
        let state = over.await.map(|state| state.clone());
        match (state.unwrap_or(State::Stopped), self.listing()) {
            (State::Up(_), Some(listing)) => Ok(listing),
            (State::GaveUp { error }, _) => Err(error),
            (state, _) => Err(self.down(&state)),
        }
    }

    /// The connection; waits while there is none yet.
    pub async fn live(&self) -> Result<Arc<Live>, ServerError> {
        let mut state = self.state.subscribe();
        let over = state.wait_for(|state| !matches!(state, State::Starting));
        match over.await.map(|state| state.clone()) {
            Ok(State::Up(live)) => Ok(live),
            Ok(State::GaveUp { error }) => Err(error),
            Ok(state) => Err(self.down(&state)),
            Err(_) => Err(self.down(&State::Stopped)),
        }
    }

    /// Requests a new listing, for example after definitions were approved.
    pub fn list_again(&self) {
        self.relist.notify_one();
    }

    fn down(&self, state: &State) -> ServerError {
        let server = self.config.name.clone();
        match state {
            State::Waiting { reason, wait } => ServerError::Down {
                server,
                reason: format!(
                    "{reason}; the next attempt starts within {} s",
                    wait.as_secs().max(1)
                ),
            },
            State::GaveUp { error } => error.clone(),
            State::Starting | State::Up(_) | State::Stopped => ServerError::Stopped { server },
        }
    }

    fn set(&self, state: State) {
        self.state.send_replace(state);
    }

    fn keep(&self, listing: &Arc<Listing>) {
        let mut kept = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(Arc::clone(listing));
    }
}

struct Minder {
    shared: Arc<Shared>,
    /// Whether it supports only the legacy protocol.
    old: AtomicBool,
    dial: Box<dyn Dial>,
    judges: Judges,
    hear: Box<Hear>,
    stopped: watch::Receiver<bool>,
}

impl Minder {
    async fn mind(self) {
        let mut failures = 0;
        loop {
            let mut stopped = self.stopped.clone();
            let attempt = tokio::select! {
                attempt = self.connect() => attempt,
                _ = stopped.wait_for(|stop| *stop) => break,
            };
            let reason = match attempt {
                Ok((link, listing)) => {
                    let begun = Instant::now();
                    self.shared.keep(&listing);
                    // The tools are stored before the state becomes "up", so that waiters find them.
                    self.tell(News::Listed(listing));
                    self.shared.set(State::Up(Arc::clone(&link.live)));
                    let end = self.attend(link).await;
                    if begun.elapsed() >= STEADY {
                        failures = 0;
                    }
                    match end {
                        End::Stopped => break,
                        End::Lost(reason) => format!("{reason}{}", self.last_lines()),
                        End::Refused(error) => {
                            self.give_up(error);
                            return;
                        }
                    }
                }
                Err(error @ (ServerError::Config { .. } | ServerError::Login { .. })) => {
                    self.give_up(error);
                    return;
                }
                Err(error) => error.reason(),
            };
            failures += 1;
            if failures >= FAILURES {
                let server = self.shared.config.name.clone();
                let reason =
                    format!("{reason}; it failed {FAILURES} times in a row and is not restarted");
                self.give_up(ServerError::Down { server, reason });
                return;
            }
            let wait = (FIRST_WAIT * 2_u32.pow(failures - 1)).min(LONGEST_WAIT);
            self.shared.set(State::Waiting {
                reason: reason.clone(),
                wait,
            });
            self.tell(News::Lost { reason, wait });
            tokio::select! {
                () = sleep(wait) => {}
                _ = stopped.wait_for(|stop| *stop) => break,
            }
        }
        self.shared.set(State::Stopped);
    }

    fn give_up(&self, error: ServerError) {
        self.shared.set(State::GaveUp {
            error: error.clone(),
        });
        self.tell(News::GaveUp(error));
    }

    /// The last lines of a program often explain why it ended.
    fn last_lines(&self) -> String {
        match self.shared.config.way {
            Way::Stdio(_) => wrote(self.shared.log.tail().as_deref()),
            Way::Http(_) => String::new(),
        }
    }

    fn tell(&self, news: News) {
        (self.hear)(&self.shared, news);
    }

    fn connect(&self) -> BoxFuture<'_, Result<(Link, Arc<Listing>), ServerError>> {
        Box::pin(async {
            let config = &self.shared.config;
            self.judges.admit(config).await?;
            let link =
                Link::connect(&*self.dial, &config.name, &self.shared.log, &self.old).await?;
            match self.list(&link.live).await {
                Ok(listing) => Ok((link, listing)),
                Err(error) => {
                    close(link.service, link.child).await;
                    Err(error)
                }
            }
        })
    }

    fn list<'a>(&'a self, live: &'a Live) -> BoxFuture<'a, Result<Arc<Listing>, ServerError>> {
        Box::pin(async move {
            let listing = list(&self.shared.config, live, &self.judges).await?;
            Ok(Arc::new(listing))
        })
    }

    async fn recheck(&self) {
        match self.shared.listing() {
            Some(listing) if !listing.changed.is_empty() => sleep(RECHECK).await,
            _ => std::future::pending().await,
        }
    }

    /// Stores a changed listing. An unchanged one has no effect, so that no event is sent and tools remain available.
    fn take(&self, listing: Arc<Listing>) {
        let before = self.shared.listing();
        if before.is_some_and(|before| before.is_same(&listing)) {
            return;
        }
        self.shared.keep(&listing);
        self.tell(News::Listed(listing));
    }

    async fn attend(&self, link: Link) -> End {
        let Link {
            live,
            service,
            mut child,
            changed,
        } = link;
        let end = tokio::select! {
            end = over(self.stopped.clone(), &service, &mut child) => end,
            error = self.keep_listed(&live, &changed) => End::Refused(error),
        };
        // Running calls get their error now, not after the cleanup.
        self.shared.set(match &end {
            End::Stopped => State::Stopped,
            End::Lost(reason) => State::Waiting {
                reason: reason.clone(),
                wait: FIRST_WAIT,
            },
            End::Refused(error) => State::GaveUp {
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
        live: &'a Live,
        changed: &'a Notify,
    ) -> BoxFuture<'a, ServerError> {
        Box::pin(async move {
            let mut listening = listen(live).await;
            let mut listed = Instant::now();
            let mut pause = LIST_PAUSE;
            loop {
                let again = tokio::select! {
                    () = changed.notified() => true,
                    () = self.shared.relist.notified() => true,
                    more = heard(&mut listening) => more,
                    () = self.recheck() => true,
                };
                if !again {
                    listening = None;
                    continue;
                }
                let quiet = listed.elapsed();
                sleep(pause.saturating_sub(quiet)).await;
                let begun = Instant::now();
                match self.list(live).await {
                    Ok(listing) => self.take(listing),
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
        LIST_PAUSE
    } else {
        pause * 2
    };
    pause.max(took * LIST_SHARE).min(LONGEST_PAUSE)
}

/// Why a connection ended.
enum End {
    /// The host shuts down.
    Stopped,
    Lost(String),
    /// The server must not be used any longer.
    Refused(ServerError),
}

async fn over(
    mut stopped: watch::Receiver<bool>,
    service: &RunningService<RoleClient, Handler>,
    child: &mut Option<toolhost_process::Piped>,
) -> End {
    tokio::select! {
        _ = stopped.wait_for(|stop| *stop) => End::Stopped,
        () = closed(service) => End::Lost("its connection was closed".to_owned()),
        exit = ended(child) => End::Lost(format!("it ended: {exit}")),
    }
}

/// Subscribes to changes. A server of the current protocol announces changes only to subscribers.
async fn listen(live: &Live) -> Option<Subscription> {
    let tells = live.info.capabilities.tools.as_ref()?.list_changed == Some(true);
    if !live.is_modern() || !tells {
        return None;
    }
    let mut filter = SubscriptionFilter::default();
    filter.tools_list_changed = Some(true);
    let listening = timeout(Duration::from_secs(10), live.peer.listen(filter));
    listening.await.ok()?.ok()
}

/// Waits for a change. Returns false if there are no further ones.
async fn heard(listening: &mut Option<Subscription>) -> bool {
    match listening {
        Some(subscription) => matches!(subscription.next().await, Ok(Some(_))),
        None => std::future::pending().await,
    }
}

async fn closed(service: &RunningService<RoleClient, Handler>) {
    // There is no event for it. A program, which is the usual case, reports its end.
    const GLANCE: Duration = Duration::from_millis(100);
    while !service.peer().is_transport_closed() && !service.is_closed() {
        sleep(GLANCE).await;
    }
}

async fn ended(child: &mut Option<toolhost_process::Piped>) -> String {
    match child {
        Some(child) => match child.ended().await {
            toolhost_process::Exit::Code(code) => format!("exit code {code}"),
            toolhost_process::Exit::Signal(signal) => format!("signal {signal}"),
            other => format!("{other:?}").to_lowercase(),
        },
        None => std::future::pending().await,
    }
}

async fn close(
    mut service: RunningService<RoleClient, Handler>,
    child: Option<toolhost_process::Piped>,
) {
    // Closing the connection closes the program's input.
    let _ = service.close_with_timeout(CLOSING).await;
    drop(service);
    if let Some(child) = child {
        link::end(child).await;
    }
}

#[cfg(test)]
mod tests;
