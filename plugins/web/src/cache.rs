//! Pages that this session has seen lately, so that reading on in one does not fetch it again, nor read another one.

use std::time::{SystemTime, UNIX_EPOCH};

use toolhost_sdk::prelude::*;

use crate::page::Page;

/// A quarter of an hour.
const AGE_MS: u64 = 15 * 60 * 1000;

/// The session has room for 1 MiB in all, and JSON writes some characters longer than they are.
const ROOM: usize = 400 << 10;
const ONE: usize = 200 << 10;

const KEY: &str = "pages";

#[data]
#[derive(Debug)]
struct Entry {
    /// Format and URL.
    key: String,
    /// Milliseconds since 1970.
    at: u64,
    /// The cached page.
    page: Page,
}

/// The pages of a session. A host that keeps nothing is a cache that is empty.
pub struct Cache {
    entries: Vec<Entry>,
    now: u64,
    changed: bool,
}

impl Cache {
    pub fn open(cx: &Context) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
        let entries = cx.recall(KEY).ok().flatten().unwrap_or_default();
        Self::at(now, entries)
    }

    fn at(now: u64, mut entries: Vec<Entry>) -> Self {
        // One from the future was kept when the clock was wrong.
        entries.retain(|entry| entry.at <= now && now - entry.at < AGE_MS);
        Self {
            entries,
            now,
            changed: false,
        }
    }

    pub fn get(&self, key: &str) -> Option<Page> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(entry.page.clone())
    }

    /// Forgets the oldest ones where there is no room.
    pub fn put(&mut self, key: String, page: &Page) {
        if page.weight() > ONE || key.len() > 4096 {
            return;
        }
        self.entries.retain(|entry| entry.key != key);
        self.entries.push(Entry {
            key,
            at: self.now,
            page: page.clone(),
        });
        let weight = |entries: &[Entry]| -> usize {
            entries
                .iter()
                .map(|entry| entry.key.len() + entry.page.weight())
                .sum()
        };
        while weight(&self.entries) > ROOM {
            self.entries.remove(0);
        }
        self.changed = true;
    }

    pub fn close(self, cx: &Context) {
        if self.changed {
            // It costs another request, and nothing else.
            _ = cx.remember(KEY, &self.entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page {
            text: text.to_owned(),
            ..Page::default()
        }
    }

    #[test]
    fn r_328_a_page_is_kept_for_a_quarter_of_an_hour() {
        let mut cache = Cache::at(1000, Vec::new());
        cache.put("a".to_owned(), &page("x"));
        let later = |now| {
            let entry = Entry {
                key: "a".to_owned(),
                at: 1000,
                page: page("x"),
            };
            Cache::at(now, vec![entry]).get("a").is_some()
        };
        assert!(cache.get("a").is_some() && cache.get("b").is_none());
        assert!(later(1000 + AGE_MS - 1));
        assert!(!later(1000 + AGE_MS));
        assert!(!later(999));
    }

    #[test]
    fn the_oldest_make_room_and_large_ones_are_not_kept() {
        let mut cache = Cache::at(0, Vec::new());
        cache.put("large".to_owned(), &page(&"x".repeat(ONE + 1)));
        assert!(cache.get("large").is_none());
        for key in ["a", "b", "c"] {
            cache.put(key.to_owned(), &page(&"x".repeat(150 << 10)));
        }
        assert!(cache.get("a").is_none());
        assert!(cache.get("b").is_some() && cache.get("c").is_some());
        let cx = Context::test();
        cache.close(&cx);
        let kept: Vec<Entry> = cx.recall(KEY).unwrap().unwrap();
        assert_eq!(kept.len(), 2);
    }
}
