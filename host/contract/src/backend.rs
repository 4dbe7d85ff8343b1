//! What runs tools. A component does, a remote MCP server will.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::policy::RunningJob;
use crate::{
    Call, CallError, Descriptor, Grant, Outcome, Principal, Reach, Reads, Services, Staged,
};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs the calls of some tools. Dropping the future of a call ends the call.
pub trait Backend: Send + Sync {
    fn tools(&self) -> &[Descriptor];

    /// There is no call without a [`Grant`], and a grant comes only from [`crate::policy`].
    fn invoke(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>>;

    /// Does [`Backend::stage`] hold back what calls do to files?
    fn stages(&self) -> bool {
        false
    }

    /// What a call of this tool with this input cannot do without and was not granted, each with what would grant it.
    /// Such a call is refused before a person is asked about it.
    fn missing(&self, _tool: &Descriptor, _input: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Does the host run the commands in the inputs of its tools, and nothing else? Then what a command says is what
    /// happens.
    fn executes(&self) -> bool {
        false
    }

    /// The shell that runs these commands, by name.
    fn shell(&self) -> Option<&str> {
        None
    }

    /// The program in the background that the caller means by this name.
    fn job(&self, _caller: &Principal, _name: &str) -> Option<RunningJob> {
        None
    }

    /// Can a call of this tool send something out of the host, or start something in it? That cannot be held back.
    fn reaches_out(&self, _tool: &Descriptor) -> bool {
        false
    }

    /// What can a call of this tool do at most?
    fn reach(&self, _tool: &Descriptor) -> Reach {
        Reach::ANYTHING
    }

    /// Can a call of this tool do nothing but call other tools?
    fn delegates(&self, _tool: &Descriptor) -> bool {
        false
    }

    /// Runs a call and hands over what it would change, which is not real before it is committed. Whoever holds
    /// nothing back says so with [`Backend::stages`], and is not given a call that counts on it.
    fn stage(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Ran, CallError>> {
        let outcome = self.invoke(call, grant, sink);
        Box::pin(async {
            Ok(Ran {
                outcome: outcome.await?,
                effects: Effects::None,
            })
        })
    }
}

/// A call that ran to its end.
pub struct Ran {
    pub outcome: Outcome,
    pub effects: Effects,
}

/// What a call would change in files.
pub enum Effects {
    /// It changed nothing, or nothing was held back.
    None,
    Held(Box<dyn Staged>),
    /// Somebody changed these meanwhile, and the call should run again.
    Conflict(Vec<String>),
}

/// What a running call tells the world.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Log {
        level: Level,
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
    /// So many messages were dropped because the call sent them faster than its limits allow.
    Dropped {
        count: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    /// An unknown word is `info`: a log line is not worth a failed call.
    pub fn parse(word: &str) -> Self {
        match word {
            "trace" => Level::Trace,
            "debug" => Level::Debug,
            "warn" => Level::Warn,
            "error" => Level::Error,
            _ => Level::Info,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// Hears the events of one call. Implemented by a terminal and by an MCP session.
pub trait Sink: Send + Sync {
    /// Must not block: the guest waits.
    fn event(&self, event: Event);

    /// Has the caller given up? A guest may ask and stop in good order.
    fn cancelled(&self) -> bool {
        false
    }

    /// Does somebody want to know what the call looks at? Writing it down costs a little at every path.
    fn wants_reads(&self) -> bool {
        false
    }

    /// What the call looks at, from its beginning on.
    fn reads(&self, _reads: Arc<dyn Reads>) {}

    /// The call's result depends on more than it looks at: on what it remembers, on people, on other machines.
    fn depends_on_more(&self) {}

    /// What the call may ask of its host.
    fn services(&self) -> Option<Arc<dyn Services>> {
        None
    }
}

/// For callers who only want the result.
pub struct NoSink;

impl Sink for NoSink {
    fn event(&self, _event: Event) {}
}
