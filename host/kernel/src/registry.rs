//! Which tools there are: an immutable picture that calls, listings and statistics read without a lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::profile::{Lens, Others, Profile};
use toolhost_contract::{
    Backend, Concurrency, Descriptor, Digest, Effect, PluginName, ToolName, nearest, text,
};

use crate::schedule::Lane;
use crate::schema::Schema;
use crate::stats::{Counters, Stats};

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
    pub enabled: bool,
    /// From the configuration or the plugin, before the tool's own wish.
    pub timeout: Option<Duration>,
    /// Every other name that leads here, in lower case.
    pub(crate) keys: Vec<String>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) lane: Arc<Lane>,
}

impl Entry {
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
    }

    /// Calls of it can run beside others on the files as they are, and again when that was wrong.
    pub(crate) fn can_run_early(&self) -> bool {
        self.touches_only_files()
            && self.tool.annotations.interactive != Some(true)
            && self.tool.concurrency != Concurrency::Exclusive
    }
}

/// The status of a tool in the words of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolInfo {
    pub name: String,
    pub description: String,
    /// `enable` or `disable`.
    pub status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Tool \"{name}\" not found{}", did_you_mean(nearest))]
pub struct UnknownTool {
    /// Escaped and cut, because a model chose it.
    pub name: String,
    pub nearest: Vec<String>,
}

fn did_you_mean(nearest: &[String]) -> String {
    if nearest.is_empty() {
        String::new()
    } else {
        format!(". Did you mean: {}?", nearest.join(", "))
    }
}

/// All tools of one moment. Keep it as long as you like: it does not change.
#[derive(Default)]
pub struct Snapshot {
    /// Sorted by name.
    entries: Vec<Arc<Entry>>,
    /// Position by name or key. No two entries share one, so the order of the ways to find a tool does not matter.
    index: HashMap<String, usize>,
}

impl Snapshot {
    pub(crate) fn of(entries: BTreeMap<ToolName, Arc<Entry>>) -> Self {
        let entries: Vec<_> = entries.into_values().collect();
        let mut index = HashMap::new();
        for (position, entry) in entries.iter().enumerate() {
            index.insert(entry.name.as_str().to_owned(), position);
            index.extend(entry.keys.iter().map(|key| (key.clone(), position)));
        }
        Self { entries, index }
    }

    pub(crate) fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// By name, by alias, by `plugin/tool` or `plugin__tool`, in any case.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.find(name).map(Arc::as_ref)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Entry>> {
        let position = self
            .index
            .get(name)
            .or_else(|| self.index.get(&name.to_lowercase()))?;
        self.entries.get(*position)
    }

    /// Is there such a tool, enabled or not?
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The enabled tools, sorted by name.
    pub fn list(&self) -> impl Iterator<Item = &Entry> {
        self.list_all().filter(|entry| entry.enabled)
    }

    /// The enabled tools as another system's model sees them.
    pub fn lens(&self, profile: Profile, others: Others) -> Lens<'_> {
        Lens::new(
            profile,
            others,
            self.list().map(|entry| (&entry.name, &*entry.tool)),
        )
    }

    /// Every tool, sorted by name.
    pub fn list_all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(Arc::as_ref)
    }

    /// The enabled tools as people look for them.
    pub fn list_by_display_name(&self) -> Vec<&Entry> {
        let mut entries: Vec<_> = self.list().collect();
        entries.sort_by_cached_key(|entry| {
            (entry.tool.display_name.to_lowercase(), entry.name.clone())
        });
        entries
    }

    /// The enabled tools of one category, sorted by name.
    pub fn list_by_category(&self, category: &str) -> impl Iterator<Item = &Entry> {
        self.list()
            .filter(move |entry| entry.tool.category == category)
    }

    /// The enabled tools that are named, in the order of their names; without names, all of them. A name that no
    /// tool has is passed over.
    pub fn filter(&self, names: Option<&[&str]>) -> Vec<&Entry> {
        let Some(names) = names else {
            return self.list().collect();
        };
        let mut entries: Vec<_> = names
            .iter()
            .filter_map(|name| self.get(name))
            .filter(|entry| entry.enabled)
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.dedup_by(|a, b| a.name == b.name);
        entries
    }

    pub fn infos(&self) -> Vec<ToolInfo> {
        self.list_all()
            .map(|entry| ToolInfo {
                name: entry.name.to_string(),
                description: entry.tool.description.clone(),
                status: if entry.enabled { "enable" } else { "disable" },
            })
            .collect()
    }

    /// At most three names of enabled tools that look like `name` or have an alias that does.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        let spellings = self.list().flat_map(|entry| {
            entry
                .tool
                .aliases
                .iter()
                .map(String::as_str)
                .chain([entry.name.as_str()])
        });
        let mut names = Vec::new();
        for entry in nearest(name, spellings, 12)
            .into_iter()
            .filter_map(|spelling| self.get(spelling))
        {
            let name = entry.name.to_string();
            if names.len() < 3 && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            total: self.entries.len(),
            ..Stats::default()
        };
        for entry in &self.entries {
            *stats
                .by_category
                .entry(entry.tool.category.clone())
                .or_default() += 1;
            let calls = entry.counters.read();
            if calls.count > 0 {
                stats.calls.insert(entry.name.to_string(), calls);
            }
        }
        stats
    }

    /// What to say of a name that leads nowhere.
    pub fn unknown(&self, name: &str) -> UnknownTool {
        UnknownTool {
            name: text::inline(name, 80),
            nearest: self.nearest(name),
        }
    }
}
