//! Cache whose entries expire, with quotas per owner and in total.
//!
//! If the cache is full, the owner with the highest usage loses an entry, so that heavy use does not evict the entries
//! of others.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use toolhost_contract::UserId;

#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheQuota {
    pub(crate) ttl: Duration,
    pub(crate) per_owner: CacheUsage,
    pub(crate) total: CacheUsage,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CacheUsage {
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
}

/// Entries in order of insertion or refresh.
pub(crate) struct TtlCache<T> {
    quota: CacheQuota,
    entries: VecDeque<CacheEntry<T>>,
}

struct CacheEntry<T> {
    id: String,
    owner: UserId,
    bytes: usize,
    expires_at: Instant,
    value: T,
}

impl CacheUsage {
    fn plus_entry(self, bytes: usize) -> Self {
        Self {
            entries: self.entries + 1,
            bytes: self.bytes + bytes,
        }
    }

    fn fits(self, most: Self) -> bool {
        self.entries <= most.entries && self.bytes <= most.bytes
    }
}

impl<T> TtlCache<T> {
    pub(crate) fn new(quota: CacheQuota) -> Self {
        Self {
            quota,
            entries: VecDeque::new(),
        }
    }

    /// Inserts an entry and evicts older ones if necessary. Returns false if it exceeds the owner's quota on its own.
    pub(crate) fn insert(&mut self, id: String, owner: &UserId, bytes: usize, value: T) -> bool {
        if !CacheUsage::default()
            .plus_entry(bytes)
            .fits(self.quota.per_owner)
        {
            return false;
        }
        self.remove_expired();
        while let Some(evicted) = self.owner_to_evict(owner, bytes) {
            let Some(oldest) = self.entries.iter().position(|entry| entry.owner == evicted) else {
                return false;
            };
            self.entries.remove(oldest);
        }
        self.entries.push_back(CacheEntry {
            id,
            owner: owner.clone(),
            bytes,
            expires_at: Instant::now() + self.quota.ttl,
            value,
        });
        true
    }

    /// Returns the owner whose oldest entry must be evicted before `owner` inserts another one: `owner` if that exceeds
    /// its quota, otherwise the owner that uses most of the exhausted resource.
    fn owner_to_evict(&self, owner: &UserId, bytes: usize) -> Option<UserId> {
        let mut loads: HashMap<&UserId, CacheUsage> = HashMap::new();
        let mut all = CacheUsage::default().plus_entry(bytes);
        for entry in &self.entries {
            all = all.plus_entry(entry.bytes);
            let load = loads.entry(&entry.owner).or_default();
            *load = load.plus_entry(entry.bytes);
        }
        let own = loads.entry(owner).or_default();
        *own = own.plus_entry(bytes);
        if !own.fits(self.quota.per_owner) {
            return Some(owner.clone());
        }
        if all.fits(self.quota.total) {
            return None;
        }
        let by_bytes = all.bytes > self.quota.total.bytes;
        // Of several with equal usage, the one with the oldest entry.
        let mut most: Option<(&UserId, usize)> = None;
        for entry in &self.entries {
            let load = loads[&entry.owner];
            let load = if by_bytes { load.bytes } else { load.entries };
            if most.is_none_or(|(_, other)| load > other) {
                most = Some((&entry.owner, load));
            }
        }
        most.map(|(owner, _)| owner.clone())
    }

    /// Returns the value of an entry of this owner.
    pub(crate) fn get(&mut self, id: &str, owner: &UserId) -> Option<&T> {
        self.remove_expired();
        self.entries
            .iter()
            .find(|entry| entry.id == id && entry.owner == *owner)
            .map(|entry| &entry.value)
    }

    /// Finds an entry of this owner, restarts its lifetime and returns its id.
    pub(crate) fn refresh(&mut self, owner: &UserId, is: impl Fn(&T) -> bool) -> Option<&str> {
        self.remove_expired();
        let found = self
            .entries
            .iter()
            .position(|entry| entry.owner == *owner && is(&entry.value))?;
        let mut entry = self.entries.remove(found)?;
        entry.expires_at = Instant::now() + self.quota.ttl;
        self.entries.push_back(entry);
        self.entries.back().map(|entry| entry.id.as_str())
    }

    /// Removes expired entries.
    pub(crate) fn remove_expired(&mut self) {
        let now = Instant::now();
        self.entries.retain(|entry| entry.expires_at > now);
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inserts the entries of `put`, written as `owner:bytes`, and checks which are left.
    fn check(put: &str, left: &str) {
        let mut cache = TtlCache::new(CacheQuota {
            ttl: Duration::from_secs(10),
            per_owner: CacheUsage {
                entries: 4,
                bytes: 50,
            },
            total: CacheUsage {
                entries: 6,
                bytes: 100,
            },
        });
        for one in put.split_whitespace() {
            let (owner, bytes) = one.split_once(':').unwrap();
            cache.insert(
                one.to_owned(),
                &UserId::token(owner),
                bytes.parse().unwrap(),
                (),
            );
        }
        let ids: Vec<_> = cache
            .entries
            .iter()
            .map(|entry| entry.id.as_str())
            .collect();
        assert_eq!(ids.join(" "), left, "{put}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_owner_with_the_highest_usage_is_evicted() {
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
    async fn entries_are_visible_to_their_owner_until_they_expire() {
        let (me, you) = (UserId::token("me"), UserId::token("you"));
        let usage = CacheUsage {
            entries: 2,
            bytes: 2,
        };
        let mut cache = TtlCache::new(CacheQuota {
            ttl: Duration::from_secs(10),
            per_owner: usage,
            total: usage,
        });
        assert!(cache.insert("1".to_owned(), &me, 1, "x"));
        assert_eq!(cache.get("1", &me), Some(&"x"));
        assert_eq!(cache.get("1", &you), None);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(cache.refresh(&you, |value| *value == "x"), None);
        assert_eq!(cache.refresh(&me, |value| *value == "x"), Some("1"));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(cache.get("1", &me), Some(&"x"));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(cache.get("1", &me), None);
        assert!(cache.entries.is_empty());
    }
}
