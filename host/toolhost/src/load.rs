//! Loads directories of `*.wasm` plugins into a kernel.
//!
//! A plugin that cannot be loaded is listed with its error and does not affect the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use toolhost_contract::policy::{Diagnostic, Restriction};
use toolhost_contract::{Backend, Descriptor, PluginName, SessionKey, text};
use toolhost_kernel::hooks::HookEntry;
use toolhost_kernel::{
    Agents, Kernel, KernelSettings, OnSessionEnd, PluginInfo, Prompter, Resources, check_schemas,
};
use toolhost_packages::{InstalledPackages, PackageStore, TrustPolicy};
use toolhost_process::Launcher;
use toolhost_runtime::{
    CodeState, Compiler, Loaded, PluginChecks, Runtime, RuntimeSettings, Staging, read_manifest,
};
use toolhost_store::Store;

use crate::agents::CommandAgents;
use crate::error::{Error, ErrorKindExt as _};
use crate::grants::{ScopeOpener, plan_grants};
use crate::host_resources::HostResources;
use crate::inherited;
use crate::mcp_servers::{ServerConnector, ServerProtection};
use crate::retention::{self, RetentionTask};
use crate::scratch_dir::ScratchDir;
use crate::settings::Settings;
use crate::staging;

pub mod environment;
mod granted_plugin;
mod live_changes;
mod plugin_files;
mod same_version;

use granted_plugin::PluginWithGrants;
pub use granted_plugin::{GrantedDirectory, ServedPlugin};
use live_changes::PluginLoader;
pub use live_changes::{ChangeKind, LoadedPlugins, PluginChange, PluginChangeError, PluginChanges};
pub use plugin_files::BrokenPlugin;
use plugin_files::find_plugin_files;

/// Maximum number of plugin files loaded concurrently, because whole files are read into memory. The runtime has its
/// own, lower limit of concurrent compilations.
const MAX_CONCURRENT_LOADS: usize = 4;

/// Maximum number of plugins that are compiled at the same time before their first calls.
const MAX_COMPILED_AHEAD: usize = 2;

/// Receives notes and warnings for the user.
pub type MessageSink = Arc<dyn Fn(&str) + Send + Sync>;

/// The inputs for loading a host.
pub struct HostParts {
    pub settings: Settings,
    pub purpose: LoadPurpose,
    pub prompter: Arc<dyn Prompter>,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// Whether plugins whose files describe their tools are compiled after the host has loaded them: by
    /// [`Host::compile_plugins`], or by their first calls.
    pub defers_compilation: bool,
    /// The launcher of programs; required if programs are allowed.
    pub launcher: Option<Launcher>,
    /// Replaces the sub-agent commands of the settings.
    pub agents: Option<Arc<dyn Agents>>,
    pub resources: Option<Arc<dyn Resources>>,
    /// Hooks that run before those of the settings.
    pub hooks: Vec<HookEntry>,
    /// Native tools, registered after those of plugins.
    pub backends: Vec<(PluginInfo, Arc<dyn Backend>)>,
    pub on_message: MessageSink,
}

/// The purpose of loading the plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadPurpose {
    /// List the plugins. No records are written or read.
    List,
    /// Explain decisions. Saved approvals are read; no records are written.
    Explain,
    /// Run calls.
    Run,
}

/// A kernel with loaded plugins.
pub struct Host {
    pub kernel: Arc<Kernel>,
    /// Errors about missing hooks and missing dependencies of tools.
    pub missing: Vec<String>,
    pub settings: Settings,
    pub(crate) session: SessionKey,
    resources: Arc<HostResources>,
    pub(crate) connector: ServerConnector,
    loader: tokio::sync::Mutex<PluginLoader>,
    loaded: RwLock<Arc<LoadedPlugins>>,
    /// Staging directory if there is no store.
    _temporary: Option<ScratchDir>,
    /// Enforces the retention settings.
    _retention_task: Option<RetentionTask>,
}

impl HostParts {
    /// Parts without a prompter, launcher or message receiver, compiling in this process.
    pub fn new(settings: Settings, purpose: LoadPurpose) -> Self {
        Self {
            settings,
            purpose,
            prompter: Arc::new(toolhost_kernel::NoPrompter),
            compiler: Compiler::InProcess,
            defers_compilation: false,
            launcher: None,
            agents: None,
            resources: None,
            hooks: Vec::new(),
            backends: Vec::new(),
            on_message: Arc::new(|_| {}),
        }
    }

