//! Starts approved MCP servers and the discovery command, and keeps the registry in sync with their tools.
//!
//! A server that fails to start does not affect the others.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use toolhost::mcp_servers::{
    self, ExclusionReport, MessageLimiter, ServerParts, ServerProtection, program_reads,
};
use toolhost_contract::text;
use toolhost_kernel::{Kernel, PluginInfo};
use toolhost_mcp_client::{
    ApprovalError, Approvals, DiscoveredTools, DiscoveryContext, ExcludedTool, Listing, LoginStore,
    Server, ServerConfig, ServerError, ServerEvent, ServerShared, plugin_name, private_folder,
};
use toolhost_process::Launcher;

use super::server_log::ServerLog;
use crate::settings::{CliSettings, DiscoverySettings, ServerSettings};
use crate::terminal::note;

/// How long to wait for servers to start. The tools of slower servers are registered later. MCP clients time out after
/// 10 s or more.
pub const STARTUP_TIMEOUT: Duration = Duration::from_secs(8);
/// The tag of tools that run outside the sandbox.
pub const NOT_SANDBOXED: &str = "not sandboxed";

/// A configured server and its state.
pub struct ConfiguredServer {
    pub name: String,
    pub settings: ServerSettings,
    pub status: ServerStatus,
}

pub enum ServerStatus {
    Disabled,
    Broken(String),
    /// Why it is not started.
    Unapproved(String),
    Started(Server),
}

/// All configured servers.
#[derive(Default)]
pub struct Servers {
    pub configured: Vec<ConfiguredServer>,
}

/// Stored data about servers. It is in the user's state directory, never in a project.
pub struct ServerStorage {
    pub approvals: Arc<Approvals>,
    pub logins: Option<Arc<LoginStore>>,
    /// Directory for changes of tools that are too long for a terminal.
    pub changes: Option<PathBuf>,
    logs: Option<PathBuf>,
}

impl ServerStorage {
    pub fn from_settings(settings: &CliSettings) -> Self {
        let state = settings
            .core
            .host_paths
            .state
            .as_ref()
            .map(|state| state.join("mcp"));
        let approvals = state.as_ref().map_or_else(Approvals::in_memory, |state| {
            Approvals::in_folder(state.join("approved"))
        });
        // Restrict an existing directory to the user.
        if let Some(state) = state.as_ref().filter(|state| state.exists()) {
            let _ = private_folder(state);
        }
        Self {
            approvals: Arc::new(approvals),
            logins: state
                .as_ref()
                .map(|state| Arc::new(LoginStore::in_folder(state.join("logins")))),
            changes: state.as_ref().map(|state| state.join("changes")),
            logs: state.map(|state| state.join("logs")),
        }
    }
}

impl ConfiguredServer {
    /// Starts a server if it is enabled and approved.
    pub fn start(
        server: &ServerSettings,
        settings: &CliSettings,
        keep: &ServerStorage,
        on_event: &Arc<OnServerEvent>,
    ) -> Self {
        let status = match &server.config {
            _ if !server.enabled => ServerStatus::Disabled,
            Err(reason) => ServerStatus::Broken(reason.clone()),
            Ok(config) => match missing_approval(keep, config, &program_reads(config)) {
                Ok(None) => ServerStatus::Started(start(
                    config.clone(),
                    settings,
                    keep,
                    Arc::clone(on_event),
                )),
                Ok(Some(reason)) => ServerStatus::Unapproved(reason),
                Err(error) => ServerStatus::Broken(error.to_string()),
            },
        };
        Self {
            name: server.name.clone(),
            settings: server.clone(),
            status,
        }
    }

    /// Whether it was started from the same settings and still runs.
    pub fn is_current(&self, server: &ServerSettings) -> bool {
        let runs = match &self.status {
            ServerStatus::Started(started) => !matches!(
                started.shared().state(),
                toolhost_mcp_client::ServerState::GaveUp { .. }
            ),
            // Its approval may have been given in the meantime.
            ServerStatus::Disabled | ServerStatus::Broken(_) | ServerStatus::Unapproved(_) => false,
        };
        runs && self.settings == *server
    }

    /// The state in one word, and the reason for a failure.
    pub fn state(&self) -> (&'static str, Option<String>) {
        match &self.status {
            ServerStatus::Disabled => ("disabled", None),
            ServerStatus::Broken(reason) => ("broken", Some(reason.clone())),
            ServerStatus::Unapproved(reason) => ("not approved", Some(reason.clone())),
            ServerStatus::Started(server) => {
                let state = server.shared().state();
                let reason = match &state {
                    toolhost_mcp_client::ServerState::Waiting { reason, .. } => {
                        Some(reason.clone())
                    }
                    toolhost_mcp_client::ServerState::GaveUp { error } => Some(error.to_string()),
                    _ => None,
                };
                (state.as_str(), reason)
            }
        }
    }
}

