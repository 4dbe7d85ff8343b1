//! Per-user request quotas over HTTP, so that one user cannot exhaust the server for others.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rmcp::model::RequestId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use toolhost_contract::value_counter::MAX_VALUES;
use toolhost_contract::{SessionKey, UserId};

use super::limits::HttpLimits;
use super::message_kind::MAX_UNRESERVED_VALUES;
use super::token::Tokens;
use super::worker_quota::{ActiveUsers, WorkerQuota};
use crate::running_count::RunningGuard;

/// How long a request waits for a quota.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of waiting requests per user.
const MAX_WAITING: usize = 1024;
/// Maximum size of a body that reserves no memory, in bytes. The connection limit bounds the number of such bodies.
const SMALL_BODY: usize = 64 << 10;
/// Memory for large bodies per user, in bodies of the maximum size.
const LARGE_BODIES: usize = 4;
/// Memory for messages with many values per user, in messages of the maximum size.
const LARGE_MESSAGES: usize = 3;

pub(crate) struct TokenQuota {
    pub(crate) user: UserId,
    rate: Option<DefaultDirectRateLimiter>,
    in_flight: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// In KiB.
    bodies: Arc<Semaphore>,
    values: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// The user has made a stateless call.
    has_called: AtomicBool,
    pub(crate) workers: WorkerQuota,
}

/// Permit to run a request, held until all of its work has ended.
pub(crate) struct RequestPermit {
    _permit: OwnedSemaphorePermit,
    _room: MemoryPermits,
    _running: RunningGuard,
}

/// Memory that a message has reserved from its user's quota.
#[derive(Debug, Default)]
pub(crate) struct MemoryPermits(Vec<OwnedSemaphorePermit>);

/// Why a request must be retried later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverLimit {
    RateLimited(Duration),
    QueueFull,
}

impl TokenQuota {
    fn new(user: UserId, limits: &HttpLimits, users: &Arc<ActiveUsers>) -> Self {
        let rate = limits
            .rate
            .map(|rate| RateLimiter::direct(Quota::per_second(rate)));
        Self {
            workers: WorkerQuota::new(user.clone(), users),
            user,
            rate,
            in_flight: Arc::new(Semaphore::new(limits.in_flight)),
            waiting: AtomicUsize::new(0),
            bodies: Arc::new(Semaphore::new(LARGE_BODIES * kib(limits.body))),
            values: Arc::new(Semaphore::new(LARGE_MESSAGES * MAX_VALUES)),
            streams: Arc::new(Semaphore::new(limits.sessions)),
            has_called: AtomicBool::new(false),
        }
    }

    /// Returns the session key for requests without a session, such as stateless ones.
    pub(crate) fn session_key(&self, run: &str) -> SessionKey {
        let name = self.user.name().unwrap_or("local");
        SessionKey::new(self.user.clone(), format!("{run}-{name}"))
    }

    /// Marks that the user has made a stateless call. Returns true for the first one.
    pub(crate) fn mark_called(&self) -> bool {
        !self.has_called.load(Relaxed) && !self.has_called.swap(true, Relaxed)
    }

    pub(crate) fn has_called_before(&self) -> bool {
        self.has_called.load(Relaxed)
    }

    pub(crate) fn check_rate(&self) -> Result<(), OverLimit> {
        let Some(rate) = &self.rate else {
            return Ok(());
        };
        rate.check().map_err(|until| {
            OverLimit::RateLimited(until.wait_time_from(DefaultClock::default().now()))
        })
    }

    /// Checks the rate for a notification or response. Only large ones count.
    pub(crate) fn check_notification_rate(&self, size: usize) -> Result<(), OverLimit> {
        if size <= SMALL_BODY {
            Ok(())
        } else {
            self.check_rate()
        }
    }

    /// Reserves memory for a body before it is read.
    pub(crate) async fn reserve_body(&self, size: usize) -> Result<MemoryPermits, OverLimit> {
        if size <= SMALL_BODY {
            return Ok(MemoryPermits::default());
        }
        Ok(MemoryPermits(vec![
            self.acquire_many(&self.bodies, kib(size)).await?,
        ]))
    }

    /// Reserves memory for the parsed values of a message. It is always acquired after the memory for the body, which
    /// prevents deadlocks.
    pub(crate) async fn reserve_values(
        &self,
        mut permits: MemoryPermits,
        values: usize,
    ) -> Result<MemoryPermits, OverLimit> {
        if values <= MAX_UNRESERVED_VALUES {
            return Ok(permits);
        }
        permits
            .0
            .push(self.acquire_many(&self.values, values).await?);
        Ok(permits)
    }

