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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use toolhost_contract::{SessionKey, UserId};

use super::limits::Limits;
use super::message::FEW_VALUES;
use super::token::Tokens;
use super::workers::{Users, Workers};
use crate::running::Running;
use crate::shape::MOST_VALUES;

/// How long a request waits for a quota.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of waiting requests per user.
const WAITING: usize = 1024;
/// Maximum size of a body that reserves no memory, in bytes. The connection limit bounds the number of such bodies.
const SMALL: usize = 64 << 10;
/// Memory for large bodies per user, in bodies of the maximum size.
const LARGE_BODIES: usize = 4;
/// Memory for messages with many values per user, in messages of the maximum size.
const LARGE_MESSAGES: usize = 3;

pub(crate) struct TokenShare {
    pub(crate) user: UserId,
    rate: Option<DefaultDirectRateLimiter>,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// In KiB.
    bodies: Arc<Semaphore>,
    values: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// The user has made a stateless call.
    met: AtomicBool,
    pub(crate) workers: Workers,
}

/// Permit to run a request, held until all of its work has ended.
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    _room: Room,
    _running: Running,
}

/// Memory that a message has reserved from its user's quota.
#[derive(Debug, Default)]
pub(crate) struct Room(Vec<OwnedSemaphorePermit>);

/// Why a request must be retried later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    TooFast(Duration),
    Full,
}

impl TokenShare {
    fn new(user: UserId, limits: &Limits, users: &Arc<Users>) -> Self {
        let rate = limits
            .rate
            .map(|rate| RateLimiter::direct(Quota::per_second(rate)));
        Self {
            workers: Workers::new(user.clone(), users),
            user,
            rate,
            places: Arc::new(Semaphore::new(limits.in_flight)),
            waiting: AtomicUsize::new(0),
            bodies: Arc::new(Semaphore::new(LARGE_BODIES * kib(limits.body))),
            values: Arc::new(Semaphore::new(LARGE_MESSAGES * MOST_VALUES)),
            streams: Arc::new(Semaphore::new(limits.sessions)),
            met: AtomicBool::new(false),
        }
    }

    /// Returns the session key for requests without a session, such as stateless ones.
    pub(crate) fn session_key(&self, run: &str) -> SessionKey {
        let name = self.user.name().unwrap_or("local");
        SessionKey::new(self.user.clone(), format!("{run}-{name}"))
    }

    /// Marks that the user has made a stateless call. Returns true for the first one.
    pub(crate) fn meet(&self) -> bool {
        !self.met.load(Relaxed) && !self.met.swap(true, Relaxed)
    }

    pub(crate) fn was_met(&self) -> bool {
        self.met.load(Relaxed)
    }

    pub(crate) fn pace(&self) -> Result<(), Busy> {
        let Some(rate) = &self.rate else {
            return Ok(());
        };
        rate.check()
            .map_err(|until| Busy::TooFast(until.wait_time_from(DefaultClock::default().now())))
    }

    /// Checks the rate for a notification or response. Only large ones count.
    pub(crate) fn pace_aside(&self, size: usize) -> Result<(), Busy> {
        if size <= SMALL { Ok(()) } else { self.pace() }
    }

    /// Reserves memory for a body before it is read.
    pub(crate) async fn room(&self, size: usize) -> Result<Room, Busy> {
        if size <= SMALL {
            return Ok(Room::default());
        }
        Ok(Room(vec![self.share(&self.bodies, kib(size)).await?]))
    }

    /// Reserves memory for the parsed values of a message. It is always acquired after the memory for the body, which
    /// prevents deadlocks.
    pub(crate) async fn more_room(&self, mut room: Room, values: usize) -> Result<Room, Busy> {
        if values <= FEW_VALUES {
            return Ok(room);
        }
        room.0.push(self.share(&self.values, values).await?);
        Ok(room)
    }

    /// Waits for a permit to run a request.
    pub(crate) async fn enter(&self, room: Room, running: Running) -> Result<Place, Busy> {
        let permit = self.share(&self.places, 1).await?;
        Ok(Place {
            _permit: permit,
            _room: room,
            _running: running,
        })
    }

    /// Acquires permits, waiting up to [`QUEUE_TIMEOUT`].
    async fn share(&self, of: &Arc<Semaphore>, many: usize) -> Result<OwnedSemaphorePermit, Busy> {
        let many = u32::try_from(many).map_err(|_| Busy::Full)?;
        let _waiting = self.wait()?;
        let permit = timeout(PATIENCE, Arc::clone(of).acquire_many_owned(many)).await;
        Ok(permit
            .map_err(|_| Busy::Full)?
            .expect("the semaphore is never closed"))
    }

    /// Acquires a permit for a long-lived stream, which needs no request permit because it runs nothing.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, Busy> {
        Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| Busy::Full)
    }

    fn wait(&self) -> Result<Waiting<'_>, Busy> {
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Relaxed) >= WAITING {
            return Err(Busy::Full);
        }
        Ok(waiting)
    }
}

/// Counts a waiting request until dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn kib(bytes: usize) -> usize {
    bytes.div_ceil(1 << 10)
}

/// The quotas of all users.
pub(crate) enum TokenShares {
    Anyone(Arc<TokenShare>),
    Known {
        tokens: Tokens,
        named: HashMap<String, Arc<TokenShare>>,
    },
}

/// Why authentication failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stranger {
    NoToken,
    WrongToken,
}

