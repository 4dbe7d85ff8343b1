//! A draft of the next registry snapshot, in which conflicts between names are resolved.
//!
//! A name is a slot. Versions of one plugin's tool share its slot; a tool of another plugin shares it only in an A/B
//! test. Any other tool with the name is a conflict.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use toolhost_contract::{PluginName, ToolName, text};

use super::{PreparedPlugin, RegisterError, resolve, selects};
use crate::registry::{RegistrySnapshot, Slots, ToolEntry};
use crate::{KernelSettings, OnDuplicate, PluginInfo};

pub(crate) struct Draft<'a> {
    slots: Slots,
    /// The slot of each name and key.
    owners: HashMap<String, ToolName>,
    turned_off: BTreeSet<PluginName>,
    settings: &'a KernelSettings,
}

impl<'a> Draft<'a> {
    pub(crate) fn from(snapshot: &RegistrySnapshot, settings: &'a KernelSettings) -> Self {
        let mut draft = Self {
            slots: BTreeMap::new(),
            owners: HashMap::new(),
            turned_off: snapshot.turned_off.clone(),
            settings,
        };
        for entry in snapshot.slots().values().flatten() {
            draft.put(Arc::clone(entry));
        }
        draft
    }

    pub(crate) fn finish(self) -> RegistrySnapshot {
        RegistrySnapshot {
            turned_off: self.turned_off,
            ..resolve::resolve(self.slots, &self.settings.ab_tests)
        }
    }

