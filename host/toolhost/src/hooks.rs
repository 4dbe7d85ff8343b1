//! Creates the kernel's hooks from `[[hook]]` settings: commands, plugins through an adapter, and the read cache.

use std::sync::Arc;

use toolhost_contract::{PluginName, ToolHook};
use toolhost_kernel::hooks::{Hook, HookEntry, ReadCache, Stage};
use toolhost_runtime::Plugin;

use crate::settings::{HookKind, HookSettings};

mod component;

use component::{ComponentHook, OwnHooks};

/// Maximum concurrent sandboxes of hooks for each user, equal to the kernel's limit of concurrent hook runs.
pub const MAX_HOOK_SANDBOXES: usize = toolhost_kernel::hooks::MAX_HOOKED_CALLS;
/// Limits of the read cache in entries and bytes. Only its time to live is configurable.
const MAX_CACHE_ENTRIES: usize = 256;
const MAX_CACHE_BYTES: usize = 16 << 20;

/// A loaded plugin with its grants.
pub struct LoadedPlugin {
    pub name: PluginName,
    pub plugin: Arc<Plugin>,
}

/// Creates all hooks in order: those of plugins for their own tools, then the configured ones, which see what the former
/// left. Also returns errors for hooks that cannot be created, because a missing hook must not be
/// mistaken for an active one.
pub fn create_hooks(
    hooks: &[HookSettings],
    plugins: &[LoadedPlugin],
) -> (Vec<HookEntry>, Vec<String>) {
    let mut entries: Vec<HookEntry> = plugins.iter().filter_map(own_hooks).collect();
    let mut missing = Vec::new();
    for hook in hooks {
        let (implementation, timeout): (Arc<dyn Hook>, _) = match &hook.kind {
            HookKind::Command(command) => (Arc::new(command.clone()), hook.timeout),
            HookKind::ReadCache { ttl } => {
                let cache = ReadCache::bounded(*ttl, MAX_CACHE_ENTRIES, MAX_CACHE_BYTES);
                (Arc::new(cache), hook.timeout)
            }
            HookKind::Plugin(name) => {
                let found = plugins.iter().find(|candidate| candidate.name == *name);
                match found.map(|found| Arc::clone(&found.plugin)) {
                    Some(plugin) if plugin.loaded().has_hooks() => {
                        let component = ComponentHook::new(plugin, hook);
                        let timeout = component.kernel_timeout();
                        (Arc::new(component), timeout)
                    }
                    Some(_) => {
                        missing.push(format!(
                            "hook `{}`: plugin `{name}` has no hooks",
                            hook.name
                        ));
                        continue;
                    }
                    None => {
                        missing.push(format!(
                            "hook `{}`: plugin `{name}` is not loaded; add its directory to `plugins`, or remove the hook",
                            hook.name
                        ));
                        continue;
                    }
                }
            }
        };
        entries.push(HookEntry {
            name: hook.name.clone(),
            hook: implementation,
            matcher: hook.matcher.clone(),
            on_failure: hook.on_failure,
            timeout,
            stage: match hook.kind {
                HookKind::ReadCache { .. } => Stage::Supply,
                HookKind::Command(_) | HookKind::Plugin(_) => Stage::Decide,
            },
        });
    }
    (entries, missing)
}

fn own_hooks(loaded: &LoadedPlugin) -> Option<HookEntry> {
    let mut hooks = loaded
        .plugin
        .loaded()
        .tools()
        .iter()
        .flat_map(|tool| tool.hooks.iter());
    hooks
        .any(|hook| matches!(hook, ToolHook::PreToolUse | ToolHook::PostToolUse))
        .then(|| {
            let hooks = Arc::new(OwnHooks(Arc::clone(&loaded.plugin)));
            HookEntry {
                timeout: OwnHooks::kernel_timeout(),
                ..HookEntry::new(loaded.name.as_str(), hooks)
            }
        })
}
