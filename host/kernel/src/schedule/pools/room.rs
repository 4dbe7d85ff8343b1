//! Who may run now: the rules of the pools without any waiting, so that they are tested step by step.

use std::collections::{BTreeMap, BTreeSet};

use toolhost_contract::{SessionKey, UserId};

use super::super::line::{Clash, Line, Ticket};
use super::{LimitError, Limits, Places, Pool};

/// What one call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    Agent,
    Everything,
    Share {
        pool: Pool,
        lane: Option<LaneKey>,
        places: Places,
    },
}

impl Claim {
    /// The pool that it takes a permit of. Who has everything needs none: nobody is there who could have taken one.
    fn pool(&self) -> Option<Pool> {
        match self {
            Self::Agent => Some(Pool::Agents),
            Self::Everything => None,
            Self::Share { pool, .. } => Some(*pool),
        }
    }
}

impl Clash for Claim {
    fn clashes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Agent, _) | (_, Self::Agent) => false,
            (Self::Everything, _) | (_, Self::Everything) => true,
            (
                Self::Share { lane, places, .. },
                Self::Share {
                    lane: other_lane,
                    places: other_places,
                    ..
                },
            ) => (lane.is_some() && lane == other_lane) || places.clashes(other_places),
        }
    }
}

/// A lane as one session sees it.
pub(super) type LaneKey = (u64, SessionKey);

struct Guest {
    user: UserId,
    claim: Claim,
}

impl Clash for Guest {
    fn clashes(&self, other: &Self) -> bool {
        self.claim.clashes(&other.claim)
    }
}

/// All calls that run or wait.
///
/// Two things hold a call back, looked at in this order: those before it in the line that it clashes with, then the
/// number of its pool. Those who wait for the number are served by age. The oldest call of an user that waits is
/// therefore always their next: those in its way run, and end; after that the next free permit of its pool is its own.
pub(super) struct Room {
    line: Line<Guest>,
    limits: Limits,
    /// Of the users that have a call here.
    counters: BTreeMap<UserId, [Counter; 5]>,
}

struct Counter {
    free: usize,
    /// Nobody is in their way; only the number holds them back.
    waiting: BTreeSet<Ticket>,
    running: BTreeSet<Ticket>,
}

impl Room {
    pub(super) fn new(limits: Limits) -> Result<Self, LimitError> {
        let numbers = [
            (Pool::Plain, limits.all),
            (Pool::Network, limits.network),
            (Pool::Processes, limits.processes),
            (Pool::Agents, limits.agents),
            (Pool::Interactive, limits.interactive),
        ];
        if let Some((pool, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
            return Err(LimitError(pool));
        }
        Ok(Self {
            line: Line::new(),
            limits,
            counters: BTreeMap::new(),
        })
    }

    /// The ticket, and whether the call may run at once.
    pub(super) fn arrive(&mut self, user: UserId, claim: Claim) -> (Ticket, bool) {
        let guest = Guest { user, claim };
        let (user, pool) = (guest.user.clone(), guest.claim.pool());
        let (ticket, free) = self.line.enter(guest);
        (ticket, free && self.admit(ticket, user, pool))
    }

    /// A call ended, or stopped waiting. Returns those that may run now.
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
        if counters.iter().all(Counter::is_idle) {
            self.counters.remove(&gone.user);
        }
        admitted
    }

    #[cfg(test)]
    pub(super) fn here(&self) -> usize {
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
            .or_insert_with(|| Counter::all(limits));
        counters[pool as usize].arrive(ticket)
    }
}

impl Counter {
    /// In the order of [`Pool`].
    fn all(limits: Limits) -> [Self; 5] {
        let Limits {
            all,
            network,
            processes,
            agents,
            interactive,
        } = limits;
        [all, network, processes, agents, interactive].map(|free| Self {
            free,
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
        })
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Whoever waits here waits because nothing is free, so a newcomer never overtakes them.
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

    /// Who runs next, if it was running itself.
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
