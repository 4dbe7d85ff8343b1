//! From folders of `*.wasm` to a kernel that serves their tools. One broken plugin never stops the others: it
//! becomes one line, and the rest is served.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use toolhost_contract::policy::Diagnostic;
use toolhost_contract::units::show_duration;
use toolhost_contract::{Descriptor, Digest, Limits, Manifest, ToolName, text};
use toolhost_kernel::hooks::HookEntry;
use toolhost_kernel::{Kernel, PluginInfo, Prompter};
use toolhost_runtime::{Compiler, Loaded, Plugin, PluginGrants, Runtime, RuntimeSettings, Staging};
use toolhost_store::Store;
use toolhost_telemetry::{Following, Telemetry};

use crate::agents::CommandAgents;
use crate::exit::{Exit, Failure, OrExit};
use crate::grants::{Granter, plan};
use crate::hooks;
use crate::outlets::Outlets;
use crate::settings::Settings;
use crate::staging;
use crate::terminal::note;
use crate::unused::unused;

mod find;

use find::find;

/// Loading reads and hashes whole files, so only so many at once are in memory. How many of them may compile is the
/// runtime's own, lower, number.
const LOADERS: usize = 4;
/// Warnings about shared names that are shown unasked: the operator chose what happens to them.
const FEW: usize = 3;

pub struct Host {
    pub kernel: Arc<Kernel>,
    pub plugins: Vec<Served>,
    pub broken: Vec<Broken>,
    pub settings: Settings,
    outlets: Outlets,
    /// Tells a collector what happens, when the environment names one.
    telemetry: Mutex<Option<Following>>,
    /// Where changes wait when there are no records.
    _temporary: Option<TempDir>,
}

/// A plugin whose tools are registered, and what it was given.
pub struct Served {
    pub path: PathBuf,
    pub manifest: Manifest,
    pub digest: Digest,
    pub size: u64,
    pub tools: Vec<ToolName>,
    /// Guest name, folder and `ro` or `rw`, for people.
    pub folders: Vec<Folder>,
    pub env: Vec<String>,
    /// What it may use beside files and variables.
    pub beyond: Vec<String>,
    pub limits: Limits,
}

pub struct Folder {
    pub guest: String,
    pub host: PathBuf,
    pub access: &'static str,
}

pub struct Broken {
    pub path: PathBuf,
    pub reason: String,
}

/// Loads everything the settings name. Says on standard error what could not be loaded.
pub async fn load(
    settings: Settings,
    prompter: Arc<dyn Prompter>,
    purpose: Purpose,
) -> Result<Host, Failure> {
    load_with(settings, prompter, purpose, |_| {}).await
}

/// The same, for those who have to hear what happens from the first event on: `begin` gets the kernel before anything
/// is sealed or registered.
pub async fn load_with(
    settings: Settings,
    prompter: Arc<dyn Prompter>,
    purpose: Purpose,
    begin: impl FnOnce(&Kernel),
) -> Result<Host, Failure> {
    if settings.plugins.is_empty() {
        let where_else = match settings.places.config_file() {
            Some(file) => format!(", or put `plugins = [\"DIR\"]` into {}", file.display()),
            None => String::new(),
        };
        return Err(Failure::new(
            Exit::Usage,
            format!("no plugin folder given; write --plugins DIR{where_else}"),
        ));
    }
    let store = open_store(&settings, purpose)?;
    let (staging, temporary) = match (&store, purpose) {
        (_, Purpose::Look | Purpose::Judge) => (None, None),
        (Some(store), Purpose::Run) => (Some(staging::of_store(store)?), None),
        (None, Purpose::Run) => {
            let (staging, dir) = staging::temporary()?;
            (Some(staging), Some(dir))
        }
    };
    let outlets = match purpose {
        Purpose::Run => Outlets::open(&settings).or_exit(Exit::Config)?,
        Purpose::Look | Purpose::Judge => Outlets::default(),
    };
    let own = temporary.as_ref().map(TempDir::path);
    let mut granter = Granter::hiding(&settings, own).or_exit(Exit::Config)?;
    let sandboxes = settings.pools.all + hooks::SANDBOXES;
    let runtime = runtime(settings.places.cache.clone(), sandboxes)?;
    let (files, mut broken) = find(&settings.plugins);
    let mut granted = Vec::new();
    for (path, loaded, took) in read_all(&runtime, files).await {
        match loaded
            .and_then(|loaded| grant(&settings, &mut granter, &outlets, loaded, staging.clone()))
        {
            Ok(one) => granted.push((one, path, took)),
            Err(reason) => broken.push(Broken { path, reason }),
        }
    }
    // The kernel is made with its hooks, so the plugins among them come before it and their tools after it.
    let (entries, mut missing) = hook_entries(&settings, granted.iter().map(|(one, ..)| one));
    let kernel = kernel(&settings, prompter, store, staging.as_ref(), entries, begin).await?;
    let mut plugins = Vec::new();
    for (one, path, took) in granted {
        let from_cache = one.plugin.loaded().from_cache();
        match register(&kernel, one) {
            Ok(served) => {
                if settings.verbose {
                    note_loaded(&served, from_cache, took);
                }
                plugins.push(served);
            }
            Err(reason) => broken.push(Broken { path, reason }),
        }
    }
    missing.extend(kernel.registry().problems().iter().cloned());
    let telemetry = match purpose {
        Purpose::Run => Telemetry::from_env(|name| std::env::var(name).ok())
            .or_exit(Exit::Config)?
            .map(|telemetry| telemetry.follow(kernel.subscribe(None, None))),
        Purpose::Look | Purpose::Judge => None,
    };
    let host = Host {
        kernel: kernel.share(),
        plugins,
        broken,
        settings,
        outlets,
        telemetry: Mutex::new(telemetry),
        _temporary: temporary,
    };
    host.keep_only_chosen_tools();
    host.report();
    match (missing.is_empty(), purpose) {
        (true, _) => {}
        (false, Purpose::Run | Purpose::Judge) => {
            return Err(Failure::new(Exit::Config, missing.join("\n")));
        }
        // Whoever looks at the plugins may be looking for the reason.
        (false, Purpose::Look) => missing
            .iter()
            .for_each(|words| note(&format!("error: {words}"))),
    }
    Ok(host)
}

