//! The calls of one connection that are running: who hears their progress, and whom a server may ask through them.

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

/// Progress that came before its call was noted down: a fast server can be ahead of us.
const EARLY: usize = 32;
/// Messages of one call that are passed on; the rest is counted.
const MAX_PROGRESS: u64 = 10_000;
const MAX_MESSAGE: usize = 500;
/// Between two reports that are passed on; one that says that all is done comes at once.
const REPORTS: Duration = Duration::from_millis(100);
/// While a person thinks, the time of a call is looked at this often.
const GLANCE: Duration = Duration::from_millis(100);

/// Puts questions to a person.
pub type Ask = dyn Fn(Vec<Query>) -> BoxFuture<'static, Result<Vec<Reply>, Failure>> + Send + Sync;

/// After a call was abandoned without an answer, a question that names no call can still be about it for so long.
const ABANDONED: Duration = Duration::from_secs(60);
/// Owners of abandoned calls that are remembered.
const OWNERS: usize = 1_000;

#[derive(Default)]
pub struct Calls {
    inner: Mutex<Inner>,
    /// A request was sent, or ended.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Inner {
    /// Requests that are being sent or have no answer yet, by their order.
    open: BTreeMap<u64, Open>,
    next: u64,
    early: VecDeque<ProgressNotificationParam>,
    /// A question waits until one call is left that it can be about.
    held: bool,
    /// A question was refused because it could be about several calls.
    ambiguous: bool,
    /// When a call of each owner was last abandoned.
    abandoned: HashMap<SessionKey, Instant>,
    /// Calls of more owners than are remembered were abandoned: from now on every such question is doubtful.
    overflowed: bool,
}

struct Open {
    running: Arc<Running>,
    /// None while the request is being sent.
    sent: Option<(ProgressToken, RequestId)>,
}

/// The call that a question is about.
pub struct Asker {
    pub running: Arc<Running>,
    key: u64,
}

/// Why no call can be named that a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    #[error("no call is running that this question could be about")]
    NoCall,
    #[error(
        "{0} calls are running and the question does not say which of them it is about; call the tool again: calls of \
         this server now run one at a time"
    )]
    Several(usize),
    #[error(
        "a call was cancelled and the question does not say that it is not about that call; call the tool again later"
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

/// Time in which a person was asked, which is not the server's.
#[derive(Default)]
struct Waiting {
    asking: usize,
    since: Option<Instant>,
    before: Duration,
}

/// A request is known while this exists.
pub struct Entered {
    calls: Arc<Calls>,
    key: u64,
    answered: bool,
}

impl Entered {
    /// The request has left; progress that was ahead of this is delivered now.
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

    /// The server answered, with a result or an error.
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

    /// Can a question that names no call be about one that was abandoned? The server need not have noticed, and a
    /// question of one owner's call must not reach another owner.
    fn is_doubtful(&self, owner: &SessionKey) -> bool {
        let mut abandoned = self.abandoned.iter();
        self.overflowed || abandoned.any(|(other, at)| other != owner || at.elapsed() < ABANDONED)
    }
}

/// Frees the place of the question that waits.
struct Held<'a>(&'a Calls);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.lock().held = false;
    }
}

impl Calls {
    /// Before the request is sent, because a fast server can ask before the sender knows its number.
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

    /// The call with this number of its request.
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

    /// The call that a question is about which names none: the only one that was running when it came. While there are
    /// several, the question waits until the others have been answered. One question can wait; the next is refused,
    /// because calls whose questions wait for each other would never be answered.
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

    /// Returns when the call has ended.
    pub async fn ended(&self, asker: &Asker) {
        let mut changed = self.changed.subscribe();
        while self.lock().open.contains_key(&asker.key) {
            let _ = changed.changed().await;
        }
    }

    /// The server has shown that it asks people about calls that it does not name, several at once.
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
        // It may be kept for as long as the connection lives.
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
        // It has to grow; what does not is no progress.
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

    /// Asks through the call, whose time stands still meanwhile.
    pub async fn ask(&self, queries: Vec<Query>) -> Result<Vec<Reply>, Failure> {
        let nobody = || Failure::new("not_configured", "there is nobody to ask");
        let _time = self.stop_time();
        match (self.sink.services(), &self.ask) {
            (Some(services), _) => services.ask(queries).await,
            (None, Some(ask)) => ask(queries).await,
            (None, None) => Err(nobody()),
        }
    }

    /// None when it took longer than `limit`, time of people not counted.
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
