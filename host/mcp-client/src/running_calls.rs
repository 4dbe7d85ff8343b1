//! The running calls of one connection: delivery of progress, and assignment of questions to calls.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{NumberOrString, ProgressNotificationParam, ProgressToken, RequestId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use toolhost_contract::{
    BoxFuture, CallEvent, Failure, NoSink, Principal, SessionKey, Sink, UserAnswer, UserQuestion,
    text,
};

/// Maximum number of progress notifications that are kept because they arrived before their call was registered.
const MAX_EARLY_PROGRESS: usize = 32;
/// Maximum number of messages of one call that are passed on; further ones are counted.
const MAX_PROGRESS: u64 = 10_000;
const MAX_MESSAGE: usize = 500;
/// Minimum time between two reports that are passed on. A report of completion is passed on immediately.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// How often the time of a call is checked while a question to the user is open.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Asks the user questions.
pub type AskUser =
    dyn Fn(Vec<UserQuestion>) -> BoxFuture<'static, Result<Vec<UserAnswer>, Failure>> + Send + Sync;

/// How long after a call was abandoned a question without a request ID may belong to it.
const ABANDONED_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of owners of abandoned calls that are remembered.
const MAX_OWNERS: usize = 1_000;

#[derive(Default)]
pub struct RunningCalls {
    inner: Mutex<CallsState>,
    /// Notified when a request was sent or ended.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct CallsState {
    /// Requests without a response, in the order in which they were started.
    open: BTreeMap<u64, OpenRequest>,
    next: u64,
    early: VecDeque<ProgressNotificationParam>,
    /// Whether a question waits until only one call can be its origin.
    is_question_waiting: bool,
    /// Whether a question was refused because it could belong to several calls.
    is_ambiguous: bool,
    /// When a call of each owner was last abandoned.
    abandoned: HashMap<SessionKey, Instant>,
    /// When a request for resources was last abandoned.
    abandoned_resources: Option<Instant>,
    /// Set when calls of more owners than [`MAX_OWNERS`] were abandoned. From then on, questions without a request ID
    /// are refused.
    has_overflowed: bool,
}

struct OpenRequest {
    running: Arc<RunningCall>,
    /// `None` while the request is being sent.
    sent: Option<(ProgressToken, RequestId)>,
}

/// The call that a question belongs to.
pub struct QuestionOrigin {
    pub running: Arc<RunningCall>,
    key: u64,
}

/// Why a question cannot be assigned to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnassignedQuestion {
    #[error("this question does not belong to a running call")]
    NoCall,
    #[error(
        "{0} calls are running and the question does not state which of them it belongs to; call the tool again: calls of \
         this server now run one at a time"
    )]
    Several(usize),
    #[error("a request was cancelled and the question may belong to it; call the tool again later")]
    Abandoned,
}

pub struct RunningCall {
    sink: Arc<dyn Sink>,
    ask: Option<Arc<AskUser>>,
    owner: SessionKey,
    reported: Mutex<ProgressState>,
    waiting: Mutex<UserWait>,
}

#[derive(Default)]
struct ProgressState {
    count: u64,
    furthest: Option<f64>,
    last: Option<Instant>,
}

/// Time spent waiting for the user, which does not count towards the timeout of the call.
#[derive(Default)]
struct UserWait {
    asking: usize,
    since: Option<Instant>,
    before: Duration,
}

/// Registers a request for as long as it exists.
pub struct CallRegistration {
    calls: Arc<RunningCalls>,
    key: u64,
    kind: RequestKind,
    answered: bool,
}

#[derive(Clone, Copy)]
enum RequestKind {
    Call,
    Resources,
}

impl CallRegistration {
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

impl Drop for CallRegistration {
    fn drop(&mut self) {
        let mut inner = self.calls.lock();
        if let Some(open) = inner.open.remove(&self.key)
            && !self.answered
        {
            match self.kind {
                RequestKind::Call => inner.abandon(open.running.owner.clone()),
                RequestKind::Resources => inner.abandoned_resources = Some(Instant::now()),
            }
        }
        drop(inner);
        self.calls.changed.send_replace(());
    }
}

impl CallsState {
    fn abandon(&mut self, owner: SessionKey) {
        if self.abandoned.len() < MAX_OWNERS || self.abandoned.contains_key(&owner) {
            self.abandoned.insert(owner, Instant::now());
        } else {
            self.has_overflowed = true;
        }
    }

