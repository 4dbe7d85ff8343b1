//! Loads plugins and servers according to the settings, and reports problems to the user.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use toolhost::mcp_servers::MessageLimiter;
use toolhost::{
    Agents, BrokenPlugin, CommandAgents, Compiler, Error, HostParts, Launcher, LoadProgress,
    PreparedHost, Profile, Prompter, Resources, ServedPlugin,
};
use toolhost_contract::units::format_duration;
use toolhost_contract::{Capability, Manifest, Mode, text};
use toolhost_kernel::Kernel;
use toolhost_mcp_server::{ClientAgents, Readiness};
use toolhost_packages::{InstalledPackages, TrustPolicy};
use toolhost_runtime::{CodeState, Runtime, RuntimeSettings};
use toolhost_telemetry::{Telemetry, TelemetryTask};

use crate::exit::{CliError, Exit, OrExit};
use crate::serve::ui::WebPage;
use crate::settings::CliSettings;
use crate::terminal::note;
use crate::terminal::progress::{Progress, ProgressMode};
use crate::unmatched_settings::unmatched_settings;

mod live_changes;
mod resources;
mod server_log;
pub mod servers;

use resources::ServerResources;
use servers::{ConfiguredServer, OnServerEvent, Registrar, ServerStorage, Servers};

pub use toolhost::LoadPurpose;

/// Maximum number of warnings about duplicate names without `--verbose`.
const MAX_WARNINGS: usize = 3;

pub struct RunningHost {
    pub kernel: Arc<Kernel>,
    pub loaded: toolhost::Host,
    pub settings: CliSettings,
    servers: Mutex<Servers>,
    /// Receives what servers report. Set when servers are started.
    on_server_event: OnceLock<Arc<OnServerEvent>>,
    /// Held while servers are read again.
    reloading: tokio::sync::Mutex<()>,
    resources: Arc<ServerResources>,
    readiness: watch::Sender<Readiness>,
    settle_task: Mutex<Option<JoinHandle<()>>>,
    /// Whether [`Host::settle`] has reported.
    has_reported: AtomicBool,
    /// Exports telemetry if the environment configures a collector.
    telemetry: Mutex<Option<TelemetryTask>>,
    /// The web page, for commands that serve calls.
    page: Option<Arc<WebPage>>,
}

/// Loads all plugins and servers of the settings. Reports failures on standard error.
pub async fn load(
    settings: CliSettings,
    prompter: Arc<dyn Prompter>,
    purpose: LoadPurpose,
) -> Result<RunningHost, CliError> {
    load_with(settings, prompter, purpose, |_| {}).await
}

/// Like [`load`], for callers that need all events: `begin` is called with the kernel before anything is sealed or
/// registered.
pub async fn load_with(
    settings: CliSettings,
    prompter: Arc<dyn Prompter>,
    purpose: LoadPurpose,
    begin: impl FnOnce(&Kernel),
) -> Result<RunningHost, CliError> {
    let host = load_without_servers(settings, prompter, purpose, begin).await?;
    host.connect();
    host.wait_for_servers().await;
    Ok(host)
}

/// Like [`load_with`], without starting servers; [`Host::connect`] starts them.
pub async fn load_without_servers(
    settings: CliSettings,
    prompter: Arc<dyn Prompter>,
    purpose: LoadPurpose,
    begin: impl FnOnce(&Kernel),
) -> Result<RunningHost, CliError> {
    let starting = prepare(settings, prompter, purpose, begin).await?;
    starting.load(|_| {}).await
}

/// A host with checked settings whose plugins are not compiled yet. It can already serve clients.
pub struct StartingHost {
    prepared: PreparedHost,
    pub settings: CliSettings,
    purpose: LoadPurpose,
    resources: Arc<ServerResources>,
    telemetry: Option<TelemetryTask>,
    pub page: Option<Arc<WebPage>>,
    readiness: watch::Sender<Readiness>,
}

