//! What is said to the client and not written yet: in the order it was said, and no more than a client may leave unread.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Whoever leaves more than this unread is not listened to, and gets no further call begun, until some of it is read.
/// It is that much, and not a few messages, because a simple script may well say everything before it reads.
const UNREAD: usize = 16 << 20;
/// What a message costs beside its own bytes: the task that writes it.
const BESIDES: usize = 1024;

/// One for each client.
#[derive(Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    fell: Notify,
    gone: CancellationToken,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    /// Of the lines, and of the one that is being written.
    bytes: usize,
    /// How many lines there have been.
    said: u64,
}

impl Outbox {
    /// Puts a line behind the others. Returns its number, for `Pen::write`.
    pub(crate) fn say(&self, line: Vec<u8>) -> u64 {
        let mut waiting = self.waiting();
        waiting.bytes += line.len() + BESIDES;
        waiting.lines.push_back(line);
        waiting.said += 1;
        waiting.said
    }

    /// The number of the last line.
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

    /// Waits until the client has read enough, or will never read again.
    pub(crate) async fn room(&self) {
        while !self.has_room() {
            let mut fell = std::pin::pin!(self.fell.notified());
            // From here on it hears of every line, also of one that is written before the next look.
            fell.as_mut().enable();
            if !self.has_room() {
                fell.await;
            }
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Waits until nobody can hear us.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// From now on nobody can hear us.
    pub(crate) fn break_off(&self) {
        self.gone.cancel();
        self.waiting().lines.clear();
        self.fell.notify_waiters();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the lines. Whoever waits for one of them writes all before it as well, so the order is that of the outbox,
/// whoever comes first; and each may be dropped in the middle of a line, which the next goes on with.
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

    /// Returns when the line with this number was written.
    pub(crate) async fn write(&mut self, outbox: &Outbox, until: u64) -> Result<()> {
        while self.written < until {
            if outbox.is_gone() {
                return Err(ErrorKind::BrokenPipe.into());
            }
            if let Err(error) = self.write_one(outbox).await {
                // A line that was written in part cannot be taken back, so nothing that follows it could be read.
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
            // Each is dropped in the middle.
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
