//! Serves the tools of a kernel to MCP clients, so that this is the only crate that knows MCP.
//!
//! One handler answers both ways in which clients speak today: those that begin with `initialize` and those that
//! put everything into each request. What a call may do was decided before it gets here and nothing here widens it:
//! there is no tool that loads, grants or configures.

mod content;
mod events;
mod line;
mod noop;
mod server;
mod tools;
mod transport;

pub use noop::serve_noop;

use std::pin::pin;
use std::sync::Arc;
use toolhost_contract::profile::{Others, Profile};

use rmcp::model::InitializeRequestParams;
use rmcp::service::{ServerInitializeError, serve_server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use toolhost_contract::text;
use toolhost_kernel::Kernel;

/// Who we say we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    pub name: String,
    pub version: String,
    /// For the model, once per session.
    pub instructions: Option<String>,
    /// Whose words the model uses.
    pub profile: Profile,
    pub others: Others,
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

/// Serves one client on standard input and output until standard input ends. Nothing else may write to standard
/// output meanwhile.
pub async fn serve_stdio(kernel: Arc<Kernel>, info: ServerInfo) -> Result<(), ServeError> {
    let random = getrandom::u64().map_err(|error| ServeError::Random(error.to_string()))?;
    serve(
        kernel,
        info,
        &format!("{random:016x}"),
        rmcp::transport::io::stdio_pipes(),
    )
    .await
}

/// Serves one client until the reader ends. Calls that are running then are dropped at once: nobody waits for them.
///
/// `session` begins the id of every call and has to differ between sessions.
pub async fn serve<R, W>(
    kernel: Arc<Kernel>,
    info: ServerInfo,
    session: &str,
    (reader, writer): (R, W),
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (at_end, end) = oneshot::channel();
    let transport = transport::Lines::new(reader, writer, at_end);
    let records = Arc::clone(&kernel);
    // In a box, as its state is larger than a caller would expect of its own.
    let beginning = Box::pin(serve_server(
        server::Server::new(kernel, info, session),
        transport,
    ));
    let running = match beginning.await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Begin(error.to_string())),
    };
    let client = client(running.peer().peer_info().as_deref());
    records.open_session(session, &client);
    // rmcp waits some seconds for running calls after the end of input. Its token makes them give up first.
    let calls = running.cancellation_token();
    let mut waiting = pin!(running.waiting());
    let result = tokio::select! {
        result = &mut waiting => result,
        _ = end => {
            calls.cancel();
            waiting.await
        }
    };
    records.close_session(session, &client);
    result
        .map(drop)
        .map_err(|error| ServeError::Broken(error.to_string()))
}

/// What the records call the client: the name it gives itself, if it says one when it begins.
fn client(info: Option<&InitializeRequestParams>) -> String {
    match info {
        Some(info) => format!("mcp: {}", text::inline(&info.client_info.name, 60)),
        None => "mcp".to_owned(),
    }
}