/// Performs all steps that need no compiled plugin. Invalid settings are an error.
pub async fn prepare(
    settings: CliSettings,
    prompter: Arc<dyn Prompter>,
    purpose: LoadPurpose,
    begin: impl FnOnce(&Kernel),
) -> Result<StartingHost, CliError> {
    if !settings.core.has_plugins() && !settings.has_servers() {
        let where_else = match settings.core.host_paths.config_file() {
            Some(file) => format!(", set `plugins = [\"DIR\"]` in {}", file.display()),
            None => String::new(),
        };
        return Err(CliError::new(
            Exit::Usage,
            format!(
                "no plugins given; pass --plugins DIR{where_else}, or install one with `host add`"
            ),
        ));
    }
    if purpose == LoadPurpose::Run && settings.lacks_state_dir {
        note(
            "warning: no records are kept and nothing can be undone; set HOME or TOOLHOST_STATE_DIR",
        );
    }
    let resources = Arc::new(ServerResources::default());
    let telemetry = match purpose {
        LoadPurpose::Run => {
            Telemetry::from_env(|name| std::env::var(name).ok()).or_exit(Exit::Config)?
        }
        LoadPurpose::List | LoadPurpose::Explain => None,
    };
    let mut events = None;
    let begin = |kernel: &Kernel| {
        begin(kernel);
        events = telemetry.is_some().then(|| kernel.subscribe(None, None));
    };
    let launcher = Launcher::this_program(["process-launcher".into()]);
    let prepared = HostParts {
        prompter,
        agents: agents(&settings, &launcher),
        compiler: compiler()?,
        // Lists say which plugins cannot be compiled.
        defers_compilation: purpose == LoadPurpose::Run,
        launcher: Some(launcher),
        resources: Some(Arc::clone(&resources) as Arc<dyn Resources>),
        on_message: Arc::new(note),
        ..HostParts::new(settings.core.clone(), purpose)
    }
    .prepare(begin)
    .await?;
    let telemetry = telemetry.zip(events);
    let telemetry = telemetry.map(|(telemetry, events)| telemetry.spawn(events));
    Ok(StartingHost {
        prepared,
        settings,
        purpose,
        resources,
        telemetry,
        page: None,
        readiness: watch::Sender::default(),
    })
}

/// Loads the plugins for a list, without servers and without messages.
pub async fn load_quietly(settings: &CliSettings) -> Result<toolhost::Host, CliError> {
    let parts = HostParts {
        compiler: compiler()?,
        launcher: Some(Launcher::this_program(["process-launcher".into()])),
        ..HostParts::new(settings.core.clone(), LoadPurpose::List)
    };
    Ok(parts.prepare(|_| {}).await?.load(|_| {}).await?)
}

impl StartingHost {
    pub fn kernel(&self) -> &Arc<Kernel> {
        self.prepared.kernel()
    }

    /// The guest paths of the directories that tools will see.
    pub fn guest_paths(&self) -> BTreeSet<String> {
        self.prepared.guest_paths()
    }

    /// Returns a function that blocks plugins from connecting to an address, for addresses that this host listens on.
    pub fn block_address(&self) -> impl Fn(SocketAddr) + use<> {
        self.prepared.block_address()
    }

    pub fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    /// Loads the plugins. Reports progress and failures on standard error.
    pub async fn load(self, report: impl Fn(LoadProgress<'_>)) -> Result<RunningHost, CliError> {
        let shown = Progress::start("loading plugins", ProgressMode::of_terminal());
        let is_compiling = AtomicBool::new(false);
        let progress = |plugin: LoadProgress<'_>| {
            let LoadProgress { done, total, .. } = plugin;
            is_compiling.fetch_or(plugin.is_compiled, Ordering::Relaxed);
            let verb = if is_compiling.load(Ordering::Relaxed) {
                "compiling"
            } else {
                "loading"
            };
            shown.set_title(&format!("{verb} plugins ({done}/{total})"));
            report(plugin);
        };
        let loaded = self.prepared.load(progress).await?;
        drop(shown);
        let host = RunningHost {
            kernel: Arc::clone(&loaded.kernel),
            telemetry: Mutex::new(self.telemetry),
            loaded,
            settings: self.settings,
            servers: Mutex::default(),
            on_server_event: OnceLock::new(),
            reloading: tokio::sync::Mutex::default(),
            resources: self.resources,
            readiness: self.readiness,
            settle_task: Mutex::default(),
            has_reported: AtomicBool::new(false),
            page: self.page,
        };
        host.report_problems();
        if self.purpose == LoadPurpose::Run {
            host.require_typed_plugins()?;
        }
        let missing = &host.loaded.missing;
        match (missing.is_empty(), self.purpose) {
            (true, _) => {}
            (false, LoadPurpose::Run | LoadPurpose::Explain) => {
                return Err(CliError::new(Exit::Config, missing.join("\n")));
            }
            // A user who inspects the plugins may be looking for this error.
            (false, LoadPurpose::List) => missing
                .iter()
                .for_each(|message| note(&format!("error: {message}"))),
        }
        Ok(host)
    }
}

