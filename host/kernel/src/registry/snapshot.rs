//! An immutable snapshot of the registry.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use toolhost_contract::{PluginName, ToolName, Version};

use super::ToolEntry;
use crate::ab_test::ResolvedAbTest;

/// All registered tools by name, with their versions and A/B test variants.
pub(crate) type Slots = BTreeMap<ToolName, Vec<Arc<ToolEntry>>>;

/// The tools at one point in time. Does not change.
#[derive(Default)]
pub struct RegistrySnapshot {
    /// Tools that are served under their own name, sorted by name.
    pub(crate) entries: Vec<Arc<ToolEntry>>,
    pub(crate) groups: Vec<VersionGroup>,
    /// Index of the group for each name or key, in lower case. Names are unique across groups, so lookup order does not
    /// matter.
    pub(crate) index: HashMap<String, usize>,
    /// A/B tests by the names that do not select an implementation.
    pub(crate) trials: HashMap<String, Arc<ResolvedAbTest>>,
    pub(crate) unavailable: Vec<UnavailableTool>,
    pub(crate) problems: Vec<String>,
    /// The registered tools before resolution, for the next snapshot.
    pub(crate) slots: Slots,
    /// Plugins whose tools are disabled, also those that they register later.
    pub(crate) turned_off: BTreeSet<PluginName>,
}

/// The versions of one plugin's tool.
pub(crate) struct VersionGroup {
    /// The preferred version first.
    pub entries: Vec<Arc<ToolEntry>>,
    /// The entry that serves the name.
    pub served: Option<Arc<ToolEntry>>,
    /// A variant from another plugin in an A/B test, which is not listed.
    pub is_variant: bool,
}

/// A loaded tool that cannot be called, because a dependency is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnavailableTool {
    pub tool: ToolName,
    pub plugin: PluginName,
    pub version: Version,
    pub reason: String,
}

impl std::fmt::Display for UnavailableTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            tool,
            plugin,
            version,
            reason,
        } = self;
        write!(
            f,
            "tool `{tool}` {version} of plugin `{plugin}` is unavailable: {reason}"
        )
    }
}

impl RegistrySnapshot {
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Returns the tools that cannot be called because a dependency is missing, sorted by name.
    pub fn unavailable(&self) -> &[UnavailableTool] {
        &self.unavailable
    }

    /// Whether the tools of the plugin are disabled until it is turned on.
    pub fn is_turned_off(&self, plugin: &PluginName) -> bool {
        self.turned_off.contains(plugin)
    }

    /// Returns all registered names, sorted, including those of unavailable tools.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.slots.keys()
    }

    /// Returns the problems of A/B tests that cannot run; their calls go to the listed tool.
    pub fn ab_test_problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns all callable entries with the tool's name: its versions, the preferred one first, and the variants of
    /// its A/B test.
    pub fn versions(&self, name: &ToolName) -> impl Iterator<Item = &ToolEntry> {
        let groups = self.groups.iter();
        groups
            .flat_map(|group| &group.entries)
            .filter(move |entry| entry.name == *name)
            .map(Arc::as_ref)
    }

    /// Whether the entry is served under its name alone, without a version or plugin.
    pub fn is_served(&self, entry: &ToolEntry) -> bool {
        let served = self.entries.iter();
        let mut served = served.filter(|served| served.name == entry.name);
        served.any(|served| served.is_same_tool(entry))
    }
}
