//! Reader for lines of bounded length. Longer lines are only scanned for message ids.

use std::mem;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::id_scanner::{IdScanner, ScannedMessage};

/// Maximum length of a line, in bytes. A longer line is rejected and not buffered.
pub(super) const MAX_LINE: usize = 8 << 20;
/// Buffer capacity kept for the next line, in bytes.
const KEPT_CAPACITY: usize = 64 << 10;
/// UTF-8 byte order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

pub(super) struct LineReader<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    /// Scan of the current line, if it is too long.
    too_long: Option<Box<IdScanner>>,
}

pub(super) enum ReadLine {
    /// A complete line, available as `LineReader::line` until `done`.
    Whole,
    TooLong(Vec<ScannedMessage>),
    /// End of input. An incomplete last line is ignored.
    End,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from: BufReader::new(from),
            line: Vec::new(),
            too_long: None,
        }
    }

    /// Reads the next line. Cancel safe.
    pub(super) async fn next(&mut self) -> ReadLine {
        loop {
            let read = match self.from.fill_buf().await {
                Ok([]) => return ReadLine::End,
                Ok(read) => read,
                Err(error) => {
                    tracing::error!("failed to read from the client: {error}");
                    return ReadLine::End;
                }
            };
            let end = read.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(read.len(), |end| end + 1);
            let read = &read[..taken];
            if self.too_long.is_none() && self.line.len() + taken > MAX_LINE {
                let mut scan = Box::<IdScanner>::default();
                scan.feed(&mem::take(&mut self.line));
                self.too_long = Some(scan);
            }
            match &mut self.too_long {
                Some(scan) => scan.feed(read),
                None => self.line.extend_from_slice(read),
            }
            self.from.consume(taken);
            if end.is_some() {
                return match self.too_long.take() {
                    Some(scan) => ReadLine::TooLong(scan.into_result().messages),
                    None => ReadLine::Whole,
                };
            }
        }
    }

    /// Returns the current line without whitespace and byte order mark.
    pub(super) fn line(&self) -> &[u8] {
        let line = self.line.trim_ascii();
        line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
    }

    /// Returns whether the buffer contains another complete line.
    pub(super) fn has_complete_line(&self) -> bool {
        self.from.buffer().contains(&b'\n')
    }

    pub(super) fn done(&mut self) {
        self.line.clear();
        self.line.shrink_to(KEPT_CAPACITY);
    }
}
