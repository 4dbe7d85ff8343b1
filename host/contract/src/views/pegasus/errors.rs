//! Pegasus' five error classes, their messages, and what its reflector may make of them.

use serde_json::{Value, json};

use crate::views::shown::object;
use crate::{CallError, ErrorClass, text};

/// The class of an error, which Pegasus puts into its `name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorName {
    NotFound,
    Validation,
    Timeout,
    Permission,
    /// Everything that has no class of its own.
    Tool,
}

impl ErrorName {
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorName::NotFound => "ToolNotFoundError",
            ErrorName::Validation => "ToolValidationError",
            ErrorName::Timeout => "ToolTimeoutError",
            ErrorName::Permission => "ToolPermissionError",
            ErrorName::Tool => "ToolError",
        }
    }

    pub fn of(class: ErrorClass) -> Self {
        match class {
            ErrorClass::NotRegistered => ErrorName::NotFound,
            ErrorClass::InvalidInput => ErrorName::Validation,
            ErrorClass::TimedOut => ErrorName::Timeout,
            ErrorClass::Denied => ErrorName::Permission,
            ErrorClass::NotFound
            | ErrorClass::Cancelled
            | ErrorClass::LimitExceeded
            | ErrorClass::OutputLimit
            | ErrorClass::StackOverflow
            | ErrorClass::Trapped
            | ErrorClass::Unavailable
            | ErrorClass::Failed
            | ErrorClass::Internal => ErrorName::Tool,
        }
    }

    /// For records, which keep the code and not the class.
    pub fn of_code(code: &str) -> Self {
        match code {
            "tool_not_registered" => ErrorName::NotFound,
            "invalid_tool_params" | "invalid_json" | "invalid_input" => ErrorName::Validation,
            "timeout" | "inactivity_timeout" => ErrorName::Timeout,
            "permission_denied"
            | "policy_violation"
            | "user_denied"
            | "hook_denied"
            | "path_not_in_workspace"
            | "host_not_allowed"
            | "capability_missing" => ErrorName::Permission,
            _ => ErrorName::Tool,
        }
    }

    /// The message begins the way Pegasus' own does; whatever ours says beyond that follows.
    pub fn message(self, tool: &str, ours: &str) -> String {
        match self {
            ErrorName::NotFound => {
                let theirs = format!("Tool \"{}\" not found", text::inline(tool, 128));
                match ours.split_once("Did you mean") {
                    Some((_, names)) => format!("{theirs}. Did you mean{names}"),
                    None => theirs,
                }
            }
            ErrorName::Validation => begin("Parameter validation failed", ours),
            ErrorName::Timeout => begin("Tool execution timed out", ours),
            ErrorName::Permission => begin("Permission denied", ours),
            ErrorName::Tool => ours.to_owned(),
        }
    }

    /// What to do next, where the class alone tells.
    pub fn suggestion(self) -> Option<&'static str> {
        match self {
            ErrorName::NotFound => Some("list the tools and use one of their names"),
            ErrorName::Validation => Some("correct the parameters by the tool's schema"),
            ErrorName::Timeout => {
                Some("narrow the request, raise the timeout, or run it in the background")
            }
            ErrorName::Permission => {
                Some("ask for the permission, or find a way that does not need it")
            }
            ErrorName::Tool => None,
        }
    }
}

fn begin(theirs: &str, ours: &str) -> String {
    if ours.starts_with(theirs) {
        ours.to_owned()
    } else if ours.is_empty() {
        theirs.to_owned()
    } else {
        format!("{theirs}: {ours}")
    }
}

/// an error as Pegasus would throw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    pub name: ErrorName,
    pub tool: String,
    pub message: String,
    /// For a failed validation its problems, for others what lies beneath.
    pub cause: Option<String>,
}

impl ToolError {
    pub fn to_json(&self) -> Value {
        object([
            ("name", json!(self.name.as_str())),
            ("toolName", json!(self.tool)),
            ("message", json!(self.message)),
            ("cause", json!(self.cause)),
        ])
    }
}

pub fn error(tool: &str, error: &CallError) -> ToolError {
    let name = ErrorName::of(error.class);
    let cause = match name {
        ErrorName::Validation => error
            .message
            .strip_prefix("Parameter validation failed: ")
            .map(str::to_owned),
        ErrorName::NotFound | ErrorName::Timeout | ErrorName::Permission | ErrorName::Tool => None,
    };
    ToolError {
        name,
        tool: tool.to_owned(),
        message: name.message(tool, &error.message),
        cause: cause.or_else(|| error.cause.clone()),
    }
}

/// What Pegasus' reflector does after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The plan stands: try again or go on with the next step.
    Continue,
    /// This way is closed; look for another one or another tool.
    Replan,
    /// Stop, with what there is.
    Complete,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Continue => "continue",
            Verdict::Replan => "replan",
            Verdict::Complete => "complete",
        }
    }
}

/// a suggestion only; the reflector knows the task and we do not.
pub fn verdict(error: &CallError) -> Verdict {
    if error.retryable {
        return Verdict::Continue;
    }
    match error.class {
        // The caller's own slip: the same step with other words.
        ErrorClass::InvalidInput => Verdict::Continue,
        // Somebody wants the work to stop.
        ErrorClass::Cancelled => Verdict::Complete,
        ErrorClass::NotRegistered
        | ErrorClass::Denied
        | ErrorClass::NotFound
        | ErrorClass::TimedOut
        | ErrorClass::LimitExceeded
        | ErrorClass::OutputLimit
        | ErrorClass::StackOverflow
        | ErrorClass::Trapped
        | ErrorClass::Unavailable
        | ErrorClass::Failed
        | ErrorClass::Internal => Verdict::Replan,
    }
}
