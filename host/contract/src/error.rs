//! Errors of calls that did not complete.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::outcome::{removal_note, remove_tags_from};
use crate::text;

/// The error classes that callers handle differently. [`CallError::code`] is more specific; docs/errors.md lists the
/// codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The tool does not exist.
    NotRegistered,
    /// The input does not satisfy the schema, or is not valid.
    InvalidInput,
    /// The policy, the user or the sandbox denied the call.
    Denied,
    /// The tool reports that an object named by the input does not exist.
    NotFound,
    TimedOut,
    Cancelled,
    /// A limit on memory, tables, instances or handles was exceeded.
    LimitExceeded,
    /// The result, standard output or the data of a host call exceeded its limit.
    OutputLimit,
    StackOverflow,
    /// The guest crashed.
    Trapped,
    Unavailable,
    /// The tool reported a failure.
    Failed,
    /// An error in the host.
    Internal,
}

impl ErrorClass {
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorClass::NotRegistered => "tool_not_registered",
            ErrorClass::InvalidInput => "invalid_tool_params",
            ErrorClass::Denied => "permission_denied",
            ErrorClass::NotFound => "not_found",
            ErrorClass::TimedOut => "timeout",
            ErrorClass::Cancelled => "cancelled",
            ErrorClass::LimitExceeded => "resource_limit",
            ErrorClass::OutputLimit => "output_limit",
            ErrorClass::StackOverflow => "stack_overflow",
            ErrorClass::Trapped => "trap",
            ErrorClass::Unavailable => "unavailable",
            ErrorClass::Failed => "failed",
            ErrorClass::Internal => "internal",
        }
    }
}

/// The error of a call that did not complete.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct CallError {
    pub class: ErrorClass,
    /// A stable code, more specific than the class.
    pub code: String,
    /// One sentence for the model that names the offending value.
    pub message: String,
    /// Actions that may resolve the error.
    pub recommendations: Vec<String>,
    pub retryable: bool,
    /// The technical cause, for the operator.
    pub cause: Option<String>,
    /// A JSON object for programs. Models do not get it.
    pub details: Option<Value>,
    /// The last lines of the guest's standard error, escaped.
    pub stderr: Option<String>,
}

impl CallError {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            code: class.as_str().to_owned(),
            message: message.into(),
            recommendations: Vec::new(),
            retryable: false,
            cause: None,
            details: None,
            stderr: None,
        }
    }

    pub fn timed_out(after: Duration) -> Self {
        Self::new(
            ErrorClass::TimedOut,
            format!("Tool execution timed out after {}ms", after.as_millis()),
        )
        .recommend("narrow the request, or raise the tool's timeout in the configuration")
    }

    /// The tool has reported nothing for its inactivity timeout.
    pub fn inactive(limit: Duration) -> Self {
        Self::new(
            ErrorClass::TimedOut,
            format!("the tool reported nothing for {}ms", limit.as_millis()),
        )
        .code("inactivity_timeout")
        .recommend("narrow the request, or try again")
    }

    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(
            ErrorClass::Internal,
            format!("internal host error: {message}"),
        )
    }

    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    #[must_use]
    pub fn recommend(mut self, recommendation: impl Into<String>) -> Self {
        self.recommendations.push(recommendation.into());
        self
    }

    #[must_use]
    pub fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(text::escape_lines(&cause.to_string(), 2_000));
        self
    }

    /// Removes text that is visible to a model but not to a user, like [`crate::Outcome::remove_hidden_text`]: the tool
    /// also controls the text of its errors.
    pub fn remove_hidden_text(&mut self) {
        let mut removed = remove_tags_from(&mut self.message);
        removed += self
            .recommendations
            .iter_mut()
            .map(remove_tags_from)
            .sum::<usize>();
        if removed > 0 {
            self.recommendations.push(removal_note(removed));
        }
    }

    /// Returns the text for the model: message, recommendations and the tail of standard error.
    pub fn for_model(&self) -> String {
        let mut text = self.message.clone();
        for recommendation in &self.recommendations {
            text.push_str("\n- ");
            text.push_str(recommendation);
        }
        if let Some(stderr) = &self.stderr {
            text.push_str("\nstderr of the tool:\n");
            text.push_str(stderr);
        }
        text
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.for_model())
    }
}
