//! Changes to the plugins of a running host: adding, replacing and removing them while calls run.
//!
//! Running calls continue with the version that they started with. If a new version cannot be loaded, the old one stays
//! in use. Rules and grants are those of the start of the host.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use toolhost_contract::{PluginName, ToolName, text};
use toolhost_kernel::Kernel;
use toolhost_kernel::hooks::HookEntry;
use toolhost_packages::InstalledPackages;
use toolhost_runtime::{Loaded, Runtime, Staging};

use super::granted_plugin::{PluginWithGrants, ServedPlugin, grant};
use super::plugin_files::{BrokenPlugin, find_plugin_files};
use super::{Host, load_all, register};
use crate::grants::{ScopeOpener, protected_paths, writable_paths};
use crate::hooks;
use crate::host_resources::HostResources;
use crate::settings::{HookKind, Settings};

/// The plugins of a host at one point in time.
pub struct LoadedPlugins {
    pub plugins: Vec<Arc<ServedPlugin>>,
    pub broken: Vec<Arc<BrokenPlugin>>,
}

/// The result of changing the plugins of a running host.
#[derive(Default)]
pub struct PluginChanges {
    pub changes: Vec<PluginChange>,
    /// Files that could not be loaded. The version that was loaded before stays in use.
    pub failed: Vec<Arc<BrokenPlugin>>,
}

/// A plugin that was added, replaced or removed.
pub struct PluginChange {
    pub kind: ChangeKind,
    pub plugin: Arc<ServedPlugin>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Replaced,
    Removed,
}

impl ChangeKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Replaced => "replaced",
            Self::Removed => "removed",
        }
    }
}

/// A change that was refused before anything was loaded.
#[derive(Debug, thiserror::Error)]
pub enum PluginChangeError {
    #[error("no plugin `{name}` is loaded; loaded plugins: {}", loaded.join(", "))]
    Unknown { name: String, loaded: Vec<String> },
    #[error(
        "plugin `{plugin}` is the hook `{hook}`, and no call may run without it; remove the hook from the configuration and \
         restart the host"
    )]
    IsHook { plugin: PluginName, hook: String },
    #[error(
        "{} is in a directory that tools can write to, so a tool could replace it; copy it into another directory",
        text::escape_line(&path.to_string_lossy(), 400)
    )]
    Writable { path: PathBuf },
    #[error("{}: {reason}", text::escape_line(&path.to_string_lossy(), 400))]
    File { path: PathBuf, reason: String },
}

/// The version of a file to load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Current,
    /// The one that is in use.
    LoadedVersion,
}

/// The plugins of a host, and what is needed to load others.
pub(super) struct PluginLoader {
    pub runtime: Runtime,
    pub packages: InstalledPackages,
    pub granter: ScopeOpener,
    pub resources: Arc<HostResources>,
    pub staging: Option<Staging>,
    /// Hooks of the embedding program, which run before all others.
    pub hooks: Vec<HookEntry>,
    /// Files that were added since the start.
    pub added: Vec<PathBuf>,
    /// Files of plugins that were removed since the start and are still in a directory.
    pub removed: BTreeSet<PathBuf>,
    /// Of those with the same name and version, the tools of the last one are registered.
    pub plugins: Vec<PluginWithGrants>,
}

impl PluginLoader {
    pub fn grant(
        &mut self,
        settings: &Settings,
        loaded: Loaded,
    ) -> Result<PluginWithGrants, String> {
        let staging = self.staging.clone();
        grant(
            settings,
            &mut self.granter,
            &self.resources,
            staging,
            loaded,
        )
    }

