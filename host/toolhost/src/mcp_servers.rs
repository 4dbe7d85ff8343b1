//! Tools of other MCP servers (feature `mcp-client`).

use std::sync::{Arc, Weak};

use toolhost_contract::{BoxFuture, Descriptor, ToolName, text};
use toolhost_kernel::{Kernel, PluginInfo, RegisterError, check_schemas};
use toolhost_mcp_client::{
    ApprovalError, Approvals, Dial, DialedConnection, EventListener, HttpDialer, Listing,
    ListingChecks, LoginStore, Server, ServerContext, ServerEvent, ServerLogger, ServerShared,
    ServerTools, StdioDialer, WriteLine, plugin_name,
};
use toolhost_process::Launcher;

use crate::load::{Host, MessageSink};

pub use toolhost_mcp_client::{
    HiddenValue, ServerAddress, ServerConfig, ServerError, ServerProgram, ServerState, TIMEOUT,
    ToolChange, TransportConfig,
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
            accept: Arc::new(|tool: &Descriptor| {
                check_schemas(tool).map_err(|error| error.to_string())
            }),
            approvals: parts.approvals,
        },
        log: parts.log,
        ask: None,
        on_event: parts.on_event,
    };
    Server::start(config, dial, context)
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

/// What [`Host::connect`] needs of the host's parts.
pub(crate) struct ServerConnecting {
    pub launcher: Option<Launcher>,
    pub on_message: MessageSink,
}

/// The variables of this process, of which a server gets a few.
pub fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// A connected server. Dropping it ends the server abruptly and leaves its tools listed; see [`McpServer::disconnect`].
#[must_use]
pub struct McpServer {
    server: Server,
    kernel: Weak<Kernel>,
    approvals: Arc<Approvals>,
}

impl Host {
    /// Connects to an MCP server and adds its tools as `mcp__SERVER__TOOL`. Waits until the server has listed them or
    /// the first attempt has failed. They follow the server's later lists and return after a loss of the connection.
    ///
    /// The server is not sandboxed. Rules, records and hooks apply to its tools. Tools that the server adds or changes
    /// later are left out until [`McpServer::approve_changes`].
    pub async fn connect(&self, config: ServerConfig) -> Result<McpServer, ServerError> {
        let approvals = Arc::new(Approvals::in_memory());
        let approved = approvals.approve(&config.name, config.digest());
        approved.map_err(|error| ServerError::Config {
            server: config.name.clone(),
            reason: error.to_string(),
        })?;
        let kernel = Arc::downgrade(&self.kernel);
        let parts = ServerParts {
            approvals: Arc::clone(&approvals),
            logins: None,
            launcher: self.connecting.launcher.clone(),
            log: Arc::new(|_| {}),
            on_event: follow(
                Weak::clone(&kernel),
                Arc::clone(&self.connecting.on_message),
            ),
        };
        let server = start(config, parts);
        server.shared().first_listing().await?;
        Ok(McpServer {
            server,
            kernel,
            approvals,
        })
    }
}

impl McpServer {
    pub fn state(&self) -> ServerState {
        self.server.shared().state()
    }

    /// The tools that are left out because the server added or changed them after it was connected.
    pub fn changes(&self) -> Vec<ToolChange> {
        let listing = self.server.shared().listing();
        listing.map_or_else(Vec::new, |listing| listing.changed.clone())
    }

    /// Approves these changes, usually of [`McpServer::changes`]. The tools are added when the server lists them again.
    pub fn approve_changes(&self, changes: &[ToolChange]) -> Result<(), ApprovalError> {
        let shared = self.server.shared();
        let listing = shared.listing();
        let same = listing.as_ref().map_or(&[][..], |listing| &listing.tools);
        let config = &shared.config;
        self.approvals
            .approve_tools(&config.name, config.digest(), same, changes)?;
        shared.list_again();
        Ok(())
    }

    /// Removes its tools and ends the server gracefully.
    pub async fn disconnect(self) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.unregister(&plugin_name(&self.server.shared().config.name));
        }
        self.server.stop().await;
    }
}

/// Keeps the registry in sync with a server, and reports its problems.
fn follow(kernel: Weak<Kernel>, on_message: MessageSink) -> Box<EventListener> {
    Box::new(move |shared, event| {
        let Some(kernel) = kernel.upgrade() else {
            return;
        };
        let name = &shared.config.name;
        let message = match event {
            ServerEvent::Listed(listing) => {
                for excluded in &listing.excluded {
                    on_message(&format!(
                        "warning: server `{name}`: tool `{}` is left out: {}",
                        excluded.tool,
                        text::escape_line(&excluded.reason, 500)
                    ));
                }
                match register(&kernel, shared, &listing) {
                    Ok(_) => return,
                    Err(error) => format!("error: server `{name}`: {error}"),
                }
            }
            ServerEvent::Lost { reason, wait } => {
                let wait = wait.as_secs();
                format!("warning: server `{name}`: {reason}; retrying in {wait} s")
            }
            ServerEvent::GaveUp(error) => {
                kernel.unregister(&plugin_name(name));
                format!("error: {error}")
            }
        };
        on_message(&text::escape_lines(&message, 2_000));
    })
}
