//! Establishes connections to a server, at the start and after each loss.

use std::sync::Arc;

use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::AuthClient;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use toolhost_contract::BoxFuture;
use toolhost_process::PipedProcess;

use crate::error::ServerError;
use crate::log::ServerLogger;
use crate::web::BoundedClient;

/// Connects to one server: a local program, a web address, or a test double.
pub trait Dial: Send + Sync {
    fn dial(&self, log: Arc<ServerLogger>) -> BoxFuture<'_, Result<DialedConnection, ServerError>>;
}

pub struct DialedConnection {
    pub wire: ClientTransport,
    /// Ended after the connection is closed.
    pub child: Option<PipedProcess>,
    /// The task that reads the program's standard error until it is closed.
    pub stderr: Option<JoinHandle<()>>,
}

pub enum ClientTransport {
    Pipes {
        read: Box<dyn AsyncRead + Send + Unpin>,
        write: Box<dyn AsyncWrite + Send + Unpin>,
    },
    Http(StreamableHttpClientTransport<BoundedClient>),
    Authorized(StreamableHttpClientTransport<AuthClient<BoundedClient>>),
}
