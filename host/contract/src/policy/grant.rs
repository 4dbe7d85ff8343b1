//! The permission for one call, and the refusal of one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{AuthorizedCommand, AuthorizedTask, Effect, ReadGuard, Request};
use crate::Limits;

/// How much of what the plugin was granted this call gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileAccess {
    Nothing,
    ReadOnly,
    AsGranted,
}

/// By whom a call runs whose changes are judged afterwards, in the record.
pub const HELD: &str = "its changes are judged when they are known";

/// Permission for one call. Cannot be made outside this module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    files: FileAccess,
    environment: bool,
    timeout: Duration,
    by: String,
    approvals: Vec<String>,
    held: bool,
    within: Vec<Arc<[String]>>,
    command: Option<Box<AuthorizedCommand>>,
    task: Option<Box<AuthorizedTask>>,
    guard: Option<Arc<ReadGuard>>,
}

impl Grant {
    /// Only the policy makes one. The sandbox is narrowed to what the tool says it does at worst, in every mode: a
    /// tool that is let through as harmless cannot do harm.
    pub(super) fn new(request: &Request<'_>, by: String, approvals: Vec<String>) -> Self {
        let (files, environment) = match request.tool.effect() {
            Effect::Pure => (FileAccess::Nothing, false),
            Effect::Reads => (FileAccess::ReadOnly, true),
            Effect::Writes | Effect::Destroys => (FileAccess::AsGranted, true),
        };
        Self {
            files,
            environment,
            timeout: timeout(request),
            by,
            approvals,
            held: false,
            within: request
                .narrow
                .map(super::Restriction::directories)
                .unwrap_or_default(),
            command: AuthorizedCommand::of(request).map(Box::new),
            task: AuthorizedTask::of(request).map(Box::new),
            guard: None,
        }
    }

    /// For a run whose changes are judged when they are known.
    pub(super) fn held_back(request: &Request<'_>) -> Self {
        Self {
            held: true,
            ..Self::new(request, HELD.to_owned(), Vec::new())
        }
    }

    pub(super) fn guarded(self, guard: Option<Arc<ReadGuard>>) -> Self {
        Self { guard, ..self }
    }

    pub(super) fn given_by(mut self, by: String) -> Self {
        self.by = by;
        self
    }

    pub fn files(&self) -> FileAccess {
        self.files
    }

    /// Nothing that the call does to files may become real before it is committed.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Of the granted files only those that lie in a directory of each of these lists; no list, no limit.
    pub fn within(&self) -> &[Arc<[String]>] {
        &self.within
    }

    /// The only command that the call may start, once. None: its input names none.
    pub fn command(&self) -> Option<&AuthorizedCommand> {
        self.command.as_deref()
    }

    /// The only running program that the call may type into and end; it may start none. None: its input names none.
    pub fn task(&self) -> Option<&AuthorizedTask> {
        self.task.as_deref()
    }

    /// The rules on reading, for what the call really opens; None: none of them keeps anything from it.
    pub fn guard(&self) -> Option<&Arc<ReadGuard>> {
        self.guard.as_ref()
    }

    /// May the call see the variables that its plugin was granted?
    pub fn environment(&self) -> bool {
        self.environment
    }

    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The rule, mode, approval or person that allowed it.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// Ids of the stored approvals that it rests on; each is used once by this call.
    pub fn approvals(&self) -> &[String] {
        &self.approvals
    }
}

/// Configuration beats the tool's own wish, which beats the default for its kind; nothing beats the maximum.
fn timeout(request: &Request<'_>) -> Duration {
    let by_kind = if request.tool.annotations.open_world == Some(true) {
        Limits::NETWORK_TIMEOUT
    } else {
        Limits::TIMEOUT
    };
    request
        .timeout
        .or(request.tool.timeout)
        .unwrap_or(by_kind)
        .min(Limits::MAX_TIMEOUT)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DenialCode {
    PolicyViolation,
    UserDenied,
    HookDenied,
    CapabilityMissing,
    /// The person wants the turn to stop, not only this call.
    Cancelled,
}

impl DenialCode {
    pub fn as_str(self) -> &'static str {
        match self {
            DenialCode::PolicyViolation => "policy_violation",
            DenialCode::UserDenied => "user_denied",
            DenialCode::HookDenied => "hook_denied",
            DenialCode::CapabilityMissing => "capability_missing",
            DenialCode::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for DenialCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// For the model and the person: what was refused and why.
    pub reason: String,
    /// What would change it.
    pub remedy: Option<String>,
    pub code: DenialCode,
    pub rule: Option<String>,
    /// What the person, or the hook, added in their own words.
    pub note: Option<String>,
}

impl Denial {
    pub fn new(code: DenialCode, reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: None,
            code,
            rule: None,
            note: None,
        }
    }

    /// A hook's veto.
    pub fn by_hook(reason: Option<&str>) -> Self {
        let note = reason.map(|reason| crate::text::block(reason, 2_000));
        Self {
            note: note.clone(),
            ..Self::new(
                DenialCode::HookDenied,
                note.unwrap_or_else(|| "Denied by hook".to_owned()),
            )
        }
    }

    /// The sandbox has no such path.
    pub fn outside(path: &str) -> Self {
        let shown = crate::text::inline(path, 200);
        Self::new(
            DenialCode::CapabilityMissing,
            format!("Access denied: path is outside the allowed paths: {shown}"),
        )
    }

    /// The short words that other systems put into the result of a refused call.
    pub fn words(&self) -> &str {
        match self.code {
            DenialCode::UserDenied => "Permission denied by user",
            DenialCode::PolicyViolation => "Permission denied by policy",
            DenialCode::HookDenied => self.note.as_deref().unwrap_or("Denied by hook"),
            DenialCode::CapabilityMissing => &self.reason,
            DenialCode::Cancelled => "Cancelled by user",
        }
    }

    /// The short words for the record.
    pub fn record_words(&self) -> &str {
        match self.code {
            DenialCode::PolicyViolation => "Tool denied by policy",
            DenialCode::UserDenied
            | DenialCode::HookDenied
            | DenialCode::CapabilityMissing
            | DenialCode::Cancelled => self.words(),
        }
    }
}
