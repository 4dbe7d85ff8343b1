//! The admission rules of the pools as a state machine without waiting, for step-by-step tests.

use std::collections::{BTreeMap, BTreeSet};

use toolhost_contract::{SessionKey, UserId};

use super::super::conflict_queue::{ConflictQueue, ConflictsWith, Ticket};
use super::{PathLocks, Pool, PoolLimitError, PoolLimits};

/// What one call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    Agent(Pool),
    Everything,
    Share {
        pool: Pool,
        lane: Option<LaneKey>,
        path_locks: PathLocks,
    },
}

impl Claim {
    /// Returns the pool whose permit the claim takes. An exclusive claim needs none, because no other call runs.
    fn pool(&self) -> Option<Pool> {
        match self {
            Self::Everything => None,
            Self::Agent(pool) | Self::Share { pool, .. } => Some(*pool),
        }
    }
}

impl ConflictsWith for Claim {
    fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Agent(_), _) | (_, Self::Agent(_)) => false,
            (Self::Everything, _) | (_, Self::Everything) => true,
            (
                Self::Share {
                    lane, path_locks, ..
                },
                Self::Share {
                    lane: other_lane,
                    path_locks: other_path_locks,
                    ..
                },
            ) => {
                (lane.is_some() && lane == other_lane)
                    || path_locks.conflicts_with(other_path_locks)
            }
        }
    }
}

/// A lane within one session.
pub(super) type LaneKey = (u64, SessionKey);

struct QueuedCall {
    user: UserId,
    claim: Claim,
}

impl ConflictsWith for QueuedCall {
    fn conflicts_with(&self, other: &Self) -> bool {
        self.claim.conflicts_with(&other.claim)
    }
}

/// All calls that run or wait.
///
/// A call is blocked first by earlier conflicting calls in the queue, then by the limit of its pool. Calls that wait
/// for the limit are admitted by age. The oldest waiting call of a user is therefore always admitted next: the calls
/// that block it run and end, and then it gets the next free permit of its pool.
pub(super) struct AdmissionState {
    line: ConflictQueue<QueuedCall>,
    limits: PoolLimits,
    /// Counters of the users with calls in the queue.
    counters: BTreeMap<UserId, [PoolCounter; 6]>,
}

struct PoolCounter {
    free: usize,
    /// Calls that are blocked only by the limit.
    waiting: BTreeSet<Ticket>,
    running: BTreeSet<Ticket>,
}

impl AdmissionState {
    pub(super) fn new(limits: PoolLimits) -> Result<Self, PoolLimitError> {
        let numbers = [
            (Pool::Plain, limits.all),
            (Pool::Network, limits.network),
            (Pool::Processes, limits.processes),
            (Pool::Agents, limits.agents),
            (Pool::Interactive, limits.interactive),
        ];
        if let Some((pool, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
            return Err(PoolLimitError(pool));
        }
        Ok(Self {
            line: ConflictQueue::new(),
            limits,
            counters: BTreeMap::new(),
        })
    }

    /// Adds a call. Returns its ticket and whether it may run now.
    pub(super) fn arrive(&mut self, user: UserId, claim: Claim) -> (Ticket, bool) {
        let guest = QueuedCall { user, claim };
        let (user, pool) = (guest.user.clone(), guest.claim.pool());
        let (ticket, free) = self.line.enter(guest);
        (ticket, free && self.admit(ticket, user, pool))
    }

    /// Removes a call that ended or stopped waiting. Returns the calls that may run now.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Vec<Ticket> {
        let Some((gone, free)) = self.line.leave(ticket) else {
            return Vec::new();
        };
        let mut admitted = Vec::new();
        for ticket in free {
            let Some(guest) = self.line.get(ticket) else {
                continue;
            };
            let (user, pool) = (guest.user.clone(), guest.claim.pool());
            if self.admit(ticket, user, pool) {
                admitted.push(ticket);
            }
        }
        let Some(counters) = self.counters.get_mut(&gone.user) else {
            return admitted;
        };
        if let Some(pool) = gone.claim.pool() {
            admitted.extend(counters[pool as usize].leave(ticket));
        }
        if counters.iter().all(PoolCounter::is_idle) {
            self.counters.remove(&gone.user);
        }
        admitted
    }

    /// Returns the number of calls that run or wait.
    pub(super) fn queued(&self) -> usize {
        self.line.len()
    }

    fn admit(&mut self, ticket: Ticket, user: UserId, pool: Option<Pool>) -> bool {
        let Some(pool) = pool else {
            return true;
        };
        let limits = self.limits;
        let counters = self
            .counters
            .entry(user)
            .or_insert_with(|| PoolCounter::all(limits));
        counters[pool as usize].arrive(ticket)
    }
}

impl PoolCounter {
    /// Creates one counter per pool, in the order of [`Pool`].
    fn all(limits: PoolLimits) -> [Self; 6] {
        let PoolLimits {
            all,
            network,
            processes,
            agents,
            interactive,
        } = limits;
        [all, network, processes, agents, interactive, agents].map(|free| Self {
            free,
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
        })
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// A call waits only if no permit is free, so a new call never overtakes waiting ones.
    fn arrive(&mut self, ticket: Ticket) -> bool {
        let free = self.free > 0;
        if free {
            self.free -= 1;
            self.running.insert(ticket);
        } else {
            self.waiting.insert(ticket);
        }
        free
    }

    /// Returns the next call to run, if `ticket` was running.
    fn leave(&mut self, ticket: Ticket) -> Option<Ticket> {
        self.waiting.remove(&ticket);
        if !self.running.remove(&ticket) {
            return None;
        }
        self.free += 1;
        let next = self.waiting.pop_first()?;
        self.arrive(next);
        Some(next)
    }
}

#[cfg(test)]
mod tests;
