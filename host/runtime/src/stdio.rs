//! Bounded standard output and error of a guest.
//!
//! The host's standard output can be a protocol channel, so no guest output reaches it. wasmtime's built-in streams
//! are not used: in 48.0.8, empty writes to them grow the host's memory (GHSA-5m8g-xhq4-4h93).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use toolhost_contract::{CallEvent, Sink};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// Maximum size of one write, in bytes.
const MAX_WRITE: usize = 64 << 10;
/// Number of writes that are sent at once. Later ones are collected, because an event takes more memory and time than the
/// byte that it may contain.
const MAX_SENT_WRITES: usize = 10_000;
/// Size at which collected output is sent, in bytes.
const MIN_COLLECTED: usize = 4 << 10;

/// One of the two output streams of a call. Clones share the written data.
#[derive(Clone)]
pub struct Capture(Arc<Shared>);

struct Shared {
    name: &'static str,
    limit: u64,
    /// Number of trailing bytes to keep.
    tail_len: usize,
    sink: Arc<dyn Sink>,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    total: u64,
    tail: Vec<u8>,
    overflowed: bool,
    writes: usize,
    /// Output that was not sent yet.
    collected: Vec<u8>,
}

impl Capture {
    pub fn new(name: &'static str, limit: u64, keep: usize, sink: Arc<dyn Sink>) -> Self {
        Self(Arc::new(Shared {
            name,
            limit,
            tail_len: keep,
            sink,
            written: Mutex::default(),
        }))
    }

    /// The last written bytes, as text.
    pub fn tail(&self) -> String {
        let written = self.lock();
        String::from_utf8_lossy(&written.tail).into_owned()
    }

    /// Whether the guest tried to exceed the limit.
    pub fn overflowed(&self) -> bool {
        self.lock().overflowed
    }

    /// Whether the guest may write at least as much again.
    pub fn is_at_most_half_full(&self) -> bool {
        let written = self.lock();
        !written.overflowed && written.total <= self.0.limit / 2
    }

    /// Counts bytes against the limit; returns `false` if they would exceed it.
    pub fn count(&self, bytes: usize) -> bool {
        let mut written = self.lock();
        if written.overflowed || written.total.saturating_add(bytes as u64) > self.0.limit {
            written.overflowed = true;
            return false;
        }
        written.total += bytes as u64;
        true
    }

    /// Accepts the bytes, or refuses them if they would exceed the limit.
    pub fn push(&self, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return true;
        }
        if !self.count(bytes.len()) {
            return false;
        }
        let mut written = self.lock();
        if self.0.tail_len > 0 {
            let tail = &mut written.tail;
            tail.extend_from_slice(&bytes[bytes.len().saturating_sub(self.0.tail_len)..]);
            let excess = tail.len().saturating_sub(self.0.tail_len);
            tail.drain(..excess);
        }
        written.writes += 1;
        written.collected.extend_from_slice(bytes);
        if written.writes > MAX_SENT_WRITES && written.collected.len() < MIN_COLLECTED {
            return true;
        }
        drop(written);
        self.send_collected();
        true
    }

    /// Sends the output that was collected.
    pub fn send_collected(&self) {
        let rest = std::mem::take(&mut self.lock().collected);
        if !rest.is_empty() {
            self.send(self.0.name.to_owned(), rest);
        }
    }

    /// Sends output of another stream, after the output that was collected before.
    pub fn send_other(&self, stream: String, bytes: Vec<u8>) {
        self.send_collected();
        self.send(stream, bytes);
    }

    fn send(&self, stream: String, bytes: Vec<u8>) {
        self.0.sink.event(CallEvent::Output { stream, bytes });
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        let written = self.0.written.lock();
        written.unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for Capture {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Capture {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        // Used by WASI 0.3 only, which is not linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Capture {
    async fn ready(&mut self) {}
}

impl OutputStream for Capture {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if self.push(&bytes) {
            Ok(())
        } else {
            Err(StreamError::Closed)
        }
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        if self.overflowed() {
            Err(StreamError::Closed)
        } else {
            Ok(MAX_WRITE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Outputs(Mutex<Vec<Vec<u8>>>);

    impl Sink for Outputs {
        fn event(&self, event: CallEvent) {
            if let CallEvent::Output { bytes, .. } = event {
                self.0.lock().unwrap().push(bytes);
            }
        }
    }

    #[test]
    fn many_small_writes_are_sent_in_few_events_and_completely() {
        let sink = Arc::new(Outputs::default());
        let output = Capture::new("stdout", 1 << 20, 0, Arc::clone(&sink) as _);
        for _ in 0..MAX_SENT_WRITES + 100_000 {
            assert!(output.push(b"x"));
        }
        output.send_other("live".to_owned(), b"end".to_vec());
        output.send_collected();
        let events = sink.0.lock().unwrap();
        let expected = "x".repeat(MAX_SENT_WRITES + 100_000) + "end";
        assert!(events.concat() == expected.as_bytes());
        let collected = 100_000_usize.div_ceil(MIN_COLLECTED);
        assert_eq!(events.len(), MAX_SENT_WRITES + collected + 1);
    }
}
