//! Registered tools and their plugins; the immutable snapshot of all tools is in `snapshot`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use toolhost_contract::lifecycle::ResolvedTool;
use toolhost_contract::policy::{Mode, NamedTool, Policy};
use toolhost_contract::{
    Backend, Concurrency, Descriptor, Digest, Effect, PluginName, ToolHints, ToolName, Version,
    VersionReq,
};
use toolhost_schema::ToolSchemas;

use crate::schedule::Lane;
use crate::stats::Counters;

mod listing;
mod lookup;
mod snapshot;

pub use listing::{ToolInfo, sort_by_display_name};
pub use lookup::UnknownTool;
pub use snapshot::{RegistrySnapshot, UnavailableTool};
pub(crate) use snapshot::{Slots, VersionGroup};

/// The plugin of a tool.
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
pub struct ToolEntry {
    /// The name that callers use. Differs from `tool.name` if it was qualified.
    pub name: ToolName,
    pub plugin: Arc<PluginInfo>,
    pub tool: Arc<Descriptor>,
    /// Version of the tool. Identifies it together with its name and plugin.
    pub version: Version,
    pub enabled: bool,
    /// Whether it is disabled only because its plugin is turned off.
    pub turned_off: bool,
    pub timeout: Duration,
    /// The operator's version requirement for the tool's name.
    pub(crate) pin: Option<VersionReq>,
    /// All other names of the tool, in lower case.
    pub(crate) keys: Vec<String>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) schema: Arc<ToolSchemas>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) lane: Arc<Lane>,
    /// The description that was last used in a record, cached because most calls use one mode.
    pub(crate) found_cache: FoundCache,
}

/// The description of a tool in the record of a call, for one mode.
type FoundCache = Arc<Mutex<Option<(Mode, Arc<ResolvedTool>)>>>;

impl ToolEntry {
    /// Returns the hints for clients.
    pub fn hints(&self) -> ToolHints {
        ToolHints::new(&self.tool, self.backend.effect_bounds(&self.tool))
    }

    /// Returns the permissions that a call with this input requires but was not granted, each with the setting that
    /// grants it.
    pub fn missing_grants(&self, input: &Value) -> Vec<String> {
        self.backend.missing_grants(&self.tool, input)
    }

    /// Returns the tool with its names, as rules match them.
    fn named(&self) -> NamedTool<'_> {
        NamedTool {
            plugin: &self.plugin.name,
            name: &self.name,
            tool: &self.tool,
            aliases: &self.keys,
        }
    }

    /// Whether a rule denies every call of the tool. Such tools are not listed.
    pub fn is_forbidden(&self, policy: &Policy) -> bool {
        policy.always_denies(self.named())
    }

    /// Returns the description of the tool for the record of a call.
    pub(crate) fn found(&self, mode: Mode) -> Arc<ResolvedTool> {
        let mut cached = self
            .found_cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = cached.as_ref().filter(|(of, _)| *of == mode) {
            return Arc::clone(found);
        }
        let found = Arc::new(ResolvedTool {
            tool: self.name.to_string(),
            plugin: self.plugin.name.to_string(),
            version: self.tool.version.clone(),
            digest: self.plugin.digest.map(|digest| digest.to_string()),
            effect: self.tool.effect().as_str(),
            mode: mode.to_string(),
            sources: self
                .tool
                .sources
                .iter()
                .map(|source| source.as_str())
                .collect(),
            destinations: Vec::new(),
        });
        *cached = Some((mode, Arc::clone(&found)));
        found
    }

    /// Whether the lower-case name can only refer to the tool of this plugin.
    pub(crate) fn is_qualified(&self, key: &str) -> bool {
        key.strip_prefix(self.plugin.name.as_str())
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|tool| tool == self.tool.name.as_str())
            || key.contains("__") && key == self.tool.name.qualified(&self.plugin.name).as_str()
    }

    /// Disables the tool until its plugin is turned on.
    pub(crate) fn turn_off(&mut self) {
        self.turned_off |= std::mem::take(&mut self.enabled);
    }

    pub(crate) fn turn_on(&mut self) {
        self.enabled |= std::mem::take(&mut self.turned_off);
    }

    /// Whether both entries are the same tool, whatever their current names.
    pub(crate) fn is_same_tool(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counters, &other.counters)
    }

    pub(crate) fn rename(&mut self, name: ToolName) {
        self.keys.retain(|key| key != name.as_str());
        self.name = name;
        self.found_cache = Arc::default();
    }

    /// Whether file changes of the tool are staged until they are evaluated. Other effects cannot be staged.
    pub fn stages_changes(&self) -> bool {
        self.tool.effect() > Effect::Reads && self.is_files_only()
    }

    /// Whether the tool only reads and changes files, so that all its effects can be staged.
    fn is_files_only(&self) -> bool {
        self.backend.supports_staging()
            && self.tool.annotations.open_world != Some(true)
            && self.tool.kind != "execute"
            && !self.works_through_calls()
            && !self.backend.has_external_effects(&self.tool)
    }

    /// Whether the tool can call other tools or sub-agents. These calls are authorized separately, and have effects that
    /// cannot be staged. Read-only tools can only list them.
    pub(crate) fn works_through_calls(&self) -> bool {
        let (tool, others) = (&self.tool, ["tools", "agents"]);
        tool.effect() > Effect::Reads && others.iter().any(|name| tool.requires_capability(name))
    }

    /// Whether calls can run concurrently on the current files and run again after a conflict.
    pub(crate) fn can_run_early(&self) -> bool {
        self.is_files_only()
            && self.tool.annotations.interactive != Some(true)
            && self.tool.concurrency != Concurrency::Exclusive
    }
}
