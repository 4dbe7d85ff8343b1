//! What goes into the road and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolhost_contract::life::Origin;
use toolhost_contract::policy::{Mode, Restriction};
use toolhost_contract::{CallError, CallId, Outcome, Principal, ToolName};

/// What somebody wants done, unchecked.
#[derive(Debug, Clone)]
pub struct CallRequest {
    pub id: CallId,
    /// Any name of the tool.
    pub tool: String,
    pub input: Value,
    pub caller: Principal,
    pub within: Within,
}

/// What a call belongs to.
#[derive(Debug, Clone, Default)]
pub struct Within {
    pub origin: Origin,
    /// The call that caused this one.
    pub parent: Option<CallId>,
    pub batch: Option<String>,
    /// For this call; the policy's own mode when absent.
    pub mode: Option<Mode>,
    /// What a sub-agent may do of what its parent may.
    pub restriction: Option<Arc<Restriction>>,
    /// It is the tail of a call that a tool made.
    pub below: bool,
    /// How many sub-agents are above it: 0 for a call of the main agent.
    pub depth: usize,
}

impl Within {
    /// Another tool made it, or a call that it follows as its tail.
    pub(super) fn is_below(&self) -> bool {
        self.below || matches!(self.origin, Origin::Tool | Origin::Background)
    }
}

impl CallRequest {
    pub fn new(id: CallId, tool: impl Into<String>, input: Value, caller: Principal) -> Self {
        Self {
            id,
            tool: tool.into(),
            input,
            caller,
            within: Within::default(),
        }
    }
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub id: CallId,
    /// None when no tool has the name.
    pub tool: Option<ToolName>,
    pub result: Result<Outcome, CallError>,
    /// The rule or person that allowed the call.
    pub allowed_by: Option<String>,
    /// Time of execution; waiting for a person or for other calls does not count.
    pub duration: Duration,
    /// What was put right in the input before the tool saw it.
    pub repairs: Vec<String>,
    /// A person or the caller stopped it.
    pub stopped: bool,
    /// The commits of what it, and its tails, changed in files: what [`crate::undo::undo`] takes back.
    pub commits: Vec<String>,
}