    /// Loads all plugins of the settings. `begin` is called with the kernel before anything is sealed or registered, so
    /// that it can subscribe to all events.
    pub async fn load(self, begin: impl FnOnce(&Kernel)) -> Result<Host, Error> {
        self.prepare(begin).await?.load(|_| {}).await
    }

    /// Performs all steps that need no compiled plugin: checks the settings, opens directories and the store, and finds
    /// plugin files. The result can already serve clients while [`PreparedHost::load`] compiles.
    pub async fn prepare(mut self, begin: impl FnOnce(&Kernel)) -> Result<PreparedHost, Error> {
        self.settings.external_access.other_agents |= self.agents.is_some();
        let inherited = inherited::apply(&mut self.settings, &self.on_message)?;
        let (settings, purpose) = (&self.settings, self.purpose);
        let store = open_store(settings, purpose)?;
        let (staging, temporary) = match (&store, purpose) {
            (_, LoadPurpose::List | LoadPurpose::Explain) => (None, None),
            (Some(store), LoadPurpose::Run) => (Some(staging::open_in_store(store)?), None),
            (None, LoadPurpose::Run) => {
                let (staging, dir) = staging::open_temporary()?;
                (Some(staging), Some(dir))
            }
        };
        let outlets = Arc::new(match purpose {
            LoadPurpose::Run => {
                HostResources::open(settings, self.launcher.as_ref(), &self.on_message)
                    .settings_error()?
            }
            // Decisions depend on whether the host runs the commands of a tool.
            LoadPurpose::Explain => {
                HostResources::programs_only(settings, self.launcher.as_ref()).settings_error()?
            }
            LoadPurpose::List => HostResources::default(),
        });
        let own = temporary.as_ref().map(ScratchDir::path);
        let own = own.into_iter().chain(outlets.output_directory());
        let granter = ScopeOpener::with_hidden(settings, own).settings_error()?;
        let calls = settings.pools.total().saturating_mul(settings.users.max(1));
        let hooks = crate::hooks::MAX_HOOK_SANDBOXES.saturating_mul(settings.users.max(1));
        let sandboxes = calls.saturating_add(hooks);
        let cache = settings.host_paths.cache.clone();
        let environment = environment::describe(settings.policy.mode(), settings.profile_view.0);
        let compiler = self.compiler.clone();
        let runtime_settings = RuntimeSettings {
            cache_dir: cache,
            compiler,
            max_concurrent: sandboxes,
            environment,
        };
        let packages = InstalledPackages::new(settings.packages.clone());
        let (mut files, broken) = find_plugin_files(&settings.plugins);
        files.extend(packages.refresh().settings_error()?);
        let trust = settings.trust.clone();
        let runtime = runtime(runtime_settings, trust, packages.clone(), &self.on_message)?;
        let on_end = outlets.on_session_end();
        let kernel = self.kernel(inherited, store.clone(), staging.as_ref(), on_end, begin);
        let kernel = kernel.await?;
        // After recovery of interrupted commits.
        let keeper = store.zip(staging.clone()).map(|(store, staging)| {
            let host_paths = self.settings.host_paths.clone();
            retention::start(store, staging, host_paths, self.settings.retention)
        });
        let sandbox = ServerProtection::from_settings(&self.settings);
        Ok(PreparedHost {
            kernel: kernel.share(),
            settings: self.settings,
            hooks: self.hooks,
            backends: self.backends,
            staging,
            outlets,
            granter,
            runtime,
            packages,
            files,
            broken,
            defers_compilation: self.defers_compilation,
            temporary,
            keeper,
            connector: ServerConnector {
                launcher: self.launcher,
                sandbox,
                on_message: self.on_message,
                connected: Arc::default(),
            },
        })
    }