    /// Refuses a package with the name of a plugin that is not from a package: it would take over its calls and rules.
    pub fn refuse_taken_name<'a>(
        &self,
        loaded: &Loaded,
        mut others: impl Iterator<Item = &'a PluginWithGrants>,
    ) -> Result<(), String> {
        let name = &loaded.manifest().name;
        if !self.packages.contains(loaded.path()) {
            return Ok(());
        }
        let is_owner = |one: &&PluginWithGrants| {
            one.info.name == *name && !self.packages.contains(&one.served.path)
        };
        match others.find(is_owner) {
            Some(owner) => Err(format!(
                "the package has the name of the plugin {name} in {}, which is used; remove one of them (`host remove {name}` \
                 removes the package)",
                text::escape_line(&owner.served.path.to_string_lossy(), 400)
            )),
            None => Ok(()),
        }
    }

    /// Creates the hooks for these plugins. Also returns errors about hooks that cannot be created.
    pub fn create_hooks<'a>(
        &self,
        settings: &Settings,
        plugins: impl Iterator<Item = &'a PluginWithGrants>,
    ) -> (Vec<HookEntry>, Vec<String>) {
        let plugins: Vec<_> = plugins
            .map(|one| hooks::LoadedPlugin {
                name: one.info.name.clone(),
                plugin: Arc::clone(&one.plugin),
            })
            .collect();
        let (entries, missing) = hooks::create_hooks(&settings.hooks, &plugins);
        let entries = self.hooks.iter().cloned().chain(entries);
        (entries.collect(), missing)
    }

    pub fn list(&self, broken: Vec<Arc<BrokenPlugin>>) -> LoadedPlugins {
        let plugins = self.plugins.iter();
        LoadedPlugins {
            plugins: plugins.map(|one| Arc::new(one.served.clone())).collect(),
            broken,
        }
    }

    /// The plugin that a file replaces: the one that was loaded from it, or the installed version of the same package.
    fn replaced_by(&self, path: &Path, loaded: &Loaded) -> Option<usize> {
        let name = &loaded.manifest().name;
        let is_version = |one: &PluginWithGrants| {
            one.info.name == *name && self.packages.contains(&one.served.path)
        };
        let is_package = self.packages.contains(path);
        let mut plugins = self.plugins.iter();
        plugins.position(|one| one.served.path == path || (is_package && is_version(one)))
    }

    /// Loads one file in place of the plugin that was loaded from it. Returns `None` if nothing changed, or if the file
    /// is of another version than `wanted`.
    async fn load_file(
        &mut self,
        kernel: &Kernel,
        settings: &Settings,
        path: &Path,
        wanted: Wanted,
    ) -> Result<Option<PluginChange>, String> {
        let (_, loaded, took) = load_all(&self.runtime, vec![path.to_owned()], false, |_| {})
            .await
            .pop()
            .ok_or("internal error while loading")?;
        let loaded = loaded?;
        self.refuse_taken_name(&loaded, self.plugins.iter())?;
        let old = self.replaced_by(path, &loaded);
        let same_file = old.map(|old| self.plugins[old].served.digest == loaded.digest());
        if same_file == Some(false) && wanted == Wanted::LoadedVersion {
            return Ok(None);
        }
        let mut new = self.grant(settings, loaded)?;
        new.served.load_time = took;
        // Descriptions can depend on the environment.
        if same_file == Some(true)
            && old.is_some_and(|old| {
                self.plugins[old].plugin.loaded().tools() == new.plugin.loaded().tools()
            })
        {
            return Ok(None);
        }
        let mut next: Vec<&PluginWithGrants> = self.plugins.iter().collect();
        match old {
            Some(old) => next[old] = &new,
            None => next.push(&new),
        }
        let (_, missing) = self.create_hooks(settings, next.into_iter());
        if !missing.is_empty() {
            return Err(missing.join("; "));
        }
        // Until the replacement is complete, the hooks of both versions apply.
        let (hooks, _) = self.create_hooks(settings, self.plugins.iter().chain([&new]));
        kernel.set_hooks(hooks);
        let registered = match old {
            None => register(kernel, new).map(|new| (ChangeKind::Added, self.push(new))),
            Some(old) => self
                .replace(kernel, settings.on_duplicate, old, new)
                .map(|new| (ChangeKind::Replaced, new)),
        };
        let change = registered.map(|(kind, new)| {
            let plugin = Arc::new(new.served.clone());
            Some(PluginChange { kind, plugin })
        });
        let (hooks, _) = self.create_hooks(settings, self.plugins.iter());
        kernel.set_hooks(hooks);
        change
    }

    /// Removes the plugins for which `gone` returns true.
    fn remove(
        &mut self,
        kernel: &Kernel,
        settings: &Settings,
        gone: impl Fn(&PluginWithGrants) -> bool,
    ) -> Vec<PluginChange> {
        let mut removed = Vec::new();
        while let Some(index) = self.plugins.iter().position(&gone) {
            removed.push(self.remove_at(kernel, index));
        }
        // After the tools are gone, because no call may run without the hooks of its plugin.
        if !removed.is_empty() {
            let (hooks, _) = self.create_hooks(settings, self.plugins.iter());
            kernel.set_hooks(hooks);
        }
        let removed = removed.into_iter().map(|one| PluginChange {
            kind: ChangeKind::Removed,
            plugin: Arc::new(one.served),
        });
        removed.collect()
    }

    fn names(&self) -> Vec<String> {
        let names = self.plugins.iter().map(|one| one.info.name.to_string());
        names.collect()
    }
}