fn note_loaded(served: &Served, from_cache: bool, took: Duration) {
    let how = if from_cache {
        "from the cache"
    } else {
        "compiled"
    };
    let Manifest { name, version, .. } = &served.manifest;
    note(&format!(
        "loaded {name} {version}: {} tools, {how}, {}",
        served.tools.len(),
        show_duration(took)
    ));
}

/// What the plugins are loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To list them. No record is made and none is needed.
    Look,
    /// To say what would be allowed: remembered yeses count, and no record is made.
    Judge,
    Run,
}

fn open_store(settings: &Settings, purpose: Purpose) -> Result<Option<Store>, Failure> {
    let dir = settings.store.as_ref().filter(|dir| match purpose {
        Purpose::Look => false,
        Purpose::Judge => dir.exists(),
        Purpose::Run => true,
    });
    dir.map(|dir| Store::open(dir).or_exit(Exit::Store))
        .transpose()
}

async fn kernel(
    settings: &Settings,
    prompter: Arc<dyn Prompter>,
    store: Option<Store>,
    staging: Option<&Staging>,
    hooks: Vec<HookEntry>,
    begin: impl FnOnce(&Kernel),
) -> Result<Kernel, Failure> {
    let agents = Arc::new(CommandAgents::new(settings.beyond.agents.clone()));
    let mut builder = Kernel::builder(settings.kernel())
        .prompter(prompter)
        .agents(agents);
    for hook in hooks {
        builder = builder.hook(hook);
    }
    if let Some(store) = store.clone() {
        builder = builder.store(store, settings.durability);
    }
    let kernel = builder.build().or_exit(Exit::Config)?;
    begin(&kernel);
    let Some(staging) = staging else {
        return Ok(kernel);
    };
    if let Some(store) = &store {
        staging::recover(store, staging).await?;
        staging::sweep(store, staging);
    }
    for sealed in kernel.seal().await.or_exit(Exit::Store)? {
        let tool = sealed.tool.as_deref().unwrap_or("a tool");
        note(&format!(
            "note: call {} of {} was left unfinished by a host that died: {}",
            text::inline(&sealed.id.0, 100),
            text::inline(tool, 100),
            sealed.advice
        ));
    }
    Ok(kernel)
}

/// The engine, with a cache if there is a place for it.
pub fn runtime(cache_dir: Option<PathBuf>, max_concurrent: usize) -> Result<Runtime, Failure> {
    // The compiler runs in a process of its own: it can be killed, and what it does to its memory is not ours.
    let program = std::env::current_exe().or_exit(Exit::Internal)?;
    let compiler = Compiler::Child {
        program,
        args: vec!["compile-worker".into()],
    };
    let runtime = Runtime::new(RuntimeSettings {
        cache_dir,
        compiler,
        max_concurrent,
    })
    .or_exit(Exit::Internal)?;
    for warning in runtime.warnings() {
        note(&format!("warning: {}", text::inline(warning, 500)));
    }
    Ok(runtime)
}

type Read = (PathBuf, Result<Loaded, String>, Duration);

/// Reads all files side by side and hands them back in their order, so that every start gives the same names.
async fn read_all(runtime: &Runtime, files: Vec<PathBuf>) -> Vec<Read> {
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
            done.insert(index, (loaded, took));
        }
    }
    let read = |(index, path)| {
        // A task that is missing has panicked; its plugin is broken and the others are not.
        let panicked = || {
            (
                Err("internal error of the host while loading".to_owned()),
                Duration::ZERO,
            )
        };
        let (loaded, took) = done.remove(&index).unwrap_or_else(panicked);
        (path, loaded, took)
    };
    files.into_iter().enumerate().map(read).collect()
}

