//! The context of a running call: caller, directories, and functions of the host.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::backend::Backend;
use crate::{Error, Result};

/// The context of one call: caller, directories, and functions of the host.
#[derive(Debug)]
pub struct Context {
    pub(crate) facts: CallFacts,
    pub(crate) backend: Backend,
}

/// Data that is fixed for the whole call.
#[derive(Debug, Default)]
pub(crate) struct CallFacts {
    pub call_id: String,
    pub agent_id: String,
    pub parent_agent_id: Option<String>,
    pub session_id: String,
    pub task_id: String,
    pub user_id: Option<String>,
    pub mode: String,
    pub roots: Vec<Root>,
    pub extra: Option<Value>,
}

/// A directory of the call, by the path under which the plugin sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub path: String,
    /// `ro` or `rw`.
    pub access: String,
}

impl Root {
    /// Whether the tool may write to it.
    pub fn is_writable(&self) -> bool {
        self.access == "rw"
    }
}

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

impl Context {
    /// Reports what the call is doing.
    pub fn progress(&self, message: &str) {
        self.backend.progress(Some(message), None, None);
    }

    /// Reports the progress of the call in units of `total`; must not decrease.
    pub fn progress_of(&self, done: f64, total: f64) {
        self.backend.progress(None, Some(done), Some(total));
    }

    /// [`progress`](Self::progress) and [`progress_of`](Self::progress_of) in one report.
    pub fn progress_with(&self, message: &str, done: f64, total: f64) {
        self.backend
            .progress(Some(message), Some(done), Some(total));
    }

    /// Writes a line to the host's log.
    pub fn log(&self, level: Level, message: &str) {
        self.backend.log(level, message);
    }

    /// [`log`](Self::log) at the level `debug`.
    pub fn debug(&self, message: &str) {
        self.log(Level::Debug, message);
    }

    /// [`log`](Self::log) at the level `info`.
    pub fn info(&self, message: &str) {
        self.log(Level::Info, message);
    }

    /// [`log`](Self::log) at the level `warn`.
    pub fn warn(&self, message: &str) {
        self.log(Level::Warn, message);
    }

    /// [`log`](Self::log) at the level `error`.
    pub fn error(&self, message: &str) {
        self.log(Level::Error, message);
    }

    /// Streams output while the call runs, on `stdout`, `stderr` or a custom stream.
    pub fn output(&self, stream: &str, bytes: impl AsRef<[u8]>) {
        self.backend.output(stream, bytes.as_ref());
    }

    /// Emits a custom event. Data that cannot be serialized is sent as null, with a warning in the log.
    pub fn emit(&self, event: &str, data: &impl Serialize) {
        let data = serde_json::to_value(data).unwrap_or_else(|error| {
            self.warn(&format!(
                "data of the event `{event}` cannot be written as JSON: {error}"
            ));
            Value::Null
        });
        self.backend.emit(event, &data);
    }

    /// Whether the call was cancelled. A call that does not check is stopped anyway.
    pub fn cancelled(&self) -> bool {
        self.backend.cancelled()
    }

    /// Time until the host stops this call.
    pub fn remaining(&self) -> Duration {
        self.backend.remaining()
    }

    /// Fails if the call should stop. For use in loops: `cx.check()?`.
    pub fn check(&self) -> Result<()> {
        if self.cancelled() {
            Err(Error::interrupted("the call was cancelled").code("cancelled"))
        } else if self.remaining().is_zero() {
            Err(Error::interrupted("the call ran out of time").code("timeout"))
        } else {
            Ok(())
        }
    }

    pub fn call_id(&self) -> &str {
        &self.facts.call_id
    }

    pub fn session_id(&self) -> &str {
        &self.facts.session_id
    }

    pub fn agent_id(&self) -> &str {
        &self.facts.agent_id
    }

    /// The agent that started this agent.
    pub fn parent_agent_id(&self) -> Option<&str> {
        self.facts.parent_agent_id.as_deref()
    }

    pub fn task_id(&self) -> &str {
        &self.facts.task_id
    }

    pub fn user_id(&self) -> Option<&str> {
        self.facts.user_id.as_deref()
    }

    /// Permission mode of the session, for example `default` or `plan`.
    pub fn mode(&self) -> &str {
        &self.facts.mode
    }

    /// The directories of this call. Nothing outside of them can be opened.
    pub fn roots(&self) -> &[Root] {
        &self.facts.roots
    }

    /// A JSON object for extensions by later hosts.
    pub fn extra(&self) -> Option<&Value> {
        self.facts.extra.as_ref()
    }
}