impl Host {
    /// Adds the plugin in a file, which later reloads include.
    pub async fn add_plugin(&self, path: &Path) -> Result<PluginChanges, PluginChangeError> {
        let refuse = |reason: String| PluginChangeError::File {
            path: path.to_owned(),
            reason,
        };
        let path = std::path::absolute(path).map_err(|error| refuse(error.to_string()))?;
        let real = path
            .canonicalize()
            .map_err(|error| refuse(error.to_string()))?;
        if !real.is_file() {
            return Err(refuse("not a file; name one `.wasm` file".to_owned()));
        }
        if self.is_writable(&path) {
            return Err(PluginChangeError::Writable { path });
        }
        let (in_directory, _) = find_plugin_files(&self.settings.plugins);
        let is_in_directory = in_directory.contains(&path);
        // Not through links, which a tool may be able to replace.
        let path = if is_in_directory { path } else { real };
        let mut loader = self.loader.lock().await;
        let mut changes = PluginChanges::default();
        match load_current(&mut loader, self, &path).await {
            Ok(change) => {
                loader.removed.remove(&path);
                if !is_in_directory && !loader.added.contains(&path) {
                    loader.added.push(path);
                }
                changes.changes.extend(change);
            }
            Err(reason) => {
                let broken = Arc::new(BrokenPlugin::new(path, &reason));
                changes.failed.push(broken);
            }
        }
        self.update_loaded(&loader, Vec::new());
        Ok(changes)
    }

    /// Removes a plugin in all its versions. Its file stays, and is not loaded again until it is added, or deleted and
    /// created again.
    pub async fn remove_plugin(&self, name: &str) -> Result<PluginChanges, PluginChangeError> {
        let mut loader = self.loader.lock().await;
        let named = |one: &PluginWithGrants| one.info.name.as_str() == name;
        if !loader.plugins.iter().any(named) {
            return Err(PluginChangeError::Unknown {
                name: text::escape_line(name, 80),
                loaded: loader.names(),
            });
        }
        self.refuse_hook(name)?;
        let changes = loader.remove(&self.kernel, &self.settings, named);
        for change in &changes {
            let path = &change.plugin.path;
            loader.added.retain(|added| added != path);
            loader.removed.insert(path.clone());
        }
        self.update_loaded(&loader, Vec::new());
        Ok(PluginChanges {
            changes,
            failed: Vec::new(),
        })
    }

