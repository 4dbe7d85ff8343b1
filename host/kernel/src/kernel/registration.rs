//! Registering and unregistering plugins while calls run.

use std::sync::{Arc, PoisonError};

use toolhost_contract::bus::EventKind;
use toolhost_contract::{Backend, PluginName, ToolName};

use super::Kernel;
use crate::register::{self, Draft};
use crate::{PluginInfo, RegisterError, UnknownTool};

impl Kernel {
    /// Registers all tools of one plugin, or none. Returns their names. A tool with an unmet dependency becomes
    /// callable once the dependency is registered; see [`crate::Snapshot::left_out`].
    pub fn register(
        &self,
        plugin: PluginInfo,
        backend: Arc<dyn Backend>,
    ) -> Result<Vec<ToolName>, RegisterError> {
        self.register_many(vec![(plugin, backend)])
            .pop()
            .expect("one plugin in, one result out")
    }

    /// Registers plugins and returns one result for each, in order. A plugin that fails does not affect the others.
    pub fn register_many(
        &self,
        plugins: Vec<(PluginInfo, Arc<dyn Backend>)>,
    ) -> Vec<Result<Vec<ToolName>, RegisterError>> {
        let prepared: Vec<_> = plugins
            .into_iter()
            .map(|(plugin, backend)| register::prepare(&self.settings, plugin, &backend))
            .collect();
        let mut warnings = Vec::new();
        let results = self.try_change(|draft| {
            let added = prepared
                .into_iter()
                .map(|prepared| draft.add_plugin(prepared?, &mut warnings));
            let results: Vec<_> = added.collect();
            // If nothing changed, clients do not have to list the tools again.
            let has_tools = |names: &Vec<ToolName>| !names.is_empty();
            if results.iter().flatten().any(has_tools) {
                Ok(results)
            } else {
                Err(results)
            }
        });
        self.add_warnings(warnings);
        results.unwrap_or_else(|failed| failed)
    }

    fn add_warnings(&self, new: Vec<String>) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in new {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }

    /// Replaces one version of a plugin with another component, in one change of the registry. On error the old version
    /// stays registered. Running calls continue with the version that they started with.
    pub fn replace(
        &self,
        old: &PluginInfo,
        plugin: PluginInfo,
        backend: Arc<dyn Backend>,
    ) -> Result<Vec<ToolName>, RegisterError> {
        let prepared = register::prepare(&self.settings, plugin, &backend)?;
        let mut warnings = Vec::new();
        let names = self.try_change(|draft| draft.replace_plugin(old, prepared, &mut warnings))?;
        self.add_warnings(warnings);
        Ok(names)
    }

    /// Removes the tools of one version of a plugin. Running calls continue. Returns whether it was registered.
    pub fn unregister_version(&self, plugin: &PluginInfo) -> bool {
        self.remove(|draft| draft.remove_version(plugin))
    }

    /// Removes the tools of a plugin in all its versions. Running calls continue. Returns whether the plugin existed.
    pub fn unregister(&self, plugin: &PluginName) -> bool {
        self.remove(|draft| draft.remove(plugin))
    }

    /// Returns whether tools were removed. Otherwise the registry stays, and no change is announced.
    fn remove(&self, remove: impl FnOnce(&mut Draft) -> bool) -> bool {
        let removed = self.try_change(|draft| remove(draft).then_some(()).ok_or(()));
        removed.is_ok()
    }

    /// Enables or disables one tool with all its versions, or only the version in the name.
    pub fn set_enabled(&self, tool: &str, enabled: bool) -> Result<(), UnknownTool> {
        let registry = self.registry();
        let (slot, only) = registry.slot(tool).ok_or_else(|| registry.unknown(tool))?;
        self.change(|draft| {
            draft.set_enabled(
                slot,
                |entry| only.is_none_or(|only| only.is_same_tool(entry)),
                enabled,
            );
        });
        Ok(())
    }

    /// Disables the enabled tools of a plugin, and those that it registers from now on, until it is turned on.
    pub fn turn_off_plugin(&self, plugin: &PluginName) {
        self.change(|draft| draft.turn_off(plugin));
    }

    /// Enables the tools that [`Kernel::turn_off_plugin`] has disabled.
    pub fn turn_on_plugin(&self, plugin: &PluginName) {
        self.change(|draft| draft.turn_on(plugin));
    }

    /// Returns the conflicts between plugins that registration resolved, so that no name changes its owner silently.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Draft) -> T) -> T {
        let changed: Result<T, std::convert::Infallible> =
            self.try_change(|draft| Ok(change(draft)));
        match changed {
            Ok(result) => result,
            Err(never) => match never {},
        }
    }

    /// Makes the draft the next registry, unless the change fails.
    fn try_change<T, E>(&self, change: impl FnOnce(&mut Draft) -> Result<T, E>) -> Result<T, E> {
        let mut registry = self
            .registry
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut draft = Draft::from(&registry, &self.settings);
        let result = change(&mut draft)?;
        *registry = Arc::new(draft.finish());
        drop(registry);
        self.registry_changed.send_replace(());
        self.journal
            .publish(&Arc::default(), EventKind::RegistryChanged);
        Ok(result)
    }
}
