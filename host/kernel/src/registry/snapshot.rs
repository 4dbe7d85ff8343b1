//! An immutable snapshot of the registry.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use toolhost_contract::{PluginName, ToolName, Version};

use super::Entry;
use crate::ab::Trial;

/// All registered tools by name, with their versions and A/B test variants.
pub(crate) type Slots = BTreeMap<ToolName, Vec<Arc<Entry>>>;

/// The tools at one point in time. Does not change.
#[derive(Default)]
pub struct Snapshot {
    /// Tools that are served under their own name, sorted by name.
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) groups: Vec<Group>,
    /// Index of the group for each name or key, in lower case. Names are unique across groups, so lookup order does not
    /// matter.
    pub(crate) index: HashMap<String, usize>,
    /// A/B tests by the names that do not select an implementation.
    pub(crate) trials: HashMap<String, Arc<Trial>>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) problems: Vec<String>,
    /// The registered tools before resolution, for the next snapshot.
    pub(crate) slots: Slots,
}

/// The versions of one plugin's tool.
pub(crate) struct Group {
    /// The preferred version first.
    pub entries: Vec<Arc<Entry>>,
    /// The entry that serves the name.
    pub served: Option<Arc<Entry>>,
    /// A variant from another plugin in an A/B test, which is not listed.
    pub stand_in: bool,
}

/// A loaded tool that cannot be called, because a dependency is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub tool: ToolName,
    pub plugin: PluginName,
    pub version: Version,
    pub reason: String,
}

impl std::fmt::Display for LeftOut {
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

impl Snapshot {
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Returns the tools that cannot be called because a dependency is missing, sorted by name.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Returns all registered names, sorted, including those of unavailable tools.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.slots.keys()
    }

    /// Returns the problems of A/B tests that cannot run; their calls go to the listed tool.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns all callable entries with the tool's name: its versions, the preferred one first, and the variants of
    /// its A/B test.
    pub fn versions(&self, name: &ToolName) -> impl Iterator<Item = &Entry> {
        let groups = self.groups.iter();
        groups
            .flat_map(|group| &group.entries)
            .filter(move |entry| entry.name == *name)
            .map(Arc::as_ref)
    }

    /// Whether the entry is served under its name alone, without a version or plugin.
    pub fn serves(&self, entry: &Entry) -> bool {
        let served = self.entries.iter();
        let mut served = served.filter(|served| served.name == entry.name);
        served.any(|served| served.is(entry))
    }
}