/// Returns the reason why a server must not be started, if its approval is missing or does not cover `reads`, the result of
/// [`program_reads`].
pub fn missing_approval(
    keep: &ServerStorage,
    config: &ServerConfig,
    reads: &BTreeSet<PathBuf>,
) -> Result<Option<String>, ApprovalError> {
    let name = &config.name;
    if !keep.approvals.is_approved(name, config.digest())? {
        return Ok(Some(format!("approve it with `host mcp approve {name}`")));
    }
    match keep.approvals.check_reads(name, reads) {
        Ok(()) => Ok(None),
        Err(missing @ ApprovalError::UnapprovedRead { .. }) => Ok(Some(missing.to_string())),
        Err(error) => Err(error),
    }
}

/// The message about a server that is not started for `reason`, a result of [`missing_approval`].
pub fn not_approved(name: &str, reason: &str, description: &str) -> String {
    let description = description.replace('\n', "\n  ");
    format!("server `{name}` is not started because it is not approved: {reason}\n  {description}")
}

pub type OnServerEvent = dyn Fn(&Arc<ServerShared>, ServerEvent) + Send + Sync;

impl Servers {
    /// Starts all servers that are enabled and approved.
    pub fn start(
        settings: &CliSettings,
        keep: &ServerStorage,
        on_event: Arc<OnServerEvent>,
    ) -> Self {
        let configured = settings.servers.iter();
        let configured =
            configured.map(|server| ConfiguredServer::start(server, settings, keep, &on_event));
        Self {
            configured: configured.collect(),
        }
    }

    pub fn started(&self) -> impl Iterator<Item = &Arc<ServerShared>> {
        self.configured
            .iter()
            .filter_map(|known| match &known.status {
                ServerStatus::Started(server) => Some(server.shared()),
                ServerStatus::Disabled | ServerStatus::Broken(_) | ServerStatus::Unapproved(_) => {
                    None
                }
            })
    }

    /// Stops all servers concurrently and gracefully.
    pub async fn stop(self) {
        let mut stopping = tokio::task::JoinSet::new();
        for known in self.configured {
            if let ServerStatus::Started(server) = known.status {
                stopping.spawn(server.stop());
            }
        }
        while stopping.join_next().await.is_some() {}
    }

    /// Reports servers that are broken, not approved or still starting.
    pub fn report(&self) {
        for known in &self.configured {
            let name = &known.name;
            match &known.status {
                ServerStatus::Disabled => {}
                ServerStatus::Broken(reason) => note(&format!(
                    "error: server `{name}`: {}",
                    text::escape_lines(reason, 1_000)
                )),
                ServerStatus::Unapproved(reason) => {
                    let shown = known
                        .settings
                        .config
                        .as_ref()
                        .map(ServerConfig::description);
                    let message = not_approved(name, reason, &shown.unwrap_or_default());
                    note(&format!("warning: {message}"));
                }
                ServerStatus::Started(server) => {
                    if let toolhost_mcp_client::ServerState::Starting = server.shared().state() {
                        note(&format!(
                            "warning: server `{name}` has not started after {} s; its tools are added once it has",
                            STARTUP_TIMEOUT.as_secs()
                        ));
                    }
                }
            }
        }
    }
}

/// Waits until each server has started or failed once, up to [`STARTUP`] in total.
pub async fn wait_until_started(servers: &[Arc<ServerShared>]) {
    let end = Instant::now() + STARTUP_TIMEOUT;
    for server in servers {
        let _ = timeout_at(end, server.first_listing()).await;
    }
}

/// Starts one server without checking its approval.
pub fn start(
    config: ServerConfig,
    settings: &CliSettings,
    keep: &ServerStorage,
    on_event: Arc<OnServerEvent>,
) -> Server {
    let name = config.name.clone();
    let log = ServerLog::open(keep.logs.as_deref(), &name);
    let verbose = settings.verbose;
    let parts = ServerParts {
        approvals: Arc::clone(&keep.approvals),
        logins: keep.logins.clone(),
        launcher: Some(launcher()),
        log: Arc::new(move |line: &str| {
            log.append(line);
            if verbose {
                note(&format!("{name}: {line}"));
            }
        }),
        on_event: Box::new(move |shared, event| on_event(shared, event)),
        sandbox: ServerProtection::from_settings(&settings.core),
        record: settings.record.clone(),
    };
    mcp_servers::start(config, parts)
}

fn launcher() -> Launcher {
    Launcher::this_program(["process-launcher".into()])
}

