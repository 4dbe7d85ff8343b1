//! The life of a call: eleven states, and one pure function that says which step leads where.
//!
//! Whatever happens to a call is a [`Step`]; [`Record::take`] folds it in or says that it cannot happen now. The audit
//! trail, the store, the prompt and every other system's names for these things are read off
//! the record, so they cannot disagree.

mod input;
mod mask;
mod record;
mod snapshot;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use input::Input;
pub use mask::{masked, masked_text};
pub use record::{Approval, Illegal, Origin, Record, Trail};
pub use snapshot::{Snapshot, draw};

/// Milliseconds since 1970, handed in by whoever has a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub i64);

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallState {
    /// There is a record; nobody has looked at the call yet.
    Pending,
    /// Names, input, rules and hooks are being looked at.
    Validating,
    /// A person has to answer. The question is on disk.
    AwaitingApproval,
    /// The answer was yes.
    Approved,
    /// May run, and waits for its turn.
    Scheduled,
    Executing,
    /// Ran to its end; the result may still say that the answer is no.
    Completed,
    Failed,
    Cancelled,
    Denied,
    /// Was found unfinished after its host had died.
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

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Nothing comes after it.
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

    /// What a model is told about a call that was in this state when its host died.
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

/// What can happen to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Somebody looks at it now.
    Picked,
    /// Which tool it is, once that is known.
    Found(Arc<Found>),
    /// The input was put right, or somebody changed it: what counts from here on.
    InputChanged {
        input: Input,
        by: String,
    },
    /// A person has to say yes.
    Asked {
        reason: String,
        rule: Option<String>,
        meta: Option<Value>,
    },
    /// A person changed the input instead of answering. It is looked at from the start.
    Modified {
        input: Input,
        by: String,
    },
    /// A person said yes.
    Approved {
        by: String,
        /// `once`, `session`, `project` or `user`.
        scope: String,
        note: Option<String>,
    },
    /// It may run, by this rule or person.
    Scheduled {
        by: String,
        wave: Option<usize>,
        /// The command that was authorized, if there is one, masked.
        command: Option<Value>,
    },
    /// A guest runs.
    Started,
    /// The guest is done, and what it did is let through: its changes are about to become real.
    Released {
        by: String,
        /// The commit, when it changed anything.
        commit: Option<String>,
    },
    /// The guest is done; hooks look at what it brought.
    PostProcessing,
    /// Hooks changed what it brought.
    OutcomeChanged {
        by: String,
    },
    /// The caller was answered, and the work goes on under another record.
    Backgrounded {
        task: String,
    },
    /// It brought a result. `is_error` is a logical failure.
    Completed {
        is_error: bool,
        /// Who supplied the result when the tool did not run: `hook:NAME` or `cache`.
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
        /// The rule, hook or person.
        by: Option<String>,
        note: Option<String>,
    },
    Cancelled {
        reason: String,
        duration: Duration,
    },
    Sealed,
}

/// About what a value takes in memory, which is far more than its text: an empty list of two characters is 32 bytes.
pub fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 32,
        Value::String(text) => 32 + text.len(),
        Value::Array(items) => 32 + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => {
            let each = members
                .iter()
                .map(|(name, value)| 64 + name.len() + weight(value));
            32 + each.sum::<usize>()
        }
    }
}

/// What is known of a call once its tool is found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub tool: String,
    pub plugin: String,
    pub version: String,
    pub digest: Option<String>,
    pub effect: &'static str,
    pub mode: String,
}

impl Step {
    /// A short word for the audit trail.
    pub fn kind(&self) -> &'static str {
        match self {
            Step::Picked => "picked",
            Step::Found(_) => "found",
            Step::InputChanged { .. } => "input_changed",
            Step::Asked { .. } => "asked",
            Step::Modified { .. } => "modified",
            Step::Approved { .. } => "approved",
            Step::Scheduled { .. } => "scheduled",
            Step::Started => "started",
            Step::Released { .. } => "released",
            Step::PostProcessing => "post_processing",
            Step::OutcomeChanged { .. } => "outcome_changed",
            Step::Backgrounded { .. } => "backgrounded",
            Step::Completed { .. } => "completed",
            Step::Failed { .. } => "failed",
            Step::Denied { .. } => "denied",
            Step::Cancelled { .. } => "cancelled",
            Step::Sealed => "sealed",
        }
    }

    /// Where the step leads from `state`; None when it cannot happen there. The whole table of transitions, numbered as
    /// in ARCHITECTURE.md.
    #[expect(clippy::match_same_arms, reason = "a line for each transition")]
    pub fn leads(&self, from: CallState) -> Option<CallState> {
        use CallState as S;
        let to = match (self, from) {
            // 2, 6, 7: looked at, for the first time or again with other input; 12: or because what it saw has changed
            (Step::Picked, S::Pending | S::AwaitingApproval | S::Executing) => S::Validating,
            (Step::Found(_) | Step::InputChanged { .. }, S::Validating) => S::Validating,
            // 6, 12: before it runs, or because it met a limit of its grant while it ran
            (Step::Asked { .. }, S::Validating | S::Executing) => S::AwaitingApproval,
            // 7
            (Step::Modified { .. }, S::AwaitingApproval) => S::AwaitingApproval,
            // 8
            (Step::Approved { .. }, S::AwaitingApproval) => S::Approved,
            // 6, 10
            (Step::Scheduled { .. }, S::Validating | S::Approved) => S::Scheduled,
            // 11
            (Step::Started, S::Scheduled) => S::Executing,
            (Step::Released { .. }, S::Executing | S::Approved) => S::Executing,
            (Step::PostProcessing | Step::OutcomeChanged { .. }, S::Executing) => S::Executing,
            // 14
            (Step::Backgrounded { .. }, S::Executing) => S::Executing,
            // 5: a hook or the cache had the answer
            (
                Step::Completed {
                    supplied_by: Some(_),
                    ..
                },
                S::Validating,
            ) => S::Completed,
            // 13
            (
                Step::Completed {
                    supplied_by: None, ..
                },
                S::Executing,
            ) => S::Completed,
            // 3, 13
            (Step::Failed { .. }, S::Validating | S::Scheduled | S::Executing) => S::Failed,
            // 4, 9; 12: for what it would have changed
            (Step::Denied { .. }, S::Validating | S::AwaitingApproval | S::Executing) => S::Denied,
            // 2, 10, 13
            (Step::Cancelled { .. }, from) if !from.is_terminal() => S::Cancelled,
            // 16
            (Step::Sealed, from) if !from.is_terminal() => S::Sealed,
            _ => return None,
        };
        Some(to)
    }
}

#[cfg(test)]
mod tests;