impl TokenShares {
    pub(crate) fn new(tokens: Option<Tokens>, limits: &Limits) -> Self {
        let users = Arc::default();
        let Some(tokens) = tokens else {
            return Self::Anyone(Arc::new(TokenShare::new(UserId::Local, limits, &users)));
        };
        let one = |name: &str| {
            (
                name.to_owned(),
                Arc::new(TokenShare::new(UserId::token(name), limits, &users)),
            )
        };
        let named = tokens.names().map(one).collect();
        Self::Known { tokens, named }
    }

    pub(crate) fn all(&self) -> Vec<&Arc<TokenShare>> {
        match self {
            Self::Anyone(local) => vec![local],
            Self::Known { named, .. } => named.values().collect(),
        }
    }

    pub(crate) fn of(&self, headers: &HeaderMap) -> Result<&Arc<TokenShare>, Stranger> {
        let (tokens, named) = match self {
            Self::Anyone(local) => return Ok(local),
            Self::Known { tokens, named } => (tokens, named),
        };
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let value = values.next().ok_or(Stranger::NoToken)?;
        let token = value
            .to_str()
            .ok()
            .filter(|_| values.next().is_none())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        token
            .and_then(|token| tokens.whose(token))
            .and_then(|name| named.get(name))
            .ok_or(Stranger::WrongToken)
    }
}

tokio::task_local! {
    /// The request that this task handles. rmcp creates sessions and handlers without passing the request.
    pub(crate) static CURRENT: Current;
}

pub(crate) struct Current {
    pub(crate) principal: Arc<TokenShare>,
    /// Why a session or stream was refused, for the response.
    pub(crate) refused: Cell<Option<Refused>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    TooManySessions,
    IdInUse,
    NoSession,
}

impl Current {
    pub(crate) fn new(principal: &Arc<TokenShare>) -> Self {
        Self {
            principal: Arc::clone(principal),
            refused: Cell::new(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::running::Count;

    fn limits() -> Limits {
        Limits {
            in_flight: 2,
            body: 1 << 20,
            ..Limits::default()
        }
    }

    #[test]
    fn a_token_is_a_bearer_token_and_the_only_one() {
        let (ann, bob) = ("a".repeat(30), "b".repeat(30));
        let tokens = Tokens::parse(&format!("ann {ann}\nann {bob}"), "f").unwrap();
        let principals = TokenShares::new(Some(tokens), &limits());
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            principals
                .of(&headers)
                .map(|one| one.user.name().unwrap_or_default().to_owned())
        };
        assert_eq!(of(&[]), Err(Stranger::NoToken));
        assert_eq!(of(&[&format!("Bearer {ann}")]), Ok("ann".to_owned()));
        assert_eq!(of(&[&format!("bearer  {bob}")]), Ok("ann".to_owned()));
        for wrong in [
            ann.clone(),
            format!("Basic {ann}"),
            format!("Bearer {}", &ann[1..]),
            "Bearer ".to_owned(),
            String::new(),
        ] {
            assert_eq!(of(&[&wrong]), Err(Stranger::WrongToken), "{wrong}");
        }
        let twice = format!("Bearer {ann}");
        assert_eq!(of(&[&twice, &twice]), Err(Stranger::WrongToken));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_run_wait_and_are_refused() {
        let principal = TokenShare::new(UserId::token("p"), &limits(), &Arc::default());
        let count = Count::default();
        let enter = || principal.enter(Room::default(), Running::begin(&count));
        let first = enter().await.ok().unwrap();
        let second = enter().await.ok().unwrap();
        let mut third = Box::pin(enter());
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        let third = third.await.ok().unwrap();
        assert_eq!(enter().await.err(), Some(Busy::Full), "after the queue timeout");
        assert_eq!(count.now(), 2);
        drop((second, third));
        assert_eq!(count.now(), 0);
        assert_eq!(principal.waiting.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_share_room_and_small_ones_need_none() {
        let principal = TokenShare::new(UserId::token("p"), &limits(), &Arc::default());
        let mut held = Vec::new();
        for _ in 0..LARGE_BODIES {
            held.push(principal.room(1 << 20).await.unwrap());
        }
        assert_eq!(principal.room(1 << 20).await.err(), Some(Busy::Full));
        assert!(principal.room(SMALL).await.unwrap().0.is_empty());
        held.pop();
        assert_eq!(principal.room(1 << 20).await.unwrap().0.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn many_values_share_room_and_few_need_none() {
        let principal = TokenShare::new(UserId::token("p"), &limits(), &Arc::default());
        let more = |values| principal.more_room(Room::default(), values);
        let mut held = Vec::new();
        for _ in 0..LARGE_MESSAGES {
            held.push(more(MOST_VALUES).await.unwrap());
        }
        assert_eq!(more(FEW_VALUES + 1).await.err(), Some(Busy::Full));
        assert!(more(FEW_VALUES).await.unwrap().0.is_empty());
        held.pop();
        assert_eq!(more(MOST_VALUES).await.unwrap().0.len(), 1);
    }

    #[test]
    fn a_rate_is_for_each_principal() {
        let limits = Limits {
            rate: std::num::NonZeroU32::new(2),
            ..limits()
        };
        let users = Arc::default();
        let (one, other) = (
            TokenShare::new(UserId::token("a"), &limits, &users),
            TokenShare::new(UserId::token("b"), &limits, &users),
        );
        assert_eq!((one.pace(), one.pace()), (Ok(()), Ok(())));
        assert!(matches!(one.pace(), Err(Busy::TooFast(_))));
        assert!(matches!(one.pace_aside(SMALL + 1), Err(Busy::TooFast(_))));
        assert_eq!(one.pace_aside(SMALL), Ok(()), "small notifications are not limited");
        assert_eq!(other.pace(), Ok(()));
    }
}
