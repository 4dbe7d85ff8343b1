//! Why a call did not run to its end.

use std::fmt;
use std::time::Duration;

use crate::outcome::{removal_note, remove};
use crate::text;

/// The classes a caller would treat differently. `code` in [`CallError`] is finer; docs/errors.md has the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// No such tool.
    NotRegistered,
    /// The input does not fit the schema or makes no sense.
    InvalidInput,
    /// Policy, a person or the sandbox said no.
    Denied,
    /// The tool says that what the input names does not exist.
    NotFound,
    TimedOut,
    Cancelled,
    /// Memory, tables, instances, handles.
    LimitExceeded,
    /// Result, standard output or host-call data beyond the limit.
    OutputLimit,
    StackOverflow,
    /// The guest crashed.
    Trapped,
    Unavailable,
    /// The tool reported a failure.
    Failed,
    /// Our fault.
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

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct CallError {
    pub class: ErrorClass,
    /// A stable word, finer than the class.
    pub code: String,
    /// For the model: one sentence with the offending value.
    pub message: String,
    /// What the reader can do next.
    pub recommendations: Vec<String>,
    pub retryable: bool,
    /// For the operator.
    pub cause: Option<String>,
    /// The last lines the guest wrote to its standard error, escaped.
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

    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(
            ErrorClass::Internal,
            format!("internal error of the host: {message}"),
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
        self.cause = Some(text::block(&cause.to_string(), 2_000));
        self
    }

    /// Removes text that a model reads and no program shows, as [`crate::Outcome::remove_hidden_text`] does: a tool
    /// chooses the words of its errors too.
    pub fn remove_hidden_text(&mut self) {
        let mut removed = remove(&mut self.message);
        removed += self.recommendations.iter_mut().map(remove).sum::<usize>();
        if removed > 0 {
            self.recommendations.push(removal_note(removed));
        }
    }

    /// Everything that helps a model to do better: message, recommendations, the guest's last words.
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
