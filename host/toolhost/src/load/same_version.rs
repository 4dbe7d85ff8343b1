//! Loaded files with the same name and version, which `on_duplicate = "replace"` allows: the tools of the last one are
//! registered, and those of another one once it is the last.

use toolhost_kernel::{Kernel, OnDuplicate, PluginInfo};

use super::granted_plugin::PluginWithGrants;
use super::live_changes::PluginLoader;

impl PluginLoader {
    /// Adds a registered plugin, whose tools have replaced those of other files of the same version.
    pub fn push(&mut self, registered: PluginWithGrants) -> &PluginWithGrants {
        self.clear_earlier(self.plugins.len(), &registered.info);
        self.plugins.push_mut(registered)
    }

    /// Puts `new` in the place of the plugin at the index. Its tools are registered unless a later file of the same
    /// version is used.
    pub fn replace(
        &mut self,
        kernel: &Kernel,
        on_duplicate: OnDuplicate,
        index: usize,
        mut new: PluginWithGrants,
    ) -> Result<&PluginWithGrants, String> {
        let old = self.plugins[index].info.clone();
        let old_is_used = !self.has_later(index, &old);
        let is_later_used = self.has_later(index, &new.info);
        // Unless duplicates are replaced, the kernel refuses the second file of a version.
        if !is_later_used || on_duplicate != OnDuplicate::Replace {
            let (info, backend) = new.registration();
            let names = if old_is_used {
                kernel.replace(&old, info, backend)
            } else {
                kernel.register(info, backend)
            };
            new.served.tools = names.map_err(|error| error.to_string())?;
            self.clear_earlier(index, &new.info);
        }
        let keeps_version = is_same_version(&old, &new.info);
        self.plugins[index] = new;
        if old_is_used && !keeps_version {
            self.unregister(kernel, &old);
        }
        Ok(&self.plugins[index])
    }

    /// Removes the plugin at the index and its tools.
    pub fn remove_at(&mut self, kernel: &Kernel, index: usize) -> PluginWithGrants {
        let is_used = !self.has_later(index, &self.plugins[index].info);
        let removed = self.plugins.remove(index);
        if is_used {
            self.unregister(kernel, &removed.info);
        }
        removed
    }

    /// Removes the tools of a version, or replaces them with those of another file of this version.
    fn unregister(&mut self, kernel: &Kernel, version: &PluginInfo) {
        let mut others = self.plugins.iter_mut();
        let is_replaced = others
            .rfind(|one| is_same_version(&one.info, version))
            .is_some_and(|other| {
                let (info, backend) = other.registration();
                let names = kernel.replace(version, info, backend);
                names.map(|names| other.served.tools = names).is_ok()
            });
        if !is_replaced {
            kernel.unregister_version(version);
        }
    }

    fn has_later(&self, index: usize, version: &PluginInfo) -> bool {
        let mut later = self.plugins[index + 1..].iter();
        later.any(|one| is_same_version(&one.info, version))
    }

    fn clear_earlier(&mut self, index: usize, version: &PluginInfo) {
        for one in &mut self.plugins[..index] {
            if is_same_version(&one.info, version) {
                one.served.tools.clear();
            }
        }
    }
}

fn is_same_version(one: &PluginInfo, other: &PluginInfo) -> bool {
    one.name == other.name && one.version == other.version
}
