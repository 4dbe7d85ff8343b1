//! From `[[hook]]` to what the kernel asks: commands as they are, plugins behind an adapter, the read cache last.

use std::sync::Arc;

use toolhost_contract::PluginName;
use toolhost_kernel::hooks::{Hook, HookEntry, ReadCache, Stage};
use toolhost_runtime::Plugin;

use crate::settings::{HookKind, HookSettings};

mod component;

use component::ComponentHook;

/// So many sandboxes of hooks are open at once for each user: the kernel lets no more calls be heard side by side.
pub const SANDBOXES: usize = toolhost_kernel::hooks::AT_ONCE;
/// The cache's bounds; a person sets the time only.
const ENTRIES: usize = 256;
const BYTES: usize = 16 << 20;

/// A plugin that is loaded and granted what it is granted.
pub struct Candidate {
    pub name: PluginName,
    pub plugin: Arc<Plugin>,
}

/// Every hook in its order. Also those that cannot be: a hook that is configured and missing must not look as if it
/// watched.
pub fn entries(hooks: &[HookSettings], plugins: &[Candidate]) -> (Vec<HookEntry>, Vec<String>) {
    let (mut entries, mut missing) = (Vec::new(), Vec::new());
    for hook in hooks {
        let (who, timeout): (Arc<dyn Hook>, _) = match &hook.kind {
            HookKind::Command(command) => (Arc::new(command.clone()), hook.timeout),
            HookKind::ReadCache { ttl } => {
                let cache = ReadCache::bounded(*ttl, ENTRIES, BYTES);
                (Arc::new(cache), hook.timeout)
            }
            HookKind::Plugin(name) => {
                let found = plugins.iter().find(|candidate| candidate.name == *name);
                match found.map(|found| Arc::clone(&found.plugin)) {
                    Some(plugin) if plugin.loaded().has_hooks() => {
                        let component = ComponentHook::new(plugin, hook);
                        let timeout = component.patience();
                        (Arc::new(component), timeout)
                    }
                    Some(_) => {
                        missing.push(format!(
                            "hook `{}`: plugin `{name}` is loaded and has no hooks",
                            hook.name
                        ));
                        continue;
                    }
                    None => {
                        missing.push(format!(
                            "hook `{}`: plugin `{name}` is not loaded; add its folder to `plugins`, or take the hook out",
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
                HookKind::Command(_) | HookKind::Plugin(_) => Stage::Judge,
            },
        });
    }
    (entries, missing)
}
