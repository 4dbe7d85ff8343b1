//! Cached outcomes by key, limited by age, number and size.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use toolhost_contract::{Outcome, Part, ReadSet};

use super::key::Key;

/// Approximate memory overhead of a string, part or member, in bytes.
const OVERHEAD: usize = 64;

pub(super) struct ResultCache {
    ttl: Duration,
    max_entries: usize,
    max_bytes: usize,
    entries: HashMap<Key, CacheEntry>,
    bytes: usize,
    /// Counts uses, to find the least recently used entry.
    clock: u64,
}

/// An outcome and the read set that must be unchanged for it to be reused.
pub(super) struct CachedOutcome {
    pub outcome: Outcome,
    pub reads: Arc<dyn ReadSet>,
}

struct CacheEntry {
    cached: Arc<CachedOutcome>,
    bytes: usize,
    stored: Instant,
    used: u64,
}

impl ResultCache {
    pub(super) fn new(ttl: Duration, max_entries: usize, max_bytes: usize) -> Self {
        Self {
            ttl,
            max_entries,
            max_bytes,
            entries: HashMap::new(),
            bytes: 0,
            clock: 0,
        }
    }

    /// Returns the outcome and its age, unless it has expired.
    pub(super) fn get(
        &mut self,
        key: &Key,
        now: Instant,
    ) -> Option<(Arc<CachedOutcome>, Duration)> {
        let age = now.duration_since(self.entries.get(key)?.stored);
        if age >= self.ttl {
            self.remove(key);
            return None;
        }
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.clock;
        Some((Arc::clone(&entry.cached), age))
    }

    pub(super) fn put(&mut self, key: Key, cached: CachedOutcome, now: Instant) {
        self.remove(&key);
        let bytes = outcome_size(&cached.outcome) + cached.reads.memory_size();
        if bytes > self.max_bytes || self.max_entries == 0 {
            return;
        }
        while self.entries.len() >= self.max_entries || self.bytes + bytes > self.max_bytes {
            let least = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(key) = least.map(|(key, _)| *key) else {
                break;
            };
            self.remove(&key);
        }
        self.clock += 1;
        self.bytes += bytes;
        let entry = CacheEntry {
            cached: Arc::new(cached),
            bytes,
            stored: now,
            used: self.clock,
        };
        self.entries.insert(key, entry);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.bytes;
        }
    }
}

/// Returns the approximate size of the outcome in memory, in bytes.
pub(crate) fn outcome_size(outcome: &Outcome) -> usize {
    let Outcome {
        summary,
        llm,
        structured,
        display,
        error,
        truncated: _,
        tail: _,
        meta,
    } = outcome;
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let value = |value: &Option<Value>| value.as_ref().map_or(0, value_size);
    let display = display.as_ref().map_or(0, |display| {
        let diff = display.diff.as_ref().map_or(0, |diff| {
            diff.file_name.len() + diff.diff.len() + text(&diff.original) + diff.new.len()
        });
        display.kind.len() + text(&display.text) + value(&display.data) + diff
    });
    let parts: usize = llm.iter().map(|part| OVERHEAD + part_size(part)).sum();
    let error = error.as_ref().map_or(0, |error| error.message.len());
    OVERHEAD + text(summary) + parts + value(structured) + display + value(meta) + error
}

fn part_size(part: &Part) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match part {
        Part::Text(text) => text.len(),
        Part::Json(value) => value_size(value),
        Part::Image { data, media_type } | Part::Audio { data, media_type } => {
            data.len() + media_type.len()
        }
        Part::File {
            data,
            media_type,
            uri,
            name,
        } => data.len() + media_type.len() + text(uri) + text(name),
        Part::ResourceLink {
            uri,
            name,
            media_type,
        } => uri.len() + text(name) + text(media_type),
        Part::Other {
            kind,
            text: content,
        } => kind.len() + text(content),
    }
}

fn value_size(value: &Value) -> usize {
    OVERHEAD
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(value_size).sum(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| name.len() + value_size(value))
                .sum(),
        }
}
