//! Establishes connections to a server, at the start and after each loss.

use std::sync::Arc;

use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::AuthClient;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use toolhost_contract::BoxFuture;
use toolhost_process::Piped;

use crate::error::ServerError;
use crate::log::Log;
use crate::web::Bounded;

/// Connects to one server: a local program, a web address, or a test double.
pub trait Dial: Send + Sync {
    fn dial(&self, log: Arc<Log>) -> BoxFuture<'_, Result<Dialed, ServerError>>;
}

pub struct Dialed {
    pub wire: Wire,
    /// Ended after the connection is closed.
    pub child: Option<Piped>,
    /// The task that reads the program's standard error until it is closed.
    pub stderr: Option<JoinHandle<()>>,
}

pub enum Wire {
    Pipes {
        read: Box<dyn AsyncRead + Send + Unpin>,
        write: Box<dyn AsyncWrite + Send + Unpin>,
    },
    Http(StreamableHttpClientTransport<Bounded>),
    Authorized(StreamableHttpClientTransport<AuthClient<Bounded>>),
}
