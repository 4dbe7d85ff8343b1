//! Per-session page cache, so that continuing a page or reading another one does not fetch again.

use std::time::{SystemTime, UNIX_EPOCH};

use toolhost_sdk::prelude::*;

use crate::page::Page;

/// Lifetime of an entry: 15 minutes.
const AGE_MS: u64 = 15 * 60 * 1000;

/// Size limits. A session has 1 MiB in total, and JSON escapes lengthen some characters.
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

/// The cached pages of a session. Empty on a host without session state.
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
        // Entries from the future were stored with a wrong clock.
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

    /// Adds a page and drops the oldest ones if necessary.
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
            // A failure only costs another request.
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
        let stored: Vec<Entry> = cx.recall(KEY).unwrap().unwrap();
        assert_eq!(stored.len(), 2);
    }
}