    /// Waits for a permit to run a request.
    pub(crate) async fn acquire_request(
        &self,
        permits: MemoryPermits,
        running: RunningGuard,
    ) -> Result<RequestPermit, OverLimit> {
        let permit = self.acquire_many(&self.in_flight, 1).await?;
        Ok(RequestPermit {
            _permit: permit,
            _room: permits,
            _running: running,
        })
    }

    /// Acquires permits, waiting up to [`QUEUE_TIMEOUT`].
    async fn acquire_many(
        &self,
        of: &Arc<Semaphore>,
        many: usize,
    ) -> Result<OwnedSemaphorePermit, OverLimit> {
        let many = u32::try_from(many).map_err(|_| OverLimit::QueueFull)?;
        let _waiting = self.begin_wait()?;
        let permit = timeout(QUEUE_TIMEOUT, Arc::clone(of).acquire_many_owned(many)).await;
        Ok(permit
            .map_err(|_| OverLimit::QueueFull)?
            .expect("the semaphore is never closed"))
    }

    /// Acquires a permit for a long-lived stream, which needs no request permit because it runs nothing.
    pub(crate) fn acquire_stream(&self) -> Result<OwnedSemaphorePermit, OverLimit> {
        Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| OverLimit::QueueFull)
    }

    fn begin_wait(&self) -> Result<WaitingGuard<'_>, OverLimit> {
        let waiting = WaitingGuard(&self.waiting);
        if self.waiting.fetch_add(1, Relaxed) >= MAX_WAITING {
            return Err(OverLimit::QueueFull);
        }
        Ok(waiting)
    }
}

/// Counts a waiting request until dropped.
struct WaitingGuard<'a>(&'a AtomicUsize);

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn kib(bytes: usize) -> usize {
    bytes.div_ceil(1 << 10)
}

/// The quotas of all users.
pub(crate) enum TokenQuotas {
    Unauthenticated(Arc<TokenQuota>),
    ByToken {
        tokens: Tokens,
        named: HashMap<String, Arc<TokenQuota>>,
    },
}

/// Why authentication failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthError {
    MissingToken,
    InvalidToken,
}

impl TokenQuotas {
    pub(crate) fn new(tokens: Option<Tokens>, limits: &HttpLimits) -> Self {
        let users = Arc::default();
        let Some(tokens) = tokens else {
            return Self::Unauthenticated(Arc::new(TokenQuota::new(UserId::Local, limits, &users)));
        };
        let one = |name: &str| {
            (
                name.to_owned(),
                Arc::new(TokenQuota::new(UserId::token(name), limits, &users)),
            )
        };
        let named = tokens.users().map(one).collect();
        Self::ByToken { tokens, named }
    }

    pub(crate) fn all(&self) -> Vec<&Arc<TokenQuota>> {
        match self {
            Self::Unauthenticated(local) => vec![local],
            Self::ByToken { named, .. } => named.values().collect(),
        }
    }

    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<&Arc<TokenQuota>, AuthError> {
        let (tokens, named) = match self {
            Self::Unauthenticated(local) => return Ok(local),
            Self::ByToken { tokens, named } => (tokens, named),
        };
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let value = values.next().ok_or(AuthError::MissingToken)?;
        let token = value
            .to_str()
            .ok()
            .filter(|_| values.next().is_none())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        token
            .and_then(|token| tokens.user_of(token))
            .and_then(|name| named.get(name))
            .ok_or(AuthError::InvalidToken)
    }
}

tokio::task_local! {
    /// The request that this task handles. rmcp creates sessions and handlers without passing the request.
    pub(crate) static CURRENT_REQUEST: CurrentRequest;
}

