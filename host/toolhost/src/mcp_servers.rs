//! Tools of other MCP servers.

use std::path::PathBuf;
use std::sync::Arc;

use toolhost_contract::{BoxFuture, Descriptor, ToolName};
use toolhost_kernel::{Kernel, PluginInfo, RegisterError, check_schemas};
use toolhost_mcp_client::{
    Dial, DialedConnection, HttpDialer, ListingChecks, ServerContext, ServerLogger, ServerTools,
    StdioDialer, ToolCheck, plugin_name,
};
use toolhost_process::Launcher;

use crate::settings::command_files;

mod connection;
mod messages;

pub use connection::McpServer;
pub(crate) use connection::ServerConnector;
pub use messages::{ExclusionReport, MessageLimiter};
pub use toolhost_mcp_client::{
    ApprovalError, Approvals, EventListener, HiddenValue, Listing, LoginStore, OAuth, Server,
    ServerAddress, ServerConfig, ServerError, ServerProgram, ServerShared, ServerState, TIMEOUT,
    ToolChange, TransportConfig, WriteLine,
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
}

/// Starts a server, without tools in a registry.
pub fn start(config: ServerConfig, parts: ServerParts) -> Server {
    let server = config.name.clone();
    let dial: Box<dyn Dial> = match (&config.transport, parts.launcher) {
        (TransportConfig::Stdio(program), Some(launcher)) => Box::new(StdioDialer {
            server,
            program: program.clone(),
            launcher,
            host: environment(),
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