    async fn kernel(
        &mut self,
        inherited: Option<Arc<Restriction>>,
        store: Option<Store>,
        staging: Option<&Staging>,
        on_session_end: Option<OnSessionEnd>,
        begin: impl FnOnce(&Kernel),
    ) -> Result<Kernel, Error> {
        let settings = &self.settings;
        let agents = self.agents.take();
        let commands = || CommandAgents::new(settings, self.launcher.clone());
        let agents = agents.unwrap_or_else(|| Arc::new(commands()));
        let kernel_settings = KernelSettings {
            inherited,
            ..settings.kernel()
        };
        let mut builder = Kernel::builder(kernel_settings)
            .prompter(Arc::clone(&self.prompter))
            .agents(agents);
        if let Some(resources) = self.resources.take() {
            builder = builder.resources(resources);
        }
        if let Some(on_end) = on_session_end {
            builder = builder.on_session_end(on_end);
        }
        if let Some(store) = store.clone() {
            builder = builder.store(store, settings.durability);
        }
        let kernel = builder.build().settings_error()?;
        begin(&kernel);
        let Some(staging) = staging else {
            return Ok(kernel);
        };
        if let Some(store) = &store {
            staging::recover(store, staging, &self.on_message).await?;
        }
        for sealed in kernel.seal_interrupted_calls().await.store_error()? {
            // A read-only call has no effects to report.
            if !sealed.effectful {
                continue;
            }
            let tool = sealed.tool.as_deref().unwrap_or("a tool");
            (self.on_message)(&format!(
                "note: call {} of {} did not finish before its host exited: {}",
                text::escape_line(&sealed.id.0, 100),
                text::escape_line(tool, 100),
                sealed.advice
            ));
        }
        Ok(kernel)
    }
}

/// A host before its plugins are compiled. Its kernel has no tools yet.
pub struct PreparedHost {
    kernel: Arc<Kernel>,
    settings: Settings,
    hooks: Vec<HookEntry>,
    backends: Vec<(PluginInfo, Arc<dyn Backend>)>,
    staging: Option<Staging>,
    outlets: Arc<HostResources>,
    granter: ScopeOpener,
    runtime: Runtime,
    packages: InstalledPackages,
    files: Vec<PathBuf>,
    broken: Vec<BrokenPlugin>,
    defers_compilation: bool,
    temporary: Option<ScratchDir>,
    keeper: Option<RetentionTask>,
    connector: ServerConnector,
}

/// Progress report: a plugin file has been processed.
#[derive(Debug, Clone, Copy)]
pub struct LoadProgress<'a> {
    pub path: &'a Path,
    /// Whether it was compiled, and was not in the cache.
    pub is_compiled: bool,
    /// Number of plugins processed so far, including this one.
    pub done: usize,
    pub total: usize,
}

impl PreparedHost {
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Returns a function that blocks plugins from connecting to an address, for addresses that this host listens on.
    pub fn block_address(&self) -> impl Fn(SocketAddr) + use<> {
        self.outlets.block_address()
    }

    /// The guest paths of the directories that tools will see. Reads the manifests of all plugins.
    pub fn guest_paths(&self) -> BTreeSet<String> {
        let manifests = self
            .files
            .iter()
            .filter_map(|path| read_manifest(path).ok());
        manifests
            .flat_map(|manifest| {
                let plan = plan_grants(&manifest, &self.settings, self.outlets.output_directory());
                plan.paths.into_iter().chain(plan.provided)
            })
            .map(|path| path.guest)
            .collect()
    }

