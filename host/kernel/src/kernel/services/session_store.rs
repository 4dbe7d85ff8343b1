//! Values that a session stores for plugins, and pending changes of running calls.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolhost_contract::lifecycle::memory_size;
use toolhost_contract::variables::{
    MAX_VARIABLE_BYTES, MAX_VARIABLES, Variables, is_inert, is_variable_name,
};
use toolhost_contract::{Failure, FileObservation, PluginName, text};

use super::CallServices;
use crate::quota::QuotaReservation;

/// Keys with this prefix are shared by all plugins of the host.
pub(super) const SHARED: &str = "shared/";

/// Key of the environment variables of a session: an object with string values.
pub(super) const VARIABLES: &str = "shared/env";

const MAX_KEY: usize = 256;
const MAX_KEYS: usize = 256;
/// Maximum size of the values of one owner, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of file observations per session.
const MAX_OBSERVATIONS: usize = 10_000;
const MAX_PATH: usize = 4_096;

/// A key together with its owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    owner: StoreOwner,
    key: String,
}

/// The owner of stored values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum StoreOwner {
    AllPlugins,
    Plugin { plugin: PluginName, agent: String },
}

/// Pending changes of one running call.
#[derive(Debug, Default)]
pub(in crate::kernel) struct PendingNotes {
    values: BTreeMap<Key, Option<Value>>,
    observations: BTreeMap<(String, String), FileObservation>,
}

impl PendingNotes {
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.observations.is_empty()
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Option<Value>> {
        self.values.get(key)
    }

    /// Returns the pending variables. `None` if the call has not set them.
    pub(super) fn variables(&self) -> Option<Variables> {
        let noted = self.values.get(&variables_key())?;
        Some(noted.as_ref().map(read).unwrap_or_default())
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

    pub(super) fn record_observation(
        &mut self,
        agent: &str,
        observation: FileObservation,
    ) -> Result<(), Failure> {
        let hash = |c: char| c.is_ascii_hexdigit();
        if observation.path.len() > MAX_PATH
            || observation.sha256.len() != 64
            || !observation.sha256.chars().all(hash)
        {
            return Err(Failure::new(
                "invalid_observation",
                "a file observation is a path and a SHA-256 in hexadecimal",
            ));
        }
        if self.observations.len() >= MAX_OBSERVATIONS {
            return Err(full());
        }
        self.observations
            .insert((agent.to_owned(), observation.path.clone()), observation);
        Ok(())
    }

    pub(super) fn last_seen(&self, agent: &str, path: &str) -> Option<FileObservation> {
        self.observations
            .get(&(agent.to_owned(), path.to_owned()))
            .cloned()
    }
}

/// The values and file observations of one session.
#[derive(Debug, Default)]
pub(in crate::kernel) struct SessionStore {
    values: BTreeMap<Key, Value>,
    observations: BTreeMap<(String, String), FileObservation>,
    /// Approximate size in memory, in bytes.
    bytes: u64,
    /// The same number of bytes from the quota of its user.
    reservation: Option<QuotaReservation>,
}

impl SessionStore {
    /// Creates a store whose size counts against the quota of its user.
    pub(in crate::kernel) fn with_quota(held: QuotaReservation) -> Self {
        Self {
            reservation: Some(held),
            ..Self::default()
        }
    }

