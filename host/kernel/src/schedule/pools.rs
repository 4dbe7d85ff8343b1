//! Admission of calls: limits for concurrent calls, and calls that must not run concurrently.

mod admission;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use toolhost_contract::SessionKey;

use super::PathLock;
use super::conflict_queue::Ticket;
use super::path_locks::PathLocks;
use admission::{AdmissionState, Claim};

/// A class of calls with its own concurrency limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pool {
    /// Limited by [`Limits::all`].
    #[default]
    Plain,
    Network,
    Processes,
    /// A call that works through other calls, which are admitted separately. It takes only its permit: no lane and no
    /// path locks, and an exclusive call does not wait for it. Otherwise it would hold what its own calls wait for.
    Agents,
    Interactive,
    /// A call in the background. Like those of [`Pool::Agents`] it takes only its permit, because it can run for hours and
    /// must not delay the calls that control it.
    Background,
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "all",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Agents => "agents",
            Self::Interactive => "interactive",
            Self::Background => "background",
        })
    }
}

/// Maximum number of concurrent calls in each pool, per user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    pub all: usize,
    pub network: usize,
    pub processes: usize,
    pub agents: usize,
    pub interactive: usize,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            all: 3,
            network: 6,
            processes: 2,
            agents: 3,
            interactive: 1,
        }
    }
}

impl PoolLimits {
    /// Returns the maximum number of concurrent calls of one user.
    pub fn total(&self) -> usize {
        let Self {
            all,
            network,
            processes,
            agents,
            interactive,
        } = *self;
        // Agents and calls in the background, and a nested call of each, which takes no permit.
        [
            network,
            processes,
            agents,
            agents,
            agents,
            agents,
            interactive,
        ]
        .into_iter()
        .fold(all, usize::saturating_add)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the limit `{0}` is 0, so no call in this pool could run; set it to at least 1")]
pub struct PoolLimitError(pub Pool);

/// A lane, usually one per plugin: calls of its serial tools run one at a time within a session.
#[derive(Debug, PartialEq, Eq)]
pub struct Lane(u64);

impl Lane {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}

/// What a call needs in order to be admitted.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRequest<'a> {
    /// The session of the caller. Pool limits apply per user, lanes per session.
    pub session: &'a SessionKey,
    pub pool: Pool,
    /// The lane of the plugin, if the tool is serial.
    pub lane: Option<&'a Lane>,
    pub path_locks: &'a [PathLock],
    /// No other call runs at the same time; the other fields are then ignored.
    pub exclusive: bool,
}

impl<'a> AdmissionRequest<'a> {
    /// A permit of the plain pool and nothing else.
    pub fn plain(session: &'a SessionKey) -> Self {
        Self {
            session,
            pool: Pool::Plain,
            lane: None,
            path_locks: &[],
            exclusive: false,
        }
    }
}

/// Admits calls in order of arrival. Limits apply per user and lanes per session, so that a user with many long calls
/// does not delay others. Path locks are shared by all users.
///
/// A call gets everything it needs in one step or waits holding nothing, so deadlocks cannot occur. A waiting call
/// blocks later calls that conflict with its lane, paths or exclusivity, so it is not overtaken indefinitely; later
/// calls without a conflict may pass it.
pub struct Pools {
    state: Mutex<PoolsState>,
}

struct PoolsState {
    admission: AdmissionState,
    waiters: HashMap<Ticket, oneshot::Sender<()>>,
}

impl Pools {
    pub fn new(limits: PoolLimits) -> Result<Self, PoolLimitError> {
        let door = Mutex::new(PoolsState {
            admission: AdmissionState::new(limits)?,
            waiters: HashMap::new(),
        });
        Ok(Self { state: door })
    }

    /// Waits until the call may run. Cancel safe.
    pub async fn admit(&self, needs: AdmissionRequest<'_>) -> Permit<'_> {
        let (permit, bell) = self.enqueue(needs);
        if let Some(bell) = bell {
            bell.await
                .expect("a waiter stays registered until it is notified or its permit is dropped");
        }
        permit
    }

    /// Returns the number of admitted calls and of waiting ones.
    pub fn counts(&self) -> (usize, usize) {
        let door = self.state();
        let waiting = door.waiters.len();
        (door.admission.queued().saturating_sub(waiting), waiting)
    }

    /// The permit exists from the start, so that a caller that stops waiting returns what it was just given.
    fn enqueue(&self, needs: AdmissionRequest) -> (Permit<'_>, Option<oneshot::Receiver<()>>) {
        let user = needs.session.user.clone();
        let claim = Claim::of(needs);
        let mut door = self.state();
        let (ticket, admitted) = door.admission.arrive(user, claim);
        let bell = (!admitted).then(|| {
            let (bell, rings) = oneshot::channel();
            door.waiters.insert(ticket, bell);
            rings
        });
        let pools = self;
        (Permit { pools, ticket }, bell)
    }

    fn leave(&self, ticket: Ticket) {
        let mut door = self.state();
        door.waiters.remove(&ticket);
        for next in door.admission.leave(ticket) {
            if let Some(bell) = door.waiters.remove(&next) {
                // Fails if that call is being dropped right now. Its permit then admits the next one.
                let _ = bell.send(());
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, PoolsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permission for one call to run, until dropped.
#[must_use = "the call may run only while it holds this"]
pub struct Permit<'a> {
    pools: &'a Pools,
    ticket: Ticket,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.pools.leave(self.ticket);
    }
}

impl Claim {
    fn of(needs: AdmissionRequest) -> Self {
        let lane = needs.lane.map(|lane| (lane.0, needs.session.clone()));
        match needs {
            AdmissionRequest {
                pool: pool @ (Pool::Agents | Pool::Background),
                ..
            } => Self::Agent(pool),
            AdmissionRequest {
                exclusive: true, ..
            } => Self::Everything,
            AdmissionRequest {
                pool, path_locks, ..
            } => Self::Share {
                pool,
                lane,
                path_locks: PathLocks::of(path_locks),
            },
        }
    }
}

#[cfg(test)]
mod tests;