    /// Reads the plugin files again: loads new and changed ones, and removes plugins whose file is gone. With a name,
    /// only the files of this plugin.
    pub async fn reload_plugins(
        &self,
        only: Option<&str>,
    ) -> Result<PluginChanges, PluginChangeError> {
        let mut loader = self.loader.lock().await;
        let (mut files, mut broken) = find_plugin_files(&self.settings.plugins);
        loader
            .removed
            .retain(|file| file.try_exists().unwrap_or(true));
        files.retain(|file| !loader.removed.contains(file));
        files.extend(loader.added.iter().cloned());
        let mut changes = PluginChanges::default();
        if let Some(name) = only {
            let of_plugin: Vec<_> = loader
                .plugins
                .iter()
                .filter(|one| one.info.name.as_str() == name)
                .map(|one| one.served.path.clone())
                .collect();
            if of_plugin.is_empty() {
                return Err(PluginChangeError::Unknown {
                    name: text::escape_line(name, 80),
                    loaded: loader.names(),
                });
            }
            files = of_plugin;
            broken.clear();
        } else {
            let kept = |one: &PluginWithGrants| {
                files.contains(&one.served.path)
                    // A directory that cannot be read does not mean that its files are gone.
                    || one.served.path.try_exists().unwrap_or(true)
                    // A hook that disappears must not leave calls unguarded.
                    || self.refuse_hook(one.info.name.as_str()).is_err()
            };
            let gone = loader.remove(&self.kernel, &self.settings, |one| !kept(one));
            changes.changes.extend(gone);
        }
        for path in files {
            match load_current(&mut loader, self, &path).await {
                Ok(change) => changes.changes.extend(change),
                Err(reason) => broken.push(BrokenPlugin::new(path, &reason)),
            }
        }
        if only.is_none() {
            broken.extend(self.reload_packages_with(&mut loader, &mut changes).await);
        }
        changes.failed = broken.into_iter().map(Arc::new).collect();
        if only.is_some() {
            self.update_loaded(&loader, changes.failed.clone());
        } else {
            self.set_loaded(&loader, changes.failed.clone());
        }
        Ok(changes)
    }

    /// Reads the installed packages again: loads new versions, and removes plugins that were removed or revoked.
    pub async fn reload_packages(&self) -> PluginChanges {
        let mut loader = self.loader.lock().await;
        let mut changes = PluginChanges::default();
        let broken = self.reload_packages_with(&mut loader, &mut changes).await;
        changes.failed = broken.into_iter().map(Arc::new).collect();
        self.update_loaded(&loader, changes.failed.clone());
        changes
    }

    async fn reload_packages_with(
        &self,
        loader: &mut PluginLoader,
        changes: &mut PluginChanges,
    ) -> Vec<BrokenPlugin> {
        let mut broken = Vec::new();
        let mut files = match loader.packages.refresh() {
            Ok(files) => files,
            Err(error) => {
                let path = PathBuf::from("the installed packages");
                return vec![BrokenPlugin::new(path, &error.to_string())];
            }
        };
        let removed = loader.removed.clone();
        let is_removed_here = |file: &Path| {
            removed
                .iter()
                .any(|one| loader.packages.contains(one) && one.file_name() == file.file_name())
        };
        files.retain(|file| !is_removed_here(file));
        for path in &files {
            match load_current(loader, self, path).await {
                Ok(change) => changes.changes.extend(change),
                Err(reason) => broken.push(BrokenPlugin::new(path.clone(), &reason)),
            }
        }
        let packages = loader.packages.clone();
        let failed: Vec<PathBuf> = broken.iter().map(|one| one.path.clone()).collect();
        let refused: Vec<_> = failed.iter().map(|path| path.file_name()).collect();
        let trust = &self.settings.trust;
        let own = loader.plugins.iter();
        let own = own.filter(|one| !packages.contains(&one.served.path));
        let own: BTreeSet<PluginName> = own.map(|one| one.info.name.clone()).collect();
        let must_go = |one: &PluginWithGrants| {
            let path = &one.served.path;
            // A version stays in use if the next one, whose file has the same name, cannot be loaded.
            let has_broken_successor = refused.contains(&path.file_name());
            let is_removed =
                packages.contains(path) && !files.contains(path) && !has_broken_successor;
            let is_shadowed = packages.contains(path) && own.contains(&one.info.name);
            is_removed || is_shadowed || packages.is_revoked(one.served.digest, trust)
        };
        for one in loader.plugins.iter().filter(|one| must_go(one)) {
            // A hook that disappears must not leave calls unguarded.
            if let Err(error) = self.refuse_hook(one.info.name.as_str()) {
                broken.push(BrokenPlugin::new(
                    one.served.path.clone(),
                    &error.to_string(),
                ));
            }
        }
        let gone = loader.remove(&self.kernel, &self.settings, |one| {
            must_go(one) && self.refuse_hook(one.info.name.as_str()).is_ok()
        });
        changes.changes.extend(gone);
        broken
    }

