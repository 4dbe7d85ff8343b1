//! The lifecycle of a call: its states and transitions.
//!
//! Everything that happens to a call is a [`Transition`]; [`CallRecord::apply`] applies it or rejects it. The audit
//! trail, the store, the prompt and the event formats of other systems derive from the record, so they are consistent.

mod input;
mod mask;
mod record;
mod snapshot;
mod times;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use input::CallInput;
pub use mask::{mask_diff, mask_text, mask_value};
pub use record::{
    ApprovalRecord, CallOrigin, CallRecord, CallUsage, InvalidTransition, TrailEntry,
};
pub use snapshot::{Snapshot, record_json};
pub use times::CallTimes;

/// Milliseconds since the Unix epoch, provided by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

/// The state of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallState {
    /// The call has a record but has not been processed yet.
    Pending,
    /// The tool name, input, rules and hooks are being evaluated.
    Validating,
    /// The user must decide. The prompt is on disk.
    AwaitingApproval,
    /// The user approved the call.
    Approved,
    /// The call is authorized and waits to be scheduled.
    Scheduled,
    Executing,
    /// The call completed. Its result may still be a logical error.
    Completed,
    Failed,
    Cancelled,
    Denied,
    /// The host terminated before the call did.
    Sealed,
}

impl CallState {
    pub const ALL: [CallState; 11] = [
        CallState::Pending,
        CallState::Validating,
        CallState::AwaitingApproval,
        CallState::Approved,
        CallState::Scheduled,
        CallState::Executing,
        CallState::Completed,
        CallState::Failed,
        CallState::Cancelled,
        CallState::Denied,
        CallState::Sealed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            CallState::Pending => "pending",
            CallState::Validating => "validating",
            CallState::AwaitingApproval => "awaiting_approval",
            CallState::Approved => "approved",
            CallState::Scheduled => "scheduled",
            CallState::Executing => "executing",
            CallState::Completed => "completed",
            CallState::Failed => "failed",
            CallState::Cancelled => "cancelled",
            CallState::Denied => "denied",
            CallState::Sealed => "sealed",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Returns whether the call has ended.
    pub fn is_terminal(self) -> bool {
        match self {
            CallState::Completed
            | CallState::Failed
            | CallState::Cancelled
            | CallState::Denied
            | CallState::Sealed => true,
            CallState::Pending
            | CallState::Validating
            | CallState::AwaitingApproval
            | CallState::Approved
            | CallState::Scheduled
            | CallState::Executing => false,
        }
    }

    /// Returns the advice for the model about a call that was in this state when the host terminated.
    pub fn advice_when_sealed(self) -> &'static str {
        match self {
            CallState::Pending | CallState::Validating | CallState::Scheduled => {
                "it had not started; it is safe to call again"
            }
            CallState::AwaitingApproval => {
                "it was waiting for approval and did not run; call again to ask again"
            }
            CallState::Approved => "it was approved and had not started; it is safe to call again",
            CallState::Executing => {
                "it was interrupted while it ran; verify its side effects before calling again"
            }
            CallState::Completed
            | CallState::Failed
            | CallState::Cancelled
            | CallState::Denied
            | CallState::Sealed => "it had ended",
        }
    }
}

impl fmt::Display for CallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A transition of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Transition {
    /// Processing of the call started.
    ValidationStarted,
    /// The tool was resolved.
    ToolResolved(Arc<ResolvedTool>),
    /// The input was repaired or changed by a hook; replaces the previous input.
    InputChanged {
        input: CallInput,
        by: String,
    },
    /// The call requires the user's approval.
    ApprovalRequested {
        reason: String,
        rule: Option<String>,
        meta: Option<Value>,
    },
    /// The user changed the input instead of deciding. The call is validated again.
    InputModified {
        input: CallInput,
        by: String,
    },
    /// The user approved the call.
    Approved {
        by: String,
        /// `once`, `session`, `project` or `user`.
        scope: String,
        note: Option<String>,
    },
    /// The call is authorized by this rule or user.
    Scheduled {
        by: String,
        wave: Option<usize>,
        /// The authorized command, if any, with secrets masked.
        command: Option<Value>,
    },
    /// The guest started.
    Started,
    /// The guest is done and its effects are authorized. The changes are about to be committed.
    CommitAuthorized {
        by: String,
        /// The identifier of the commit, if there were changes.
        commit: Option<String>,
    },
    /// The guest is done and hooks process the outcome.
    PostProcessing,
    /// Hooks changed the outcome.
    OutcomeChanged {
        by: String,
    },
    /// The caller received a result, and the work continues under another record.
    Backgrounded {
        task: String,
    },
    /// The call completed with a result. `is_error` marks a logical failure.
    Completed {
        is_error: bool,
        /// The source of the result if the tool did not run: `hook:NAME` or `cache`.
        supplied_by: Option<String>,
        duration: Duration,
    },
    Failed {
        code: String,
        message: String,
        duration: Duration,
    },
    Denied {
        code: String,
        reason: String,
        /// The rule, hook or user that denied the call.
        by: Option<String>,
        note: Option<String>,
        /// How to allow such calls, for the user.
        remedy: Option<String>,
    },
    Cancelled {
        reason: String,
        duration: Duration,
    },
    Sealed,
}

