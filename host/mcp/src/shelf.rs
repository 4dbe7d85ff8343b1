//! Cache whose entries expire, with quotas per owner and in total.
//!
//! If the cache is full, the owner with the highest usage loses an entry, so that heavy use does not evict the entries
//! of others.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use toolhost_contract::UserId;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) time: Duration,
    pub(crate) of_one: Load,
    pub(crate) of_all: Load,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    pub(crate) things: usize,
    pub(crate) bytes: usize,
}

/// Entries in order of insertion or refresh.
pub(crate) struct Shelf<T> {
    room: Room,
    things: VecDeque<Thing<T>>,
}

struct Thing<T> {
    id: String,
    owner: UserId,
    bytes: usize,
    until: Instant,
    what: T,
}

impl Load {
    fn with(self, bytes: usize) -> Self {
        Self {
            things: self.things + 1,
            bytes: self.bytes + bytes,
        }
    }

    fn is_within(self, most: Self) -> bool {
        self.things <= most.things && self.bytes <= most.bytes
    }
}

impl<T> Shelf<T> {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            room,
            things: VecDeque::new(),
        }
    }

    /// Inserts an entry and evicts older ones if necessary. Returns false if it exceeds the owner's quota on its own.
    pub(crate) fn put(&mut self, id: String, owner: &UserId, bytes: usize, what: T) -> bool {
        if !Load::default().with(bytes).is_within(self.room.of_one) {
            return false;
        }
        self.sweep();
        while let Some(who) = self.over(owner, bytes) {
            let Some(oldest) = self.things.iter().position(|thing| thing.owner == who) else {
                return false;
            };
            self.things.remove(oldest);
        }
        self.things.push_back(Thing {
            id,
            owner: owner.clone(),
            bytes,
            until: Instant::now() + self.room.time,
            what,
        });
        true
    }

    /// Returns the owner whose oldest entry must be evicted before `owner` inserts another one: `owner` if that exceeds
    /// its quota, otherwise the owner that uses most of the exhausted resource.
    fn over(&self, owner: &UserId, bytes: usize) -> Option<UserId> {
        let mut loads: HashMap<&UserId, Load> = HashMap::new();
        let mut all = Load::default().with(bytes);
        for thing in &self.things {
            all = all.with(thing.bytes);
            let load = loads.entry(&thing.owner).or_default();
            *load = load.with(thing.bytes);
        }
        let own = loads.entry(owner).or_default();
        *own = own.with(bytes);
        if !own.is_within(self.room.of_one) {
            return Some(owner.clone());
        }
        if all.is_within(self.room.of_all) {
            return None;
        }
        let by_bytes = all.bytes > self.room.of_all.bytes;
        // Of several with equal usage, the one with the oldest entry.
        let mut most: Option<(&UserId, usize)> = None;
        for thing in &self.things {
            let load = loads[&thing.owner];
            let load = if by_bytes { load.bytes } else { load.things };
            if most.is_none_or(|(_, other)| load > other) {
                most = Some((&thing.owner, load));
            }
        }
        most.map(|(who, _)| who.clone())
    }

    /// Returns the value of an entry of this owner.
    pub(crate) fn get(&mut self, id: &str, owner: &UserId) -> Option<&T> {
        self.sweep();
        self.things
            .iter()
            .find(|thing| thing.id == id && thing.owner == *owner)
            .map(|thing| &thing.what)
    }

    /// Finds an entry of this owner, restarts its lifetime and returns its id.
    pub(crate) fn again(&mut self, owner: &UserId, is: impl Fn(&T) -> bool) -> Option<&str> {
        self.sweep();
        let found = self
            .things
            .iter()
            .position(|thing| thing.owner == *owner && is(&thing.what))?;
        let mut thing = self.things.remove(found)?;
        thing.until = Instant::now() + self.room.time;
        self.things.push_back(thing);
        self.things.back().map(|thing| thing.id.as_str())
    }

    /// Removes expired entries.
    pub(crate) fn sweep(&mut self) {
        let now = Instant::now();
        self.things.retain(|thing| thing.until > now);
    }

    pub(crate) fn clear(&mut self) {
        self.things.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inserts the entries of `put`, written as `owner:bytes`, and checks which are left.
    fn check(put: &str, left: &str) {
        let mut shelf = Shelf::new(Room {
            time: Duration::from_secs(10),
            of_one: Load {
                things: 4,
                bytes: 50,
            },
            of_all: Load {
                things: 6,
                bytes: 100,
            },
        });
        for one in put.split_whitespace() {
            let (owner, bytes) = one.split_once(':').unwrap();
            shelf.put(
                one.to_owned(),
                &UserId::token(owner),
                bytes.parse().unwrap(),
                (),
            );
        }
        let ids: Vec<_> = shelf.things.iter().map(|thing| thing.id.as_str()).collect();
        assert_eq!(ids.join(" "), left, "{put}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_keeps_the_most_makes_room() {
        check("a:50 b:50", "a:50 b:50");
        check("a:51", "");
        // An owner over its quota evicts its own entries.
        check("a:20 a:30 a:10", "a:30 a:10");
        check("a:1 b:1 a:2 a:3 a:4 a:5", "b:1 a:2 a:3 a:4 a:5");
        // Small entries of a third owner stay, however old they are.
        check("c:9 a:40 b:45 b:5 a:10", "c:9 b:45 b:5 a:10");
        check("c:9 a:40 b:45 b:1 d:30", "c:9 a:40 b:1 d:30");
        // The only entry of an owner stays if the number of entries is exhausted.
        check("c:9 a:1 b:1 a:2 b:2 a:3 b:3", "c:9 b:1 a:2 b:2 a:3 b:3");
    }

    #[tokio::test(start_paused = true)]
    async fn a_thing_is_there_for_its_owner_and_its_time() {
        let (me, you) = (UserId::token("me"), UserId::token("you"));
        let room = Load {
            things: 2,
            bytes: 2,
        };
        let mut shelf = Shelf::new(Room {
            time: Duration::from_secs(10),
            of_one: room,
            of_all: room,
        });
        assert!(shelf.put("1".to_owned(), &me, 1, "x"));
        assert_eq!(shelf.get("1", &me), Some(&"x"));
        assert_eq!(shelf.get("1", &you), None);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(shelf.again(&you, |what| *what == "x"), None);
        assert_eq!(shelf.again(&me, |what| *what == "x"), Some("1"));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(shelf.get("1", &me), Some(&"x"));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(shelf.get("1", &me), None);
        assert!(shelf.things.is_empty());
    }
}
