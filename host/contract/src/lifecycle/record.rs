//! The record of a call, built by applying its transitions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{CallInput, CallState, ResolvedTool, Timestamp, Transition, memory_size};
use crate::{CallId, OnlyPaths, Principal};

/// The record of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    pub id: CallId,
    /// The name that the caller used. Replaced by the canonical name once the tool is resolved.
    pub name: String,
    pub input: CallInput,
    pub caller: Arc<Principal>,
    pub origin: CallOrigin,
    /// The call that made this call.
    pub parent: Option<CallId>,
    /// The model turn that the call belongs to.
    pub batch: Option<String>,
    pub wave: Option<usize>,
    /// The lists of directories to which callers narrowed the call.
    pub only_paths: Vec<OnlyPaths>,
    /// The command that was last authorized, with secrets masked.
    pub command: Option<Value>,
    pub resolved_tool: Option<Arc<ResolvedTool>>,
    pub state: CallState,
    pub approval: ApprovalRecord,
    pub is_error: bool,
    pub error: Option<CallFailure>,
    /// The source of the result if the tool did not run.
    pub supplied_by: Option<String>,
    pub input_modified: bool,
    pub backgrounded: Option<String>,
    /// Number of times that the tool was started.
    pub attempts: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When the guest started, so that the duration excludes waiting.
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub duration: Option<Duration>,
    pub usage: CallUsage,
    /// The rule or user that authorized the call.
    pub allowed_by: Option<String>,
    pub trail: Vec<TrailEntry>,
}

/// The origin of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallOrigin {
    #[default]
    Model,
    Client,
    Tail,
    Background,
    /// Another tool made the call.
    Tool,
}

impl CallOrigin {
    pub fn as_str(self) -> &'static str {
        match self {
            CallOrigin::Model => "model",
            CallOrigin::Client => "client",
            CallOrigin::Tail => "tail",
            CallOrigin::Background => "background",
            CallOrigin::Tool => "tool",
        }
    }
}

/// The user's decision about a call, if one was required.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ApprovalRecord {
    pub required: bool,
    pub reason: Option<String>,
    /// The rule that requires the approval.
    pub rule: Option<String>,
    /// `allow` or `deny`.
    pub decision: Option<&'static str>,
    pub decided_by: Option<String>,
    pub decided_at: Option<Timestamp>,
    pub scope: Option<String>,
    pub note: Option<String>,
    pub meta: Option<Value>,
}

impl ApprovalRecord {
    fn requested(reason: String, rule: Option<String>, meta: Option<Value>) -> Self {
        Self {
            required: true,
            reason: Some(reason),
            rule,
            meta,
            ..Self::default()
        }
    }
}

/// What a tool used of its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallUsage {
    /// Bytes of memory of its sandbox. `None` if the backend does not measure it.
    pub memory: Option<u64>,
    /// Approximate size of its result in bytes. `None` without a result.
    pub output: Option<u64>,
}

/// Why a call did not complete.
#[derive(Debug, Clone, PartialEq)]
pub struct CallFailure {
    pub code: String,
    pub message: String,
    /// How the user can allow such calls, if this one was denied.
    pub remedy: Option<String>,
}

/// An entry of the audit trail.
#[derive(Debug, Clone, PartialEq)]
pub struct TrailEntry {
    pub state: CallState,
    pub at: Timestamp,
    pub kind: &'static str,
    pub note: Option<String>,
    /// Further details, as data.
    pub detail: Option<Value>,
}

/// A transition that is invalid in the current state. Indicates a bug in the host, not in a guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("call {call}: `{step}` is not allowed in state `{state}`")]
pub struct InvalidTransition {
    pub call: CallId,
    pub step: &'static str,
    pub state: CallState,
}

