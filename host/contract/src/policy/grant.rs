//! Grants and denials of calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{AuthorizedCommand, AuthorizedTask, Effect, PolicyRequest, ReadGuard};
use crate::Limits;

/// How much of the plugin's granted file access this call gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileAccess {
    Nothing,
    ReadOnly,
    AsGranted,
}

/// Recorded as the authorizer of a staged call, whose changes are evaluated after it has run.
pub const STAGED_AUTHORIZER: &str = "its changes are judged when they are known";

/// Permission for one call. Only this module can create one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    files: FileAccess,
    environment: bool,
    timeout: Duration,
    authorizer: String,
    approvals: Vec<String>,
    is_staged: bool,
    directory_limits: Vec<Arc<[String]>>,
    command: Option<Box<AuthorizedCommand>>,
    task: Option<Box<AuthorizedTask>>,
    guard: Option<Arc<ReadGuard>>,
}

impl Grant {
    /// Narrows the sandbox to the tool's declared effect in every mode, so that a tool that was allowed as harmless
    /// cannot do harm.
    pub(super) fn new(request: &PolicyRequest<'_>, by: String, approvals: Vec<String>) -> Self {
        let (files, environment) = match request.tool.effect() {
            Effect::Pure => (FileAccess::Nothing, false),
            Effect::Reads => (FileAccess::ReadOnly, true),
            Effect::Writes | Effect::Destroys => (FileAccess::AsGranted, true),
        };
        Self {
            files,
            environment,
            timeout: request.timeout.min(Limits::MAX_TIMEOUT),
            authorizer: by,
            approvals,
            is_staged: false,
            directory_limits: request
                .restriction
                .map(super::Restriction::directories)
                .unwrap_or_default(),
            command: AuthorizedCommand::of(request).map(Box::new),
            task: AuthorizedTask::of(request).map(Box::new),
            guard: None,
        }
    }

    /// Creates a grant for a staged run, whose changes are evaluated afterwards.
    pub(super) fn staged(request: &PolicyRequest<'_>) -> Self {
        Self {
            is_staged: true,
            ..Self::new(request, STAGED_AUTHORIZER.to_owned(), Vec::new())
        }
    }

    pub(super) fn with_guard(self, guard: Option<Arc<ReadGuard>>) -> Self {
        Self { guard, ..self }
    }

    pub(super) fn with_authorizer(mut self, by: String) -> Self {
        self.authorizer = by;
        self
    }

    pub fn files(&self) -> FileAccess {
        self.files
    }

    /// Whether file changes must stay staged until they are committed.
    pub fn is_staged(&self) -> bool {
        self.is_staged
    }

    /// Directory lists that limit the granted files: a file must lie in a directory of each list.
    /// The sandbox enforces them. A backend that opens files itself has to check them.
    pub fn directory_limits(&self) -> &[Arc<[String]>] {
        &self.directory_limits
    }

    /// The only command that the call may start, once. `None`: its input names none.
    pub fn command(&self) -> Option<&AuthorizedCommand> {
        self.command.as_deref()
    }

    /// The only running program that the call may type into or end; it may not start any. `None`: its input names none.
    pub fn task(&self) -> Option<&AuthorizedTask> {
        self.task.as_deref()
    }

    /// Read rules to apply to the files that the call actually opens. `None`: no rule restricts its reads.
    pub fn guard(&self) -> Option<&Arc<ReadGuard>> {
        self.guard.as_ref()
    }

    /// Whether the call gets the variables that its plugin was granted.
    pub fn environment(&self) -> bool {
        self.environment
    }

    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The rule, mode, approval or user that allowed the call.
    pub fn authorizer(&self) -> &str {
        &self.authorizer
    }

    /// Ids of the saved approvals that it depends on; each counts as used once by this call.
    pub fn approvals(&self) -> &[String] {
        &self.approvals
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DenialCode {
    PolicyViolation,
    UserDenied,
    HookDenied,
    CapabilityMissing,
    /// The call changed something else than its declared destinations.
    DestinationMismatch,
    /// The user stops the whole turn, not only this call.
    Cancelled,
}

impl DenialCode {
    pub fn as_str(self) -> &'static str {
        match self {
            DenialCode::PolicyViolation => "policy_violation",
            DenialCode::UserDenied => "user_denied",
            DenialCode::HookDenied => "hook_denied",
            DenialCode::CapabilityMissing => "capability_missing",
            DenialCode::DestinationMismatch => "destination_mismatch",
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
    /// Text for the model and the user: what was denied and why.
    pub reason: String,
    /// How to allow the call.
    pub remedy: Option<String>,
    pub code: DenialCode,
    pub rule: Option<String>,
    /// Text that the user or the hook added.
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

    /// A denial by a hook.
    pub fn by_hook(reason: Option<&str>) -> Self {
        let note = reason.map(|reason| crate::text::escape_lines(reason, 2_000));
        Self {
            note: note.clone(),
            ..Self::new(
                DenialCode::HookDenied,
                note.unwrap_or_else(|| "Denied by hook".to_owned()),
            )
        }
    }

    /// A denial because the path is outside the sandbox or the allowed paths.
    pub fn outside_allowed_paths(path: &str) -> Self {
        let shown = crate::text::escape_line(path, 200);
        Self::new(
            DenialCode::CapabilityMissing,
            format!("Access denied: path is outside the allowed paths: {shown}"),
        )
    }

    /// Short text that other systems put into the result of a denied call.
    pub fn result_text(&self) -> &str {
        match self.code {
            DenialCode::UserDenied => "Permission denied by user",
            DenialCode::PolicyViolation => "Permission denied by policy",
            DenialCode::HookDenied => self.note.as_deref().unwrap_or("Denied by hook"),
            DenialCode::CapabilityMissing | DenialCode::DestinationMismatch => &self.reason,
            DenialCode::Cancelled => "Cancelled by user",
        }
    }

    /// Short text for the record.
    pub fn record_text(&self) -> &str {
        match self.code {
            DenialCode::PolicyViolation => "Tool denied by policy",
            DenialCode::UserDenied
            | DenialCode::HookDenied
            | DenialCode::CapabilityMissing
            | DenialCode::DestinationMismatch
            | DenialCode::Cancelled => self.result_text(),
        }
    }
}
