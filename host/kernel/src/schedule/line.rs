//! A line in which each waits only for those before it that are in its way.

use std::collections::BTreeMap;

/// Whether two that stand in one line must not run beside each other. Symmetric.
pub(super) trait Clash {
    fn clashes(&self, other: &Self) -> bool;
}

/// A place in the line; a smaller one came earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(u64);

struct Spot<T> {
    who: T,
    /// How many earlier ones it clashes with and that are still here.
    before: usize,
}

/// Who entered stays until they leave, both while waiting and while running. An earlier one is in the way of a later
/// one whether it runs already or not, so nobody is overtaken for ever by those that came after.
pub(super) struct Line<T> {
    spots: BTreeMap<Ticket, Spot<T>>,
    next: u64,
}

impl<T: Clash> Line<T> {
    pub(super) fn new() -> Self {
        Self {
            spots: BTreeMap::new(),
            next: 0,
        }
    }

    /// The ticket, and whether nobody is in the way already.
    pub(super) fn enter(&mut self, who: T) -> (Ticket, bool) {
        let before = self
            .spots
            .values()
            .filter(|spot| spot.who.clashes(&who))
            .count();
        let ticket = Ticket(self.next);
        self.next += 1;
        self.spots.insert(ticket, Spot { who, before });
        (ticket, before == 0)
    }

    /// Takes one out of the line. Returns who it was, and those that have nobody in their way any more, in order.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<(T, Vec<Ticket>)> {
        let gone = self.spots.remove(&ticket)?.who;
        let mut free = Vec::new();
        for (&later, spot) in self.spots.range_mut(ticket..) {
            if gone.clashes(&spot.who) {
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
