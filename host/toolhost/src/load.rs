//! Loads directories of `*.wasm` plugins into a kernel.
//!
//! A plugin that cannot be loaded is listed with its error and does not affect the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use toolhost_contract::policy::Diagnostic;
use toolhost_contract::{Backend, Descriptor, Digest, Limits, Manifest, ToolName, text};
use toolhost_hostfiles::make_private_below;
use toolhost_kernel::hooks::HookEntry;
use toolhost_kernel::{Agents, Kernel, OnSessionEnd, PluginInfo, Prompter, Resources};
use toolhost_process::Launcher;
use toolhost_runtime::{
    Compiler, Loaded, Plugin, PluginGrants, Runtime, RuntimeSettings, Staging, is_own_folder,
    read_manifest,
};
use toolhost_store::Store;
use toolhost_vfs::Scope;

use crate::agents::CommandAgents;
use crate::error::{As as _, Error};
use crate::grants::{Granter, Plan, plan};
use crate::hooks;
use crate::outlets::{OUTPUT, Outlets};
use crate::own;
use crate::retention::{self, Keeper};
use crate::scratch::Scratch;
use crate::settings::{AllowedPath, Settings};
use crate::staging;

mod find;

pub use find::Broken;
use find::find;

/// Maximum number of plugin files loaded concurrently, because whole files are read into memory. The runtime has its
/// own, lower limit of concurrent compilations.
const LOADERS: usize = 4;

/// Receives notes and warnings for the user.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// The inputs for loading a host.
pub struct Parts {
    pub settings: Settings,
    pub purpose: Purpose,
    pub prompter: Arc<dyn Prompter>,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// The launcher of programs; required if programs are allowed.
    pub launcher: Option<Launcher>,
    /// Replaces the sub-agent commands of the settings.
    pub agents: Option<Arc<dyn Agents>>,
    pub resources: Option<Arc<dyn Resources>>,
    /// Hooks that run before those of the settings.
    pub hooks: Vec<HookEntry>,
    /// Native tools, registered after those of plugins.
    pub backends: Vec<(PluginInfo, Arc<dyn Backend>)>,
    pub say: Say,
}

/// The purpose of loading the plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// List the plugins. No records are written or read.
    Look,
    /// Explain decisions. Saved approvals are read; no records are written.
    Judge,
    /// Run calls.
    Run,
}

/// A kernel with loaded plugins.
pub struct Host {
    pub kernel: Arc<Kernel>,
    pub plugins: Vec<Served>,
    pub broken: Vec<Broken>,
    /// Errors about missing hooks and missing dependencies of tools.
    pub missing: Vec<String>,
    pub settings: Settings,
    outlets: Outlets,
    /// Staging directory if there is no store.
    _temporary: Option<Scratch>,
    /// Enforces the retention settings.
    _keeper: Option<Keeper>,
}

/// A plugin with registered tools, and its grants.
pub struct Served {
    pub path: PathBuf,
    /// Whether the compiled code was in the cache.
    pub from_cache: bool,
    /// How long loading took.
    pub took: Duration,
    pub manifest: Manifest,
    pub digest: Digest,
    /// Size of its file in bytes.
    pub size: u64,
    pub tools: Vec<ToolName>,
    /// Granted directories, for display.
    pub folders: Vec<Folder>,
    pub env: Vec<String>,
    /// Other granted capabilities, for display.
    pub beyond: Vec<String>,
    pub limits: Limits,
}

pub struct Folder {
    pub guest: String,
    pub host: PathBuf,
    pub access: &'static str,
}

impl Folder {
    /// Whether it is a directory that the host provides (memory, skills or output of programs) and not one of the user.
    pub fn is_own(&self) -> bool {
        is_own_folder(&self.guest)
    }
}

