//! All tools of one moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use toolhost_contract::{PluginName, ToolName, Version};

use super::Entry;
use crate::ab::Trial;

/// Everything that was registered, by name: versions of a tool, and what is compared with it.
pub(crate) type Slots = BTreeMap<ToolName, Vec<Arc<Entry>>>;

/// Keep it as long as you like: it does not change.
#[derive(Default)]
pub struct Snapshot {
    /// Who answers to a name of its own, sorted by name.
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) groups: Vec<Group>,
    /// Position of the group by name or key, in lower case. No two groups share one, so the order of the ways to find
    /// a tool does not matter.
    pub(crate) index: HashMap<String, usize>,
    /// By the names that do not say which implementation is meant.
    pub(crate) trials: HashMap<String, Arc<Trial>>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) problems: Vec<String>,
    /// As it was before anything was decided, for the next snapshot.
    pub(crate) slots: Slots,
}

/// The versions of one plugin's tool.
pub(crate) struct Group {
    /// The preferred one first.
    pub entries: Vec<Arc<Entry>>,
    /// Of these: the one that answers to the name.
    pub served: Option<Arc<Entry>>,
    /// Stands in for another plugin's tool in a comparison, and is not listed.
    pub stand_in: bool,
}

/// A tool that was loaded and cannot be called, because something that it needs is missing.
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
            "tool `{tool}` {version} of plugin `{plugin}` is left out: {reason}"
        )
    }
}

impl Snapshot {
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The tools that cannot be called because something that they need is missing, sorted by name.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Every name that was registered, sorted, also of what is left out.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.slots.keys()
    }

    /// What the operator wants compared and cannot be; calls go to the tool that is listed.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Everything that has the tool's name and can be called: its versions, the preferred one first, and what is
    /// compared with it.
    pub fn versions(&self, name: &ToolName) -> impl Iterator<Item = &Entry> {
        let groups = self.groups.iter();
        groups
            .flat_map(|group| &group.entries)
            .filter(move |entry| entry.name == *name)
            .map(Arc::as_ref)
    }

    /// Does it answer to its name, or only where its version or plugin is written with it?
    pub fn serves(&self, entry: &Entry) -> bool {
        let served = self.entries.iter();
        let mut served = served.filter(|served| served.name == entry.name);
        served.any(|served| served.is(entry))
    }
}