    /// Loads the plugins and registers their tools.
    pub async fn load(self, progress: impl Fn(LoadProgress<'_>)) -> Result<Host, Error> {
        let mut loader = PluginLoader {
            runtime: self.runtime,
            packages: self.packages,
            granter: self.granter,
            resources: Arc::clone(&self.outlets),
            staging: self.staging,
            hooks: self.hooks,
            added: Vec::new(),
            removed: BTreeSet::new(),
            plugins: Vec::new(),
        };
        let mut broken = self.broken;
        let mut granted = Vec::new();
        let loaded = load_all(
            &loader.runtime,
            self.files,
            self.defers_compilation,
            progress,
        );
        for (path, loaded, took) in loaded.await {
            // The files of the directories come first.
            let checked = loaded.and_then(|loaded| {
                loader.refuse_taken_name(&loaded, granted.iter())?;
                loader.grant(&self.settings, loaded)
            });
            match checked {
                Ok(mut one) => {
                    one.served.load_time = took;
                    granted.push(one);
                }
                Err(reason) => broken.push(BrokenPlugin::new(path, &reason)),
            }
        }
        // Before the first tool is registered, because plugins can be hooks and no call may run without hooks.
        let (hooks, mut missing) = loader.create_hooks(&self.settings, granted.iter());
        self.kernel.set_hooks(hooks);
        // In one change of the registry, because each change resolves the names of all tools.
        let registrations = granted.iter().map(PluginWithGrants::registration);
        let registered = self.kernel.register_many(registrations.collect());
        for (mut one, tools) in granted.into_iter().zip(registered) {
            match tools {
                Ok(tools) => {
                    one.served.tools = tools;
                    loader.push(one);
                }
                Err(error) => broken.push(BrokenPlugin::new(one.served.path, &error.to_string())),
            }
        }
        for (info, backend) in self.backends {
            let name = info.name.clone();
            self.kernel
                .register(info, backend)
                .map_err(|error| Error::Settings(format!("plugin `{name}`: {error}")))?;
        }
        missing.extend(self.kernel.registry().ab_test_problems().iter().cloned());
        Ok(Host {
            kernel: self.kernel,
            loaded: RwLock::new(Arc::new(
                loader.list(broken.into_iter().map(Arc::new).collect()),
            )),
            loader: tokio::sync::Mutex::new(loader),
            missing,
            settings: self.settings,
            session: SessionKey::local(format!("s-{}", toolhost_kernel::id::random())),
            connector: self.connector,
            resources: self.outlets,
            _temporary: self.temporary,
            _retention_task: self.keeper,
        })
    }
}

fn open_store(settings: &Settings, purpose: LoadPurpose) -> Result<Option<Store>, Error> {
    let dir = settings.store.as_ref().filter(|dir| match purpose {
        LoadPurpose::List => false,
        LoadPurpose::Explain => dir.exists(),
        LoadPurpose::Run => true,
    });
    dir.map(|dir| Store::open(dir).store_error()).transpose()
}

/// The store of installed packages below a state directory.
pub fn package_store(state: &Path) -> PackageStore {
    PackageStore::new(state, |file| {
        toolhost_runtime::file_digest(file).map_err(|error| error.to_string())
    })
}

/// Creates the runtime, which loads only plugin files that `trust` allows and that were not revoked.
pub fn runtime(
    settings: RuntimeSettings,
    trust: TrustPolicy,
    packages: InstalledPackages,
    say: &MessageSink,
) -> Result<Runtime, Error> {
    let verify = move |path: &Path, digest| {
        let checked = packages.check(path, digest, &trust);
        checked.map_err(|error| error.to_string())
    };
    let checks = PluginChecks {
        file: Box::new(verify),
        tool: has_valid_schemas,
    };
    let runtime = Runtime::with_checks(settings, checks).internal_error()?;
    for warning in runtime.warnings() {
        say(&format!("warning: {}", text::escape_line(warning, 500)));
    }
    Ok(runtime)
}

/// Whether the kernel would register a tool with its schemas.
fn has_valid_schemas(tool: &Descriptor) -> bool {
    let mut tool = tool.clone();
    tool.remove_invisible();
    check_schemas(&tool).is_ok()
}

type LoadResult = (PathBuf, Result<Loaded, String>, Duration);

/// Loads all files concurrently and returns them in order, so that every start assigns the same tool names.
async fn load_all(
    runtime: &Runtime,
    files: Vec<PathBuf>,
    defers_compilation: bool,
    progress: impl Fn(LoadProgress<'_>),
) -> Vec<LoadResult> {
    let turns = Arc::new(Semaphore::new(MAX_CONCURRENT_LOADS));
    let mut tasks = JoinSet::new();
    for (index, path) in files.iter().cloned().enumerate() {
        let (runtime, turns) = (runtime.clone(), Arc::clone(&turns));
        tasks.spawn(async move {
            let _turn = turns.acquire().await;
            let start = Instant::now();
            let loaded = if defers_compilation {
                runtime.load_described(&path).await
            } else {
                runtime.load(&path).await
            };
            let loaded = loaded.map_err(|error| error.to_string());
            (index, loaded, start.elapsed())
        });
    }
    let mut done = BTreeMap::new();
    while let Some(result) = tasks.join_next().await {
        if let Ok((index, loaded, took)) = result {
            let is_compiled = loaded
                .as_ref()
                .is_ok_and(|loaded| loaded.code_state() == CodeState::Compiled);
            done.insert(index, (loaded, took));
            progress(LoadProgress {
                path: &files[index],
                is_compiled,
                done: done.len(),
                total: files.len(),
            });
        }
    }
    let read = |(index, path)| {
        // A missing task has panicked; only its plugin counts as broken.
        let panicked = || {
            (
                Err("internal error while loading".to_owned()),
                Duration::ZERO,
            )
        };
        let (loaded, took) = done.remove(&index).unwrap_or_else(panicked);
        (path, loaded, took)
    };
    files.into_iter().enumerate().map(read).collect()
}

fn register(kernel: &Kernel, mut granted: PluginWithGrants) -> Result<PluginWithGrants, String> {
    let (info, backend) = granted.registration();
    granted.served.tools = kernel
        .register(info, backend)
        .map_err(|error| error.to_string())?;
    Ok(granted)
}

impl Host {
    /// Returns a function that blocks plugins from connecting to an address, for addresses that this host listens on.
    pub fn block_address(&self) -> impl Fn(SocketAddr) + use<> {
        self.resources.block_address()
    }

    /// The plugins that are loaded now. The list does not change.
    pub fn loaded(&self) -> Arc<LoadedPlugins> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Compiles the plugins that were loaded without their code, the smallest first. `failed` gets the reason for each
    /// plugin that cannot be compiled, whose calls fail.
    pub async fn compile_plugins(&self, failed: impl Fn(&BrokenPlugin)) {
        let loader = self.loader.lock().await;
        let mut plugins: Vec<_> = loader
            .plugins
            .iter()
            .filter(|one| one.served.code_state == CodeState::NotCompiled)
            .map(|one| {
                (
                    one.served.size,
                    Arc::clone(&one.plugin),
                    one.served.path.clone(),
                )
            })
            .collect();
        drop(loader);
        plugins.sort_by_key(|(size, _, _)| *size);
        let turns = Arc::new(Semaphore::new(MAX_COMPILED_AHEAD));
        let mut tasks = JoinSet::new();
        for (_, plugin, path) in plugins {
            let turns = Arc::clone(&turns);
            tasks.spawn(async move {
                let _turn = turns.acquire().await;
                let compiled = plugin.compile().await;
                (path, plugin, compiled)
            });
        }
        while let Some(task) = tasks.join_next().await {
            let Ok((path, plugin, Err(error))) = task else {
                continue;
            };
            let loader = self.loader.lock().await;
            // It may have been replaced or removed.
            if loader
                .plugins
                .iter()
                .any(|one| Arc::ptr_eq(&one.plugin, &plugin))
            {
                failed(&BrokenPlugin::new(path, &error.message));
            }
        }
    }

    /// Returns a function that tells whether the code of this plugin is being compiled or read at that moment.
    pub async fn preparation(&self, name: &PluginName) -> Option<impl Fn() -> bool + Send + use<>> {
        let loader = self.loader.lock().await;
        let mut plugins = loader.plugins.iter();
        let found = plugins.find(|one| one.served.manifest.name == *name)?;
        let plugin = Arc::clone(&found.plugin);
        Some(move || plugin.is_preparing())
    }

    /// Stops all started programs and flushes records to disk.
    pub async fn shut_down(&self) -> Result<(), Error> {
        self.resources.shut_down().await;
        self.kernel.flush().await.store_error()
    }

    /// Whether plugins request files but no directory is granted, so that every path is "not found".
    pub fn lacks_grants(&self) -> bool {
        let asks = |served: &ServedPlugin| {
            plan_grants(&served.manifest, &self.settings, None)
                .files
                .is_some()
        };
        let loaded = self.loaded();
        let mut plugins = loaded.plugins.iter();
        loaded.plugins.iter().any(|served| asks(served))
            && plugins.all(|served| served.directories.is_empty())
    }

    /// Warnings about the rules with respect to the loaded tools.
    pub fn rule_warnings(&self) -> Vec<Diagnostic> {
        self.kernel.registry().rule_warnings(&self.settings.policy)
    }
}
