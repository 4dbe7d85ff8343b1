//! Listings of the registry for users, models and statistics.

use std::sync::Arc;

use toolhost_contract::policy::{Diagnostic, Policy};
use toolhost_contract::{Descriptor, ToolName};

use super::{RegistrySnapshot, ToolEntry};
use crate::stats::Stats;

/// The status of a tool in the terms of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolInfo {
    pub name: String,
    pub description: String,
    /// `enable` or `disable`.
    pub status: &'static str,
}

impl RegistrySnapshot {
    /// Returns the enabled tools, sorted by name.
    pub fn list(&self) -> impl Iterator<Item = &ToolEntry> {
        self.list_all().filter(|entry| entry.enabled)
    }

    /// Returns the names and descriptors of the enabled tools, sorted by name.
    pub fn descriptors(&self) -> impl Iterator<Item = (&ToolName, &Descriptor)> {
        self.list().map(|entry| (&entry.name, &*entry.tool))
    }

    /// Returns all tools, sorted by name.
    pub fn list_all(&self) -> impl Iterator<Item = &ToolEntry> {
        self.entries.iter().map(Arc::as_ref)
    }

    /// Returns the warnings about rules with respect to all tools.
    pub fn rule_warnings(&self, policy: &Policy) -> Vec<Diagnostic> {
        let tools: Vec<_> = self.list_all().map(ToolEntry::named).collect();
        policy.check(&tools)
    }

    /// Returns the enabled tools, sorted by display name.
    pub fn list_by_display_name(&self) -> Vec<&ToolEntry> {
        let mut entries: Vec<_> = self.list().collect();
        sort_by_display_name(&mut entries);
        entries
    }

    /// Returns the enabled tools of one category, sorted by name.
    pub fn list_by_category(&self, category: &str) -> impl Iterator<Item = &ToolEntry> {
        self.list()
            .filter(move |entry| entry.tool.category == category)
    }

    /// Returns the enabled tools with these names, in the given order; without names, all of them. Unknown names are
    /// ignored.
    pub fn filter(&self, names: Option<&[&str]>) -> Vec<&ToolEntry> {
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
        }
        for group in &self.groups {
            for entry in &group.entries {
                let calls = entry.counters.read();
                let served = group.served.as_ref();
                let name = match served.filter(|served| served.is_same_tool(entry)) {
                    Some(_) if group.is_variant => {
                        format!("{}/{}", entry.plugin.name, entry.tool.name)
                    }
                    Some(_) => entry.name.to_string(),
                    None if group.is_variant => {
                        let (plugin, version) = (&entry.plugin.name, &entry.version);
                        format!("{plugin}/{}@{version}", entry.tool.name)
                    }
                    None => format!("{}@{}", entry.name, entry.version),
                };
                if calls.count > 0 {
                    stats.calls.insert(name, calls);
                }
            }
        }
        let mut trials: Vec<_> = self.trials.values().collect();
        trials.sort_by(|a, b| a.tool.cmp(&b.tool));
        trials.dedup_by(|a, b| Arc::ptr_eq(a, b));
        for trial in trials {
            stats.variants.extend(trial.stats());
        }
        stats
    }
}

pub fn sort_by_display_name(entries: &mut [&ToolEntry]) {
    entries
        .sort_by_cached_key(|entry| (entry.tool.display_name.to_lowercase(), entry.name.clone()));
}
