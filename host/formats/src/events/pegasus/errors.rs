//! Error classes of Pegasus, their messages, and the reaction of its reflector.

use serde_json::{Value, json};

use crate::events::snapshot_view::object_without_nulls;
use toolhost_contract::{CallError, ErrorClass, text};

/// The class of an error, which Pegasus stores in `name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PegasusErrorName {
    NotFound,
    Validation,
    Timeout,
    Permission,
    /// All other errors.
    Tool,
}

impl PegasusErrorName {
    pub fn as_str(self) -> &'static str {
        match self {
            PegasusErrorName::NotFound => "ToolNotFoundError",
            PegasusErrorName::Validation => "ToolValidationError",
            PegasusErrorName::Timeout => "ToolTimeoutError",
            PegasusErrorName::Permission => "ToolPermissionError",
            PegasusErrorName::Tool => "ToolError",
        }
    }

    pub fn of(class: ErrorClass) -> Self {
        match class {
            ErrorClass::NotRegistered => PegasusErrorName::NotFound,
            ErrorClass::InvalidInput => PegasusErrorName::Validation,
            ErrorClass::TimedOut => PegasusErrorName::Timeout,
            ErrorClass::Denied => PegasusErrorName::Permission,
            ErrorClass::NotFound
            | ErrorClass::Cancelled
            | ErrorClass::LimitExceeded
            | ErrorClass::OutputLimit
            | ErrorClass::StackOverflow
            | ErrorClass::Trapped
            | ErrorClass::Unavailable
            | ErrorClass::Failed
            | ErrorClass::Internal => PegasusErrorName::Tool,
        }
    }

    /// Returns the class for an error code. Records contain the code and not the [`ErrorClass`].
    pub fn of_code(code: &str) -> Self {
        match code {
            "tool_not_registered" => PegasusErrorName::NotFound,
            "invalid_tool_params" | "invalid_json" | "invalid_input" => {
                PegasusErrorName::Validation
            }
            "timeout" | "inactivity_timeout" => PegasusErrorName::Timeout,
            "permission_denied"
            | "policy_violation"
            | "user_denied"
            | "hook_denied"
            | "path_not_in_workspace"
            | "host_not_allowed"
            | "capability_missing" => PegasusErrorName::Permission,
            _ => PegasusErrorName::Tool,
        }
    }

    /// Returns the message, which starts like Pegasus' own message for the class, followed by the host's message.
    pub fn message(self, tool: &str, ours: &str) -> String {
        match self {
            PegasusErrorName::NotFound => {
                let theirs = format!("Tool \"{}\" not found", text::escape_line(tool, 128));
                match ours.split_once("Did you mean") {
                    Some((_, names)) => format!("{theirs}. Did you mean{names}"),
                    None => theirs,
                }
            }
            PegasusErrorName::Validation => with_prefix("Parameter validation failed", ours),
            PegasusErrorName::Timeout => with_prefix("Tool execution timed out", ours),
            PegasusErrorName::Permission => with_prefix("Permission denied", ours),
            PegasusErrorName::Tool => ours.to_owned(),
        }
    }

    /// Returns a suggestion, if the class is sufficient to make one.
    pub fn suggestion(self) -> Option<&'static str> {
        match self {
            PegasusErrorName::NotFound => Some("list the tools and use one of their names"),
            PegasusErrorName::Validation => {
                Some("correct the parameters according to the tool's schema")
            }
            PegasusErrorName::Timeout => {
                Some("narrow the request, raise the timeout, or run it in the background")
            }
            PegasusErrorName::Permission => {
                Some("request the permission, or find a way that does not need it")
            }
            PegasusErrorName::Tool => None,
        }
    }
}

fn with_prefix(theirs: &str, ours: &str) -> String {
    if ours.starts_with(theirs) {
        ours.to_owned()
    } else if ours.is_empty() {
        theirs.to_owned()
    } else {
        format!("{theirs}: {ours}")
    }
}

/// An error in the form that Pegasus throws.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PegasusToolError {
    pub name: PegasusErrorName,
    pub tool: String,
    pub message: String,
    /// The validation problems, or the underlying cause.
    pub cause: Option<String>,
}

impl PegasusToolError {
    pub fn to_json(&self) -> Value {
        object_without_nulls([
            ("name", json!(self.name.as_str())),
            ("toolName", json!(self.tool)),
            ("message", json!(self.message)),
            ("cause", json!(self.cause)),
        ])
    }
}

pub fn tool_error(tool: &str, error: &CallError) -> PegasusToolError {
    let name = PegasusErrorName::of(error.class);
    let cause = match name {
        PegasusErrorName::Validation => error
            .message
            .strip_prefix("Parameter validation failed: ")
            .map(str::to_owned),
        PegasusErrorName::NotFound
        | PegasusErrorName::Timeout
        | PegasusErrorName::Permission
        | PegasusErrorName::Tool => None,
    };
    PegasusToolError {
        name,
        tool: tool.to_owned(),
        message: name.message(tool, &error.message),
        cause: cause.or_else(|| error.cause.clone()),
    }
}

/// The action of Pegasus' reflector after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReflectorAction {
    /// Retry, or continue with the next step of the plan.
    Continue,
    /// Change the plan: use another approach or another tool.
    Replan,
    /// Stop with the results so far.
    Complete,
}

impl ReflectorAction {
    pub fn as_str(self) -> &'static str {
        match self {
            ReflectorAction::Continue => "continue",
            ReflectorAction::Replan => "replan",
            ReflectorAction::Complete => "complete",
        }
    }
}

/// A suggestion only, because the reflector has more context.
pub fn reflector_action(error: &CallError) -> ReflectorAction {
    if error.retryable {
        return ReflectorAction::Continue;
    }
    match error.class {
        // The caller can retry the step with corrected input.
        ErrorClass::InvalidInput => ReflectorAction::Continue,
        // The user stopped the work.
        ErrorClass::Cancelled => ReflectorAction::Complete,
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
        | ErrorClass::Internal => ReflectorAction::Replan,
    }
}