/// Registers the tools of servers and removes those that no longer exist.
pub struct Registrar {
    /// The kernel, which is created before its servers.
    pub kernel: std::sync::Weak<Kernel>,
    pub verbose: bool,
    pub limiter: MessageLimiter,
}

impl Registrar {
    pub fn on_event(&self, shared: &Arc<ServerShared>, event: ServerEvent) {
        let name = &shared.config.name;
        match event {
            ServerEvent::Listed(listing) => self.register(shared, &listing),
            ServerEvent::Lost { reason, wait } => note(&format!(
                "warning: server `{name}`: {}; retrying in {} s",
                text::escape_lines(&reason, 2_000),
                wait.as_secs()
            )),
            ServerEvent::GaveUp(error) => {
                // For example, its approval was revoked: its tools must not be listed or called.
                if let (ServerError::Config { .. }, Some(kernel)) = (&error, self.kernel.upgrade())
                {
                    kernel.unregister(&plugin_name(name));
                }
                note(&format!(
                    "error: {}",
                    text::escape_lines(&error.to_string(), 2_000)
                ));
            }
        }
    }

    fn register(&self, shared: &Arc<ServerShared>, listing: &Listing) {
        let Some(kernel) = self.kernel.upgrade() else {
            return;
        };
        let name = &shared.config.name;
        let source = format!("server `{name}`");
        let mut message = left_out_message(&source, name, &listing.excluded, self.verbose);
        match mcp_servers::register(&kernel, shared, listing) {
            Ok(names) => {
                if self.verbose {
                    let era = &listing.version;
                    message = format!("server {name}: {} tools, MCP {era}\n{message}", names.len());
                }
            }
            Err(error) => {
                message = format!("error: {source}: {error}\n{message}");
            }
        }
        if let Some(message) = self.limiter.filter(name, message.trim_end().to_owned()) {
            note(&message);
        }
    }
}

/// The message about tools that are left out. `approved` is the name to pass to `host mcp approve`.
fn left_out_message(
    source: &str,
    approved: &str,
    left_out: &[ExcludedTool],
    verbose: bool,
) -> String {
    ExclusionReport {
        source,
        review: &format!("review with `host mcp approve {approved}`"),
        verbose,
    }
    .message(left_out)
}

/// Runs the discovery command if it is approved, and registers the tools that it prints in place of those that it printed
/// before. Returns their number.
pub async fn discover(
    wanted: &DiscoverySettings,
    verbose: bool,
    keep: &ServerStorage,
    kernel: &Kernel,
) -> Result<usize, String> {
    let name = DiscoverySettings::NAME;
    let plugin = plugin_name(DiscoverySettings::PLUGIN);
    let context = discovery_context();
    let approved = keep.approvals.is_approved(name, wanted.digest());
    if !approved.map_err(|error| error.to_string())? {
        kernel.unregister(&plugin);
        return Err(format!(
            "the discovery command is not run because it is not approved; approve it with `host mcp approve {name}`\n  {}",
            wanted.discovery.description().replace('\n', "\n  ")
        ));
    }
    let discovered = wanted.discovery.discover(&context).await;
    let mut discovered = discovered.map_err(|reason| text::escape_lines(&reason, 2_000))?;
    discovered.retain_approved(&keep.approvals, name, wanted.digest())?;
    let info = PluginInfo {
        name: plugin,
        version: "0.0.0".to_owned(),
        digest: Some(discovered.digest),
        timeout: None,
    };
    let message = left_out_message("the discovery command", name, &discovered.left_out, verbose);
    if !message.is_empty() {
        note(&message);
    }
    let tools = DiscoveredTools::new(wanted.discovery.clone(), context, &discovered);
    kernel
        .replace(&info.clone(), info, Arc::new(tools))
        .map(|names| names.len())
        .map_err(|error| format!("the discovery command: {error}"))
}

pub fn discovery_context() -> DiscoveryContext {
    DiscoveryContext {
        launcher: launcher(),
        host: mcp_servers::environment(),
        accept: mcp_servers::tool_check(),
    }
}

/// Deletes all stored data about a server, including its log.
pub fn delete_stored(keep: &ServerStorage, name: &str) -> std::io::Result<()> {
    if let Err(error) = keep.approvals.forget(name) {
        return Err(std::io::Error::other(error));
    }
    if let Some(logins) = &keep.logins {
        logins.forget(name)?;
    }
    let logs = keep.logs.iter();
    let logs =
        logs.flat_map(|logs| ["log", "log.1"].map(|kind| logs.join(format!("{name}.{kind}"))));
    let changes = keep.changes.iter();
    for file in logs.chain(changes.map(|changes| changes.join(format!("{name}.txt")))) {
        let _ = fs::remove_file(file);
    }
    Ok(())
}