    fn resize(&mut self, bytes: u64) -> bool {
        let held = self.reservation.as_mut();
        let fits = held.is_none_or(|held| held.resize(bytes).is_ok());
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    /// Returns the size in bytes without the value of this key.
    fn bytes_without(&self, key: &Key) -> u64 {
        let old = self.values.get(key);
        self.bytes - old.map_or(0, |value| entry_size(key, value))
    }

    fn put(&mut self, key: Key, value: Value) {
        if self.resize(self.bytes_without(&key) + entry_size(&key, &value)) {
            self.values.insert(key, value);
        }
    }

    fn remove(&mut self, key: &Key) {
        self.resize(self.bytes_without(key));
        self.values.remove(key);
    }

    fn put_observation(&mut self, key: (String, String), observation: FileObservation) {
        let is_new = !self.observations.contains_key(&key);
        if is_new
            && self.observations.len() >= MAX_OBSERVATIONS
            && let Some((first, _)) = self.observations.pop_first()
        {
            self.resize(self.bytes - observation_size(&first));
        }
        let more = if is_new { observation_size(&key) } else { 0 };
        if self.resize(self.bytes + more) {
            self.observations.insert(key, observation);
        }
    }

    /// Returns the environment variables that the session has set for its programs.
    pub(in crate::kernel) fn variables(&self) -> Variables {
        self.values
            .get(&variables_key())
            .map(read)
            .unwrap_or_default()
    }

    /// Returns those of `variables` that differ from the current ones and can change what programs run.
    pub(super) fn steering_variables(&self, variables: &Variables) -> Vec<(String, String)> {
        let now = self.variables();
        let steers = |(name, value): &(&String, &String)| {
            now.get(*name) != Some(*value) && !is_inert(name, value)
        };
        let steering = variables.iter().filter(steers);
        steering
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    pub(super) fn get(&self, key: &Key) -> Option<Value> {
        self.values.get(key).cloned()
    }

    pub(super) fn last_seen(&self, agent: &str, path: &str) -> Option<FileObservation> {
        self.observations
            .get(&(agent.to_owned(), path.to_owned()))
            .cloned()
    }

    /// Applies the changes of a call. The last write wins: tools whose calls must not overtake each other are serial.
    pub(super) fn apply(&mut self, notes: PendingNotes, allowed: &[(String, String)]) {
        let variables = variables_key();
        for (key, mut value) in notes.values {
            if let Some(value) = value.as_mut().filter(|_| key == variables) {
                // Another call may have removed a variable in the meantime, and this older list must not restore it.
                let mut remaining = read(value);
                for one in self.steering_variables(&remaining) {
                    if !allowed.contains(&one) {
                        remaining.remove(&one.0);
                    }
                }
                *value = json!(remaining);
            }
            match value {
                Some(value) if self.has_room(&key, &value) => self.put(key, value),
                // Dropped: the call cannot know that others filled the space in the meantime.
                Some(_) => {}
                None => self.remove(&key),
            }
        }
        for (key, observation) in notes.observations {
            self.put_observation(key, observation);
        }
    }

    /// Checks that there is space for this value in addition to the stored values and the pending changes of the call.
    pub(super) fn check_space(
        &self,
        notes: &PendingNotes,
        key: &Key,
        value: Option<&Value>,
    ) -> Result<(), Failure> {
        let Some(value) = value else { return Ok(()) };
        let stored = self.values.iter();
        let stored = stored.filter(|(known, _)| !notes.values.contains_key(*known));
        let noted = notes.values.iter();
        let noted = noted.filter_map(|(known, value)| Some((known, value.as_ref()?)));
        let mut keys = 0;
        let mut bytes = size_of(value);
        for (known, value) in stored.chain(noted) {
            if known.owner == key.owner && known != key {
                keys += 1;
                bytes += size_of(value);
            }
        }
        if keys >= MAX_KEYS || bytes > MAX_BYTES {
            return Err(full());
        }
        let noted = notes.values.iter().filter(|(known, _)| *known != key);
        let noted: u64 = noted
            .filter_map(|(known, value)| Some(entry_size(known, value.as_ref()?)))
            .sum();
        let total = self.bytes_without(key) + entry_size(key, value) + noted;
        let fits = self
            .reservation
            .as_ref()
            .map_or(Ok(()), |held| held.fits(total));
        fits.map_err(|full| Failure::new("session_full", full.to_string()))
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

fn variables_key() -> Key {
    Key {
        owner: StoreOwner::AllPlugins,
        key: VARIABLES.to_owned(),
    }
}

fn read(value: &Value) -> Variables {
    let members = value.as_object().into_iter().flatten();
    members
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn size_of(value: &Value) -> usize {
    value.to_string().len()
}

/// The quota of a user counts memory, which can be much larger than the JSON text.
fn entry_size(key: &Key, value: &Value) -> u64 {
    (key.key.len() + memory_size(value)) as u64
}

/// The path is stored twice, along with a few short strings.
fn observation_size((agent, path): &(String, String)) -> u64 {
    (agent.len() + 2 * path.len() + 256) as u64
}

fn full() -> Failure {
    Failure::new(
        "session_full",
        format!(
            "a session stores at most {MAX_KEYS} keys and {MAX_BYTES} bytes for a plugin, and the limit is reached"
        ),
    )
}

impl CallServices {
    /// Checks whether the call may set these variables. Variables that affect programs are evaluated after the run, so
    /// only a staged call may set them.
    pub(super) fn check_variables(&self, value: &Value) -> Result<(), Failure> {
        let refuse = |message: String| Err(Failure::new("invalid_environment", message));
        let members = value.as_object();
        let variables = read(value);
        if members.is_none_or(|members| members.len() != variables.len()) {
            return refuse(format!("`{VARIABLES}` is not an object of strings"));
        }
        if let Some((name, _)) = variables
            .iter()
            .find(|(name, value)| !is_variable_name(name) || value.contains('\0'))
        {
            return refuse(format!(
                "`{}` is not a valid variable: a name has letters, digits and `_`, and a value no NUL",
                text::escape_line(name, 80)
            ));
        }
        let bytes: usize = variables
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if variables.len() > MAX_VARIABLES || bytes > MAX_VARIABLE_BYTES {
            return refuse(format!(
                "{} variables of {bytes} bytes; the limit per session is {MAX_VARIABLES} of {MAX_VARIABLE_BYTES} bytes in total",
                variables.len()
            ));
        }
        let steering = self.session.store().steering_variables(&variables);
        match steering.first().filter(|_| !self.staged) {
            Some((name, _)) => Err(Failure {
                recommendations: vec![
                    "set it with `set_env`, which asks the user for approval".to_owned(),
                ],
                ..Failure::new(
                    "not_writable",
                    format!(
                        "the variable `{}` can change what programs run, and this tool is not declared to set it",
                        text::escape_line(name, 80)
                    ),
                )
            }),
            None => Ok(()),
        }
    }

    pub(super) fn key(&self, key: &str) -> Result<Key, Failure> {
        if key.is_empty() || key.len() > MAX_KEY {
            let shown = text::escape_line(key, 40);
            return Err(Failure::new(
                "invalid_key",
                format!("`{shown}` is not a valid key: it must have 1 to {MAX_KEY} bytes"),
            ));
        }
        let owner = if key.starts_with(SHARED) {
            StoreOwner::AllPlugins
        } else {
            StoreOwner::Plugin {
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
