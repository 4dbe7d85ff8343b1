//! How a connection to a server is made, anew each time it was lost.

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

/// Reaches one server. A program of ours does, a web address, and what a test plays.
pub trait Dial: Send + Sync {
    fn dial(&self, log: Arc<Log>) -> BoxFuture<'_, Result<Dialed, ServerError>>;
}

pub struct Dialed {
    pub wire: Wire,
    /// To be ended after the connection.
    pub child: Option<Piped>,
    /// Reads what it writes to its standard error, until nobody writes any more.
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