/// A plugin with what it was given, not yet known to a kernel.
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
        .paths
        .iter()
        .filter(|path| path.guest.starts_with("/memory/"))
    {
        std::fs::create_dir_all(&path.host)
            .map_err(|error| format!("memory {}: {error}", path.host.display()))?;
    }
    plan.capabilities.net = outlets
        .net_for(&manifest)
        .map_err(|error| format!("{error:#}"))?;
    plan.capabilities.programs = outlets.programs_for(&manifest);
    let scope = granter.grant(&plan).map_err(|error| error.to_string())?;
    let folders = scope
        .roots()
        .iter()
        .map(|root| Folder {
            guest: root.guest().to_owned(),
            host: root.host().to_owned(),
            access: match root.access() {
                toolhost_vfs::Access::ReadOnly => "ro",
                toolhost_vfs::Access::ReadWrite => "rw",
            },
        })
        .collect();
    // A variable that is not set, or is not text, is not granted either.
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

fn register(kernel: &Kernel, granted: Granted) -> Result<Served, String> {
    let Granted {
        mut served,
        info,
        plugin,
        ..
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
    /// Everything that happened is on disk, and told to whoever listens, when this returns.
    pub async fn finish(&self) -> Result<(), Failure> {
        self.outlets.close().await;
        let telemetry = self
            .telemetry
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(telemetry) = telemetry
            && let Err(error) = telemetry.shutdown().await
        {
            note(&format!("warning: telemetry: {error}"));
        }
        self.kernel.flush().await.or_exit(Exit::Store)
    }

    /// A host that cannot do anything is an error; one that can do less than it was told is not.
    pub fn require_plugins(&self) -> Result<(), Failure> {
        if self.plugins.is_empty() {
            return Err(Failure::new(
                Exit::NoPlugin,
                "no plugin could be loaded; the lines above say why",
            ));
        }
        Ok(())
    }

    /// Do plugins ask for files while no folder is granted? Then say it once: every path will be "not found".
    pub fn note_missing_folders(&self) {
        let asks = |served: &Served| plan(&served.manifest, &self.settings, None).files.is_some();
        if self.plugins.iter().any(asks)
            && self.plugins.iter().all(|served| served.folders.is_empty())
        {
            note(
                "note: no folder is granted, so tools see no files; grant one with --allow-path DIR or DIR:rw",
            );
        }
    }

    fn keep_only_chosen_tools(&self) {
        let registry = self.kernel.registry();
        for only in &self.settings.only_tools {
            let chosen: BTreeSet<&ToolName> = only
                .iter()
                .filter_map(|name| registry.name_of(name))
                .collect();
            for name in registry.names().filter(|name| !chosen.contains(name)) {
                // The name comes from the registry itself, so it is known.
                let _ = self.kernel.set_enabled(name.as_str(), false);
            }
        }
    }

    /// What is odd about the rules, seen beside the tools that are loaded.
    pub fn findings(&self) -> Vec<Diagnostic> {
        let registry = self.kernel.registry();
        let tools: Vec<&Descriptor> = registry.list_all().map(|entry| &*entry.tool).collect();
        self.settings.policy.check(&tools)
    }

    /// What went wrong, and which words of the operator had no effect.
    fn report(&self) {
        for Broken { path, reason } in &self.broken {
            let reason = text::inline(reason, 2_000);
            let named = reason.contains(&*path.to_string_lossy());
            let place = if named {
                String::new()
            } else {
                format!("{}: ", path.display())
            };
            note(&format!("error: {place}{reason}"));
        }
        for left_out in self.kernel.registry().left_out() {
            note(&format!("error: {left_out}"));
        }
        for warning in &self.settings.warnings {
            note(&format!("warning: {warning}"));
        }
        let warnings = self.kernel.warnings();
        let shown = if self.settings.verbose {
            warnings.len()
        } else {
            FEW
        };
        for warning in warnings.iter().take(shown) {
            note(&format!("warning: {warning}"));
        }
        if warnings.len() > shown {
            note(&format!(
                "warning: {} more names are shared; --verbose lists them",
                warnings.len() - shown
            ));
        }
        // With a plugin missing, its rules have nothing to match either, and one error is enough.
        if self.broken.is_empty() {
            let plugins: Vec<&str> = self
                .plugins
                .iter()
                .map(|served| served.manifest.name.as_str())
                .collect();
            let registry = self.kernel.registry();
            for found in self.findings() {
                note(&format!("warning: {}: {}", found.at, found.message));
            }
            for word in unused(&self.settings, &registry, &plugins) {
                note(&format!("warning: {word}"));
            }
        }
    }
}
