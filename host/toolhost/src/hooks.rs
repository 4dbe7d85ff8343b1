//! Creates the kernel's hooks from `[[hook]]` settings: commands, plugins through an adapter, and the read cache.

use std::sync::Arc;

use toolhost_contract::PluginName;
use toolhost_kernel::hooks::{Hook, HookEntry, ReadCache, Stage};
use toolhost_runtime::Plugin;

use crate::settings::{HookKind, HookSettings};

mod component;

use component::ComponentHook;

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

/// Creates all hooks in order. Also returns errors for hooks that cannot be created, because a missing hook must not be
/// mistaken for an active one.
pub fn create_hooks(
    hooks: &[HookSettings],
    plugins: &[LoadedPlugin],
) -> (Vec<HookEntry>, Vec<String>) {
    let (mut entries, mut missing) = (Vec::new(), Vec::new());
    for hook in hooks {
        let (who, timeout): (Arc<dyn Hook>, _) = match &hook.kind {
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
            hook: who,
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