/// The configured sub-agent commands, and the MCP client of a call if sampling is enabled.
fn agents(settings: &CliSettings, launcher: &Launcher) -> Option<Arc<dyn Agents>> {
    let prompter = settings.mcp.prompter.clone();
    let prompter = prompter.filter(|_| settings.mcp.sampling)?;
    let commands = CommandAgents::new(&settings.core, Some(launcher.clone()));
    Some(Arc::new(ClientAgents::new(prompter, Arc::new(commands))))
}

impl From<Error> for CliError {
    fn from(error: Error) -> Self {
        let exit = match error {
            Error::Settings(_) => Exit::Config,
            Error::NoPlugins => Exit::Usage,
            Error::Store(_) => Exit::Store,
            Error::Internal(_) => Exit::Internal,
        };
        CliError::new(exit, error)
    }
}

/// The compiler runs in a separate process, which can be killed and whose memory is isolated from the host.
pub fn compiler() -> Result<Compiler, CliError> {
    Ok(Compiler::Child {
        program: std::env::current_exe().or_exit(Exit::Internal)?,
        args: vec!["compile-worker".into()],
    })
}

/// The runtime without a kernel, with a cache if there is a directory for it.
pub fn runtime(cache_dir: Option<PathBuf>, max_concurrent: usize) -> Result<Runtime, CliError> {
    let say: toolhost::MessageSink = Arc::new(note);
    let settings = RuntimeSettings {
        cache_dir,
        compiler: compiler()?,
        max_concurrent,
        environment: toolhost::environment::describe(Mode::default(), Profile::default()),
    };
    let packages = InstalledPackages::new(None);
    Ok(toolhost::runtime(
        settings,
        TrustPolicy::default(),
        packages,
        &say,
    )?)
}

/// The file and the reason why it could not be loaded, in one line.
fn describe_broken(BrokenPlugin { path, reason }: &BrokenPlugin) -> String {
    let reason = text::escape_line(reason, 2_000);
    let path = text::escape_line(&path.to_string_lossy(), 4_096);
    if reason.contains(&path) {
        reason
    } else {
        format!("{path}: {reason}")
    }
}

fn note_loaded(served: &ServedPlugin) {
    let how = match served.code_state {
        CodeState::Cached => "from the cache",
        CodeState::Compiled => "compiled",
        CodeState::NotCompiled => "not compiled yet",
    };
    let Manifest { name, version, .. } = &served.manifest;
    note(&format!(
        "loaded {name} {version}: {} tools, {how}, {}",
        served.tools.len(),
        format_duration(served.load_time)
    ));
}

