//! Host state of one running call, dropped when it ends.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use serde_json::Value;
use toolhost_contract::{CallError, CallEvent, Limits, LogLevel, Sink, text, value_counter};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::capabilities::CallCapabilities;
use crate::deadline::Deadline;
use crate::files::{Files, NonUtf8Names};
use crate::http::CallHttpHooks;
use crate::limiter::Limiter;
use crate::quota::WriteQuota;
use crate::request_limits;
use crate::stdio::Capture;

/// Maximum size of the standard error output in an error message, in bytes.
const STDERR_TAIL: usize = 2_000;

pub struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    pub files: Files,
    pub dir_entries: usize,
    pub written: WriteQuota,
    pub listed: Arc<AtomicUsize>,
    pub unnamed: NonUtf8Names,
    pub limiter: Limiter,
    pub deadline: Arc<Deadline>,
    pub allowed: CallCapabilities,
    http: WasiHttpCtx,
    http_hooks: CallHttpHooks,
    pub sink: Arc<dyn Sink>,
    pub stdout: Capture,
    pub stderr: Capture,
    messages: Throttle,
    progress: Throttle,
    /// The guest has called a function of the host.
    has_called_host: bool,
}

impl State {
    /// Whether the guest tried to write more than its limit to standard output or error.
    pub fn output_overflowed(&self) -> bool {
        self.stdout.overflowed() || self.stderr.overflowed()
    }

    /// Adds the reason to an error that the tool reports because an output stream was full: languages call it a broken
    /// pipe.
    pub fn explain(&self, error: CallError) -> CallError {
        if !self.output_overflowed() {
            return error;
        }
        error.recommend(
            "the tool wrote more than its limit to standard output or error, which then refused more: write less, or raise \
             `stdout` under `[limits]`",
        )
    }

    pub fn new(
        limits: &Limits,
        files: Files,
        environment: &[(String, String)],
        deadline: Arc<Deadline>,
        mut allowed: CallCapabilities,
        sink: Arc<dyn Sink>,
    ) -> Self {
        let http_hooks = CallHttpHooks {
            access: allowed.net.take(),
            sink: Arc::clone(&sink),
        };
        let stdout = Capture::new("stdout", limits.stdout, 0, Arc::clone(&sink));
        let stderr = Capture::new("stderr", limits.stderr, STDERR_TAIL, Arc::clone(&sink));
        let mut wasi = WasiCtxBuilder::new();
        wasi.stdout(stdout.clone())
            .stderr(stderr.clone())
            .envs(environment)
            .max_random_size(limits.random_bytes);
        if let Some(root) = files.scope().roots().first() {
            wasi.initial_cwd(root.guest());
        }
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(request_limits::MAX_FIELD_BYTES);
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.resources);
        Self {
            wasi: wasi.build(),
            table,
            files,
            dir_entries: limits.dir_entries,
            written: WriteQuota::new(limits.written_bytes),
            listed: Arc::default(),
            unnamed: NonUtf8Names::default(),
            limiter: Limiter::new(limits),
            deadline,
            allowed,
            http,
            http_hooks,
            sink,
            stdout,
            stderr,
            messages: Throttle::new(limits.messages_per_second, limits.message_bytes_per_second),
            progress: Throttle::new(10, 64 << 10),
            has_called_host: false,
        }
    }

    /// The accessor of all host functions.
    pub fn for_host_call(&mut self) -> &mut Self {
        self.has_called_host = true;
        self
    }

    pub fn has_called_host(&self) -> bool {
        self.has_called_host
    }

    /// The tail of the guest's standard error, escaped for display.
    pub fn stderr_tail(&self) -> Option<String> {
        let tail = self.stderr.tail();
        let tail = tail.trim();
        (!tail.is_empty()).then(|| text::escape_lines(tail, STDERR_TAIL))
    }

    pub fn log(&mut self, level: &str, message: &str) {
        self.deadline.restart_inactivity();
        if self.messages.admits(message.len()) {
            let event = CallEvent::Log {
                level: LogLevel::parse(level),
                message: text::head(message, 64 << 10).to_owned(),
            };
            self.sink.event(event);
        }
    }

    pub fn custom(&mut self, event: String, data: &str) {
        self.deadline.restart_inactivity();
        if self.messages.admits(event.len() + data.len()) {
            let parsed = value_counter::are_within_limit([data])
                .then(|| serde_json::from_str(data).ok())
                .flatten();
            let data = parsed.unwrap_or_else(|| Value::String(data.to_owned()));
            self.sink.event(CallEvent::Custom { event, data });
        }
    }

    pub fn progress(&mut self, message: Option<String>, progress: Option<f64>, total: Option<f64>) {
        self.deadline.restart_inactivity();
        if self
            .progress
            .admits(message.as_ref().map_or(0, String::len))
        {
            self.sink.event(CallEvent::Progress {
                message,
                progress,
                total,
            });
        }
    }

    pub fn remaining(&self) -> Duration {
        self.deadline.remaining()
    }

    /// Sends output that was collected, and the number of dropped messages.
    pub fn finish_events(&self) {
        self.stdout.send_collected();
        self.stderr.send_collected();
        let count = self.messages.dropped;
        if count > 0 {
            self.sink.event(CallEvent::Dropped { count });
        }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let state = self.for_host_call();
        WasiCtxView {
            ctx: &mut state.wasi,
            table: &mut state.table,
        }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let state = self.for_host_call();
        WasiHttpCtxView {
            hooks: &mut state.http_hooks,
            table: &mut state.table,
            ctx: &mut state.http,
        }
    }
}

/// Limits messages and bytes per second; the rest is counted and dropped.
struct Throttle {
    messages: u32,
    bytes: u64,
    window: Instant,
    used_messages: u32,
    used_bytes: u64,
    dropped: u64,
}

impl Throttle {
    fn new(messages: u32, bytes: u64) -> Self {
        Self {
            messages,
            bytes,
            window: Instant::now(),
            used_messages: 0,
            used_bytes: 0,
            dropped: 0,
        }
    }

    fn admits(&mut self, bytes: usize) -> bool {
        if self.window.elapsed() >= Duration::from_secs(1) {
            self.window = Instant::now();
            self.used_messages = 0;
            self.used_bytes = 0;
        }
        let bytes = bytes as u64;
        if self.used_messages >= self.messages || self.used_bytes.saturating_add(bytes) > self.bytes
        {
            self.dropped += 1;
            return false;
        }
        self.used_messages += 1;
        self.used_bytes += bytes;
        true
    }
}
