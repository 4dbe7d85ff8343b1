//! Error classes of Pegasus, their messages, and the reaction of its reflector.

use serde_json::{Value, json};

use crate::views::shown::object;
use crate::{CallError, ErrorClass, text};

/// The class of an error, which Pegasus stores in `name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorName {
    NotFound,
    Validation,
    Timeout,
    Permission,
    /// All other errors.
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

    /// Returns the class for an error code. Records contain the code and not the [`ErrorClass`].
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

    /// Returns the message, which starts like Pegasus' own message for the class, followed by the host's message.
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

    /// Returns a suggestion, if the class is sufficient to make one.
    pub fn suggestion(self) -> Option<&'static str> {
        match self {
            ErrorName::NotFound => Some("list the tools and use one of their names"),
            ErrorName::Validation => Some("correct the parameters according to the tool's schema"),
            ErrorName::Timeout => {
                Some("narrow the request, raise the timeout, or run it in the background")
            }
            ErrorName::Permission => {
                Some("request the permission, or find a way that does not need it")
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

/// an error in the form that Pegasus throws.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    pub name: ErrorName,
    pub tool: String,
    pub message: String,
    /// The validation problems, or the underlying cause.
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

/// The action of Pegasus' reflector after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Retry, or continue with the next step of the plan.
    Continue,
    /// Change the plan: use another approach or another tool.
    Replan,
    /// Stop with the results so far.
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

/// a suggestion only, because the reflector has more context.
pub fn verdict(error: &CallError) -> Verdict {
    if error.retryable {
        return Verdict::Continue;
    }
    match error.class {
        // The caller can retry the step with corrected input.
        ErrorClass::InvalidInput => Verdict::Continue,
        // The user stopped the work.
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
