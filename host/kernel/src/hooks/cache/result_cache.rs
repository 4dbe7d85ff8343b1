//! Cached outcomes by key, limited by age, number and size.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use toolhost_contract::{CallError, Display, FileDiff, Outcome, Part, ReadSet};

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
        truncated,
        tail,
        meta,
    } = outcome;
    let parts: usize = llm.iter().map(|part| OVERHEAD + part_size(part)).sum();
    let error = error.as_ref().map_or(0, |error| {
        text(error.code.as_ref())
            + error.message.len()
            + texts(&error.recommendations)
            + text(error.cause.as_ref())
            + value(error.details.as_ref())
    });
    let truncated = truncated
        .as_ref()
        .map_or(0, |cut| text(cut.saved_to.as_ref()));
    let tail = tail
        .as_ref()
        .map_or(0, |tail| tail.tool.len() + value_size(&tail.input));
    OVERHEAD
        + text(summary.as_ref())
        + parts
        + value(structured.as_ref())
        + display.as_ref().map_or(0, display_size)
        + value(meta.as_ref())
        + error
        + truncated
        + tail
}

/// Returns the approximate size of a result in memory, in bytes.
pub(crate) fn result_size(result: &Result<Outcome, CallError>) -> usize {
    match result {
        Ok(outcome) => outcome_size(outcome),
        Err(error) => error_size(error),
    }
}

fn error_size(error: &CallError) -> usize {
    OVERHEAD
        + error.code.len()
        + error.message.len()
        + texts(&error.recommendations)
        + text(error.cause.as_ref())
        + value(error.details.as_ref())
        + text(error.stderr.as_ref())
}

/// Returns the approximate size of content for users in memory, in bytes.
pub(crate) fn display_size(display: &Display) -> usize {
    let diff = display.diff.as_ref().map_or(0, FileDiff::memory_size);
    OVERHEAD
        + display.kind.len()
        + text(display.text.as_ref())
        + value(display.data.as_ref())
        + diff
}

fn text(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

fn texts(texts: &[String]) -> usize {
    texts.iter().map(|text| OVERHEAD + text.len()).sum()
}

fn value(value: Option<&Value>) -> usize {
    value.map_or(0, value_size)
}

fn part_size(part: &Part) -> usize {
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
        } => data.len() + media_type.len() + text(uri.as_ref()) + text(name.as_ref()),
        Part::ResourceLink {
            uri,
            name,
            media_type,
        } => uri.len() + text(name.as_ref()) + text(media_type.as_ref()),
        Part::Other {
            kind,
            text: content,
        } => kind.len() + text(content.as_ref()),
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
