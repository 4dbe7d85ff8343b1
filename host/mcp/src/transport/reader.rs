//! Reader for lines of bounded length. Longer lines are only scanned for message ids.

use std::mem;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::scan::{Found, Scan};

/// Maximum length of a line, in bytes. A longer line is rejected and not buffered.
pub(super) const MAX_LINE: usize = 8 << 20;
/// Buffer capacity kept for the next line, in bytes.
const KEPT: usize = 64 << 10;
/// UTF-8 byte order mark.
const MARK: &[u8] = b"\xEF\xBB\xBF";

pub(super) struct Reader<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    /// Scan of the current line, if it is too long.
    long: Option<Box<Scan>>,
}

pub(super) enum Line {
    /// A complete line, available as `LineReader::line` until `done`.
    Whole,
    Long(Vec<Found>),
    /// End of input. An incomplete last line is ignored.
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

    /// Reads the next line. Cancel safe.
    pub(super) async fn next(&mut self) -> Line {
        loop {
            let read = match self.from.fill_buf().await {
                Ok([]) => return Line::End,
                Ok(read) => read,
                Err(error) => {
                    tracing::error!("failed to read from the client: {error}");
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

    /// Returns the current line without whitespace and byte order mark.
    pub(super) fn line(&self) -> &[u8] {
        let line = self.line.trim_ascii();
        line.strip_prefix(MARK).unwrap_or(line)
    }

    pub(super) fn done(&mut self) {
        self.line.clear();
        self.line.shrink_to(KEPT);
    }
}
