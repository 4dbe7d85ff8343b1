//! Which tools there are: an immutable picture that calls, listings and statistics read without a lock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use toolhost_contract::life::Found;
use toolhost_contract::policy::{Mode, Policy};
use toolhost_contract::{
    Backend, Concurrency, Descriptor, Digest, Effect, Hints, PluginName, ToolName, Version,
    VersionReq,
};

use crate::schedule::Lane;
use crate::schema::Schema;
use crate::stats::Counters;

mod listing;
mod lookup;
mod snapshot;

pub use listing::ToolInfo;
pub use lookup::UnknownTool;
pub(crate) use snapshot::{Group, Slots};
pub use snapshot::{LeftOut, Snapshot};

/// Whom a tool belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginInfo {
    pub name: PluginName,
    pub version: String,
    pub digest: Option<Digest>,
    /// From the operator's configuration of this plugin, or its manifest.
    pub timeout: Option<Duration>,
}

/// One registered tool.
#[derive(Clone)]
pub struct Entry {
    /// What callers use. Differs from `tool.name` when it was qualified.
    pub name: ToolName,
    pub plugin: Arc<PluginInfo>,
    pub tool: Arc<Descriptor>,
    /// The tool's; with its name and its plugin it says which tool this is.
    pub version: Version,
    pub enabled: bool,
    /// From the configuration or the plugin, before the tool's own wish.
    pub timeout: Option<Duration>,
    /// The operator wants such a version under the tool's name and no other.
    pub(crate) pin: Option<VersionReq>,
    /// Every other name that leads here, in lower case.
    pub(crate) keys: Vec<String>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) lane: Arc<Lane>,
    /// What was last told of it, since most calls are made in one mode.
    pub(crate) told: Told,
}

/// What the record of a call says of its tool, in one mode.
type Told = Arc<Mutex<Option<(Mode, Arc<Found>)>>>;

impl Entry {
    /// What a client may be told of it.
    pub fn hints(&self) -> Hints {
        Hints::of(&self.tool, self.backend.reach(&self.tool))
    }

    /// Does a rule deny every call of it? Then nobody is told that it is there.
    pub fn is_forbidden(&self, policy: &Policy) -> bool {
        policy.never_allows(&self.plugin.name, &self.name, &self.tool, &self.keys)
    }

    /// What the record of a call says of its tool.
    pub(crate) fn found(&self, mode: Mode) -> Arc<Found> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = told.as_ref().filter(|(of, _)| *of == mode) {
            return Arc::clone(found);
        }
        let found = Arc::new(Found {
            tool: self.name.to_string(),
            plugin: self.plugin.name.to_string(),
            version: self.tool.version.clone(),
            digest: self.plugin.digest.map(|digest| digest.to_string()),
            effect: self.tool.effect().as_str(),
            mode: mode.to_string(),
        });
        *told = Some((mode, Arc::clone(&found)));
        found
    }

    /// Is it a name of this plugin's tool alone, whoever else has a tool of that name? In lower case.
    pub(crate) fn is_qualified(&self, key: &str) -> bool {
        key.strip_prefix(self.plugin.name.as_str())
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|tool| tool == self.tool.name.as_str())
            || key.contains("__") && key == self.tool.name.qualified(&self.plugin.name).as_str()
    }

    /// The very same, whatever names lead to it today.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counters, &other.counters)
    }

    pub(crate) fn rename(&mut self, name: ToolName) {
        self.keys.retain(|key| key != name.as_str());
        self.name = name;
        self.told = Arc::default();
    }

    /// Nothing that it does to files becomes real before it is known what that is. Whatever else it changes could not
    /// be held back.
    pub(crate) fn holds_back(&self) -> bool {
        self.tool.effect() > Effect::Reads && self.touches_only_files()
    }

    /// It reads files and changes them, and nothing else; what it changes can be held back.
    fn touches_only_files(&self) -> bool {
        self.backend.stages()
            && self.tool.annotations.open_world != Some(true)
            && self.tool.kind != "execute"
            && !self.backend.reaches_out(&self.tool)
    }

    /// Calls of it can run beside others on the files as they are, and again when that was wrong.
    pub(crate) fn can_run_early(&self) -> bool {
        self.touches_only_files()
            && self.tool.annotations.interactive != Some(true)
            && self.tool.concurrency != Concurrency::Exclusive
    }
}
