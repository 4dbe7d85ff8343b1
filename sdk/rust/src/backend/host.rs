//! The backend in a component: calls of the host's imports.

#[path = "fetch.rs"]
mod fetch;
#[path = "host_services.rs"]
mod services;

use std::time::Duration;

use serde_json::Value;

use crate::Level;
use crate::bindings::toolhost::plugin::host::{self, ProgressUpdate};

/// Each method is one import of the component.
#[derive(Debug)]
pub(crate) struct Backend;

#[expect(
    clippy::unused_self,
    reason = "the recorder has the same methods, and a state"
)]
impl Backend {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn progress(
        &self,
        message: Option<&str>,
        progress: Option<f64>,
        total: Option<f64>,
    ) {
        host::progress(&ProgressUpdate {
            message: message.map(str::to_owned),
            progress,
            total,
        });
    }

    pub(crate) fn log(&self, level: Level, message: &str) {
        host::log(level.as_str(), message);
    }

    pub(crate) fn output(&self, stream: &str, bytes: &[u8]) {
        host::output(stream, bytes);
    }

    pub(crate) fn emit(&self, event: &str, data: &Value) {
        host::emit(event, &data.to_string());
    }

    pub(crate) fn cancelled(&self) -> bool {
        host::cancelled()
    }

    pub(crate) fn remaining(&self) -> Duration {
        Duration::try_from_secs_f64(host::remaining_ms().max(0.0) / 1000.0).unwrap_or(Duration::MAX)
    }
}
