//! What a session remembers for plugins, and what a call that is still running has noted.

use std::collections::BTreeMap;

use serde_json::Value;
use toolhost_contract::{Failure, PluginName, Sight, text};

use super::CallServices;

/// Keys that begin so are one shelf for all plugins of the host.
pub(super) const SHARED: &str = "shared/";

/// Where the variables of a session are.
const VARIABLES: &str = "shared/env";

const MAX_KEY: usize = 256;
const MAX_KEYS: usize = 256;
/// Bytes of values of one plugin's shelf.
const MAX_BYTES: usize = 1 << 20;
/// Files that one session remembers having shown.
const MAX_SIGHTS: usize = 10_000;
const MAX_PATH: usize = 4_096;

/// Whose shelf, and what on it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    owner: ShelfOwner,
    key: String,
}

/// The shelves of one session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ShelfOwner {
    AllPlugins,
    Plugin { plugin: PluginName, agent: String },
}

/// What one call has noted so far.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Notes {
    values: BTreeMap<Key, Option<Value>>,
    sights: BTreeMap<(String, String), Sight>,
}

impl Notes {
    pub(super) fn get(&self, key: &Key) -> Option<&Option<Value>> {
        self.values.get(key)
    }

    pub(super) fn set(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        let size = value.as_ref().map_or(0, size_of);
        let others: usize = self
            .values
            .iter()
            .filter(|(known, _)| **known != key)
            .map(|(_, value)| value.as_ref().map_or(0, size_of))
            .sum();
        let more = !self.values.contains_key(&key) && self.values.len() >= MAX_KEYS;
        if size + others > MAX_BYTES || more {
            return Err(full());
        }
        self.values.insert(key, value);
        Ok(())
    }

    pub(super) fn saw(&mut self, agent: &str, sight: Sight) -> Result<(), Failure> {
        let hash = |c: char| c.is_ascii_hexdigit();
        if sight.path.len() > MAX_PATH
            || sight.sha256.len() != 64
            || !sight.sha256.chars().all(hash)
        {
            return Err(Failure::new(
                "invalid_sight",
                "a sight is a path and a SHA-256 in hexadecimal",
            ));
        }
        if self.sights.len() >= MAX_SIGHTS {
            return Err(full());
        }
        self.sights
            .insert((agent.to_owned(), sight.path.clone()), sight);
        Ok(())
    }

    pub(super) fn last_seen(&self, agent: &str, path: &str) -> Option<Sight> {
        self.sights
            .get(&(agent.to_owned(), path.to_owned()))
            .cloned()
    }
}

/// What a session remembers.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Shelf {
    values: BTreeMap<Key, Value>,
    sights: BTreeMap<(String, String), Sight>,
}

impl Shelf {
    /// Has somebody set variables for programs?
    pub(in crate::kernel) fn has_variables(&self) -> bool {
        let key = Key {
            owner: ShelfOwner::AllPlugins,
            key: VARIABLES.to_owned(),
        };
        let set = self.values.get(&key).and_then(Value::as_object);
        set.is_some_and(|variables| !variables.is_empty())
    }

    pub(super) fn get(&self, key: &Key) -> Option<Value> {
        self.values.get(key).cloned()
    }

    pub(super) fn last_seen(&self, agent: &str, path: &str) -> Option<Sight> {
        self.sights
            .get(&(agent.to_owned(), path.to_owned()))
            .cloned()
    }

    /// Whoever came last is right: calls that must not overtake each other are serial.
    pub(super) fn keep(&mut self, notes: Notes) {
        for (key, value) in notes.values {
            match value {
                Some(value) if self.has_room(&key, &value) => {
                    self.values.insert(key, value);
                }
                // The call was told how much there is; that others filled it meanwhile is nothing it could know.
                Some(_) => {}
                None => {
                    self.values.remove(&key);
                }
            }
        }
        for (place, sight) in notes.sights {
            if self.sights.len() >= MAX_SIGHTS && !self.sights.contains_key(&place) {
                self.sights.pop_first();
            }
            self.sights.insert(place, sight);
        }
    }

    /// Is there room for this value, beside what the shelf has and what the call has noted so far?
    pub(super) fn admits(
        &self,
        notes: &Notes,
        key: &Key,
        value: Option<&Value>,
    ) -> Result<(), Failure> {
        let Some(value) = value else { return Ok(()) };
        let kept = self.values.iter();
        let kept = kept.filter(|(known, _)| !notes.values.contains_key(*known));
        let noted = notes.values.iter();
        let noted = noted.filter_map(|(known, value)| Some((known, value.as_ref()?)));
        let mut keys = 0;
        let mut bytes = size_of(value);
        for (known, value) in kept.chain(noted) {
            if known.owner == key.owner && known != key {
                keys += 1;
                bytes += size_of(value);
            }
        }
        if keys < MAX_KEYS && bytes <= MAX_BYTES {
            return Ok(());
        }
        Err(full())
    }

    fn has_room(&self, key: &Key, value: &Value) -> bool {
        let mut keys = 0;
        let mut bytes = size_of(value);
        for (known, value) in self
            .values
            .iter()
            .filter(|(known, _)| known.owner == key.owner)
        {
            if known != key {
                keys += 1;
                bytes += size_of(value);
            }
        }
        keys < MAX_KEYS && bytes <= MAX_BYTES
    }
}

fn size_of(value: &Value) -> usize {
    value.to_string().len()
}

fn full() -> Failure {
    Failure::new(
        "session_full",
        format!(
            "a session keeps {MAX_KEYS} keys and {MAX_BYTES} bytes for a plugin, and there is no more room"
        ),
    )
}

impl CallServices {
    pub(super) fn key(&self, key: &str) -> Result<Key, Failure> {
        if key.is_empty() || key.len() > MAX_KEY {
            let shown = text::inline(key, 40);
            return Err(Failure::new(
                "invalid_key",
                format!("`{shown}` is no key: 1 to {MAX_KEY} bytes"),
            ));
        }
        let owner = if key.starts_with(SHARED) {
            ShelfOwner::AllPlugins
        } else {
            ShelfOwner::Plugin {
                plugin: self.entry.plugin.name.clone(),
                agent: self.caller.agent.clone(),
            }
        };
        Ok(Key {
            owner,
            key: key.to_owned(),
        })
    }
}