    /// Whether a question without a request ID can belong to an abandoned request. The server may not have processed the
    /// cancellation yet, and a question of one owner's call must not reach another owner.
    fn may_be_abandoned(&self, owner: &SessionKey) -> bool {
        let mut abandoned = self.abandoned.iter();
        let resources = self.abandoned_resources;
        self.has_overflowed
            || resources.is_some_and(|at| at.elapsed() < ABANDONED_PERIOD)
            || abandoned.any(|(other, at)| other != owner || at.elapsed() < ABANDONED_PERIOD)
    }
}

/// Releases the slot of the waiting question.
struct WaitingSlot<'a>(&'a RunningCalls);

impl Drop for WaitingSlot<'_> {
    fn drop(&mut self) {
        self.0.lock().is_question_waiting = false;
    }
}

impl RunningCalls {
    /// Registers a call before its request is sent, because a fast server can ask before the request ID is known.
    pub fn register(self: &Arc<Self>, running: Arc<RunningCall>) -> CallRegistration {
        let mut inner = self.lock();
        let key = inner.next;
        inner.next += 1;
        inner.open.insert(
            key,
            OpenRequest {
                running,
                sent: None,
            },
        );
        CallRegistration {
            calls: Arc::clone(self),
            key,
            kind: RequestKind::Call,
            answered: false,
        }
    }

    /// Registers a request for resources. The client assigns questions about it to this request, not to a call, and declines
    /// them.
    pub fn register_resources(self: &Arc<Self>) -> CallRegistration {
        let owner = Principal::in_session(&SessionKey::local("(resources)"));
        let mut registration =
            self.register(Arc::new(RunningCall::new(Arc::new(NoSink), None, &owner)));
        registration.kind = RequestKind::Resources;
        // The request IDs of the client are numbers.
        let id = NumberOrString::String("resources".into());
        registration.sent(&ProgressToken(id.clone()), &id);
        registration
    }

    /// Returns the call with this request ID.
    pub async fn by_request_id(
        &self,
        id: &RequestId,
    ) -> Result<QuestionOrigin, UnassignedQuestion> {
        let mut changed = self.changed.subscribe();
        loop {
            {
                let inner = self.lock();
                let is_it =
                    |open: &OpenRequest| open.sent.as_ref().is_some_and(|(_, own)| own == id);
                if let Some((key, open)) = inner.open.iter().find(|(_, open)| is_it(open)) {
                    return Ok(QuestionOrigin {
                        running: Arc::clone(&open.running),
                        key: *key,
                    });
                }
                if inner.open.values().all(|open| open.sent.is_some()) {
                    return Err(UnassignedQuestion::NoCall);
                }
            }
            let _ = changed.changed().await;
        }
    }

    /// Returns the call that a question without a request ID belongs to: the only one that was running when the
    /// question arrived. If there are several, the question waits until the others are answered. Only one question can
    /// wait; the next is refused, because calls whose questions wait for each other would never complete.
    pub async fn only_running(&self) -> Result<QuestionOrigin, UnassignedQuestion> {
        let mut changed = self.changed.subscribe();
        let next = self.lock().next;
        let mut held = None;
        loop {
            {
                let mut inner = self.lock();
                let candidates = inner.open.range(..next).count();
                match (candidates, inner.open.range(..next).next()) {
                    (_, None) => return Err(UnassignedQuestion::NoCall),
                    (1, Some((_, open))) if inner.may_be_abandoned(&open.running.owner) => {
                        return Err(UnassignedQuestion::Abandoned);
                    }
                    (1, Some((key, open))) => {
                        return Ok(QuestionOrigin {
                            running: Arc::clone(&open.running),
                            key: *key,
                        });
                    }
                    _ if held.is_some() => {}
                    _ if inner.is_question_waiting => {
                        inner.is_ambiguous = true;
                        return Err(UnassignedQuestion::Several(candidates));
                    }
                    _ => {
                        inner.is_question_waiting = true;
                        held = Some(WaitingSlot(self));
                    }
                }
            }
            let _ = changed.changed().await;
        }
    }