    /// Adds the tools of a plugin and returns their names. Unchanged on error.
    pub(crate) fn add_plugin(
        &mut self,
        prepared: PreparedPlugin,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<ToolName>, RegisterError> {
        let PreparedPlugin {
            plugin,
            mut entries,
        } = prepared;
        let on_duplicate = self.settings.on_duplicate;
        let known = self.entries().any(|entry| is_version(entry, &plugin));
        if known && on_duplicate != OnDuplicate::Replace {
            return Err(RegisterError::AlreadyRegistered(plugin.name.clone()));
        }
        if known {
            self.remove_version(&plugin);
            warnings.push(format!(
                "plugin `{}` was already registered and is replaced",
                plugin.name
            ));
        }
        let siblings = self.siblings(&plugin.name);
        for entry in &mut entries {
            if let Some(slot) = siblings.get(&entry.tool.name) {
                entry.rename(slot.clone());
            }
        }
        let (at_home, newcomers): (Vec<&mut ToolEntry>, Vec<&mut ToolEntry>) =
            entries.iter_mut().partition(|entry| {
                siblings.contains_key(&entry.tool.name) || self.joins_ab_test(entry)
            });
        match on_duplicate {
            OnDuplicate::Error => {
                for entry in at_home {
                    self.refuse_taken(entry, &entry.keys)?;
                }
                for entry in newcomers {
                    self.refuse_taken(entry, [&entry.name.to_string()])?;
                    self.refuse_taken(entry, &entry.keys)?;
                }
            }
            OnDuplicate::Qualify => {
                for entry in newcomers {
                    self.qualify(entry, warnings)?;
                }
            }
            OnDuplicate::Replace => {
                for entry in newcomers {
                    self.replace_owner(entry, warnings);
                }
            }
        }
        self.warn_versions(&plugin, &entries, warnings);
        let names = entries.iter().map(|entry| entry.name.clone()).collect();
        for entry in &entries {
            self.take_alias(entry, warnings);
        }
        for mut entry in entries {
            self.drop_taken_keys(&mut entry, warnings);
            // By the final name, because a qualified tool is not the one that the operator listed.
            entry.enabled &= is_chosen(self.settings, &entry);
            if self.turned_off.contains(&entry.plugin.name) {
                entry.turn_off();
            }
            self.put(Arc::new(entry));
        }
        Ok(names)
    }

    /// Adds the tools of a plugin in place of those of `old`. On error the draft has to be discarded.
    pub(crate) fn replace_plugin(
        &mut self,
        old: &PluginInfo,
        mut prepared: PreparedPlugin,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<ToolName>, RegisterError> {
        let known = self.entries().filter(|entry| is_version(entry, old));
        let known: Vec<Arc<ToolEntry>> = known.cloned().collect();
        for entry in &mut prepared.entries {
            // Serial calls of both versions still run one after the other, and a disabled tool stays disabled.
            if let Some(any) = known.first() {
                entry.lane = Arc::clone(&any.lane);
            }
            let same = known
                .iter()
                .find(|known| known.tool.name == entry.tool.name);
            if let Some(same) = same {
                entry.counters = Arc::clone(&same.counters);
            }
            entry.enabled &= same.is_none_or(|same| same.enabled || same.turned_off);
        }
        self.remove_version(old);
        self.add_plugin(prepared, warnings)
    }

    /// Returns the slots of other versions of the plugin, keyed by the names that the tools declare.
    fn siblings(&self, plugin: &PluginName) -> HashMap<ToolName, ToolName> {
        self.entries()
            .filter(|entry| entry.plugin.name == *plugin)
            .map(|entry| (entry.tool.name.clone(), entry.name.clone()))
            .collect()
    }

    /// Whether an A/B test compares the entry with the tool that has its name.
    fn joins_ab_test(&self, entry: &ToolEntry) -> bool {
        let tests = self
            .settings
            .ab_tests
            .iter()
            .filter(|test| test.tool == entry.name);
        let slot = self.slots.get(&entry.name);
        slot.is_some_and(|slot| {
            tests.into_iter().any(|test| {
                test.includes(&entry.plugin.name)
                    || slot.iter().all(|other| test.includes(&other.plugin.name))
            })
        })
    }

    fn refuse_taken<'n>(
        &self,
        entry: &ToolEntry,
        names: impl IntoIterator<Item = &'n String>,
    ) -> Result<(), RegisterError> {
        names.into_iter().try_for_each(|name| {
            self.conflicting_owner(entry, name)
                .map_or(Ok(()), |owner| Err(duplicate(entry, name, owner)))
        })
    }

    /// Returns the owner of the name if it is of another plugin and in another slot.
    fn conflicting_owner(&self, entry: &ToolEntry, name: &str) -> Option<&Arc<ToolEntry>> {
        let slot = self.owners.get(name)?;
        let tenants = self.slots.get(slot)?;
        let at_home = *slot == entry.name && self.joins_ab_test(entry)
            || tenants
                .iter()
                .any(|other| other.plugin.name == entry.plugin.name);
        tenants.first().filter(|_| !at_home)
    }

    fn qualify(
        &self,
        entry: &mut ToolEntry,
        warnings: &mut Vec<String>,
    ) -> Result<(), RegisterError> {
        let Some(owner) = self.conflicting_owner(entry, entry.name.as_str()) else {
            return Ok(());
        };
        let qualified = entry.name.qualified(&entry.plugin.name);
        if let Some(owner) = self.conflicting_owner(entry, qualified.as_str()) {
            return Err(duplicate(entry, qualified.as_str(), owner));
        }
        warnings.push(format!(
            "plugin `{}` already has the name `{}`, so the tool of plugin `{}` is named `{qualified}`",
            owner.plugin.name, entry.name, entry.plugin.name
        ));
        entry.rename(qualified);
        Ok(())
    }

    /// Removes the current owner of the entry's name.
    fn replace_owner(&mut self, entry: &ToolEntry, warnings: &mut Vec<String>) {
        let Some(owner) = self.conflicting_owner(entry, entry.name.as_str()).cloned() else {
            return;
        };
        if owner.name == entry.name {
            self.slots.remove(&owner.name);
            self.owners.retain(|_, slot| *slot != owner.name);
            warnings.push(format!(
                "tool `{}` of plugin `{}` replaces that of plugin `{}`",
                entry.name, entry.plugin.name, owner.plugin.name
            ));
        }
    }

    /// Removes an alias that equals the entry's name, if the operator chose so or both are of one plugin.
    fn take_alias(&mut self, entry: &ToolEntry, warnings: &mut Vec<String>) {
        let name = entry.name.as_str();
        let Some(slot) = self.owners.get(name).filter(|slot| **slot != entry.name) else {
            return;
        };
        for owner in self.slots.get_mut(slot).into_iter().flatten() {
            if !owner.keys.iter().any(|key| key == name) {
                continue;
            }
            let owner = Arc::make_mut(owner);
            owner.keys.retain(|key| key != name);
            // The lists may have selected it by this alias.
            owner.enabled &= is_chosen(self.settings, owner);
            warnings.push(format!(
                "`{name}` is now a tool of plugin `{}` and no longer an alias of `{}` of plugin `{}`",
                entry.plugin.name, owner.name, owner.plugin.name
            ));
        }
        self.owners.remove(name);
    }

    /// Drops aliases of the entry that are in use: an alias never replaces another name.
    fn drop_taken_keys(&self, entry: &mut ToolEntry, warnings: &mut Vec<String>) {
        let (name, plugin) = (entry.name.clone(), Arc::clone(&entry.plugin));
        entry.keys.retain(|key| {
            let slot = self.owners.get(key).filter(|slot| **slot != name);
            let Some(owner) = slot.and_then(|slot| self.slots.get(slot)?.first()) else {
                return true;
            };
            warnings.push(format!(
                "`{}` refers to tool `{}` of plugin `{}` and is not an alias of `{name}` of plugin `{}`",
                text::escape_line(key, 80),
                owner.name,
                owner.plugin.name,
                plugin.name
            ));
            false
        });
    }

    /// Warns that the version that serves a name depends on the installed files, unless the operator has chosen one.
    fn warn_versions(
        &self,
        plugin: &PluginInfo,
        entries: &[ToolEntry],
        warnings: &mut Vec<String>,
    ) {
        let chosen = |entry: &ToolEntry| {
            entry.pin.is_some()
                || self
                    .settings
                    .ab_tests
                    .iter()
                    .any(|test| test.tool == entry.name)
        };
        let left_open = entries.iter().find(|entry| {
            let mut others = self.slots.get(&entry.name).into_iter().flatten();
            !chosen(entry) && others.any(|other| other.plugin.name == plugin.name)
        });
        if let Some(entry) = left_open {
            warnings.push(format!(
                "several versions of plugin `{}` are loaded, and the highest serves `{}` and its other tools; \
                 set `[tools.{}] version` to choose one",
                plugin.name, entry.name, entry.name
            ));
        }
    }

    /// Enables or disables the tools in a slot for which `which` returns true.
    pub(crate) fn set_enabled(
        &mut self,
        slot: &ToolName,
        which: impl Fn(&ToolEntry) -> bool,
        enabled: bool,
    ) {
        for entry in self.slots.get_mut(slot).into_iter().flatten() {
            if which(entry) {
                let entry = Arc::make_mut(entry);
                entry.enabled = enabled;
                entry.turned_off = false;
            }
        }
    }

    /// Disables the enabled tools of a plugin, and those that it registers from now on.
    pub(crate) fn turn_off(&mut self, plugin: &PluginName) {
        self.turned_off.insert(plugin.clone());
        self.update_plugin(plugin, ToolEntry::turn_off);
    }

    /// Enables the tools that [`Draft::turn_off`] has disabled.
    pub(crate) fn turn_on(&mut self, plugin: &PluginName) {
        self.turned_off.remove(plugin);
        self.update_plugin(plugin, ToolEntry::turn_on);
    }

    fn update_plugin(&mut self, plugin: &PluginName, update: fn(&mut ToolEntry)) {
        for entry in self.slots.values_mut().flatten() {
            if entry.plugin.name == *plugin {
                update(Arc::make_mut(entry));
            }
        }
    }

    /// Removes a plugin. Returns whether it existed.
    pub(crate) fn remove(&mut self, plugin: &PluginName) -> bool {
        self.remove_where(|entry| entry.plugin.name == *plugin)
    }

    /// Removes one version of a plugin. Returns whether it existed.
    pub(crate) fn remove_version(&mut self, plugin: &PluginInfo) -> bool {
        self.remove_where(|entry| is_version(entry, plugin))
    }

    fn remove_where(&mut self, gone: impl Fn(&ToolEntry) -> bool) -> bool {
        let before = self.entries().count();
        let slots = std::mem::take(&mut self.slots);
        self.owners.clear();
        for entry in slots.into_values().flatten() {
            if !gone(&entry) {
                self.put(entry);
            }
        }
        self.entries().count() < before
    }

    fn entries(&self) -> impl Iterator<Item = &Arc<ToolEntry>> {
        self.slots.values().flatten()
    }

    fn put(&mut self, entry: Arc<ToolEntry>) {
        let names = entry.keys.iter().cloned().chain([entry.name.to_string()]);
        self.owners
            .extend(names.map(|name| (name, entry.name.clone())));
        self.slots
            .entry(entry.name.clone())
            .or_default()
            .push(entry);
    }
}

/// Whether the operator's lists of tools contain the entry.
fn is_chosen(settings: &KernelSettings, entry: &ToolEntry) -> bool {
    let mut lists = settings.only_tools.iter();
    lists.all(|list| {
        let mut names = list.iter();
        names.any(|name| selects(name, &entry.name, &entry.keys, &entry.version))
    })
}

fn is_version(entry: &ToolEntry, plugin: &PluginInfo) -> bool {
    entry.plugin.name == plugin.name && entry.plugin.version == plugin.version
}

fn duplicate(entry: &ToolEntry, name: &str, owner: &ToolEntry) -> RegisterError {
    RegisterError::Duplicate {
        plugin: entry.plugin.name.clone(),
        name: text::escape_line(name, 80),
        owner: owner.plugin.name.clone(),
        tool: owner.name.clone(),
        qualified: entry.tool.name.qualified(&entry.plugin.name),
    }
}
