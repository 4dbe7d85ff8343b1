//! Tools of other MCP servers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolhost_contract::{BoxFuture, Descriptor, ToolName};
use toolhost_kernel::{Kernel, PluginInfo, RegisterError, check_schemas};
use toolhost_mcp_client::{
    Dial, DialedConnection, HttpDialer, ListingChecks, SandboxContext, ServerContext, ServerLogger,
    ServerTools, StdioDialer, ToolCheck, plugin_name,
};
use toolhost_process::Launcher;
use toolhost_vfs::Protection;

use crate::grants::protected_paths;
use crate::settings::{Settings, command_files};

mod connection;
mod messages;
mod proxy;

pub use connection::McpServer;
pub(crate) use connection::ServerConnector;
pub use messages::{ExclusionReport, MessageLimiter};
pub use toolhost_mcp_client::{
    AccessLog, ApprovalError, Approvals, EventListener, HiddenValue, Listing, LoginStore, OAuth,
    RefusedAccess, Server, ServerAddress, ServerConfig, ServerError, ServerNetwork, ServerProfile,
    ServerProgram, ServerSandbox, ServerShared, ServerState, TIMEOUT, ToolChange, TransportConfig,
    WriteLine,
};

/// What a server is started with, in addition to its configuration.
pub struct ServerParts {
    /// Approvals of the server and its tools.
    pub approvals: Arc<Approvals>,
    /// OAuth logins of servers with an address.
    pub logins: Option<Arc<LoginStore>>,
    /// The launcher of servers that are programs.
    pub launcher: Option<Launcher>,
    pub log: Arc<WriteLine>,
    pub on_event: Box<EventListener>,
    pub sandbox: ServerProtection,
    /// Records what the sandbox refuses.
    pub record: Option<AccessLog>,
}

/// What sandboxes of servers have in common.
#[derive(Debug, Clone, Default)]
pub struct ServerProtection {
    /// The parent of the servers' own directories.
    pub data: Option<PathBuf>,
    hidden: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
}

impl ServerProtection {
    /// Whether no server can access this path, or none can change it.
    pub fn covers(&self, path: &Path) -> bool {
        let mut all = self.hidden.iter().chain(&self.read_only);
        all.any(|protected| path.starts_with(protected))
    }

    /// Servers cannot access what no program of a tool can access.
    pub fn from_settings(settings: &Settings) -> Self {
        let mut protection = Self {
            data: settings.host_paths.server_data_dir(),
            ..Self::default()
        };
        for path in protected_paths(settings) {
            match path.protection {
                Protection::Hidden => protection.hidden.push(path.path),
                Protection::ReadOnly => protection.read_only.push(path.path),
            }
        }
        protection
    }
}

/// Starts a server, without tools in a registry.
pub fn start(config: ServerConfig, parts: ServerParts) -> Server {
    let server = config.name.clone();
    let sandbox = sandbox_context(&parts);
    let dial: Box<dyn Dial> = match (&config.transport, parts.launcher) {
        (TransportConfig::Stdio(program), Some(launcher)) => Box::new(StdioDialer {
            server,
            program: program.clone(),
            launcher,
            host: environment(),
            sandbox: Some(sandbox),
        }),
        (TransportConfig::Stdio(_), None) => Box::new(NoLauncher { server }),
        (TransportConfig::Http(address), _) => Box::new(HttpDialer {
            server,
            address: address.clone(),
            logins: parts.logins,
        }),
    };
    let context = ServerContext {
        checks: ListingChecks {
            accept: tool_check(),
            approvals: parts.approvals,
        },
        log: parts.log,
        ask: None,
        on_event: parts.on_event,
    };
    Server::start(config, dial, context)
}

fn sandbox_context(parts: &ServerParts) -> SandboxContext {
    let ServerProtection {
        data,
        hidden,
        read_only,
    } = parts.sandbox.clone();
    let (log, record) = (Arc::clone(&parts.log), parts.record.clone());
    SandboxContext {
        data,
        hidden,
        read_only,
        serve_proxy: Arc::new(move |listener, hosts| {
            proxy::serve(listener, hosts, Arc::clone(&log), record.clone())
        }),
        approvals: Arc::clone(&parts.approvals),
        record: parts.record.clone(),
    }
}

/// The files and directories that the sandbox of a server grants without a setting: its interpreter and its packages.
/// An approval covers them.
pub fn program_reads(config: &ServerConfig) -> BTreeSet<PathBuf> {
    dialer(config).map_or_else(BTreeSet::new, |dialer| dialer.program_reads())
}

/// The files with certificates that the sandbox of a server grants.
pub fn certificate_reads(config: &ServerConfig) -> BTreeSet<PathBuf> {
    dialer(config).map_or_else(BTreeSet::new, |dialer| dialer.certificate_reads())
}

/// For inspection only.
fn dialer(config: &ServerConfig) -> Option<StdioDialer> {
    let TransportConfig::Stdio(program) = &config.transport else {
        return None;
    };
    Some(StdioDialer {
        server: config.name.clone(),
        program: program.clone(),
        launcher: Launcher::this_program([]),
        host: environment(),
        sandbox: None,
    })
}

/// Registers the tools that a server lists, in place of those that it listed before. If that fails, the server has no
/// tools, because the earlier ones may no longer exist.
pub fn register(
    kernel: &Kernel,
    shared: &Arc<ServerShared>,
    listing: &Listing,
) -> Result<Vec<ToolName>, RegisterError> {
    let plugin = plugin_name(&shared.config.name);
    let info = PluginInfo {
        name: plugin.clone(),
        version: "0.0.0".to_owned(),
        digest: Some(listing.digest),
        timeout: Some(shared.config.timeout),
    };
    let tools = ServerTools::new(shared, listing);
    let replaced = kernel.replace(&info.clone(), info, Arc::new(tools));
    replaced.inspect_err(|_| {
        kernel.unregister(&plugin);
    })
}

/// Checks the schemas of a tool that a server or a discovery command lists.
pub fn tool_check() -> Arc<ToolCheck> {
    Arc::new(|tool: &Descriptor| check_schemas(tool).map_err(|error| error.to_string()))
}

/// The program of a server and the files in its arguments, such as scripts. None if it has an address.
pub fn program_files(config: &ServerConfig) -> Vec<PathBuf> {
    let TransportConfig::Stdio(program) = &config.transport else {
        return Vec::new();
    };
    let args: Vec<_> = program.args.iter().map(|arg| arg.value.clone()).collect();
    command_files(&program.cwd, &program.command.value, &args)
}

/// The variables of this process, of which a server gets a few.
pub fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// For a server that is a program, in a host that cannot start programs.
struct NoLauncher {
    server: String,
}

impl Dial for NoLauncher {
    fn dial(&self, _: Arc<ServerLogger>) -> BoxFuture<'_, Result<DialedConnection, ServerError>> {
        let reason =
            "it is a program, and the host has no launcher; set one with `Builder::launcher`";
        let error = ServerError::Config {
            server: self.server.clone(),
            reason: reason.to_owned(),
        };
        Box::pin(async { Err(error) })
    }
}
