//! MCP server: serves the tools of a kernel over stdio and streamable HTTP.
//!
//! One handler implements both protocol styles: sessions that start with `initialize`, and stateless requests
//! (2026-07-28 and later). This crate cannot extend what a call may do: no tool loads plugins, grants permissions
//! or changes the configuration.

mod abort;
mod call_queue;
mod call_result;
mod content;
mod event_relay;
#[cfg(test)]
mod fuzz;
mod header_annotations;
pub mod http;
mod list_changed;
mod pagination;
mod prompts;
mod question_app;
mod result_store;
mod roots;
mod running_count;
mod server;
mod server_state;
mod tasks;
mod tool_call;
mod tool_list;
mod transport;
mod truncate_structured;
mod ttl_cache;

pub use prompts::{ClientAgents, ClientRequestSettings, ElicitationPrompter, StateKeyError};
pub use server::Server;

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use toolhost_formats::profile::{Profile, UnmappedTools};

use futures::FutureExt as _;
use futures::future::select;
use rmcp::model::InitializeRequestParams;
use rmcp::service::{ServerInitializeError, serve_server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::interval;
use toolhost_contract::{BoxFuture, SessionKey, text};
use toolhost_kernel::Kernel;

/// Interval between removals of expired results and tasks.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Identity and settings of the MCP server.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    pub name: String,
    pub version: String,
    /// Instructions for the model, sent once per session.
    pub instructions: Option<String>,
    /// The tool format in which tools are listed and called.
    pub profile: Profile,
    pub others: UnmappedTools,
    /// Forwards approval prompts to the client. The kernel must use the same instance as its prompter.
    pub prompter: Option<Arc<ElicitationPrompter>>,
    /// Restrict the calls of a client to the roots that it declares.
    pub roots: bool,
    /// The host's own folders, under all their names, which roots never restrict. Set before [`Readiness::Loaded`].
    pub own_folders: Arc<OnceLock<Vec<String>>>,
    /// List the output schemas of all tools and always send structured content, for clients that are programs. A
    /// client that shows its model the structured content instead of the text then loses the text.
    pub structured: bool,
    /// Load progress, if clients are served before all tools are loaded. `None`: all tools are loaded.
    pub readiness: Option<tokio::sync::watch::Receiver<Readiness>>,
    /// Duration after which a call becomes a task, for clients that support tasks. `None`: calls never become tasks.
    pub tasks_after: Option<Duration>,
}

/// Which tools are available while the host starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Readiness {
    /// No tools. Every call waits.
    #[default]
    Loading,
    /// The tools of the plugins. A call to an unknown tool waits for the tools of other MCP servers.
    Loaded,
    /// All tools that are configured.
    Settled,
}

/// How a client's session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// The client disconnected before its first request.
    BeforeInitialize,
    Ended,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the MCP session failed to start: {0}")]
    Initialize(String),
    #[error("the MCP session ended unexpectedly: {0}")]
    Session(String),
    #[error("cannot generate random call ids: {0}")]
    Random(String),
}

/// Serves one client on stdin and stdout until stdin ends, the client closes stdout, or `stop` resolves. Nothing else may
/// write to stdout during that time.
///
/// Boxed, so that the server is compiled with this crate, which is optimized for speed.
pub fn serve_stdio(
    kernel: Arc<Kernel>,
    info: ServeOptions,
    stop: BoxFuture<'static, ()>,
) -> BoxFuture<'static, Result<SessionEnd, ServeError>> {
    Box::pin(async move {
        let run = random_run_id()?;
        let (reader, writer) = rmcp::transport::io::stdio_pipes();
        let closed = Box::pin(transport::wait_until_closed(std::io::stdout()));
        let reader = transport::StoppableReader::new(reader, select(stop, closed).map(drop));
        serve(kernel, info, &run, (reader, writer)).await
    })
}

/// Returns a random prefix for the call ids of this server.
fn random_run_id() -> Result<String, ServeError> {
    let random = getrandom::u64().map_err(|error| ServeError::Random(error.to_string()))?;
    Ok(format!("{random:016x}"))
}

/// Serves one client until the reader ends. Calls that are still running are then dropped.
///
/// `session` is the prefix of every call id and must be unique per session.
pub async fn serve<R, W>(
    kernel: Arc<Kernel>,
    info: ServeOptions,
    session: &str,
    (reader, writer): (R, W),
) -> Result<SessionEnd, ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (at_end, end) = oneshot::channel();
    let transport = transport::LineTransport::new(reader, writer, at_end);
    let records = Arc::clone(&kernel);
    let shared = server_state::ServerState::new(kernel, info);
    let ending = Arc::clone(&shared);
    let mut server = server::Server::new(shared, session);
    server.call_queue = call_queue::CallQueue::with_outbox(transport.outbox());
    let server = Arc::new(server);
    let direct_calls = Arc::new(transport::DirectCalls::new(Arc::clone(&server)));
    let transport = transport.with_direct_calls(Arc::clone(&direct_calls));
    // Boxed because the future is large.
    let beginning = Box::pin(serve_server(server, transport));
    let running = match beginning.await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(SessionEnd::BeforeInitialize),
        Err(error) => return Err(ServeError::Initialize(error.to_string())),
    };
    let client = client_label(running.peer().peer_info().as_deref());
    let key = SessionKey::local(session);
    records.open_session(&key, &client);
    direct_calls.begin(running.peer().clone());
    // rmcp waits some seconds for running calls after the end of input. Its token cancels them first.
    let calls = running.cancellation_token();
    let mut waiting = pin!(running.waiting());
    let sweeping = async {
        let mut sweep = interval(SWEEP_INTERVAL);
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
        () = sweeping => unreachable!("the sweep loop never ends"),
    };
    ending.end_waiting(session);
    records.close_session(&key, &client);
    result
        .map(|_| SessionEnd::Ended)
        .map_err(|error| ServeError::Session(error.to_string()))
}

/// Returns the label of a client in records, with the name from its `initialize` request, if any.
fn client_label(info: Option<&InitializeRequestParams>) -> String {
    match info {
        Some(info) => format!("mcp: {}", text::escape_line(&info.client_info.name, 60)),
        None => "mcp".to_owned(),
    }
}
