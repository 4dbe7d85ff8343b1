//! One JSON message per line, as rmcp reads them, and what it leaves to us.

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

/// A longer line is skipped, and no memory beyond this is spent on it.
const MAX_LINE: usize = 8 << 20;

pub(crate) struct Lines<R: AsyncRead, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, R, W>,
    /// Taken when the input has ended.
    at_end: Option<oneshot::Sender<()>>,
    begun: bool,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(crate) fn new(reader: R, writer: W, at_end: oneshot::Sender<()>) -> Self {
        let inner = AsyncRwTransport::new_server(reader, writer).with_max_line_length(MAX_LINE);
        Self {
            inner,
            at_end: Some(at_end),
            begun: false,
        }
    }

    /// rmcp ends the session when its first message is not a request. A stray notification is no reason for that.
    fn is_stray(&mut self, message: &ClientJsonRpcMessage) -> bool {
        self.begun |= matches!(message, JsonRpcMessage::Request(_));
        !self.begun
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            match self.inner.receive().await {
                Some(message) if self.is_stray(&message) => {}
                Some(message) => return Some(message),
                None => {
                    // Nobody listens any more when the session has not begun: then there is nothing to stop.
                    let _ = self.at_end.take().map(|at_end| at_end.send(()));
                    return None;
                }
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
