//! The record of a call, built by applying its transitions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{CallState, Found, Input, Millis, Step, weight};
use crate::{CallId, Principal};

/// The record of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub id: CallId,
    /// The name that the caller used. Replaced by the canonical name once the tool is resolved.
    pub name: String,
    pub input: Input,
    pub caller: Arc<Principal>,
    pub origin: Origin,
    /// The call that made this call.
    pub parent: Option<CallId>,
    /// The model turn that the call belongs to.
    pub batch: Option<String>,
    pub wave: Option<usize>,
    /// The command that was last authorized, with secrets masked.
    pub command: Option<Value>,
    pub found: Option<Arc<Found>>,
    pub state: CallState,
    pub approval: Approval,
    pub is_error: bool,
    pub error: Option<Ended>,
    /// The source of the result if the tool did not run.
    pub supplied_by: Option<String>,
    pub input_modified: bool,
    pub backgrounded: Option<String>,
    /// Number of times that the tool was started.
    pub attempts: u32,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// When the guest started, so that the duration excludes waiting.
    pub started_at: Option<Millis>,
    pub completed_at: Option<Millis>,
    pub duration: Option<Duration>,
    /// The rule or user that authorized the call.
    pub allowed_by: Option<String>,
    pub trail: Vec<Trail>,
}

/// The origin of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    #[default]
    Model,
    Client,
    Tail,
    Background,
    /// Another tool made the call.
    Tool,
}

impl Origin {
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Model => "model",
            Origin::Client => "client",
            Origin::Tail => "tail",
            Origin::Background => "background",
            Origin::Tool => "tool",
        }
    }
}

/// The user's decision about a call, if one was required.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Approval {
    pub required: bool,
    pub reason: Option<String>,
    /// `allow` or `deny`.
    pub decision: Option<&'static str>,
    pub decided_by: Option<String>,
    pub decided_at: Option<Millis>,
    pub scope: Option<String>,
    pub note: Option<String>,
    pub meta: Option<Value>,
}

/// Why a call did not complete.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub code: String,
    pub message: String,
}

/// An entry of the audit trail.
#[derive(Debug, Clone, PartialEq)]
pub struct Trail {
    pub state: CallState,
    pub at: Millis,
    pub kind: &'static str,
    pub note: Option<String>,
    /// Further details, as data.
    pub detail: Option<Value>,
}

/// A transition that is invalid in the current state. Indicates a bug in the host, not in a guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("call {call}: `{step}` is not allowed in state `{state}`")]
pub struct Illegal {
    pub call: CallId,
    pub step: &'static str,
    pub state: CallState,
}

impl Record {
    pub fn new(id: CallId, name: String, input: Input, caller: Arc<Principal>, at: Millis) -> Self {
        Self {
            id,
            name,
            input,
            caller,
            origin: Origin::default(),
            parent: None,
            batch: None,
            wave: None,
            command: None,
            found: None,
            state: CallState::Pending,
            approval: Approval::default(),
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
            allowed_by: None,
            trail: vec![Trail {
                state: CallState::Pending,
                at,
                kind: "requested",
                note: None,
                detail: None,
            }],
        }
    }

    /// Applies a transition. The record is unchanged if the transition is invalid.
    pub fn take(&mut self, step: Step, at: Millis) -> Result<CallState, Illegal> {
        let Some(to) = step.leads(self.state) else {
            return Err(Illegal {
                call: self.id.clone(),
                step: step.kind(),
                state: self.state,
            });
        };
        let kind = step.kind();
        let detail = match &step {
            Step::Scheduled { command, .. } => command
                .as_ref()
                .map(|command| serde_json::json!({ "command": command })),
            _ => None,
        };
        let note = self.fold(step, at);
        self.state = to;
        self.updated_at = at;
        if to.is_terminal() {
            self.completed_at = Some(at);
        }
        self.trail.push(Trail {
            state: to,
            at,
            kind,
            note,
            detail,
        });
        Ok(to)
    }