    /// Gets the descriptions of all tools again, for an environment that changed, for example the date.
    pub async fn refresh_descriptions(&self, environment: Vec<(String, String)>) -> PluginChanges {
        let mut loader = self.loader.lock().await;
        loader.runtime.set_environment(environment);
        let paths: Vec<_> = loader
            .plugins
            .iter()
            .map(|one| one.served.path.clone())
            .collect();
        let mut changes = PluginChanges::default();
        for path in paths {
            let wanted = Wanted::LoadedVersion;
            let loading = loader.load_file(&self.kernel, &self.settings, &path, wanted);
            match loading.await {
                Ok(change) => changes.changes.extend(change),
                Err(reason) => {
                    let broken = Arc::new(BrokenPlugin::new(path, &reason));
                    changes.failed.push(broken);
                }
            }
        }
        self.update_loaded(&loader, changes.failed.clone());
        changes
    }

    /// Adds files to those that could not be loaded, and removes those that are loaded by now.
    fn update_loaded(&self, loader: &PluginLoader, mut failed: Vec<Arc<BrokenPlugin>>) {
        let before = self.loaded();
        let remaining = before.broken.iter().filter(|one| {
            let loaded = loader.plugins.iter();
            loaded
                .map(|plugin| &plugin.served.path)
                .all(|path| *path != one.path)
                && failed.iter().all(|failed| failed.path != one.path)
        });
        let remaining: Vec<_> = remaining.cloned().collect();
        failed.extend(remaining);
        self.set_loaded(loader, failed);
    }

    fn set_loaded(&self, loader: &PluginLoader, broken: Vec<Arc<BrokenPlugin>>) {
        let loaded = Arc::new(loader.list(broken));
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
    }

    /// Refuses to remove a plugin that is a configured hook.
    fn refuse_hook(&self, plugin: &str) -> Result<(), PluginChangeError> {
        for hook in &self.settings.hooks {
            if let HookKind::Plugin(name) = &hook.kind
                && name.as_str() == plugin
            {
                return Err(PluginChangeError::IsHook {
                    plugin: name.clone(),
                    hook: hook.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// Whether a grant lets tools write to the path, which is not protected.
    pub fn is_writable(&self, path: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let protected = protected_paths(&self.settings);
        let protected: Vec<PathBuf> = protected.iter().map(|one| real(&one.path)).collect();
        let memory = self.settings.external_access.memory.clone();
        let writable: Vec<PathBuf> = writable_paths(&self.settings).chain(memory).collect();
        [path.to_owned(), real(path)].iter().any(|path| {
            !protected.iter().any(|dir| path.starts_with(dir))
                && writable
                    .iter()
                    .any(|dir| path.starts_with(dir) || path.starts_with(real(dir)))
        })
    }
}

async fn load_current(
    loader: &mut PluginLoader,
    host: &Host,
    path: &Path,
) -> Result<Option<PluginChange>, String> {
    let loading = loader.load_file(&host.kernel, &host.settings, path, Wanted::Current);
    loading.await
}

/// For display: `replaced files 0.1.0: read_file, write_file`.
impl std::fmt::Display for PluginChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let manifest = &self.plugin.manifest;
        write!(
            f,
            "{} {} {}: {}",
            self.kind.as_str(),
            manifest.name,
            text::escape_line(&manifest.version, 40),
            tool_list(&self.plugin.tools)
        )
    }
}

fn tool_list(tools: &[ToolName]) -> String {
    if tools.is_empty() {
        return "no tools".to_owned();
    }
    let names: Vec<&str> = tools.iter().map(ToolName::as_str).collect();
    text::escape_line(&names.join(", "), 400)
}