/// Returns memory that only the start needed to the kernel. The allocator does that when it is used, and an idle host
/// does not use it.
fn release_unused_memory() {
    // SAFETY: it has no preconditions, and allocations of all threads stay valid.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

impl RunningHost {
    /// Compiles plugins in the background, so that their first calls need not wait.
    pub fn compile_in_background(self: &Arc<Self>) {
        let host = Arc::clone(self);
        tokio::spawn(async move {
            let warn = |broken: &BrokenPlugin| {
                note(&format!(
                    "warning: {}; its calls fail",
                    describe_broken(broken)
                ));
            };
            host.loaded.compile_plugins(warn).await;
            // The threads that loaded plugins end first, because each keeps memory for itself.
            tokio::time::sleep(2 * crate::IDLE_THREADS).await;
            release_unused_memory();
        });
    }

    /// Starts other servers and the discovery command. A failure is reported and does not affect the others.
    pub fn connect(&self) {
        if !self.settings.has_servers() {
            self.readiness.send_replace(Readiness::Settled);
            return;
        }
        self.readiness.send_replace(Readiness::Loaded);
        let keep = ServerStorage::from_settings(&self.settings);
        let servers = Servers::start(&self.settings, &keep, self.on_server_event());
        self.resources.set(&servers);
        let started: Vec<_> = servers.started().map(Arc::clone).collect();
        *self.servers.lock().unwrap_or_else(PoisonError::into_inner) = servers;
        let discovery = self.settings.discovery.clone();
        let verbose = self.settings.verbose;
        let kernel = Arc::clone(&self.kernel);
        let readiness = self.readiness.clone();
        let settling = tokio::spawn(async move {
            let discovered = async {
                let Some(discovery) = &discovery else {
                    return;
                };
                if let Err(reason) = servers::discover(discovery, verbose, &keep, &kernel).await {
                    note(&format!("error: {reason}"));
                }
            };
            tokio::join!(discovered, servers::wait_until_started(&started));
            readiness.send_replace(Readiness::Settled);
        });
        *self
            .settle_task
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(settling);
    }

    fn on_server_event(&self) -> Arc<OnServerEvent> {
        let create = || -> Arc<OnServerEvent> {
            let registrar = Registrar {
                kernel: Arc::downgrade(&self.kernel),
                verbose: self.settings.verbose,
                limiter: MessageLimiter::default(),
            };
            Arc::new(move |shared: &_, event| registrar.on_event(shared, event))
        };
        Arc::clone(self.on_server_event.get_or_init(create))
    }

    /// Whether the tool belongs to a plugin that neither calls other tools nor uses resources of servers.
    pub fn needs_no_servers(&self, tool: &str) -> bool {
        const OTHERS: [Capability; 3] =
            [Capability::Tools, Capability::Agents, Capability::Resources];
        let registry = self.kernel.registry();
        let Some(entry) = registry.get(tool) else {
            return false;
        };
        let loaded = self.loaded.loaded();
        let mut plugins = loaded.plugins.iter();
        let plugin = plugins.find(|served| served.manifest.name == entry.plugin.name);
        plugin.is_some_and(|served| {
            let mut needs = served.manifest.needs.iter();
            !needs.any(|need| OTHERS.contains(&need.capability))
        })
    }

    /// Waits until other servers have registered their tools or timed out, then reports problems.
    pub async fn wait_for_servers(&self) {
        if self.wait_for_some_servers().await {
            self.report_unmatched();
        }
    }

    /// Like [`Self::wait_for_servers`] if not all configured servers were started: rules and settings for the others
    /// match nothing. Returns whether problems were reported, which happens once.
    pub async fn wait_for_some_servers(&self) -> bool {
        let mut readiness = self.readiness.subscribe();
        // The sender is a field of `self`, so this cannot fail.
        let _ = readiness
            .wait_for(|reached| *reached == Readiness::Settled)
            .await;
        if self.has_reported.swap(true, Ordering::Relaxed) {
            return false;
        }
        self.servers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .report();
        true
    }

    /// Stops servers, flushes records to disk and delivers pending events and telemetry.
    pub async fn shut_down(&self) -> Result<(), CliError> {
        let settling = self
            .settle_task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(settling) = settling {
            settling.abort();
        }
        let servers =
            std::mem::take(&mut *self.servers.lock().unwrap_or_else(PoisonError::into_inner));
        servers.stop().await;
        let telemetry = self
            .telemetry
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let finished = self.loaded.shut_down().await;
        if let Some(telemetry) = telemetry
            && let Err(error) = telemetry.shutdown().await
        {
            note(&format!("warning: telemetry: {error}"));
        }
        Ok(finished?)
    }

    /// Returns an error if there is nothing to serve. A partially loaded host is not an error.
    pub fn require_plugins(&self) -> Result<(), CliError> {
        let has_tools = self.kernel.registry().names().next().is_some();
        if self.loaded.loaded().plugins.is_empty() && !(self.settings.has_servers() && has_tools) {
            let message = if self.settings.has_servers() {
                "no plugin could be loaded and no server provided a tool; see the messages above"
            } else {
                "no plugin could be loaded; see the messages above"
            };
            return Err(CliError::new(Exit::NoPlugin, message));
        }
        Ok(())
    }

    /// Returns an error if a path of `--plugins` could not be loaded but other plugins were. A broken file in a directory
    /// of plugins is not an error.
    fn require_typed_plugins(&self) -> Result<(), CliError> {
        let typed = self.settings.typed_plugins();
        let loaded = self.loaded.loaded();
        let mut broken = loaded.broken.iter().map(|broken| &broken.path);
        let others = !loaded.plugins.is_empty() || self.settings.has_servers();
        if others && broken.any(|path| typed.contains(path)) {
            let message = "not all paths of --plugins could be loaded; see the messages above";
            return Err(CliError::new(Exit::NoPlugin, message));
        }
        Ok(())
    }

    /// Prints a note if plugins request files but no directory is granted, because every path will be "not found".
    pub fn note_missing_grants(&self) {
        if self.loaded.lacks_grants() {
            note(
                "note: no directory is granted, so tools see no files; grant one with --allow-path DIR or DIR:rw, or with \
                 `host init`",
            );
        }
    }

    /// The web page, for commands that serve calls.
    pub fn page(&self) -> Option<&Arc<WebPage>> {
        self.page.as_ref()
    }

    /// Describes the configured servers.
    pub fn view_servers<T>(&self, view: impl FnMut(&ConfiguredServer) -> T) -> Vec<T> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.configured.iter().map(view).collect()
    }

    /// Reports plugins that could not be loaded, and warnings.
    fn report_problems(&self) {
        let verbose = self.settings.verbose;
        let loaded = self.loaded.loaded();
        if verbose {
            loaded.plugins.iter().for_each(|served| note_loaded(served));
        }
        let typed = self.settings.typed_plugins();
        for broken in &loaded.broken {
            let is_typed = typed.iter().any(|path| broken.path.starts_with(path));
            let kind = if is_typed { "error" } else { "warning" };
            note(&format!("{kind}: {}", describe_broken(broken)));
        }
        for left_out in self.kernel.registry().unavailable() {
            note(&format!("error: {left_out}"));
        }
        for warning in &self.settings.warnings {
            note(&format!("warning: {warning}"));
        }
        let warnings = self.kernel.warnings();
        let shown = if verbose {
            warnings.len()
        } else {
            MAX_WARNINGS
        };
        for warning in warnings.iter().take(shown) {
            note(&format!("warning: {warning}"));
        }
        if warnings.len() > shown {
            note(&format!(
                "warning: {} more duplicate names; --verbose lists them",
                warnings.len() - shown
            ));
        }
    }

    /// Reports rules and settings that match nothing, once all tools are registered.
    fn report_unmatched(&self) {
        for problem in self.unmatched_names() {
            note(&format!("warning: {problem}"));
        }
    }

    /// Rules and settings that match none of the registered tools and plugins. Empty if a plugin could not be loaded.
    pub fn unmatched_names(&self) -> Vec<String> {
        let loaded = self.loaded.loaded();
        // The rules of a plugin that failed to load match nothing either, and its error is enough.
        if !loaded.broken.is_empty() {
            return Vec::new();
        }
        let plugins: Vec<&str> = loaded
            .plugins
            .iter()
            .map(|served| served.manifest.name.as_str())
            .collect();
        let rules = self.loaded.rule_warnings().into_iter();
        let mut problems: Vec<String> = rules
            .map(|found| format!("{}: {}", found.position, found.message))
            .collect();
        let registry = self.kernel.registry();
        problems.extend(unmatched_settings(&self.settings.core, &registry, &plugins));
        problems
    }
}
