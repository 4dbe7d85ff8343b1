//! Filters the lines of a server before they are parsed: a line with too many values is cut off, which makes it
//! invalid. Lines that are not JSON, which the library ignores, are logged.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use toolhost_contract::text;
use toolhost_contract::value_counter::{MAX_VALUES, ValueCounter};

use crate::log::ServerLogger;

const MAX_SHOWN: usize = 200;

pub struct LineFilter<R> {
    inner: R,
    shape: ValueCounter,
    /// Skipping up to the end of a line that was cut off.
    skipping: bool,
    /// Whether only spaces of the current line were read.
    is_line_empty: bool,
    log: Arc<ServerLogger>,
}

impl<R> LineFilter<R> {
    pub fn new(inner: R, log: Arc<ServerLogger>) -> Self {
        Self {
            inner,
            shape: ValueCounter::default(),
            skipping: false,
            is_line_empty: true,
            log,
        }
    }

    /// Logs a line that cannot be a message.
    fn check_start(&mut self, part: &[u8]) {
        let part = part.trim_ascii();
        if part.is_empty() || !std::mem::take(&mut self.is_line_empty) {
            return;
        }
        if !matches!(part[0], b'{' | b'[') {
            let line = text::escape_line(&String::from_utf8_lossy(part), MAX_SHOWN);
            self.log.line(&format!(
                "a line of its standard output is not a message and was ignored: {line}"
            ));
        }
    }

    /// Removes from `bytes` what must not be passed on. Returns the remaining length.
    fn filter(&mut self, bytes: &mut [u8]) -> usize {
        let (mut from, mut retained) = (0, 0);
        while from < bytes.len() {
            let end = bytes[from..].iter().position(|&b| b == b'\n');
            let next = end.map_or(bytes.len(), |end| from + end + 1);
            self.check_start(&bytes[from..next]);
            if !self.skipping {
                match self.shape.count(&bytes[from..next]) {
                    Ok(()) => {
                        bytes.copy_within(from..next, retained);
                        retained += next - from;
                    }
                    Err(fits) => {
                        bytes.copy_within(from..from + fits, retained);
                        retained += fits;
                        // Truncated JSON is not a valid message; the library drops it.
                        bytes[retained] = b'\n';
                        retained += 1;
                        self.skipping = true;
                        self.log.line(&format!(
                            "a message of more than {MAX_VALUES} values was dropped"
                        ));
                    }
                }
            }
            if end.is_some() {
                self.shape = ValueCounter::default();
                self.skipping = false;
                self.is_line_empty = true;
            }
            from = next;
        }
        retained
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LineFilter<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let lines = self.get_mut();
        let before = buffer.filled().len();
        loop {
            ready!(Pin::new(&mut lines.inner).poll_read(context, buffer))?;
            if buffer.filled().len() == before {
                return Poll::Ready(Ok(()));
            }
            let retained = lines.filter(&mut buffer.filled_mut()[before..]);
            buffer.set_filled(before + retained);
            // Returning no bytes would signal the end of the stream.
            if retained > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn check(chunks: &[&[u8]], expected: &str) {
        let log = Arc::new(ServerLogger::new(Arc::new(|_: &str| ())));
        let mut inner: Box<dyn AsyncRead + Unpin> = Box::new(tokio::io::empty());
        for chunk in chunks.iter().rev() {
            inner = Box::new(std::io::Cursor::new(chunk.to_vec()).chain(inner));
        }
        let mut out = String::new();
        let mut lines = LineFilter::new(inner, Arc::clone(&log));
        lines.read_to_string(&mut out).await.unwrap();
        assert_eq!(out, expected);
    }

    #[tokio::test]
    async fn lines_that_are_no_messages_are_logged() {
        let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
        let written = Arc::clone(&lines);
        let log = ServerLogger::new(Arc::new(move |line: &str| {
            written.lock().unwrap().push(line.to_owned());
        }));
        let output = b"Listening\x1b\n\n  {\"a\":1}\n42\n";
        let mut filter = LineFilter::new(&output[..], Arc::new(log));
        let mut out = Vec::new();
        filter.read_to_end(&mut out).await.unwrap();
        assert_eq!(out, output);
        let start = "a line of its standard output is not a message and was ignored: ";
        let expected = [format!("{start}Listening\\u{{1b}}"), format!("{start}42")];
        assert_eq!(*lines.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn only_lines_with_too_many_values_are_cut_off() {
        check(
            &[b"{\"a\":[1,2]}\n\n", b"{\"b\"", b":1}\n"],
            "{\"a\":[1,2]}\n\n{\"b\":1}\n",
        )
        .await;
        let hostile = format!("[{}]\n", "[],".repeat(MAX_VALUES));
        let left = format!("[{}[]\n", "[],".repeat((MAX_VALUES - 2) / 2));
        check(
            &[b"{}\n", hostile.as_bytes(), b"{\"c\":1}\n"],
            &format!("{{}}\n{left}{{\"c\":1}}\n"),
        )
        .await;
        // The end of the line can come later, or never.
        let (front, rest) = hostile.split_at(hostile.len() - 10);
        check(
            &[front.as_bytes(), rest.as_bytes(), b"{}\n"],
            &format!("{left}{{}}\n"),
        )
        .await;
        check(&[front.as_bytes()], &left).await;
    }
}
