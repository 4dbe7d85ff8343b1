//! Reader that also ends when the host is told to stop.

use std::io::Result;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, ReadBuf};

pub(crate) struct StoppableReader<R> {
    inner: R,
    /// `None` once it has resolved.
    stop: Option<BoxFuture<'static, ()>>,
}

impl<R> StoppableReader<R> {
    pub(crate) fn new(inner: R, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            inner,
            stop: Some(Box::pin(stop)),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for StoppableReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if let Some(stop) = &mut self.stop
            && stop.as_mut().poll(context).is_ready()
        {
            self.stop = None;
        }
        match self.stop {
            // Zero bytes mean the end of input.
            None => Poll::Ready(Ok(())),
            Some(_) => Pin::new(&mut self.inner).poll_read(context, buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn input_ends_when_the_host_is_told_to_stop() {
        let (mut theirs, ours) = tokio::io::duplex(16);
        let (stop, stopped) = oneshot::channel::<()>();
        let mut reader = StoppableReader::new(ours, async move {
            let _ = stopped.await;
        });
        theirs.write_all(b"a").await.unwrap();
        assert_eq!(reader.read_u8().await.unwrap(), b'a');
        let waiting = tokio::spawn(async move { reader.read(&mut [0; 4]).await.unwrap() });
        stop.send(()).unwrap();
        assert_eq!(waiting.await.unwrap(), 0);
    }
}
