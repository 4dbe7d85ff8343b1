//! Builds a snapshot from the registered tools, independent of the order of registration.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use toolhost_contract::{PluginName, ToolName, Version};

use super::depends;
use crate::ab::{AbTest, Trial};
use crate::registry::{Entry, Group, LeftOut, Slots, Snapshot};

pub(super) fn resolve(slots: Slots, tests: &[AbTest]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (name, slot) in &slots {
        let test = tests.iter().find(|test| test.tool == *name);
        add(&mut snapshot, name, slot, test);
    }
    snapshot.slots = slots;
    let reasons = depends::unmet(&snapshot.groups, &snapshot.index);
    for (group, reasons) in snapshot.groups.iter_mut().zip(reasons) {
        let mut left_out = leave_out(group, reasons);
        snapshot.left_out.append(&mut left_out);
        if let Some(served) = &group.served
            && !group.stand_in
        {
            snapshot.entries.push(Arc::clone(served));
        }
    }
    for test in tests {
        match Trial::new(test, &snapshot) {
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
fn add(snapshot: &mut Snapshot, name: &ToolName, slot: &[Arc<Entry>], test: Option<&AbTest>) {
    let Some(owner) = owner(slot, test) else {
        return;
    };
    let own: Vec<&Arc<Entry>> = slot
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
        let mut entries: Vec<Arc<Entry>> = if stand_in {
            entries.map(|entry| stand_in_of(entry, &shared)).collect()
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
        snapshot.groups.push(Group {
            entries,
            served: None,
            stand_in,
        });
    }
}

/// Returns the plugin whose tool is listed under the name rather than only as a variant of an A/B test.
fn owner<'a>(slot: &'a [Arc<Entry>], test: Option<&AbTest>) -> Option<&'a PluginName> {
    let named = |entry: &Arc<Entry>| test.and_then(|test| test.place(&entry.plugin.name));
    let first = slot
        .iter()
        .min_by_key(|entry| named(entry).map_or(0, |place| place + 1))?;
    Some(&first.plugin.name)
}

/// Gives each version the names of all versions, because a rule may use any of them.
fn with_names(entry: &Arc<Entry>, names: &[&str]) -> Arc<Entry> {
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
    Arc::new(Entry {
        keys: [entry.keys.as_slice(), &missing].concat(),
        ..Entry::clone(entry)
    })
}

/// Gives a variant the names of the tool that it is compared with, and its own qualified names.
fn stand_in_of(entry: &Arc<Entry>, shared: &[&str]) -> Arc<Entry> {
    let mut entry = Entry::clone(entry);
    let mut keys = std::mem::take(&mut entry.keys);
    keys.retain(|key| entry.is_qualified(key));
    entry.keys = keys;
    with_names(&Arc::new(entry), shared)
}

/// The sort key for serving a version: enabled, then stable, then highest.
fn preference(entry: &Entry) -> (bool, bool, Version, Version) {
    (
        entry.enabled,
        entry.version.is_stable(),
        entry.version.clone(),
        Version::of(&entry.plugin.version),
    )
}

/// Removes entries that cannot be called and selects the one that serves the name.
fn leave_out(group: &mut Group, reasons: HashMap<usize, String>) -> Vec<LeftOut> {
    let loaded = group.list();
    let told = |entry: &Entry, reason: String| LeftOut {
        tool: entry.name.clone(),
        plugin: entry.plugin.name.clone(),
        version: entry.version.clone(),
        reason,
    };
    let mut left_out = Vec::new();
    let mut kept = Vec::with_capacity(group.entries.len());
    for (position, entry) in group.entries.drain(..).enumerate() {
        match reasons.get(&position) {
            Some(reason) => left_out.push(told(&entry, reason.clone())),
            None => kept.push(entry),
        }
    }
    group.entries = kept;
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
        left_out.push(told(entry, reason));
    }
    left_out
}

impl Group {
    /// Whether the entry may serve the name.
    pub(super) fn fits(&self, entry: &Entry) -> bool {
        self.stand_in
            || entry
                .pin
                .as_ref()
                .is_none_or(|pin| pin.means(&entry.version))
    }
}
