//! How tools enter the registry: all tools of a plugin or none, and never a name that silently changes its owner.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use toolhost_contract::{Backend, PluginName, ToolName, text};

use crate::registry::{Entry, PluginInfo, Snapshot};
use crate::schema::{Schema, SchemaError};
use crate::{OnDuplicate, Settings};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    #[error(
        "plugin `{plugin}` brings the name `{name}`, which tool `{tool}` of plugin `{owner}` has already; leave out \
         one of the two plugins, or set on_duplicate to `replace` (the later tool takes the name) or `qualify` (the \
         later tool is called `{qualified}`)"
    )]
    Duplicate {
        plugin: PluginName,
        name: String,
        owner: PluginName,
        tool: ToolName,
        qualified: ToolName,
    },
    #[error(
        "plugin `{plugin}` uses the name `{name}` twice; names and aliases of its tools must differ, also when case \
         is ignored"
    )]
    Twice { plugin: PluginName, name: String },
    #[error(
        "plugin `{0}` is registered already; unregister it first, or set on_duplicate to `replace`"
    )]
    Registered(PluginName),
    #[error("plugin `{plugin}`, tool `{tool}`: {error}")]
    Schema {
        plugin: PluginName,
        tool: ToolName,
        error: SchemaError,
    },
}

/// The tools of one plugin with everything slow done, so that the registry is locked only for the placing.
pub(crate) struct Prepared {
    plugin: PluginName,
    entries: Vec<Entry>,
}

/// Compiles the schemas and looks up the settings of each tool.
pub(crate) fn prepare(
    settings: &Settings,
    plugin: PluginInfo,
    backend: &Arc<dyn Backend>,
) -> Result<Prepared, RegisterError> {
    let plugin = Arc::new(plugin);
    let lane = Arc::default();
    let mut entries = Vec::with_capacity(backend.tools().len());
    let mut spoken_for = BTreeSet::new();
    for tool in backend.tools() {
        let schema = Schema::compile(tool).map_err(|error| RegisterError::Schema {
            plugin: plugin.name.clone(),
            tool: tool.name.clone(),
            error,
        })?;
        let name = tool.name.clone();
        let keys = keys(&plugin.name, &name, &tool.aliases);
        for key in [name.as_str()]
            .into_iter()
            .chain(keys.iter().map(String::as_str))
        {
            if !spoken_for.insert(key.to_owned()) {
                return Err(RegisterError::Twice {
                    plugin: plugin.name.clone(),
                    name: text::inline(key, 80),
                });
            }
        }
        let named = |word: &str| {
            let word = word.to_lowercase();
            word == name.as_str() || keys.contains(&word)
        };
        let own_timeout = settings
            .tool_timeouts
            .iter()
            .find(|(word, _)| named(word))
            .map(|(_, timeout)| *timeout);
        entries.push(Entry {
            enabled: !settings.disabled_tools.iter().any(|word| named(word)),
            timeout: own_timeout.or(plugin.timeout).or(settings.timeout),
            plugin: Arc::clone(&plugin),
            tool: Arc::new(tool.clone()),
            backend: Arc::clone(backend),
            schema: Arc::new(schema),
            counters: Arc::default(),
            lane: Arc::clone(&lane),
            keys,
            name,
        });
    }
    Ok(Prepared {
        plugin: plugin.name.clone(),
        entries,
    })
}

/// Every name of a tool besides its own, in lower case, each once.
fn keys(plugin: &PluginName, name: &ToolName, aliases: &[String]) -> Vec<String> {
    let mut keys = vec![
        format!("{plugin}/{name}"),
        name.qualified(plugin).to_string(),
    ];
    for alias in aliases.iter().map(|alias| alias.to_lowercase()) {
        if !alias.is_empty() && alias != name.as_str() && !keys.contains(&alias) {
            keys.push(alias);
        }
    }
    keys
}

/// A registry on its way from one snapshot to the next.
pub(crate) struct Draft {
    entries: BTreeMap<ToolName, Arc<Entry>>,
    /// Who has which name or key.
    owners: HashMap<String, ToolName>,
}

impl Draft {
    pub(crate) fn from(snapshot: &Snapshot) -> Self {
        let mut draft = Self {
            entries: BTreeMap::new(),
            owners: HashMap::new(),
        };
        for entry in snapshot.entries() {
            draft.put(Arc::clone(entry));
        }
        draft
    }

    pub(crate) fn finish(self) -> Snapshot {
        Snapshot::of(self.entries)
    }

