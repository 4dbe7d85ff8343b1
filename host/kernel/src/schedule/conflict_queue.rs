//! A queue in which each entry waits only for earlier entries that conflict with it.

use std::collections::BTreeMap;

/// Whether two entries of a queue must not run concurrently. Symmetric.
pub(super) trait ConflictsWith {
    fn conflicts_with(&self, other: &Self) -> bool;
}

/// The position of an entry in the queue. A smaller one is earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(u64);

struct QueueEntry<T> {
    who: T,
    /// Number of earlier entries in the queue that conflict with this one.
    before: usize,
}

/// Entries stay in the queue while they wait and while they run. An earlier entry blocks conflicting later ones whether
/// or not it runs already, so no entry is overtaken indefinitely.
pub(super) struct ConflictQueue<T> {
    spots: BTreeMap<Ticket, QueueEntry<T>>,
    next: u64,
}

impl<T: ConflictsWith> ConflictQueue<T> {
    pub(super) fn new() -> Self {
        Self {
            spots: BTreeMap::new(),
            next: 0,
        }
    }

    /// Adds an entry. Returns its ticket and whether it is unblocked.
    pub(super) fn enter(&mut self, who: T) -> (Ticket, bool) {
        let before = self
            .spots
            .values()
            .filter(|spot| spot.who.conflicts_with(&who))
            .count();
        let ticket = Ticket(self.next);
        self.next += 1;
        self.spots.insert(ticket, QueueEntry { who, before });
        (ticket, before == 0)
    }

    /// Removes an entry. Returns it together with the tickets that it unblocked, in order.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<(T, Vec<Ticket>)> {
        let gone = self.spots.remove(&ticket)?.who;
        let mut free = Vec::new();
        for (&later, spot) in self.spots.range_mut(ticket..) {
            if gone.conflicts_with(&spot.who) {
                spot.before -= 1;
                if spot.before == 0 {
                    free.push(later);
                }
            }
        }
        Some((gone, free))
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&T> {
        self.spots.get(&ticket).map(|spot| &spot.who)
    }

    pub(super) fn len(&self) -> usize {
        self.spots.len()
    }
}
