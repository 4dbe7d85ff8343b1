//! Serves the tools of a kernel to MCP clients, so that this is the only crate that knows MCP.
//!
//! One handler answers both ways in which clients speak today: those that begin with `initialize` and those that
//! put everything into each request. What a call may do was decided before it gets here and nothing here widens it:
//! there is no tool that loads, grants or configures.

mod abort;
mod answer;
mod ask;
mod call;
mod content;
mod cuttable;
mod events;
#[cfg(feature = "conformance")]
mod fixtures;
#[cfg(test)]
mod fuzz;
mod headers;
pub mod http;
mod keep;
mod line;
mod noop;
mod pages;
mod roots;
mod running;
mod server;
mod shape;
mod shared;
mod shelf;
mod tasks;
mod tools;
mod transport;
mod watch;

pub use ask::{Asks, ClientAgents, Desk, KeyError};
pub use noop::{serve_noop, serve_noop_http};

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use toolhost_contract::profile::{Others, Profile};

use rmcp::model::InitializeRequestParams;
use rmcp::service::{ServerInitializeError, serve_server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::interval;
use toolhost_contract::{SessionKey, text};
use toolhost_kernel::Kernel;

/// Between two looks for what was kept long enough.
const SWEEP: Duration = Duration::from_mins(1);

/// Who we say we are.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    pub name: String,
    pub version: String,
    /// For the model, once per session.
    pub instructions: Option<String>,
    /// Whose words the model uses.
    pub profile: Profile,
    pub others: Others,
    /// Asks the client what a person has to decide. The kernel needs the same one as its prompter.
    pub desk: Option<Arc<Desk>>,
    /// The folders that a client works in narrow what its calls may use.
    pub roots: bool,
    /// But not these: the host's own, by all their names. Set before [`Readiness::Loaded`].
    pub own_folders: Arc<OnceLock<Vec<String>>>,
    /// Lists the output schemas of all tools and sends their values: for programs that read values. A client that shows
    /// its model the value in place of the text then shows less than the text.
    pub structured: bool,
    /// Clients are answered before all tools are there. None: they are.
    pub readiness: Option<tokio::sync::watch::Receiver<Readiness>>,
    /// After so long a call becomes a task, for clients that know tasks. None: they wait like the others.
    pub tasks_after: Option<Duration>,
}

/// Which tools a host that is starting has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Readiness {
    /// None. Every call waits.
    #[default]
    Loading,
    /// Those of the plugins. A call of an unknown tool waits for other servers.
    Loaded,
    /// All that there will be at the start.
    Settled,
}

/// How the session of one client ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// The client went away before its first request.
    NotBegun,
    Ended,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the MCP session did not begin: {0}")]
    Begin(String),
    #[error("the MCP session broke off: {0}")]
    Broken(String),
    #[error("there are no random numbers for the ids of calls: {0}")]
    Random(String),
}

/// Serves one client on standard input and output until standard input ends or `stop` comes. Nothing else may write to
/// standard output meanwhile.
pub async fn serve_stdio(
    kernel: Arc<Kernel>,
    info: ServerInfo,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<SessionEnd, ServeError> {
    let run = run_name()?;
    let (reader, writer) = rmcp::transport::io::stdio_pipes();
    let reader = transport::Stoppable::new(reader, stop);
    serve(kernel, info, &run, (reader, writer)).await
}

/// What the ids of a server's calls begin with.
fn run_name() -> Result<String, ServeError> {
    let random = getrandom::u64().map_err(|error| ServeError::Random(error.to_string()))?;
    Ok(format!("{random:016x}"))
}

/// Serves one client until the reader ends. Calls that are running then are dropped at once: nobody waits for them.
///
/// `session` begins the id of every call and has to differ between sessions.
pub async fn serve<R, W>(
    kernel: Arc<Kernel>,
    info: ServerInfo,
    session: &str,
    (reader, writer): (R, W),
) -> Result<SessionEnd, ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (at_end, end) = oneshot::channel();
    let transport = transport::Lines::new(reader, writer, at_end);
    let records = Arc::clone(&kernel);
    let shared = shared::Shared::new(kernel, info);
    let ending = Arc::clone(&shared);
    let mut server = server::Server::new(shared, session);
    server.line = line::Line::behind(transport.outbox());
    // In a box, as its state is larger than a caller would expect of its own.
    let beginning = Box::pin(serve_server(handler(server), transport));
    let running = match beginning.await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(SessionEnd::NotBegun),
        Err(error) => return Err(ServeError::Begin(error.to_string())),
    };
    let client = client(running.peer().peer_info().as_deref());
    let key = SessionKey::local(session);
    records.open_session(&key, &client);
    // rmcp waits some seconds for running calls after the end of input. Its token makes them give up first.
    let calls = running.cancellation_token();
    let mut waiting = pin!(running.waiting());
    let sweeping = async {
        let mut sweep = interval(SWEEP);
        loop {
            sweep.tick().await;
            ending.sweep();
        }
    };
    let result = tokio::select! {
        result = &mut waiting => result,
        _ = end => {
            calls.cancel();
            waiting.await
        }
        () = sweeping => unreachable!("it goes on for ever"),
    };
    ending.end(session);
    records.close_session(&key, &client);
    result
        .map(|_| SessionEnd::Ended)
        .map_err(|error| ServeError::Broken(error.to_string()))
}

/// What answers the requests: the server, and in the program that the conformance suite tests its fixtures before it.
#[cfg(feature = "conformance")]
pub(crate) type Handler = fixtures::WithFixtures;
#[cfg(not(feature = "conformance"))]
pub(crate) type Handler = server::Server;

pub(crate) fn handler(server: server::Server) -> Handler {
    #[cfg(feature = "conformance")]
    let server = fixtures::WithFixtures::new(server);
    server
}

/// What the records call the client: the name it gives itself, if it says one when it begins.
fn client(info: Option<&InitializeRequestParams>) -> String {
    match info {
        Some(info) => format!("mcp: {}", text::inline(&info.client_info.name, 60)),
        None => "mcp".to_owned(),
    }
}
