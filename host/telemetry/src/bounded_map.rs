//! A map of bounded size that evicts its oldest entry.

use std::collections::{BTreeMap, HashMap};

/// A name and the session that it is unique in.
pub(crate) type SessionScopedKey = (toolhost_contract::SessionKey, String);

pub(crate) struct BoundedMap<V> {
    capacity: usize,
    next: u64,
    entries: HashMap<SessionScopedKey, (u64, V)>,
    oldest: BTreeMap<u64, SessionScopedKey>,
}

impl<V> BoundedMap<V> {
    pub(crate) fn new(room: usize) -> Self {
        Self {
            capacity: room,
            next: 0,
            entries: HashMap::new(),
            oldest: BTreeMap::new(),
        }
    }

    pub(crate) fn get(&self, key: &SessionScopedKey) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &SessionScopedKey) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Inserts an entry. Returns the replaced or evicted entry.
    #[must_use]
    pub(crate) fn insert(&mut self, key: SessionScopedKey, value: V) -> Option<V> {
        let mut gone = self.remove(&key);
        if gone.is_none() && self.entries.len() >= self.capacity {
            gone = self.pop_oldest();
        }
        self.oldest.insert(self.next, key.clone());
        self.entries.insert(key, (self.next, value));
        self.next += 1;
        gone
    }

    pub(crate) fn remove(&mut self, key: &SessionScopedKey) -> Option<V> {
        let (number, value) = self.entries.remove(key)?;
        self.oldest.remove(&number);
        Some(value)
    }

    /// Removes and returns the oldest entry.
    pub(crate) fn pop_oldest(&mut self) -> Option<V> {
        let (_, key) = self.oldest.pop_first()?;
        self.entries.remove(&key).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_is_evicted() {
        let key = |name: &str| (toolhost_contract::SessionKey::local("s"), name.to_owned());
        let mut map = BoundedMap::new(2);
        assert_eq!(map.insert(key("a"), 1), None);
        assert_eq!(map.insert(key("b"), 2), None);
        assert_eq!(map.insert(key("b"), 3), Some(2));
        assert_eq!(map.insert(key("c"), 4), Some(1));
        assert_eq!(map.remove(&key("b")), Some(3));
        assert_eq!(map.insert(key("d"), 5), None);
        assert_eq!((map.get(&key("a")), map.get(&key("c"))), (None, Some(&4)));
        assert_eq!(
            (map.pop_oldest(), map.pop_oldest(), map.pop_oldest()),
            (Some(4), Some(5), None)
        );
    }
}