impl CallRecord {
    pub fn new(
        id: CallId,
        name: String,
        input: CallInput,
        caller: Arc<Principal>,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            name,
            input,
            caller,
            origin: CallOrigin::default(),
            parent: None,
            batch: None,
            wave: None,
            only_paths: Vec::new(),
            command: None,
            resolved_tool: None,
            state: CallState::Pending,
            approval: ApprovalRecord::default(),
            is_error: false,
            error: None,
            supplied_by: None,
            input_modified: false,
            backgrounded: None,
            attempts: 0,
            created_at: at,
            updated_at: at,
            started_at: None,
            completed_at: None,
            duration: None,
            usage: CallUsage::default(),
            allowed_by: None,
            trail: vec![TrailEntry {
                state: CallState::Pending,
                at,
                kind: "requested",
                note: None,
                detail: None,
            }],
        }
    }

    /// Applies a transition. The record is unchanged if the transition is invalid.
    pub fn apply(
        &mut self,
        step: Transition,
        at: Timestamp,
    ) -> Result<CallState, InvalidTransition> {
        let Some(to) = step.next_state(self.state) else {
            return Err(InvalidTransition {
                call: self.id.clone(),
                step: step.kind(),
                state: self.state,
            });
        };
        let kind = step.kind();
        let detail = match &step {
            Transition::Scheduled { command, .. } => command
                .as_ref()
                .map(|command| serde_json::json!({ "command": command })),
            _ => None,
        };
        let note = self.update(step, at);
        self.state = to;
        self.updated_at = at;
        if to.is_terminal() {
            self.completed_at = Some(at);
        }
        self.trail.push(TrailEntry {
            state: to,
            at,
            kind,
            note,
            detail,
        });
        Ok(to)
    }

    /// Sets what the tool used, which is known before the call ends. A terminal record does not change.
    pub fn set_usage(&mut self, usage: CallUsage) {
        if !self.state.is_terminal() {
            self.usage = usage;
        }
    }

    /// Updates the fields for a transition and returns the note for the trail.
    fn update(&mut self, step: Transition, at: Timestamp) -> Option<String> {
        match step {
            Transition::ValidationStarted | Transition::PostProcessing => None,
            Transition::ToolResolved(found) => {
                self.name.clone_from(&found.tool);
                self.resolved_tool = Some(found);
                None
            }
            Transition::InputChanged { input, by } => {
                self.input = input;
                Some(by)
            }
            Transition::OutcomeChanged { by } => Some(by),
            Transition::InputModified { input, by } => {
                self.input = input;
                self.input_modified = true;
                Some(format!("input changed by {by}"))
            }
            Transition::ApprovalRequested { reason, rule, meta } => {
                self.approval = ApprovalRecord::requested(reason.clone(), rule, meta);
                Some(reason)
            }
            Transition::Approved { by, scope, note } => Some(self.approve(by, scope, at, note)),
            Transition::Scheduled { by, wave, command } => {
                self.allowed_by = Some(by.clone());
                self.wave = wave;
                self.command = command;
                Some(by)
            }
            Transition::CommitAuthorized { by, commit } => Some(self.authorize_commit(by, commit)),
            Transition::Started => {
                self.started_at = Some(at);
                self.attempts += 1;
                None
            }
            Transition::Backgrounded { task } => {
                self.backgrounded = Some(task.clone());
                Some(task)
            }
            Transition::Completed {
                is_error,
                supplied_by,
                duration,
            } => {
                self.is_error = is_error;
                self.duration = Some(duration);
                self.supplied_by.clone_from(&supplied_by);
                supplied_by
            }
            Transition::Failed {
                code,
                message,
                duration,
            } => {
                self.duration = Some(duration);
                Some(self.set_error(code, message))
            }
            Transition::Denied {
                code,
                reason,
                by,
                note,
                remedy,
            } => {
                let by = by.unwrap_or_else(|| "policy".to_owned());
                self.set_decision("deny", by, at, note);
                Some(self.set_denial(code, reason, remedy))
            }
            Transition::Cancelled { reason, duration } => {
                self.duration = Some(duration);
                Some(self.set_error("cancelled".to_owned(), reason))
            }
            Transition::Sealed => {
                let advice = self.state.advice_when_sealed().to_owned();
                Some(self.set_error("sealed".to_owned(), advice))
            }
        }
    }

    /// Returns the note for the trail.
    fn approve(
        &mut self,
        by: String,
        scope: String,
        at: Timestamp,
        note: Option<String>,
    ) -> String {
        let entry = format!("{by}: {scope}");
        self.set_decision("allow", by, at, note);
        self.approval.scope = Some(scope);
        entry
    }

    /// Returns the note for the trail.
    fn authorize_commit(&mut self, by: String, commit: Option<String>) -> String {
        let entry = commit.map_or_else(|| by.clone(), |commit| format!("{by}: {commit}"));
        self.allowed_by = Some(by);
        entry
    }

    fn set_decision(
        &mut self,
        decision: &'static str,
        by: String,
        at: Timestamp,
        note: Option<String>,
    ) {
        let approval = &mut self.approval;
        approval.decision = Some(decision);
        approval.decided_by = Some(by);
        approval.decided_at = Some(at);
        approval.note = note;
    }

    fn set_denial(&mut self, code: String, reason: String, remedy: Option<String>) -> String {
        // It ran staged, and its changes were denied.
        self.allowed_by = None;
        let note = self.set_error(code, reason);
        if let Some(error) = &mut self.error {
            error.remedy = remedy;
        }
        note
    }

    fn set_error(&mut self, code: String, message: String) -> String {
        self.is_error = true;
        let note = format!("{code}: {message}");
        self.error = Some(CallFailure {
            code,
            message,
            remedy: None,
        });
        note
    }

    /// Returns the approximate memory size in bytes, including the snapshot.
    pub fn memory_size(&self) -> usize {
        // Estimate for identifiers, the trail and small fields; a snapshot has about sixty members.
        (8 << 10) + 2 * self.input.memory_size() + self.text_bytes()
    }

    /// Returns the size in bytes of texts whose length external input determines, without the input.
    fn text_bytes(&self) -> usize {
        let approval = &self.approval;
        let texts = [&approval.reason, &approval.note, &approval.decided_by];
        let notes = self.trail.iter().map(|line| &line.note);
        let long: usize = texts
            .into_iter()
            .chain(notes)
            .flatten()
            .map(String::len)
            .sum();
        let error = self.error.as_ref().map_or(0, |error| error.message.len());
        let meta = approval.meta.as_ref().map_or(0, memory_size);
        // The command is in the record and in its trail.
        let command = self.command.as_ref().map_or(0, memory_size);
        let only_paths = self.only_paths.iter().flat_map(OnlyPaths::iter);
        let only_paths: usize = only_paths.map(|path| path.as_str().len()).sum();
        self.id.0.len() + self.name.len() + long + error + meta + 2 * command + only_paths
    }

    /// Returns whether the call can have effects. True if unknown.
    pub fn may_have_effects(&self) -> bool {
        self.resolved_tool
            .as_ref()
            .is_none_or(|found| !matches!(found.effect, "pure" | "reads"))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
