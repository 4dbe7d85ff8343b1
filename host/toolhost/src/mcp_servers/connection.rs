//! Connections of a program that embeds the host to MCP servers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use toolhost_contract::{PluginName, text};
use toolhost_kernel::Kernel;
use toolhost_mcp_client::{
    ApprovalError, Approvals, Server, ServerConfig, ServerError, ServerEvent, ServerShared,
    ServerState, ToolChange, plugin_name, tool_name,
};
use toolhost_process::Launcher;

use super::messages::{ExclusionReport, MessageLimiter};
use super::{ServerParts, ServerProtection, program_files, program_reads, register, start};
use crate::load::{Host, MessageSink};

/// What [`Host::connect`] needs of the host's parts.
pub(crate) struct ServerConnector {
    pub launcher: Option<Launcher>,
    pub sandbox: ServerProtection,
    pub on_message: MessageSink,
    /// The names of connected servers, as in the names of their tools.
    pub connected: Arc<Mutex<BTreeSet<String>>>,
}

/// A connected server. Dropping it removes its tools and ends the server abruptly; see [`McpServer::disconnect`].
#[must_use]
pub struct McpServer {
    // Dropped first.
    connection: ConnectionGuard,
    server: Server,
    approvals: Arc<Approvals>,
}

/// Ends the connection when it is dropped.
struct ConnectionGuard(Arc<ServerConnection>);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The tools of a connected server in the registry.
struct ServerConnection {
    kernel: Weak<Kernel>,
    plugin: PluginName,
    /// The name in `connected`.
    key: String,
    connected: Arc<Mutex<BTreeSet<String>>>,
    on_message: MessageSink,
    limiter: MessageLimiter,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
struct ConnectionState {
    /// Nothing more is registered.
    ended: bool,
    /// The server has listed its tools.
    listed: bool,
    /// Why the last list was not registered.
    problem: Option<String>,
}

impl Host {
    /// Connects to an MCP server and adds its tools as `mcp__SERVER__TOOL`. Waits until the server has listed them or
    /// the first attempt has failed. They follow the server's later lists and return after a loss of the connection.
    ///
    /// The call approves the server and the tools that it lists first; nothing is stored. Tools that the server adds or
    /// changes later are left out until [`McpServer::approve_changes`]. A server that is a program runs in the sandbox
    /// of its configuration. Rules, records and hooks apply to its tools.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not list its tools, if its name is invalid or that of another connected
    /// server or plugin, or if tools can write to its program.
    pub async fn connect(&self, config: ServerConfig) -> Result<McpServer, ServerError> {
        let refused = |reason: String| ServerError::Config {
            server: text::escape_line(&config.name, 80),
            reason,
        };
        let connection = self.claim(&config).map_err(refused)?;
        let approvals = Arc::new(Approvals::in_memory());
        let approved = approvals.approve(&config.name, config.digest(), &program_reads(&config));
        approved.map_err(|error| refused(error.to_string()))?;
        let events = Arc::clone(&connection.0);
        let (on_message, name) = (Arc::clone(&self.connector.on_message), config.name.clone());
        let parts = ServerParts {
            approvals: Arc::clone(&approvals),
            logins: None,
            launcher: self.connector.launcher.clone(),
            sandbox: self.connector.sandbox.clone(),
            record: None,
            log: Arc::new(move |line| on_message(&format!("server `{name}`: {line}"))),
            on_event: Box::new(move |shared, event| events.follow(shared, event)),
        };
        // Ends the connection if this future is dropped.
        let connected = McpServer {
            connection,
            server: start(config, parts),
            approvals,
        };
        let shared = connected.server.shared();
        shared.first_listing().await.map_err(|error| match error {
            ServerError::LoginRequired { server, .. } => ServerError::Config {
                server,
                reason: "it requires a login; set a token in its headers".to_owned(),
            },
            error => error,
        })?;
        let problem = connected.connection.0.lock().problem.take();
        match problem {
            Some(reason) => Err(ServerError::Config {
                server: shared.config.name.clone(),
                reason,
            }),
            None => Ok(connected),
        }
    }

    /// Reserves the names of a server's tools.
    fn claim(&self, config: &ServerConfig) -> Result<ConnectionGuard, String> {
        let name = &config.name;
        ServerConfig::check_name(name)?;
        let files = program_files(config);
        if let Some(file) = files.iter().find(|file| self.is_writable(file)) {
            return Err(format!(
                "{} is in a directory that tools can write to",
                text::escape_line(&file.to_string_lossy(), 400)
            ));
        }
        let (plugin, key) = (plugin_name(name), tool_name(name, "x").to_string());
        let registry = self.kernel.registry();
        let taken = registry.list_all().any(|entry| entry.plugin.name == plugin);
        let connected = Arc::clone(&self.connector.connected);
        let mut names = connected.lock().unwrap_or_else(PoisonError::into_inner);
        if taken || !names.insert(key.clone()) {
            return Err("a plugin or another server has this name; choose another".to_owned());
        }
        drop(names);
        Ok(ConnectionGuard(Arc::new(ServerConnection {
            kernel: Arc::downgrade(&self.kernel),
            plugin,
            key,
            connected,
            on_message: Arc::clone(&self.connector.on_message),
            limiter: MessageLimiter::default(),
            state: Mutex::default(),
        })))
    }
}

impl ServerConnection {
    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the registry in sync with the server, and reports its problems.
    fn follow(&self, shared: &Arc<ServerShared>, event: ServerEvent) {
        let Some(kernel) = self.kernel.upgrade() else {
            return;
        };
        let name = &shared.config.name;
        // Held while tools are registered, so that none are added after the end.
        let mut state = self.lock();
        if state.ended {
            return;
        }
        let message = match event {
            ServerEvent::Listed(listing) => {
                let source = format!("server `{name}`");
                let registered = register(&kernel, shared, &listing);
                let problem = registered.err().map(|error| error.to_string());
                let mut message = ExclusionReport {
                    source: &source,
                    review: "see `McpServer::changes`",
                    verbose: true,
                }
                .message(&listing.excluded);
                if let Some(problem) = problem.as_ref().filter(|_| state.listed) {
                    message = format!("error: {source}: {problem}\n{message}");
                }
                (state.listed, state.problem) = (true, problem);
                self.limiter.filter(name, message).unwrap_or_default()
            }
            ServerEvent::Lost { reason, wait } if state.listed => {
                let wait = wait.as_secs();
                format!("warning: server `{name}`: {reason}; retrying in {wait} s")
            }
            // `connect` returns the reason.
            ServerEvent::Lost { .. } => String::new(),
            ServerEvent::GaveUp(_) if !state.listed => String::new(),
            ServerEvent::GaveUp(error) => {
                kernel.unregister(&self.plugin);
                format!("error: server `{name}`: {}", error.reason())
            }
        };
        drop(state);
        if !message.is_empty() {
            (self.on_message)(&text::escape_lines(&message, 64 << 10));
        }
    }

    /// Removes the tools. Nothing is registered afterwards.
    fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.unregister(&self.plugin);
        }
        drop(state);
        let mut names = self
            .connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        names.remove(&self.key);
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
        let listing = self.server.shared().listing();
        let same = listing.as_ref().map_or(&[][..], |listing| &listing.tools);
        let config = &self.server.shared().config;
        self.approvals
            .approve_tools(&config.name, config.digest(), same, changes)?;
        self.server.shared().list_again();
        Ok(())
    }

    /// Removes its tools and ends the server gracefully.
    pub async fn disconnect(self) {
        let Self {
            connection, server, ..
        } = self;
        drop(connection);
        server.stop().await;
    }
}
