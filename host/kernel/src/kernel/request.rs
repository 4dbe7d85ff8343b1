//! The request for a call and the report about it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolhost_contract::lifecycle::{CallOrigin, CallTimes, Timestamp};
use toolhost_contract::policy::{Mode, Restriction};
use toolhost_contract::{CallError, CallId, Display, OnlyPaths, Outcome, Principal, ToolName};

/// An unvalidated request for one call.
#[derive(Debug, Clone)]
pub struct CallRequest {
    pub id: CallId,
    /// Any name or alias of the tool.
    pub tool: String,
    pub input: Value,
    pub caller: Principal,
    pub context: CallContext,
}

/// The context of a call: its origin, parent, batch and restrictions.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    pub origin: CallOrigin,
    /// The call that made this one.
    pub parent: Option<CallId>,
    pub batch: Option<String>,
    /// For this call only. `None` uses the mode of the session.
    pub mode: Option<Mode>,
    /// The limits of a sub-agent, as a part of what its parent may do.
    pub restriction: Option<Arc<Restriction>>,
    /// Directories to which the caller narrows the call: a file must lie in a directory of each list.
    pub only_paths: Vec<OnlyPaths>,
    /// The origin of the call that this one follows as a tail.
    pub tail_of: Option<CallOrigin>,
    /// Number of sub-agents above the call: 0 for a call of the main agent.
    pub depth: usize,
}

impl CallContext {
    /// Returns the lists of directories that limit the files of the call, as in [`Grant::directory_limits`].
    ///
    /// [`Grant::directory_limits`]: toolhost_contract::Grant::directory_limits
    pub(super) fn directory_limits(&self) -> Vec<Arc<[String]>> {
        let restriction = self.restriction.as_ref();
        restriction.map_or_else(Vec::new, |restriction| restriction.directories())
    }

    /// The origin of the call, or of the call that it follows as a tail.
    pub(super) fn first_origin(&self) -> CallOrigin {
        self.tail_of.unwrap_or(self.origin)
    }

    /// Whether another tool made the call or the call that it follows as a tail.
    pub(super) fn is_nested(&self) -> bool {
        matches!(
            self.first_origin(),
            CallOrigin::Tool | CallOrigin::Background
        )
    }
}

impl CallRequest {
    pub fn new(id: CallId, tool: impl Into<String>, input: Value, caller: Principal) -> Self {
        Self {
            id,
            tool: tool.into(),
            input,
            caller,
            context: CallContext::default(),
        }
    }

    /// Narrows the call to these directories, which must be in granted ones. Several lists narrow it to what is in all
    /// of them.
    #[must_use]
    pub fn only_paths(mut self, paths: OnlyPaths) -> Self {
        self.context.only_paths.push(paths);
        self
    }
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub id: CallId,
    /// `None` if no tool has the requested name.
    pub tool: Option<ToolName>,
    pub result: Result<Outcome, CallError>,
    /// How the tool renders the result for users, in place of `outcome.display`.
    pub rendering: Vec<Display>,
    /// The rule or user that allowed the call.
    pub allowed_by: Option<String>,
    /// Execution time. Time spent waiting for the user or for other calls does not count.
    pub duration: Duration,
    /// When the tool started. `None` if it did not run.
    pub started_at: Option<Timestamp>,
    /// When the call ended. `None` if it has no record.
    pub completed_at: Option<Timestamp>,
    /// Corrections made to the input before the tool received it.
    pub repairs: Vec<String>,
    /// The user or the caller stopped the call.
    pub stopped: bool,
    /// The commits of the call and its tail calls, as taken by [`crate::undo::undo`].
    pub commits: Vec<String>,
}

impl Report {
    pub fn times(&self) -> CallTimes {
        CallTimes {
            started_at: self.started_at,
            completed_at: self.completed_at,
            duration: self.duration,
        }
    }
}
