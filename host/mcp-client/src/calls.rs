//! The calls of one connection that are running: who hears their progress, and whom a server may ask through them.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use tokio::time::{Instant, sleep_until};
use toolhost_contract::{BoxFuture, Event, Failure, Query, Reply, Sink, text};

/// Progress that came before its call was noted down: a fast server can be ahead of us.
const EARLY: usize = 32;
/// Messages of one call that are passed on; the rest is counted.
const MAX_PROGRESS: u64 = 10_000;
const MAX_MESSAGE: usize = 500;
/// While a person thinks, the time of a call is looked at this often.
const GLANCE: Duration = Duration::from_millis(100);

/// Puts questions to a person.
pub type Ask = dyn Fn(Vec<Query>) -> BoxFuture<'static, Result<Vec<Reply>, Failure>> + Send + Sync;

#[derive(Default)]
pub struct Calls {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    running: HashMap<ProgressToken, (RequestId, Arc<Running>)>,
    early: VecDeque<ProgressNotificationParam>,
}

pub struct Running {
    sink: Arc<dyn Sink>,
    ask: Option<Arc<Ask>>,
    told: Mutex<Told>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Told {
    count: u64,
    furthest: Option<f64>,
}

/// Time in which a person was asked, which is not the server's.
#[derive(Default)]
struct Waiting {
    asking: usize,
    since: Option<Instant>,
    before: Duration,
}

/// A call is known while this is there.
pub struct Entered {
    calls: Arc<Calls>,
    token: ProgressToken,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.calls.lock().running.remove(&self.token);
    }
}

impl Calls {
    pub fn enter(
        self: &Arc<Self>,
        token: ProgressToken,
        id: RequestId,
        running: Arc<Running>,
    ) -> Entered {
        let mut inner = self.lock();
        let (own, others) = std::mem::take(&mut inner.early)
            .into_iter()
            .partition::<VecDeque<_>, _>(|progress| progress.progress_token == token);
        inner.early = others;
        inner
            .running
            .insert(token.clone(), (id, Arc::clone(&running)));
        drop(inner);
        for progress in own {
            running.progress(progress);
        }
        Entered {
            calls: Arc::clone(self),
            token,
        }
    }

    pub fn progress(&self, mut progress: ProgressNotificationParam) {
        let mut inner = self.lock();
        if let Some((_, running)) = inner.running.get(&progress.progress_token) {
            let running = Arc::clone(running);
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

    /// The call with this number of its request.
    pub fn of(&self, id: &RequestId) -> Option<Arc<Running>> {
        let inner = self.lock();
        let found = inner.running.values().find(|(own, _)| own == id);
        found.map(|(_, running)| Arc::clone(running))
    }

    /// The only call that is running: when there are several, nobody knows which of them a server asks about.
    pub fn only(&self) -> Option<Arc<Running>> {
        let inner = self.lock();
        let mut running = inner.running.values().map(|(_, running)| running);
        let first = running.next().map(Arc::clone);
        first.filter(|_| running.next().is_none())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    pub fn new(sink: Arc<dyn Sink>, ask: Option<Arc<Ask>>) -> Self {
        Self {
            sink,
            ask,
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
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;
    use crate::testing::Heard;

    fn token(number: i64) -> ProgressToken {
        ProgressToken(NumberOrString::Number(number))
    }

    fn progress(number: i64, at: f64) -> ProgressNotificationParam {
        ProgressNotificationParam::new(token(number), at)
    }

    #[test]
    fn progress_reaches_its_call_also_when_it_was_too_early_and_only_while_it_grows() {
        let (calls, heard) = (Arc::new(Calls::default()), Arc::new(Heard::default()));
        calls.progress(progress(1, 1.0));
        calls.progress(progress(2, 5.0));
        let entered = calls.enter(
            token(1),
            NumberOrString::Number(7),
            Arc::new(Running::new(heard.clone(), None)),
        );
        assert!(calls.of(&NumberOrString::Number(7)).is_some());
        assert!(calls.of(&NumberOrString::Number(8)).is_none());
        for at in [2.0, 2.0, 1.0, f64::NAN, 3.0] {
            calls.progress(progress(1, at));
        }
        drop(entered);
        calls.progress(progress(1, 4.0));
        let seen: Vec<f64> = heard
            .events()
            .into_iter()
            .map(|event| match event {
                Event::Progress { progress, .. } => progress.unwrap(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(seen, [1.0, 2.0, 3.0]);
        assert!(calls.lock().early.len() <= EARLY);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_person_is_not_the_server_s() {
        let ask: Arc<Ask> = Arc::new(|_| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_secs(100)).await;
                Ok(Vec::new())
            })
        });
        let running = Running::new(Arc::new(toolhost_contract::NoSink), Some(ask));
        let asks = async {
            let _ = running.ask(Vec::new()).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
        };
        assert!(
            running
                .within(Duration::from_secs(10), asks)
                .await
                .is_some()
        );
        let running = Running::new(Arc::new(toolhost_contract::NoSink), None);
        let hangs = std::future::pending::<()>();
        let begun = Instant::now();
        assert!(
            running
                .within(Duration::from_secs(10), hangs)
                .await
                .is_none()
        );
        assert_eq!(begun.elapsed(), Duration::from_secs(10));
    }
}