    /// Returns the names under which the tools can be called. On an error nothing has changed.
    pub(crate) fn place(
        &mut self,
        prepared: Prepared,
        on_duplicate: OnDuplicate,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<ToolName>, RegisterError> {
        let Prepared {
            plugin,
            mut entries,
        } = prepared;
        let known = self
            .entries
            .values()
            .any(|entry| entry.plugin.name == plugin);
        match on_duplicate {
            OnDuplicate::Error | OnDuplicate::Qualify if known => {
                return Err(RegisterError::Registered(plugin));
            }
            OnDuplicate::Error => entries
                .iter()
                .try_for_each(|entry| self.refuse_duplicates(entry))?,
            OnDuplicate::Qualify => entries
                .iter_mut()
                .try_for_each(|entry| self.qualify(entry, warnings))?,
            OnDuplicate::Replace => {
                if self.remove(&plugin) {
                    warnings.push(format!(
                        "plugin `{plugin}` was registered already and is replaced"
                    ));
                }
                for entry in &entries {
                    self.evict(entry, warnings);
                }
            }
        }
        let names = entries.iter().map(|entry| entry.name.clone()).collect();
        for mut entry in entries {
            self.drop_taken_keys(&mut entry, warnings);
            self.put(Arc::new(entry));
        }
        Ok(names)
    }

    fn refuse_duplicates(&self, entry: &Entry) -> Result<(), RegisterError> {
        let mut names = [entry.name.as_str()]
            .into_iter()
            .chain(entry.keys.iter().map(String::as_str));
        names.try_for_each(|name| {
            self.owner(name)
                .map_or(Ok(()), |owner| Err(duplicate(entry, name, owner)))
        })
    }

    fn qualify(&self, entry: &mut Entry, warnings: &mut Vec<String>) -> Result<(), RegisterError> {
        let Some(owner) = self.owner(entry.name.as_str()) else {
            return Ok(());
        };
        let qualified = entry.name.qualified(&entry.plugin.name);
        if let Some(owner) = self.owner(qualified.as_str()) {
            return Err(duplicate(entry, qualified.as_str(), owner));
        }
        warnings.push(format!(
            "plugin `{}` has the name `{}` already, so that of plugin `{}` is called `{qualified}`",
            owner.plugin.name, entry.name, entry.plugin.name
        ));
        entry.keys.retain(|key| key != qualified.as_str());
        entry.name = qualified;
        Ok(())
    }

    /// Takes the entry's name away from whoever has it.
    fn evict(&mut self, entry: &Entry, warnings: &mut Vec<String>) {
        let Some(owner) = self.owner(entry.name.as_str()).cloned() else {
            return;
        };
        self.take_out(&owner.name);
        let (name, new, old) = (&entry.name, &entry.plugin.name, owner.plugin.name.clone());
        if owner.name == *name {
            warnings.push(format!(
                "tool `{name}` of plugin `{new}` replaces that of plugin `{old}`"
            ));
            return;
        }
        let mut owner = Arc::unwrap_or_clone(owner);
        owner.keys.retain(|key| key != name.as_str());
        warnings.push(format!(
            "`{name}` is now a tool of plugin `{new}`; `{}` of plugin `{old}` lost it",
            owner.name
        ));
        self.put(Arc::new(owner));
    }

    /// A name takes a name only where the operator said so; an alias never takes anything from anyone.
    fn drop_taken_keys(&self, entry: &mut Entry, warnings: &mut Vec<String>) {
        entry.keys.retain(|key| {
            let Some(owner) = self.owner(key) else {
                return true;
            };
            warnings.push(format!(
                "`{}` leads to tool `{}` of plugin `{}` and is no alias of `{}` of plugin `{}`",
                text::inline(key, 80),
                owner.name,
                owner.plugin.name,
                entry.name,
                entry.plugin.name
            ));
            false
        });
    }

    pub(crate) fn set_enabled(&mut self, name: &ToolName, enabled: bool) {
        if let Some(entry) = self.entries.get_mut(name) {
            Arc::make_mut(entry).enabled = enabled;
        }
    }

    /// Was there anything to remove?
    pub(crate) fn remove(&mut self, plugin: &PluginName) -> bool {
        let entries = self
            .entries
            .values()
            .filter(|entry| entry.plugin.name == *plugin);
        let names: Vec<_> = entries.map(|entry| entry.name.clone()).collect();
        for name in &names {
            self.take_out(name);
        }
        !names.is_empty()
    }

    fn owner(&self, name: &str) -> Option<&Arc<Entry>> {
        self.owners
            .get(name)
            .and_then(|owner| self.entries.get(owner))
    }

    fn put(&mut self, entry: Arc<Entry>) {
        let names = entry.keys.iter().cloned().chain([entry.name.to_string()]);
        self.owners
            .extend(names.map(|name| (name, entry.name.clone())));
        self.entries.insert(entry.name.clone(), entry);
    }

    fn take_out(&mut self, name: &ToolName) {
        self.entries.remove(name);
        self.owners.retain(|_, owner| owner != name);
    }
}

fn duplicate(entry: &Entry, name: &str, owner: &Entry) -> RegisterError {
    RegisterError::Duplicate {
        plugin: entry.plugin.name.clone(),
        name: text::inline(name, 80),
        owner: owner.plugin.name.clone(),
        tool: owner.name.clone(),
        qualified: entry.tool.name.qualified(&entry.plugin.name),
    }
}

#[cfg(test)]
#[expect(
    clippy::needless_pass_by_value,
    clippy::needless_raw_string_hashes,
    reason = "expectations are handed over where they stand, and written by expect-test"
)]
mod tests;
