//! Bounded queue of output lines, and the writer that drains it.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Maximum unread output, in bytes. Above it, no input is read and no call is started. It is large because a simple
/// script may write all its requests before it reads.
const UNREAD: usize = 16 << 20;
/// Estimated overhead of a queued message, including the task that writes it, in bytes.
const BESIDES: usize = 1024;

/// Output queue of one client.
#[derive(Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    fell: Notify,
    gone: CancellationToken,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    /// Total size of the queued lines and the one being written.
    bytes: usize,
    /// Number of lines queued so far.
    said: u64,
}

impl Outbox {
    /// Appends a line and returns its number, for [`LineWriter::write_until`].
    pub(crate) fn say(&self, line: Vec<u8>) -> u64 {
        let mut waiting = self.waiting();
        waiting.bytes += line.len() + BESIDES;
        waiting.lines.push_back(line);
        waiting.said += 1;
        waiting.said
    }

    /// Returns the number of the last line.
    pub(crate) fn said(&self) -> u64 {
        self.waiting().said
    }

    fn next(&self) -> Option<Vec<u8>> {
        self.waiting().lines.pop_front()
    }

    fn wrote(&self, line: &[u8]) {
        self.waiting().bytes -= line.len() + BESIDES;
        self.fell.notify_waiters();
    }

    fn has_room(&self) -> bool {
        self.is_gone() || self.waiting().bytes <= UNREAD
    }

    /// Waits until the unread output is below the limit or the client is gone.
    pub(crate) async fn room(&self) {
        while !self.has_room() {
            let mut fell = std::pin::pin!(self.fell.notified());
            // Register before the second check, so that no notification is lost.
            fell.as_mut().enable();
            if !self.has_room() {
                fell.await;
            }
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Waits until the client is gone.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Marks the client as gone and drops the queued lines.
    pub(crate) fn break_off(&self) {
        self.gone.cancel();
        self.waiting().lines.clear();
        self.fell.notify_waiters();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes lines in queue order. A caller that waits for a line also writes all lines before it. A caller may be
/// dropped in the middle of a line; the next one continues there.
pub(crate) struct Pen<W> {
    writer: W,
    line: Vec<u8>,
    at: usize,
    written: u64,
}

impl<W: AsyncWrite + Unpin> Pen<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self {
            writer,
            line: Vec::new(),
            at: 0,
            written: 0,
        }
    }

    /// Writes queued lines up to this number.
    pub(crate) async fn write(&mut self, outbox: &Outbox, until: u64) -> Result<()> {
        while self.written < until {
            if outbox.is_gone() {
                return Err(ErrorKind::BrokenPipe.into());
            }
            if let Err(error) = self.write_one(outbox).await {
                // After a partial line, nothing that follows could be parsed.
                outbox.break_off();
                return Err(error);
            }
        }
        Ok(())
    }

    async fn write_one(&mut self, outbox: &Outbox) -> Result<()> {
        if self.line.is_empty() {
            self.line = outbox.next().ok_or(ErrorKind::BrokenPipe)?;
        }
        while self.at < self.line.len() {
            match self.writer.write(&self.line[self.at..]).await? {
                0 => return Err(Error::from(ErrorKind::WriteZero)),
                count => self.at += count,
            }
        }
        self.writer.flush().await?;
        self.at = 0;
        self.written += 1;
        outbox.wrote(&mem::take(&mut self.line));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn lines_are_written_in_order_by_whoever_comes_first() {
        let (ours, mut theirs) = tokio::io::duplex(3);
        let (outbox, mut pen) = (Outbox::default(), Pen::new(ours));
        outbox.say(b"first\n".to_vec());
        let second = outbox.say(b"second\n".to_vec());
        let mut heard = [0; 13];
        for byte in &mut heard {
            // Each call is dropped in the middle of a line.
            let _ = pen.write(&outbox, second).now_or_never();
            *byte = theirs.read_u8().await.unwrap();
        }
        assert_eq!(heard, *b"first\nsecond\n");
        pen.write(&outbox, second).await.unwrap();
        assert_eq!(outbox.waiting().bytes, 0);
    }

    #[tokio::test]
    async fn there_is_room_again_when_something_was_read_or_nobody_will() {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (outbox, mut pen) = (Outbox::default(), Pen::new(ours));
        let first = outbox.say(vec![b'x'; 1 << 20]);
        outbox.room().await;
        let last = outbox.say(vec![b'x'; UNREAD]);
        let mut room = Box::pin(outbox.room());
        assert!(room.as_mut().now_or_never().is_none());
        pen.write(&outbox, first).await.unwrap();
        assert!(room.as_mut().now_or_never().is_none(), "still too much");
        drop(theirs);
        assert!(!outbox.is_gone());
        pen.write(&outbox, last).await.unwrap_err();
        assert!(room.now_or_never().is_some() && outbox.is_gone());
        pen.write(&outbox, outbox.say(b"x".to_vec()))
            .await
            .unwrap_err();
    }
}
