//! The running calls of one connection: delivery of progress, and assignment of questions to calls.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use toolhost_contract::{
    BoxFuture, Event, Failure, Principal, Query, Reply, SessionKey, Sink, text,
};

/// Maximum number of progress notifications that are kept because they arrived before their call was registered.
const EARLY: usize = 32;
/// Maximum number of messages of one call that are passed on; further ones are counted.
const MAX_PROGRESS: u64 = 10_000;
const MAX_MESSAGE: usize = 500;
/// Minimum time between two reports that are passed on. A report of completion is passed on immediately.
const REPORTS: Duration = Duration::from_millis(100);
/// How often the time of a call is checked while a question to the user is open.
const GLANCE: Duration = Duration::from_millis(100);

/// Asks the user questions.
pub type Ask = dyn Fn(Vec<Query>) -> BoxFuture<'static, Result<Vec<Reply>, Failure>> + Send + Sync;

/// How long after a call was abandoned a question without a request ID may belong to it.
const ABANDONED: Duration = Duration::from_secs(60);
/// Maximum number of owners of abandoned calls that are remembered.
const OWNERS: usize = 1_000;

#[derive(Default)]
pub struct Calls {
    inner: Mutex<Inner>,
    /// Notified when a request was sent or ended.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Inner {
    /// Requests without a response, in the order in which they were started.
    open: BTreeMap<u64, Open>,
    next: u64,
    early: VecDeque<ProgressNotificationParam>,
    /// Whether a question waits until only one call can be its origin.
    held: bool,
    /// Whether a question was refused because it could belong to several calls.
    ambiguous: bool,
    /// When a call of each owner was last abandoned.
    abandoned: HashMap<SessionKey, Instant>,
    /// Set when calls of more owners than [`MAX_OWNERS`] were abandoned. From then on, questions without a request ID
    /// are refused.
    overflowed: bool,
}

struct Open {
    running: Arc<Running>,
    /// `None` while the request is being sent.
    sent: Option<(ProgressToken, RequestId)>,
}

/// The call that a question belongs to.
pub struct Asker {
    pub running: Arc<Running>,
    key: u64,
}

/// Why a question cannot be assigned to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    #[error("this question does not belong to a running call")]
    NoCall,
    #[error(
        "{0} calls are running and the question does not state which of them it belongs to; call the tool again: calls of \
         this server now run one at a time"
    )]
    Several(usize),
    #[error(
        "a call was cancelled and the question may belong to that call; call the tool again later"
    )]
    Abandoned,
}

pub struct Running {
    sink: Arc<dyn Sink>,
    ask: Option<Arc<Ask>>,
    owner: SessionKey,
    told: Mutex<Told>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Told {
    count: u64,
    furthest: Option<f64>,
    last: Option<Instant>,
}

/// Time spent waiting for the user, which does not count towards the timeout of the call.
#[derive(Default)]
struct Waiting {
    asking: usize,
    since: Option<Instant>,
    before: Duration,
}

/// Registers a request for as long as it exists.
pub struct Entered {
    calls: Arc<Calls>,
    key: u64,
    answered: bool,
}

impl Entered {
    /// Marks the request as sent, and delivers progress that arrived earlier.
    pub fn sent(&self, token: &ProgressToken, id: &RequestId) {
        let mut inner = self.calls.lock();
        let (own, others) = std::mem::take(&mut inner.early)
            .into_iter()
            .partition::<VecDeque<_>, _>(|progress| progress.progress_token == *token);
        inner.early = others;
        let Some(open) = inner.open.get_mut(&self.key) else {
            return;
        };
        open.sent = Some((token.clone(), id.clone()));
        let running = Arc::clone(&open.running);
        drop(inner);
        for progress in own {
            running.progress(progress);
        }
        self.calls.changed.send_replace(());
    }

    /// Marks the request as answered, with a result or an error.
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut inner = self.calls.lock();
        if let Some(open) = inner.open.remove(&self.key)
            && !self.answered
        {
            inner.abandon(open.running.owner.clone());
        }
        drop(inner);
        self.calls.changed.send_replace(());
    }
}

impl Inner {
    fn abandon(&mut self, owner: SessionKey) {
        if self.abandoned.len() < OWNERS || self.abandoned.contains_key(&owner) {
            self.abandoned.insert(owner, Instant::now());
        } else {
            self.overflowed = true;
        }
    }

    /// Whether a question without a request ID can belong to an abandoned call. The server may not have processed the
    /// cancellation yet, and a question of one owner's call must not reach another owner.
    fn is_doubtful(&self, owner: &SessionKey) -> bool {
        let mut abandoned = self.abandoned.iter();
        self.overflowed || abandoned.any(|(other, at)| other != owner || at.elapsed() < ABANDONED)
    }
}

/// Releases the slot of the waiting question.
struct Held<'a>(&'a Calls);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.lock().held = false;
    }
}

impl Calls {
    /// Registers a call before its request is sent, because a fast server can ask before the request ID is known.
    pub fn enter(self: &Arc<Self>, running: Arc<Running>) -> Entered {
        let mut inner = self.lock();
        let key = inner.next;
        inner.next += 1;
        inner.open.insert(
            key,
            Open {
                running,
                sent: None,
            },
        );
        Entered {
            calls: Arc::clone(self),
            key,
            answered: false,
        }
    }