    /// Updates the fields for a transition and returns the note for the trail.
    fn fold(&mut self, step: Step, at: Millis) -> Option<String> {
        match step {
            Step::Picked | Step::PostProcessing => None,
            Step::Found(found) => {
                self.name.clone_from(&found.tool);
                self.found = Some(found);
                None
            }
            Step::InputChanged { input, by } => {
                self.input = input;
                Some(by)
            }
            Step::OutcomeChanged { by } => Some(by),
            Step::Modified { input, by } => {
                self.input = input;
                self.input_modified = true;
                Some(format!("input changed by {by}"))
            }
            Step::Asked { reason, meta, .. } => {
                self.approval = Approval {
                    required: true,
                    reason: Some(reason.clone()),
                    meta,
                    ..Approval::default()
                };
                Some(reason)
            }
            Step::Approved { by, scope, note } => {
                let said = format!("{by}: {scope}");
                self.decided("allow", by, at, note);
                self.approval.scope = Some(scope);
                Some(said)
            }
            Step::Scheduled { by, wave, command } => {
                self.allowed_by = Some(by.clone());
                self.wave = wave;
                self.command = command;
                Some(by)
            }
            Step::Released { by, commit } => {
                self.allowed_by = Some(by.clone());
                Some(match commit {
                    Some(commit) => format!("{by}: {commit}"),
                    None => by,
                })
            }
            Step::Started => {
                self.started_at = Some(at);
                self.attempts += 1;
                None
            }
            Step::Backgrounded { task } => {
                self.backgrounded = Some(task.clone());
                Some(task)
            }
            Step::Completed {
                is_error,
                supplied_by,
                duration,
            } => {
                self.is_error = is_error;
                self.duration = Some(duration);
                self.supplied_by.clone_from(&supplied_by);
                supplied_by
            }
            Step::Failed {
                code,
                message,
                duration,
            } => {
                self.duration = Some(duration);
                Some(self.ends(code, message))
            }
            Step::Denied {
                code,
                reason,
                by,
                note,
            } => {
                self.decided("deny", by.unwrap_or_else(|| "policy".to_owned()), at, note);
                // It ran staged, and its changes were denied.
                self.allowed_by = None;
                Some(self.ends(code, reason))
            }
            Step::Cancelled { reason, duration } => {
                self.duration = Some(duration);
                Some(self.ends("cancelled".to_owned(), reason))
            }
            Step::Sealed => {
                let advice = self.state.advice_when_sealed().to_owned();
                Some(self.ends("sealed".to_owned(), advice))
            }
        }
    }

    fn decided(&mut self, decision: &'static str, by: String, at: Millis, note: Option<String>) {
        let approval = &mut self.approval;
        approval.decision = Some(decision);
        approval.decided_by = Some(by);
        approval.decided_at = Some(at);
        approval.note = note;
    }

    fn ends(&mut self, code: String, message: String) -> String {
        self.is_error = true;
        let note = format!("{code}: {message}");
        self.error = Some(Ended { code, message });
        note
    }

    /// Returns the approximate memory size in bytes, including the snapshot.
    pub fn weight(&self) -> usize {
        // Estimate for identifiers, the trail and small fields; a snapshot has about sixty members.
        (8 << 10) + 2 * self.input.weight() + self.words()
    }

    /// Returns the size in bytes of texts whose length external input determines, without the input.
    fn words(&self) -> usize {
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
        let meta = approval.meta.as_ref().map_or(0, weight);
        // The command is in the record and in its trail.
        let command = self.command.as_ref().map_or(0, weight);
        self.id.0.len() + self.name.len() + long + error + meta + 2 * command
    }

    /// Returns whether the call can have effects. True if unknown.
    pub fn is_effectful(&self) -> bool {
        self.found
            .as_ref()
            .is_none_or(|found| !matches!(found.effect, "pure" | "reads"))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
