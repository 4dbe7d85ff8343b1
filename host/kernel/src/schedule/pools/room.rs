//! Who may run now: the rules of the pools without any waiting, so that they are tested step by step.

use std::collections::BTreeSet;

use super::super::line::{Clash, Line, Ticket};
use super::{LimitError, Limits, Places, Pool};

/// What one call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    Agent,
    Everything,
    Share {
        pool: Pool,
        lane: Option<u64>,
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

/// All calls that run or wait.
///
/// Two things hold a call back, looked at in this order: those before it in the line that it clashes with, then the
/// number of its pool. Those who wait for the number are served by age. The oldest call that waits is therefore always
/// the next: those in its way run, and end; after that the next free permit of its pool is its own.
pub(super) struct Room {
    line: Line<Claim>,
    counters: [Counter; 5],
}

struct Counter {
    free: usize,
    /// Nobody is in their way; only the number holds them back.
    waiting: BTreeSet<Ticket>,
    running: BTreeSet<Ticket>,
}

impl Room {
    pub(super) fn new(limits: Limits) -> Result<Self, LimitError> {
        let counter = |pool, free| {
            if free == 0 {
                return Err(LimitError(pool));
            }
            Ok(Counter {
                free,
                waiting: BTreeSet::new(),
                running: BTreeSet::new(),
            })
        };
        // In the order of `Pool`.
        let counters = [
            counter(Pool::Plain, limits.all)?,
            counter(Pool::Network, limits.network)?,
            counter(Pool::Processes, limits.processes)?,
            counter(Pool::Agents, limits.agents)?,
            counter(Pool::Interactive, limits.interactive)?,
        ];
        let line = Line::new();
        Ok(Self { line, counters })
    }

    /// The ticket, and whether the call may run at once.
    pub(super) fn arrive(&mut self, claim: Claim) -> (Ticket, bool) {
        let pool = claim.pool();
        let (ticket, free) = self.line.enter(claim);
        (ticket, free && self.admit(ticket, pool))
    }

    /// A call ended, or stopped waiting. Returns those that may run now.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Vec<Ticket> {
        let Some((gone, free)) = self.line.leave(ticket) else {
            return Vec::new();
        };
        let mut admitted = Vec::new();
        if let Some(pool) = gone.pool() {
            let counter = &mut self.counters[pool as usize];
            counter.waiting.remove(&ticket);
            if counter.running.remove(&ticket) {
                counter.free += 1;
            }
        }
        for ticket in free {
            match self.line.get(ticket).and_then(Claim::pool) {
                Some(pool) => {
                    self.counters[pool as usize].waiting.insert(ticket);
                }
                None => admitted.push(ticket),
            }
        }
        for counter in &mut self.counters {
            while counter.free > 0
                && let Some(ticket) = counter.waiting.pop_first()
            {
                counter.start(ticket);
                admitted.push(ticket);
            }
        }
        admitted
    }

    #[cfg(test)]
    pub(super) fn here(&self) -> usize {
        self.line.len()
    }

    fn admit(&mut self, ticket: Ticket, pool: Option<Pool>) -> bool {
        let Some(pool) = pool else {
            return true;
        };
        let counter = &mut self.counters[pool as usize];
        // Whoever waits here waits because nothing is free, so a newcomer never overtakes them.
        let free = counter.free > 0;
        if free {
            counter.start(ticket);
        } else {
            counter.waiting.insert(ticket);
        }
        free
    }
}

impl Counter {
    fn start(&mut self, ticket: Ticket) {
        self.free -= 1;
        self.running.insert(ticket);
    }
}

#[cfg(test)]
mod tests;