    /// Returns the call with this request ID.
    pub async fn of(&self, id: &RequestId) -> Result<Asker, Unclear> {
        let mut changed = self.changed.subscribe();
        loop {
            {
                let inner = self.lock();
                let is_it = |open: &Open| open.sent.as_ref().is_some_and(|(_, own)| own == id);
                if let Some((key, open)) = inner.open.iter().find(|(_, open)| is_it(open)) {
                    return Ok(Asker {
                        running: Arc::clone(&open.running),
                        key: *key,
                    });
                }
                if inner.open.values().all(|open| open.sent.is_some()) {
                    return Err(Unclear::NoCall);
                }
            }
            let _ = changed.changed().await;
        }
    }

    /// Returns the call that a question without a request ID belongs to: the only one that was running when the
    /// question arrived. If there are several, the question waits until the others are answered. Only one question can
    /// wait; the next is refused, because calls whose questions wait for each other would never complete.
    pub async fn only(&self) -> Result<Asker, Unclear> {
        let mut changed = self.changed.subscribe();
        let came = self.lock().next;
        let mut held = None;
        loop {
            {
                let mut inner = self.lock();
                let candidates = inner.open.range(..came).count();
                match (candidates, inner.open.range(..came).next()) {
                    (_, None) => return Err(Unclear::NoCall),
                    (1, Some((_, open))) if inner.is_doubtful(&open.running.owner) => {
                        return Err(Unclear::Abandoned);
                    }
                    (1, Some((key, open))) => {
                        return Ok(Asker {
                            running: Arc::clone(&open.running),
                            key: *key,
                        });
                    }
                    _ if held.is_some() => {}
                    _ if inner.held => {
                        inner.ambiguous = true;
                        return Err(Unclear::Several(candidates));
                    }
                    _ => {
                        inner.held = true;
                        held = Some(Held(self));
                    }
                }
            }
            let _ = changed.changed().await;
        }
    }

    /// Waits for the end of the call.
    pub async fn ended(&self, asker: &Asker) {
        let mut changed = self.changed.subscribe();
        while self.lock().open.contains_key(&asker.key) {
            let _ = changed.changed().await;
        }
    }

    /// Whether the server has sent several questions at once without request IDs.
    pub fn is_ambiguous(&self) -> bool {
        self.lock().ambiguous
    }

    pub fn progress(&self, mut progress: ProgressNotificationParam) {
        let mut inner = self.lock();
        let is_it = |open: &&Open| {
            let sent = open.sent.as_ref();
            sent.is_some_and(|(token, _)| *token == progress.progress_token)
        };
        if let Some(open) = inner.open.values().find(is_it) {
            let running = Arc::clone(&open.running);
            drop(inner);
            running.progress(progress);
            return;
        }
        if inner.early.len() == EARLY {
            inner.early.pop_front();
        }
        // It can be kept as long as the connection exists.
        let message = progress.message.take();
        progress.message = message.map(|message| text::inline(&message, MAX_MESSAGE));
        progress.meta = None;
        inner.early.push_back(progress);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    pub fn new(sink: Arc<dyn Sink>, ask: Option<Arc<Ask>>, caller: &Principal) -> Self {
        Self {
            sink,
            ask,
            owner: caller.session_key(),
            told: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    fn progress(&self, progress: ProgressNotificationParam) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.count += 1;
        // Progress must increase; anything else is ignored.
        let grows = told
            .furthest
            .is_none_or(|furthest| progress.progress > furthest);
        if told.count > MAX_PROGRESS || !grows || !progress.progress.is_finite() {
            return;
        }
        told.furthest = Some(progress.progress);
        let is_done = progress.total == Some(progress.progress);
        if !is_done && told.last.is_some_and(|last| last.elapsed() < REPORTS) {
            return;
        }
        told.last = Some(Instant::now());
        drop(told);
        let message = progress.message;
        self.sink.event(Event::Progress {
            message: message.map(|message| text::inline(&message, MAX_MESSAGE)),
            progress: Some(progress.progress),
            total: progress.total.filter(|total| total.is_finite()),
        });
    }

    /// Asks the user on behalf of the call. The call's timeout is suspended meanwhile.
    pub async fn ask(&self, queries: Vec<Query>) -> Result<Vec<Reply>, Failure> {
        let nobody = || Failure::new("not_configured", "no user is available to answer");
        let _time = self.stop_time();
        match (self.sink.services(), &self.ask) {
            (Some(services), _) => services.ask(queries).await,
            (None, Some(ask)) => ask(queries).await,
            (None, None) => Err(nobody()),
        }
    }

    /// Returns `None` if `work` took longer than `limit`, without the time spent waiting for the user.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let begun = Instant::now();
        let mut work = pin!(work);
        loop {
            let (waited, asking) = self.waited();
            let mut end = begun + limit + waited;
            if asking {
                end = end.max(Instant::now() + GLANCE);
            } else if end <= Instant::now() {
                return None;
            }
            tokio::select! {
                biased;
                result = &mut work => return Some(result),
                () = sleep_until(end) => {}
            }
        }
    }

    fn stop_time(&self) -> StoppedTime<'_> {
        let mut waiting = self.waiting();
        waiting.asking += 1;
        waiting.since.get_or_insert_with(Instant::now);
        drop(waiting);
        StoppedTime(self)
    }

    fn waited(&self) -> (Duration, bool) {
        let waiting = self.waiting();
        let now = waiting
            .since
            .map_or(Duration::ZERO, |since| since.elapsed());
        (waiting.before + now, waiting.since.is_some())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct StoppedTime<'a>(&'a Running);

impl Drop for StoppedTime<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.asking -= 1;
        if waiting.asking == 0
            && let Some(since) = waiting.since.take()
        {
            waiting.before += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests;