impl Parts {
    /// Parts without a prompter, launcher or message receiver, compiling in this process.
    pub fn new(settings: Settings, purpose: Purpose) -> Self {
        Self {
            settings,
            purpose,
            prompter: Arc::new(toolhost_kernel::Nobody),
            compiler: Compiler::InProcess,
            launcher: None,
            agents: None,
            resources: None,
            hooks: Vec::new(),
            backends: Vec::new(),
            say: Arc::new(|_| {}),
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
        self.settings.beyond.other_agents |= self.agents.is_some();
        let (settings, purpose) = (&self.settings, self.purpose);
        let store = open_store(settings, purpose)?;
        let (staging, temporary) = match (&store, purpose) {
            (_, Purpose::Look | Purpose::Judge) => (None, None),
            (Some(store), Purpose::Run) => (Some(staging::of_store(store)?), None),
            (None, Purpose::Run) => {
                let (staging, dir) = staging::temporary()?;
                (Some(staging), Some(dir))
            }
        };
        let outlets = match purpose {
            Purpose::Run => {
                Outlets::open(settings, self.launcher.as_ref(), &self.say).of_settings()?
            }
            // Decisions depend on whether the host runs the commands of a tool.
            Purpose::Judge => {
                Outlets::of_programs(settings, self.launcher.as_ref()).of_settings()?
            }
            Purpose::Look => Outlets::default(),
        };
        let own = temporary.as_ref().map(Scratch::path);
        let own = own.into_iter().chain(outlets.output());
        let granter = Granter::hiding(settings, own).of_settings()?;
        let calls = settings.pools.total().saturating_mul(settings.users.max(1));
        let hooks = hooks::SANDBOXES.saturating_mul(settings.users.max(1));
        let sandboxes = calls.saturating_add(hooks);
        let cache = settings.places.cache.clone();
        let runtime = runtime(cache, sandboxes, self.compiler.clone(), &self.say)?;
        let (files, broken) = find(&settings.plugins);
        let on_end = outlets.on_session_end();
        let kernel = self.kernel(store.clone(), staging.as_ref(), on_end, begin);
        let kernel = kernel.await?;
        // After recovery of interrupted commits.
        let keeper = store.zip(staging.clone()).map(|(store, staging)| {
            let places = self.settings.places.clone();
            retention::start(store, staging, places, self.settings.retention)
        });
        Ok(PreparedHost {
            kernel: kernel.share(),
            settings: self.settings,
            hooks: self.hooks,
            backends: self.backends,
            staging,
            outlets,
            granter,
            runtime,
            files,
            broken,
            temporary,
            keeper,
        })
    }

    async fn kernel(
        &mut self,
        store: Option<Store>,
        staging: Option<&Staging>,
        on_session_end: Option<OnSessionEnd>,
        begin: impl FnOnce(&Kernel),
    ) -> Result<Kernel, Error> {
        let settings = &self.settings;
        let agents = self.agents.take();
        let commands = || {
            let commands = settings.beyond.agents.clone();
            CommandAgents::new(commands, self.launcher.clone())
        };
        let agents = agents.unwrap_or_else(|| Arc::new(commands()));
        let mut builder = Kernel::builder(settings.kernel())
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
        let kernel = builder.build().of_settings()?;
        begin(&kernel);
        let Some(staging) = staging else {
            return Ok(kernel);
        };
        if let Some(store) = &store {
            staging::recover(store, staging, &self.say).await?;
        }
        for sealed in kernel.seal().await.of_store()? {
            // A read-only call has no effects to report.
            if !sealed.effectful {
                continue;
            }
            let tool = sealed.tool.as_deref().unwrap_or("a tool");
            (self.say)(&format!(
                "note: call {} of {} did not finish before its host exited: {}",
                text::inline(&sealed.id.0, 100),
                text::inline(tool, 100),
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
    outlets: Outlets,
    granter: Granter,
    runtime: Runtime,
    files: Vec<PathBuf>,
    broken: Vec<Broken>,
    temporary: Option<Scratch>,
    keeper: Option<Keeper>,
}

/// Progress report: a plugin that was not in the cache has been compiled.
#[derive(Debug, Clone, Copy)]
pub struct CompiledPlugin<'a> {
    pub path: &'a Path,
    /// Number of plugins processed so far, including this one.
    pub done: usize,
    pub of: usize,
}

impl PreparedHost {
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Returns a function that blocks plugins from connecting to an address, for addresses that this host listens on.
    pub fn keep_off(&self) -> impl Fn(SocketAddr) + use<> {
        self.outlets.keep_off()
    }

    /// The guest paths of the directories that tools will see. Reads the manifests of all plugins.
    pub fn folders(&self) -> BTreeSet<String> {
        let manifests = self
            .files
            .iter()
            .filter_map(|path| read_manifest(path).ok());
        manifests
            .flat_map(|manifest| {
                let plan = plan(&manifest, &self.settings, self.outlets.output());
                plan.paths.into_iter().chain(plan.own)
            })
            .map(|path| path.guest)
            .collect()
    }

    /// Compiles the plugins or loads them from the cache, and registers their tools.
    pub async fn load(mut self, compiled: impl Fn(CompiledPlugin<'_>)) -> Result<Host, Error> {
        let mut broken = self.broken;
        let mut granted = Vec::new();
        for (path, loaded, took) in read_all(&self.runtime, self.files, compiled).await {
            match loaded.and_then(|loaded| {
                let (settings, granter) = (&self.settings, &mut self.granter);
                grant(
                    settings,
                    granter,
                    &self.outlets,
                    loaded,
                    self.staging.clone(),
                )
            }) {
                Ok(mut one) => {
                    one.served.took = took;
                    granted.push(one);
                }
                Err(reason) => broken.push(Broken::new(path, &reason)),
            }
        }
        // Before the first tool is registered, because plugins can be hooks and no call may run without hooks.
        let (entries, mut missing) = hook_entries(&self.settings, granted.iter());
        self.hooks.extend(entries);
        self.kernel.set_hooks(self.hooks).internal()?;
        let mut plugins = Vec::new();
        for one in granted {
            let path = one.served.path.clone();
            match register(&self.kernel, one) {
                Ok(served) => plugins.push(served),
                Err(reason) => broken.push(Broken::new(path, &reason)),
            }
        }
        for (info, backend) in self.backends {
            let name = info.name.clone();
            self.kernel
                .register(info, backend)
                .map_err(|error| Error::Settings(format!("plugin `{name}`: {error}")))?;
        }
        missing.extend(self.kernel.registry().problems().iter().cloned());
        let host = Host {
            kernel: self.kernel,
            plugins,
            broken,
            missing,
            settings: self.settings,
            outlets: self.outlets,
            _temporary: self.temporary,
            _keeper: self.keeper,
        };
        host.keep_only_chosen_tools();
        Ok(host)
    }
}

fn open_store(settings: &Settings, purpose: Purpose) -> Result<Option<Store>, Error> {
    let dir = settings.store.as_ref().filter(|dir| match purpose {
        Purpose::Look => false,
        Purpose::Judge => dir.exists(),
        Purpose::Run => true,
    });
    dir.map(|dir| Store::open(dir).of_store()).transpose()
}

/// Creates the runtime, with a cache if there is a directory for it.
pub fn runtime(
    cache_dir: Option<PathBuf>,
    max_concurrent: usize,
    compiler: Compiler,
    say: &Say,
) -> Result<Runtime, Error> {
    let runtime = Runtime::new(RuntimeSettings {
        cache_dir,
        compiler,
        max_concurrent,
    })
    .internal()?;
    for warning in runtime.warnings() {
        say(&format!("warning: {}", text::inline(warning, 500)));
    }
    Ok(runtime)
}

type Read = (PathBuf, Result<Loaded, String>, Duration);

/// Loads all files concurrently and returns them in order, so that every start assigns the same tool names.
async fn read_all(
    runtime: &Runtime,
    files: Vec<PathBuf>,
    compiled: impl Fn(CompiledPlugin<'_>),
) -> Vec<Read> {
    let turns = Arc::new(Semaphore::new(LOADERS));
    let mut tasks = JoinSet::new();
    for (index, path) in files.iter().cloned().enumerate() {
        let (runtime, turns) = (runtime.clone(), Arc::clone(&turns));
        tasks.spawn(async move {
            let _turn = turns.acquire().await;
            let start = Instant::now();
            let loaded = runtime.load(&path).await.map_err(|error| error.to_string());
            (index, loaded, start.elapsed())
        });
    }
    let mut done = BTreeMap::new();
    while let Some(result) = tasks.join_next().await {
        if let Ok((index, loaded, took)) = result {
            let is_new = loaded.as_ref().is_ok_and(|loaded| !loaded.from_cache());
            done.insert(index, (loaded, took));
            if is_new {
                compiled(CompiledPlugin {
                    path: &files[index],
                    done: done.len(),
                    of: files.len(),
                });
            }
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

/// A plugin with its grants that is not registered yet.
struct Granted {
    served: Served,
    info: PluginInfo,
    plugin: Arc<Plugin>,
}

fn grant(
    settings: &Settings,
    granter: &mut Granter,
    outlets: &Outlets,
    loaded: Loaded,
    staging: Option<Staging>,
) -> Result<Granted, String> {
    let manifest = loaded.manifest().clone();
    let mut plan = plan(&manifest, settings, outlets.output());
    for path in plan
        .own
        .iter()
        .filter(|path| path.guest.starts_with("/memory/"))
    {
        let base = settings.beyond.memory.as_deref().unwrap_or(&path.host);
        make_private_below(base, &path.host).map_err(|error| format!("memory: {error}"))?;
    }
    plan.capabilities.net = outlets
        .net_for(&manifest)
        .map_err(|error| format!("{error:#}"))?;
    plan.capabilities.programs = outlets.programs_for(&manifest);
    let scope = granter.grant(&plan).map_err(|error| error.to_string())?;
    let processes = outlets.processes().filter(|_| reads_output(&plan));
    let own = own::folders(&manifest, settings, processes);
    let folders = folders(&scope, &plan.own);
    // Variables that are unset or not UTF-8 are not granted.
    let env: Vec<(String, String)> = plan
        .env
        .into_iter()
        .filter_map(|name| {
            let own = settings.beyond.variables.get(&name).cloned();
            let value = own.or_else(|| std::env::var(&name).ok());
            Some((name, value?))
        })
        .collect();
    let served = Served {
        path: loaded.path().to_owned(),
        from_cache: loaded.from_cache(),
        took: Duration::ZERO,
        digest: loaded.digest(),
        size: loaded.size(),
        tools: Vec::new(),
        folders,
        env: env.iter().map(|(name, _)| name.clone()).collect(),
        beyond: plan.beyond,
        limits: plan.limits.clone(),
        manifest,
    };
    let info = PluginInfo {
        name: served.manifest.name.clone(),
        version: served.manifest.version.clone(),
        digest: Some(served.digest),
        timeout: plan.limits.timeout,
    };
    let plugin = loaded
        .grant(PluginGrants {
            own,
            scope,
            env,
            limits: plan.limits,
            staging,
            capabilities: plan.capabilities,
        })
        .map_err(|error| error.to_string())?;
    Ok(Granted {
        served,
        info,
        plugin: Arc::new(plugin),
    })
}

fn reads_output(plan: &Plan) -> bool {
    plan.own.iter().any(|folder| folder.guest == OUTPUT)
}

fn folders(scope: &Scope, own: &[AllowedPath]) -> Vec<Folder> {
    let granted = scope.roots().iter().map(|root| Folder {
        guest: root.guest().to_owned(),
        host: root.host().to_owned(),
        access: match root.access() {
            toolhost_vfs::Access::ReadOnly => "ro",
            toolhost_vfs::Access::ReadWrite => "rw",
        },
    });
    let own = own.iter().map(|folder| Folder {
        guest: folder.guest.clone(),
        host: folder.host.clone(),
        access: folder.access.as_str(),
    });
    granted.chain(own).collect()
}

fn register(kernel: &Kernel, granted: Granted) -> Result<Served, String> {
    let Granted {
        mut served,
        info,
        plugin,
    } = granted;
    served.tools = kernel
        .register(info, plugin)
        .map_err(|error| error.to_string())?;
    Ok(served)
}

fn hook_entries<'a>(
    settings: &Settings,
    granted: impl Iterator<Item = &'a Granted>,
) -> (Vec<HookEntry>, Vec<String>) {
    let candidates: Vec<_> = granted
        .map(|one| hooks::Candidate {
            name: one.info.name.clone(),
            plugin: Arc::clone(&one.plugin),
        })
        .collect();
    hooks::entries(&settings.hooks, &candidates)
}

impl Host {
    /// Stops all started programs and flushes records to disk.
    pub async fn finish(&self) -> Result<(), Error> {
        self.outlets.close().await;
        self.kernel.flush().await.of_store()
    }

    /// Whether plugins request files but no directory is granted, so that every path is "not found".
    pub fn lacks_folders(&self) -> bool {
        let asks = |served: &Served| plan(&served.manifest, &self.settings, None).files.is_some();
        self.plugins.iter().any(asks) && self.plugins.iter().all(|served| served.folders.is_empty())
    }

    /// Warnings about the rules with respect to the loaded tools.
    pub fn findings(&self) -> Vec<Diagnostic> {
        let registry = self.kernel.registry();
        let tools: Vec<&Descriptor> = registry.list_all().map(|entry| &*entry.tool).collect();
        self.settings.policy.check(&tools)
    }

    fn keep_only_chosen_tools(&self) {
        let registry = self.kernel.registry();
        for only in &self.settings.only_tools {
            let chosen: BTreeSet<&ToolName> = only
                .iter()
                .filter_map(|name| registry.name_of(name))
                .collect();
            for name in registry.names().filter(|name| !chosen.contains(name)) {
                // The name comes from the registry, so this cannot fail.
                let _ = self.kernel.set_enabled(name.as_str(), false);
            }
        }
    }
}
