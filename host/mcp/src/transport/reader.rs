//! Reads lines of a bounded length, and of longer ones only what tells whom to answer.

use std::mem;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::scan::{Found, Scan};

/// A longer line is refused, and no memory beyond this is spent on it.
pub(super) const MAX_LINE: usize = 8 << 20;
/// So much is kept for the next line.
const KEPT: usize = 64 << 10;
/// Some editors begin a text with it.
const MARK: &[u8] = b"\xEF\xBB\xBF";

pub(super) struct Reader<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    /// Of a line that is too long, until it ends.
    long: Option<Box<Scan>>,
}

pub(super) enum Line {
    /// It is in `Reader::line`, until `done`.
    Whole,
    Long(Vec<Found>),
    /// Whatever has no end of line does not count.
    End,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from: BufReader::new(from),
            line: Vec::new(),
            long: None,
        }
    }

    /// May be dropped at any time: the next one goes on with the line.
    pub(super) async fn next(&mut self) -> Line {
        loop {
            let read = match self.from.fill_buf().await {
                Ok([]) => return Line::End,
                Ok(read) => read,
                Err(error) => {
                    tracing::error!("reading from the client: {error}");
                    return Line::End;
                }
            };
            let end = read.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(read.len(), |end| end + 1);
            let read = &read[..taken];
            if self.long.is_none() && self.line.len() + taken > MAX_LINE {
                let mut scan = Box::<Scan>::default();
                scan.feed(&mem::take(&mut self.line));
                self.long = Some(scan);
            }
            match &mut self.long {
                Some(scan) => scan.feed(read),
                None => self.line.extend_from_slice(read),
            }
            self.from.consume(taken);
            if end.is_some() {
                return match self.long.take() {
                    Some(scan) => Line::Long(scan.end().found),
                    None => Line::Whole,
                };
            }
        }
    }

    /// The line without what is around a message.
    pub(super) fn line(&self) -> &[u8] {
        let line = self.line.trim_ascii();
        line.strip_prefix(MARK).unwrap_or(line)
    }

    pub(super) fn done(&mut self) {
        self.line.clear();
        self.line.shrink_to(KEPT);
    }
}
