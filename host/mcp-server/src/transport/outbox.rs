//! Bounded queue of output lines, and the writer that drains it.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Maximum unread output, in bytes. Above it, no input is read and no call is started. It is large because a simple
/// script may write all its requests before it reads.
const MAX_UNREAD: usize = 16 << 20;
/// Estimated overhead of a queued message, including the task that writes it, in bytes.
const MESSAGE_OVERHEAD: usize = 1024;
/// Maximum size of lines that are written together, in bytes: the size of a pipe.
const MAX_WRITE: usize = 64 << 10;

/// Output queue of one client.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: Mutex<OutboxQueue>,
    shrunk: Notify,
    closed: CancellationToken,
}

#[derive(Default)]
struct OutboxQueue {
    lines: VecDeque<Vec<u8>>,
    /// Total size of the queued lines and the one being written.
    bytes: usize,
    /// Number of lines queued so far.
    queued_total: u64,
}

impl Outbox {
    /// Appends a line and returns its number, for [`LineWriter::write_until`].
    pub(crate) fn push(&self, line: Vec<u8>) -> u64 {
        let mut waiting = self.lock();
        waiting.bytes += line.len() + MESSAGE_OVERHEAD;
        waiting.lines.push_back(line);
        waiting.queued_total += 1;
        waiting.queued_total
    }

    /// Returns the number of the last line.
    pub(crate) fn last_number(&self) -> u64 {
        self.lock().queued_total
    }

    /// Takes the next line, and those after it that fit into one write. Returns their number.
    fn take(&self, output: &mut Vec<u8>) -> u64 {
        let mut waiting = self.lock();
        let mut count = 0;
        while let Some(line) = waiting.lines.front()
            && (count == 0 || output.len() + line.len() <= MAX_WRITE)
        {
            if count == 0 {
                *output = waiting.lines.pop_front().unwrap_or_default();
            } else {
                output.extend_from_slice(line);
                waiting.lines.pop_front();
            }
            count += 1;
        }
        count
    }

    fn mark_written(&self, lines: u64, bytes: usize) {
        let overhead = usize::try_from(lines).unwrap_or(0) * MESSAGE_OVERHEAD;
        self.lock().bytes -= bytes + overhead;
        self.shrunk.notify_waiters();
    }

    pub(crate) fn has_room(&self) -> bool {
        self.is_closed() || self.lock().bytes <= MAX_UNREAD
    }

    /// Waits until the unread output is below the limit or the client is gone.
    pub(crate) async fn wait_for_room(&self) {
        while !self.has_room() {
            let mut fell = std::pin::pin!(self.shrunk.notified());
            // Register before the second check, so that no notification is lost.
            fell.as_mut().enable();
            if !self.has_room() {
                fell.await;
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Waits until the client is gone.
    pub(crate) async fn wait_closed(&self) {
        self.closed.cancelled().await;
    }

    /// Marks the client as gone and drops the queued lines.
    pub(crate) fn close(&self) {
        self.closed.cancel();
        self.lock().lines.clear();
        self.shrunk.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, OutboxQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes lines in queue order. A caller that waits for a line also writes all lines before it. A caller may be
/// dropped in the middle of a write; the next one continues there.
pub(crate) struct LineWriter<W> {
    writer: W,
    /// The lines that are being written.
    output: Vec<u8>,
    lines: u64,
    offset: usize,
    written: u64,
}

impl<W: AsyncWrite + Unpin> LineWriter<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self {
            writer,
            output: Vec::new(),
            lines: 0,
            offset: 0,
            written: 0,
        }
    }

    /// Writes at least the queued lines up to this number.
    pub(crate) async fn write_until(&mut self, outbox: &Outbox, until: u64) -> Result<()> {
        while self.written < until {
            if outbox.is_closed() {
                return Err(ErrorKind::BrokenPipe.into());
            }
            if let Err(error) = self.write_lines(outbox).await {
                // After a partial line, nothing that follows could be parsed.
                outbox.close();
                return Err(error);
            }
        }
        Ok(())
    }

    async fn write_lines(&mut self, outbox: &Outbox) -> Result<()> {
        if self.lines == 0 {
            self.lines = outbox.take(&mut self.output);
        }
        if self.lines == 0 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        while self.offset < self.output.len() {
            match self.writer.write(&self.output[self.offset..]).await? {
                0 => return Err(Error::from(ErrorKind::WriteZero)),
                count => self.offset += count,
            }
        }
        self.writer.flush().await?;
        outbox.mark_written(self.lines, self.output.len());
        self.written += self.lines;
        self.lines = 0;
        self.offset = 0;
        self.output = Vec::new();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn lines_are_written_in_queue_order_by_any_caller() {
        let (ours, mut theirs) = tokio::io::duplex(3);
        let (outbox, mut writer) = (Outbox::default(), LineWriter::new(ours));
        outbox.push(b"first\n".to_vec());
        let second = outbox.push(b"second\n".to_vec());
        let mut received = [0; 13];
        for byte in &mut received {
            // Each call is dropped in the middle of a line.
            let _ = writer.write_until(&outbox, second).now_or_never();
            *byte = theirs.read_u8().await.unwrap();
        }
        assert_eq!(received, *b"first\nsecond\n");
        writer.write_until(&outbox, second).await.unwrap();
        assert_eq!(outbox.lock().bytes, 0);
    }

    #[tokio::test]
    async fn room_returns_when_output_is_read_or_the_client_is_gone() {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (outbox, mut writer) = (Outbox::default(), LineWriter::new(ours));
        let first = outbox.push(vec![b'x'; 1 << 20]);
        outbox.wait_for_room().await;
        let last = outbox.push(vec![b'x'; MAX_UNREAD]);
        let mut wait = Box::pin(outbox.wait_for_room());
        assert!(wait.as_mut().now_or_never().is_none());
        writer.write_until(&outbox, first).await.unwrap();
        assert!(wait.as_mut().now_or_never().is_none(), "still too much");
        drop(theirs);
        assert!(!outbox.is_closed());
        writer.write_until(&outbox, last).await.unwrap_err();
        assert!(wait.now_or_never().is_some() && outbox.is_closed());
        writer
            .write_until(&outbox, outbox.push(b"x".to_vec()))
            .await
            .unwrap_err();
    }
}