pub(crate) struct CurrentRequest {
    pub(crate) quota: Arc<TokenQuota>,
    /// Why a session or stream was refused, for the response.
    pub(crate) refused: Cell<Option<SessionRefusal>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionRefusal {
    TooManySessions,
    IdInUse(RequestId),
    NoSession,
}

impl CurrentRequest {
    pub(crate) fn new(principal: &Arc<TokenQuota>) -> Self {
        Self {
            quota: Arc::clone(principal),
            refused: Cell::new(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::running_count::RunningCount;

    fn limits() -> HttpLimits {
        HttpLimits {
            in_flight: 2,
            body: 1 << 20,
            ..HttpLimits::default()
        }
    }

    #[test]
    fn exactly_one_bearer_token_is_accepted() {
        let (ann, bob) = ("a".repeat(30), "b".repeat(30));
        let tokens = Tokens::parse(&format!("ann {ann}\nann {bob}"), "f").unwrap();
        let principals = TokenQuotas::new(Some(tokens), &limits());
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            principals
                .authenticate(&headers)
                .map(|one| one.user.name().unwrap_or_default().to_owned())
        };
        assert_eq!(of(&[]), Err(AuthError::MissingToken));
        assert_eq!(of(&[&format!("Bearer {ann}")]), Ok("ann".to_owned()));
        assert_eq!(of(&[&format!("bearer  {bob}")]), Ok("ann".to_owned()));
        for wrong in [
            ann.clone(),
            format!("Basic {ann}"),
            format!("Bearer {}", &ann[1..]),
            "Bearer ".to_owned(),
            String::new(),
        ] {
            assert_eq!(of(&[&wrong]), Err(AuthError::InvalidToken), "{wrong}");
        }
        let twice = format!("Bearer {ann}");
        assert_eq!(of(&[&twice, &twice]), Err(AuthError::InvalidToken));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_run_then_wait_then_are_rejected() {
        let principal = TokenQuota::new(UserId::token("p"), &limits(), &Arc::default());
        let count = RunningCount::default();
        let enter =
            || principal.acquire_request(MemoryPermits::default(), RunningGuard::begin(&count));
        let first = enter().await.ok().unwrap();
        let second = enter().await.ok().unwrap();
        let mut third = Box::pin(enter());
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        let third = third.await.ok().unwrap();
        assert_eq!(
            enter().await.err(),
            Some(OverLimit::QueueFull),
            "after the queue timeout"
        );
        assert_eq!(count.get(), 2);
        drop((second, third));
        assert_eq!(count.get(), 0);
        assert_eq!(principal.waiting.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn only_large_bodies_reserve_memory() {
        let principal = TokenQuota::new(UserId::token("p"), &limits(), &Arc::default());
        let mut held = Vec::new();
        for _ in 0..LARGE_BODIES {
            held.push(principal.reserve_body(1 << 20).await.unwrap());
        }
        assert_eq!(
            principal.reserve_body(1 << 20).await.err(),
            Some(OverLimit::QueueFull)
        );
        assert!(
            principal
                .reserve_body(SMALL_BODY)
                .await
                .unwrap()
                .0
                .is_empty()
        );
        held.pop();
        assert_eq!(principal.reserve_body(1 << 20).await.unwrap().0.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn only_messages_with_many_values_reserve_memory() {
        let principal = TokenQuota::new(UserId::token("p"), &limits(), &Arc::default());
        let more = |values| principal.reserve_values(MemoryPermits::default(), values);
        let mut held = Vec::new();
        for _ in 0..LARGE_MESSAGES {
            held.push(more(MAX_VALUES).await.unwrap());
        }
        assert_eq!(
            more(MAX_UNRESERVED_VALUES + 1).await.err(),
            Some(OverLimit::QueueFull)
        );
        assert!(more(MAX_UNRESERVED_VALUES).await.unwrap().0.is_empty());
        held.pop();
        assert_eq!(more(MAX_VALUES).await.unwrap().0.len(), 1);
    }

    #[test]
    fn the_rate_limit_is_per_user() {
        let limits = HttpLimits {
            rate: std::num::NonZeroU32::new(2),
            ..limits()
        };
        let users = Arc::default();
        let (one, other) = (
            TokenQuota::new(UserId::token("a"), &limits, &users),
            TokenQuota::new(UserId::token("b"), &limits, &users),
        );
        assert_eq!((one.check_rate(), one.check_rate()), (Ok(()), Ok(())));
        assert!(matches!(one.check_rate(), Err(OverLimit::RateLimited(_))));
        assert!(matches!(
            one.check_notification_rate(SMALL_BODY + 1),
            Err(OverLimit::RateLimited(_))
        ));
        assert_eq!(
            one.check_notification_rate(SMALL_BODY),
            Ok(()),
            "small notifications are not limited"
        );
        assert_eq!(other.check_rate(), Ok(()));
    }
}
