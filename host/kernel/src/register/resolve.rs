//! Builds a snapshot from the registered tools, independent of the order of registration.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use toolhost_contract::{PluginName, ToolName, Version};

use super::dependencies;
use crate::ab_test::{AbTest, ResolvedAbTest};
use crate::registry::{RegistrySnapshot, Slots, ToolEntry, UnavailableTool, VersionGroup};

pub(super) fn resolve(slots: Slots, tests: &[AbTest]) -> RegistrySnapshot {
    let mut snapshot = RegistrySnapshot::default();
    for (name, slot) in &slots {
        let test = tests.iter().find(|test| test.tool == *name);
        add(&mut snapshot, name, slot, test);
    }
    snapshot.slots = slots;
    let reasons = dependencies::unmet_dependencies(&snapshot.groups, &snapshot.index);
    for (group, reasons) in snapshot.groups.iter_mut().zip(reasons) {
        let mut left_out = remove_unavailable(group, reasons);
        snapshot.unavailable.append(&mut left_out);
        if let Some(served) = &group.served
            && !group.is_variant
        {
            snapshot.entries.push(Arc::clone(served));
        }
    }
    for test in tests {
        match ResolvedAbTest::new(test, &snapshot) {
            Ok(trial) => {
                let trial = Arc::new(trial);
                let names = trial.names().map(str::to_owned).collect::<Vec<_>>();
                let names = names.into_iter().map(|name| (name, Arc::clone(&trial)));
                snapshot.trials.extend(names);
            }
            Err(problem) => snapshot.problems.push(problem),
        }
    }
    snapshot
}

/// Adds the groups of one name: the versions of the tool, and one group per compared plugin.
fn add(
    snapshot: &mut RegistrySnapshot,
    name: &ToolName,
    slot: &[Arc<ToolEntry>],
    test: Option<&AbTest>,
) {
    let Some(owner) = owner(slot, test) else {
        return;
    };
    let own: Vec<&Arc<ToolEntry>> = slot
        .iter()
        .filter(|entry| entry.plugin.name == *owner)
        .collect();
    let keys = own.iter().flat_map(|entry| &entry.keys);
    let mut names: Vec<&str> = keys.map(String::as_str).chain([name.as_str()]).collect();
    names.sort_unstable();
    names.dedup();
    // Qualified names refer only to the tool of their plugin.
    let mut shared = names.clone();
    shared.retain(|name| !own.iter().any(|entry| entry.is_qualified(name)));
    let mut plugins: Vec<&PluginName> = slot.iter().map(|entry| &entry.plugin.name).collect();
    plugins.sort_unstable();
    plugins.dedup();
    for plugin in plugins {
        let stand_in = plugin != owner;
        let entries = slot.iter().filter(|entry| entry.plugin.name == *plugin);
        let mut entries: Vec<Arc<ToolEntry>> = if stand_in {
            entries.map(|entry| variant_of(entry, &shared)).collect()
        } else {
            entries.map(|entry| with_names(entry, &names)).collect()
        };
        entries.sort_by_cached_key(|entry| Reverse(preference(entry)));
        let position = snapshot.groups.len();
        let qualified = entries.iter().flat_map(|entry| {
            let keys = entry.keys.iter();
            keys.filter(|key| entry.is_qualified(key)).cloned()
        });
        let unqualified = names.iter().filter(|_| !stand_in);
        let leads = qualified.chain(unqualified.map(|name| (*name).to_owned()));
        snapshot.index.extend(leads.map(|name| (name, position)));
        snapshot.groups.push(VersionGroup {
            entries,
            served: None,
            is_variant: stand_in,
        });
    }
}

/// Returns the plugin whose tool is listed under the name rather than only as a variant of an A/B test.
fn owner<'a>(slot: &'a [Arc<ToolEntry>], test: Option<&AbTest>) -> Option<&'a PluginName> {
    let named =
        |entry: &Arc<ToolEntry>| test.and_then(|test| test.variant_index(&entry.plugin.name));
    let first = slot
        .iter()
        .min_by_key(|entry| named(entry).map_or(0, |index| index + 1))?;
    Some(&first.plugin.name)
}

/// Gives each version the names of all versions, because a rule may use any of them.
fn with_names(entry: &Arc<ToolEntry>, names: &[&str]) -> Arc<ToolEntry> {
    let missing =
        |name: &&&str| **name != entry.name.as_str() && !entry.keys.iter().any(|key| key == **name);
    let missing: Vec<String> = names
        .iter()
        .filter(missing)
        .map(|name| (*name).to_owned())
        .collect();
    if missing.is_empty() {
        return Arc::clone(entry);
    }
    Arc::new(ToolEntry {
        keys: [entry.keys.as_slice(), &missing].concat(),
        ..ToolEntry::clone(entry)
    })
}

/// Gives a variant the names of the tool that it is compared with, and its own qualified names.
fn variant_of(entry: &Arc<ToolEntry>, shared: &[&str]) -> Arc<ToolEntry> {
    let mut entry = ToolEntry::clone(entry);
    let mut keys = std::mem::take(&mut entry.keys);
    keys.retain(|key| entry.is_qualified(key));
    entry.keys = keys;
    with_names(&Arc::new(entry), shared)
}

/// The sort key for serving a version: enabled, then stable, then highest.
fn preference(entry: &ToolEntry) -> (bool, bool, Version, Version) {
    (
        entry.enabled,
        entry.version.is_stable(),
        entry.version.clone(),
        Version::parse(&entry.plugin.version),
    )
}

/// Removes entries that cannot be called and selects the one that serves the name.
fn remove_unavailable(
    group: &mut VersionGroup,
    reasons: HashMap<usize, String>,
) -> Vec<UnavailableTool> {
    let loaded = group.list();
    let unavailable = |entry: &ToolEntry, reason: String| UnavailableTool {
        tool: entry.name.clone(),
        plugin: entry.plugin.name.clone(),
        version: entry.version.clone(),
        reason,
    };
    let mut left_out = Vec::new();
    let mut available = Vec::with_capacity(group.entries.len());
    for (position, entry) in group.entries.drain(..).enumerate() {
        match reasons.get(&position) {
            Some(reason) => left_out.push(unavailable(&entry, reason.clone())),
            None => available.push(entry),
        }
    }
    group.entries = available;
    let served = group.entries.iter().find(|entry| group.fits(entry));
    group.served = served.cloned();
    // If the pinned version is missing, no other version is served in its place.
    if let (None, Some(entry)) = (&group.served, group.entries.first())
        && let Some(pin) = &entry.pin
    {
        let reason = format!(
            "`[tools.{}] version` is `{pin}`, but only these versions are loaded: {loaded}; load that version or change the key",
            entry.name
        );
        left_out.push(unavailable(entry, reason));
    }
    left_out
}

impl VersionGroup {
    /// Whether the entry may serve the name.
    pub(super) fn fits(&self, entry: &ToolEntry) -> bool {
        self.is_variant
            || entry
                .pin
                .as_ref()
                .is_none_or(|pin| pin.selects(&entry.version))
    }
}
