//! The log of a server: its standard error and its log notifications, escaped and bounded per line and per second. The
//! last lines are kept for error messages.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;
use toolhost_contract::lifecycle::mask_text;
use toolhost_contract::text;

use crate::expanded::mask_secrets;

const MAX_LINE: usize = 2_000;
const LINES_PER_SECOND: u64 = 100;
const MAX_LAST_LINES: usize = 20;
/// Maximum size of the last lines in a message.
const MAX_TAIL: usize = 2_000;

/// The destination of log lines.
pub type WriteLine = dyn Fn(&str) + Send + Sync;

pub struct ServerLogger {
    secrets: Vec<String>,
    write: Arc<WriteLine>,
    state: Mutex<LogState>,
}

struct LogState {
    second: Instant,
    lines: u64,
    dropped: u64,
    last: VecDeque<String>,
    /// Number of all lines that were kept in `last`.
    total: u64,
}

impl ServerLogger {
    pub fn new(write: Arc<WriteLine>) -> Self {
        Self::with_secrets(Vec::new(), write)
    }

    /// A program can log its own arguments, which can contain secrets.
    pub fn with_secrets(secrets: Vec<String>, write: Arc<WriteLine>) -> Self {
        let state = LogState {
            second: Instant::now(),
            lines: 0,
            dropped: 0,
            last: VecDeque::new(),
            total: 0,
        };
        Self {
            secrets,
            write,
            state: Mutex::new(state),
        }
    }

    /// Masks the secrets of the server's configuration in `text`.
    pub fn mask(&self, text: &str) -> String {
        mask_secrets(text, &self.secrets)
    }

    /// Logs one line that is escaped already.
    pub fn line(&self, line: &str) {
        let line = self.mask(line);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let mut note = None;
        if now.duration_since(state.second) >= Duration::from_secs(1) {
            let dropped = std::mem::take(&mut state.dropped);
            note = (dropped > 0).then(|| format!("({dropped} lines were dropped)"));
            state.second = now;
            state.lines = 0;
        }
        state.lines += 1;
        if state.last.len() == MAX_LAST_LINES {
            state.last.pop_front();
        }
        state.last.push_back(line.clone());
        state.total += 1;
        if state.lines > LINES_PER_SECOND {
            state.dropped += 1;
            return;
        }
        drop(state);
        if let Some(note) = note {
            (self.write)(&note);
        }
        (self.write)(&mask_text(&line));
    }

    /// Forgets the last lines, which belong to an earlier process.
    pub fn clear(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.last.clear();
    }

    /// The position of the next line, for [`ServerLogger::tail_since`].
    pub fn position(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.total
    }

    /// The end of the last lines, with everything masked that looks like a secret.
    pub fn tail(&self) -> Option<String> {
        self.tail_since(0)
    }

    /// Like [`ServerLogger::tail`], without lines before this position.
    pub fn tail_since(&self, position: u64) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = usize::try_from(state.total - position).unwrap_or(usize::MAX);
        let older = state.last.len().saturating_sub(newer);
        let lines: Vec<&str> = state.last.iter().skip(older).map(String::as_str).collect();
        let lines = (!lines.is_empty()).then(|| lines.join("\n"))?;
        drop(state);
        let shown = mask_text(&lines);
        let end = text::tail(&shown, MAX_TAIL);
        Some(if end.len() < shown.len() {
            format!("… {end}")
        } else {
            shown
        })
    }

    /// Reads until the stream is closed.
    pub async fn follow(&self, mut stream: impl AsyncRead + Unpin) {
        let mut line = Vec::new();
        let mut too_long = 0_usize;
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            for &byte in &buffer[..count] {
                if byte == b'\n' {
                    self.write_line(&line, too_long);
                    line.clear();
                    too_long = 0;
                } else if line.len() < MAX_LINE {
                    line.push(byte);
                } else {
                    too_long += 1;
                }
            }
        }
        if !line.is_empty() {
            self.write_line(&line, too_long);
        }
    }

    fn write_line(&self, line: &[u8], too_long: usize) {
        let text = String::from_utf8_lossy(line);
        let mut shown = text::escape_line(text.trim_end(), MAX_LINE);
        if too_long > 0 {
            let _ = write!(shown, "… (+{too_long} bytes)");
        }
        if !shown.is_empty() {
            self.line(&shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn logs_are_bounded_escaped_and_keep_the_last_lines() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = {
            let lines = Arc::clone(&lines);
            ServerLogger::new(Arc::new(move |line: &str| {
                lines.lock().unwrap().push(line.to_owned());
            }))
        };
        let long = "x".repeat(5_000);
        log.follow(format!("a\u{1b}[2J\n\n{long}\nlast").as_bytes())
            .await;
        let flood = "flood\n".repeat(1_000);
        log.follow(flood.as_bytes()).await;
        assert_eq!(lines.lock().unwrap().len(), 100);
        tokio::time::advance(Duration::from_secs(2)).await;
        log.line("after");
        let lines = lines.lock().unwrap().clone();
        assert_eq!(lines[0], "a\\u{1b}[2J");
        assert!(lines[1].ends_with("x… (+3000 bytes)"), "{}", lines[1]);
        assert_eq!(lines[2], "last");
        assert_eq!(lines[100..], ["(903 lines were dropped)", "after"]);
        assert_eq!(log.tail().unwrap().lines().count(), MAX_LAST_LINES);
        let position = log.position();
        assert_eq!(log.tail_since(position), None);
        log.line("during the call");
        assert_eq!(log.tail_since(position).unwrap(), "during the call");
        log.clear();
        assert_eq!(log.tail(), None);
    }

    #[test]
    fn c_07_the_last_lines_are_bounded_and_contain_no_secrets() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&lines);
        let write = move |line: &str| written.lock().unwrap().push(line.to_owned());
        let log = ServerLogger::with_secrets(vec!["hunter2hunter2".to_owned()], Arc::new(write));
        log.line("key hunter2hunter2, password=abcdef, ghp_0123456789012345678901");
        let shown = "key …, password=***, ***";
        assert_eq!(log.tail().as_deref(), Some(shown));
        assert_eq!(*lines.lock().unwrap(), [shown]);
        for _ in 0..MAX_LAST_LINES {
            log.line(&"x".repeat(MAX_LINE));
        }
        let tail = log.tail().unwrap();
        assert!(
            tail.starts_with("… x") && tail.len() <= MAX_TAIL + 4,
            "{}",
            tail.len()
        );
    }
}
