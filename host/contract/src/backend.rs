//! Backends, which execute tool calls, and the events of a running call.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::policy::{Mode, RunningJob};
use crate::{
    Call, CallError, Descriptor, DetachSwitch, EffectBounds, Grant, Outcome, Preview, Principal,
    ReadSet, Rendering, Services, StagedChanges,
};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Executes the calls of a set of tools. Dropping the future of a call ends the call.
pub trait Backend: Send + Sync {
    fn tools(&self) -> &[Descriptor];

    /// Returns whether the schemas of the tools were checked by the kernel before. Then the kernel compiles a schema at its
    /// first use, and otherwise when the tools are registered.
    fn has_checked_schemas(&self) -> bool {
        false
    }

    /// Runs a call. Requires a [`Grant`], which only [`crate::policy`] creates.
    fn invoke(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>>;

    /// Prepares the first call, such as by compiling code. `None` if there is nothing to do. A call waits for it before its
    /// time limit starts.
    fn prepare(&self) -> Option<BoxFuture<'_, Result<(), CallError>>> {
        None
    }

    /// Returns whether [`Backend::stage`] holds file changes back until they are committed.
    fn supports_staging(&self) -> bool {
        false
    }

    /// Returns the permissions that a call of this tool with this input requires but was not granted, each with the
    /// setting that grants it. Such a call is refused before the user is prompted.
    fn missing_grants(&self, _tool: &Descriptor, _input: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Refuses a call that is limited to the directories of each list, as in [`Grant::directory_limits`], if it could use
    /// other files. Also checked before the user is prompted.
    fn check_directory_limits(&self, _limits: &[Arc<[String]>]) -> Result<(), CallError> {
        Ok(())
    }

    /// Returns whether the host runs the commands in the inputs of its tools, and nothing else. The effects of a call
    /// are then those of its command.
    fn runs_commands(&self) -> bool {
        false
    }

    /// Returns the name of the shell that runs these commands.
    fn shell(&self) -> Option<&str> {
        None
    }

    /// Returns the background program that `name` refers to for this caller.
    fn background_job(&self, _caller: &Principal, _name: &str) -> Option<RunningJob> {
        None
    }

    /// Returns whether a call of this tool can send data out of the host or start something in it. Such effects cannot
    /// be staged.
    fn has_external_effects(&self, _tool: &Descriptor) -> bool {
        false
    }

    /// Returns the upper bound of the effects of a call of this tool.
    fn effect_bounds(&self, _tool: &Descriptor) -> EffectBounds {
        EffectBounds::UNBOUNDED
    }

    /// Returns whether a call with this input can only call other tools.
    fn only_calls_tools(&self, _tool: &Descriptor, _input: &Value) -> bool {
        false
    }

    /// Returns the tool's own description of a call, without any grant. An error refuses the call. Called only for
    /// tools with such functions.
    fn preview(&self, _call: Call, _mode: Mode) -> BoxFuture<'_, Result<Preview, CallError>> {
        Box::pin(async { Ok(Preview::default()) })
    }

    /// Returns what a prompt for approval of this call shows in addition to what the host knows.
    fn render_permission(&self, _call: Call, _mode: Mode) -> BoxFuture<'_, Rendering> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Returns how users see the outcome of this call.
    fn render_result(
        &self,
        _call: Call,
        _mode: Mode,
        _outcome: Outcome,
    ) -> BoxFuture<'_, Rendering> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Runs a call and returns its file changes, which take effect when they are committed.
    ///
    /// The kernel relies on staging only if [`Backend::supports_staging`] returns true.
    fn stage(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<StagedResult, CallError>> {
        let outcome = self.invoke(call, grant, sink);
        Box::pin(async {
            Ok(StagedResult {
                outcome: outcome.await?,
                effects: StagedEffects::None,
            })
        })
    }
}

/// What a backend keeps between the functions that the kernel calls for one call: its preview, its hooks, its rendering.
/// Shared by all clones of the call, and dropped with the last one.
#[derive(Clone, Default)]
pub struct BackendState(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl BackendState {
    /// Takes what was kept, if it has this type.
    pub fn take<T: Send + 'static>(&self) -> Option<T> {
        let kept = self.replace(None)?;
        kept.downcast().ok().map(|kept| *kept)
    }

    /// Keeps a value in place of the previous one.
    pub fn keep<T: Send + 'static>(&self, value: T) {
        self.replace(Some(Box::new(value)));
    }

    /// Drops what was kept, because the call waits or has ended.
    pub fn clear(&self) {
        self.replace(None);
    }

    fn replace(&self, value: Option<Box<dyn Any + Send>>) -> Option<Box<dyn Any + Send>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *kept, value)
    }
}

impl fmt::Debug for BackendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendState").finish_non_exhaustive()
    }
}

/// The result of a call whose file changes are staged.
pub struct StagedResult {
    pub outcome: Outcome,
    pub effects: StagedEffects,
}

/// The file changes of a call.
pub enum StagedEffects {
    /// The call changed nothing, or its backend does not stage changes.
    None,
    Staged(Box<dyn StagedChanges>),
    /// These files were changed concurrently; the call should run again.
    Conflict(Vec<String>),
}

/// An event of a running call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEvent {
    Log {
        level: LogLevel,
        message: String,
    },
    Progress {
        message: Option<String>,
        progress: Option<f64>,
        total: Option<f64>,
    },
    Output {
        stream: String,
        bytes: Vec<u8>,
    },
    Custom {
        event: String,
        data: Value,
    },
    /// `count` messages were dropped because the call exceeded its rate limit.
    Dropped {
        count: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl LogLevel {
    /// Parses a level. Unknown levels are `info`, because an invalid log level should not fail a call.
    pub fn parse(name: &str) -> Self {
        match name {
            "trace" => LogLevel::Trace,
            "debug" => LogLevel::Debug,
            "warn" => LogLevel::Warn,
            "error" => LogLevel::Error,
            _ => LogLevel::Info,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Trace => "trace",
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        }
    }
}

/// Receives the events of one call. Implemented by the terminal and by MCP sessions.
pub trait Sink: Send + Sync {
    /// Handles an event. Must not block, because the guest waits.
    fn event(&self, event: CallEvent);

    /// Returns whether the caller has cancelled the call. A guest can poll this and stop cleanly.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// Returns the switch with which the caller can detach a command of the call. `None` if the tool cannot run in the
    /// background.
    fn detach_switch(&self) -> Option<DetachSwitch> {
        None
    }

    /// Returns whether the read set of the call is required. Recording it has a small cost for each path.
    fn wants_read_set(&self) -> bool {
        false
    }

    /// Receives the read set of the call when the call starts.
    fn set_read_set(&self, _reads: Arc<dyn ReadSet>) {}

    /// Marks the result as dependent on inputs that the read set does not cover: session state, user answers or other
    /// machines.
    fn mark_untracked_dependency(&self) {}

    /// Receives the size in bytes of the memory that the call used in its sandbox, when the sandbox ends.
    fn record_memory(&self, _bytes: u64) {}

    /// Returns the host services that the call can use.
    fn services(&self) -> Option<Arc<dyn Services>> {
        None
    }
}

/// A sink that discards all events, for callers that use only the result.
pub struct NoSink;

impl Sink for NoSink {
    fn event(&self, _event: CallEvent) {}
}