    /// Waits for the end of the call.
    pub async fn ended(&self, asker: &QuestionOrigin) {
        let mut changed = self.changed.subscribe();
        while self.lock().open.contains_key(&asker.key) {
            let _ = changed.changed().await;
        }
    }

    /// Whether the server has sent several questions at once without request IDs.
    pub fn is_ambiguous(&self) -> bool {
        self.lock().is_ambiguous
    }

    pub fn progress(&self, mut progress: ProgressNotificationParam) {
        let mut inner = self.lock();
        let is_it = |open: &&OpenRequest| {
            let sent = open.sent.as_ref();
            sent.is_some_and(|(token, _)| *token == progress.progress_token)
        };
        if let Some(open) = inner.open.values().find(is_it) {
            let running = Arc::clone(&open.running);
            drop(inner);
            running.progress(progress);
            return;
        }
        // The client's own tokens are numbers. Any other one belongs to no call, and can be long.
        if !matches!(progress.progress_token.0, NumberOrString::Number(_)) {
            return;
        }
        if inner.early.len() == MAX_EARLY_PROGRESS {
            inner.early.pop_front();
        }
        // It can be kept as long as the connection exists.
        let message = progress.message.take();
        progress.message = message.map(|message| text::escape_line(&message, MAX_MESSAGE));
        progress.meta = None;
        inner.early.push_back(progress);
    }

    fn lock(&self) -> MutexGuard<'_, CallsState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningCall {
    pub fn new(sink: Arc<dyn Sink>, ask: Option<Arc<AskUser>>, caller: &Principal) -> Self {
        Self {
            sink,
            ask,
            owner: caller.session_key(),
            reported: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    fn progress(&self, progress: ProgressNotificationParam) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.count += 1;
        // Progress must increase; anything else is ignored.
        let grows = reported
            .furthest
            .is_none_or(|furthest| progress.progress > furthest);
        if reported.count > MAX_PROGRESS || !grows || !progress.progress.is_finite() {
            return;
        }
        reported.furthest = Some(progress.progress);
        let is_done = progress.total == Some(progress.progress);
        if !is_done
            && reported
                .last
                .is_some_and(|last| last.elapsed() < REPORT_INTERVAL)
        {
            return;
        }
        reported.last = Some(Instant::now());
        drop(reported);
        let message = progress.message;
        self.sink.event(CallEvent::Progress {
            message: message.map(|message| text::escape_line(&message, MAX_MESSAGE)),
            progress: Some(progress.progress),
            total: progress.total.filter(|total| total.is_finite()),
        });
    }

    /// Asks the user on behalf of the call. The call's timeout is suspended until the answer.
    pub async fn ask(&self, queries: Vec<UserQuestion>) -> Result<Vec<UserAnswer>, Failure> {
        let no_user = || Failure::new("not_configured", "no user is available to answer");
        let _time = self.pause_clock();
        match (self.sink.services(), &self.ask) {
            (Some(services), _) => services.ask_user(queries).await,
            (None, Some(ask)) => ask(queries).await,
            (None, None) => Err(no_user()),
        }
    }

    /// Returns `None` if `work` took longer than `limit`, without the time spent waiting for the user.
    pub async fn run_with_timeout<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let begun = Instant::now();
        let mut work = pin!(work);
        loop {
            let (waited, asking) = self.waited();
            let mut end = begun + limit + waited;
            if asking {
                end = end.max(Instant::now() + POLL_INTERVAL);
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

    fn pause_clock(&self) -> PausedClock<'_> {
        let mut waiting = self.waiting();
        waiting.asking += 1;
        waiting.since.get_or_insert_with(Instant::now);
        drop(waiting);
        PausedClock(self)
    }

    fn waited(&self) -> (Duration, bool) {
        let waiting = self.waiting();
        let now = waiting
            .since
            .map_or(Duration::ZERO, |since| since.elapsed());
        (waiting.before + now, waiting.since.is_some())
    }

    fn waiting(&self) -> MutexGuard<'_, UserWait> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct PausedClock<'a>(&'a RunningCall);

impl Drop for PausedClock<'_> {
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