/// Returns the approximate memory size of a value in bytes. It is much larger than the JSON text: an empty list is 32
/// bytes.
pub fn memory_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 32,
        Value::String(text) => 32 + text.len(),
        Value::Array(items) => 32 + items.iter().map(memory_size).sum::<usize>(),
        Value::Object(members) => {
            let each = members
                .iter()
                .map(|(name, value)| 64 + name.len() + memory_size(value));
            32 + each.sum::<usize>()
        }
    }
}

/// The facts about a call that are known once its tool is resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedTool {
    pub tool: String,
    pub plugin: String,
    pub version: String,
    pub digest: Option<String>,
    pub effect: &'static str,
    pub mode: String,
    /// What its results contain.
    pub sources: Vec<&'static str>,
    /// Where the effects of this call go, with secrets masked.
    pub destinations: Vec<String>,
}

impl Transition {
    /// The name of the transition in the audit trail.
    pub fn kind(&self) -> &'static str {
        match self {
            Transition::ValidationStarted => "validation_started",
            Transition::ToolResolved(_) => "tool_resolved",
            Transition::InputChanged { .. } => "input_changed",
            Transition::ApprovalRequested { .. } => "approval_requested",
            Transition::InputModified { .. } => "modified",
            Transition::Approved { .. } => "approved",
            Transition::Scheduled { .. } => "scheduled",
            Transition::Started => "started",
            Transition::CommitAuthorized { .. } => "commit_authorized",
            Transition::PostProcessing => "post_processing",
            Transition::OutcomeChanged { .. } => "outcome_changed",
            Transition::Backgrounded { .. } => "backgrounded",
            Transition::Completed { .. } => "completed",
            Transition::Failed { .. } => "failed",
            Transition::Denied { .. } => "denied",
            Transition::Cancelled { .. } => "cancelled",
            Transition::Sealed => "sealed",
        }
    }

    /// Returns the state that the transition leads to, or `None` if it is invalid in state `from`. The numbers are
    /// those of the transition table in ARCHITECTURE.md.
    #[expect(clippy::match_same_arms, reason = "a line for each transition")]
    pub fn next_state(&self, from: CallState) -> Option<CallState> {
        use CallState as S;
        let to = match (self, from) {
            // 2, 6, 7: validated for the first time, or again with other input; 12: or because a file that it read has
            // changed
            (Transition::ValidationStarted, S::Pending | S::AwaitingApproval | S::Executing) => {
                S::Validating
            }
            (Transition::ToolResolved(_) | Transition::InputChanged { .. }, S::Validating) => {
                S::Validating
            }
            // 6, 12: before it runs, or because it reached a limit of its grant while running
            (Transition::ApprovalRequested { .. }, S::Validating | S::Executing) => {
                S::AwaitingApproval
            }
            // 7
            (Transition::InputModified { .. }, S::AwaitingApproval) => S::AwaitingApproval,
            // 8
            (Transition::Approved { .. }, S::AwaitingApproval) => S::Approved,
            // 6, 10
            (Transition::Scheduled { .. }, S::Validating | S::Approved) => S::Scheduled,
            // 11
            (Transition::Started, S::Scheduled) => S::Executing,
            (Transition::CommitAuthorized { .. }, S::Executing | S::Approved) => S::Executing,
            (Transition::PostProcessing | Transition::OutcomeChanged { .. }, S::Executing) => {
                S::Executing
            }
            // 14
            (Transition::Backgrounded { .. }, S::Executing) => S::Executing,
            // 5: a hook or the cache supplied the result
            (
                Transition::Completed {
                    supplied_by: Some(_),
                    ..
                },
                S::Validating | S::Approved,
            ) => S::Completed,
            // 13
            (
                Transition::Completed {
                    supplied_by: None, ..
                },
                S::Executing,
            ) => S::Completed,
            // 3, 13
            (Transition::Failed { .. }, S::Validating | S::Scheduled | S::Executing) => S::Failed,
            // 4, 9; 12: because of its staged changes, or of a rule or mode that changed while the user decided
            (
                Transition::Denied { .. },
                S::Validating | S::AwaitingApproval | S::Approved | S::Executing,
            ) => S::Denied,
            // 2, 10, 13
            (Transition::Cancelled { .. }, from) if !from.is_terminal() => S::Cancelled,
            // 16
            (Transition::Sealed, from) if !from.is_terminal() => S::Sealed,
            _ => return None,
        };
        Some(to)
    }
}

#[cfg(test)]
mod tests;
