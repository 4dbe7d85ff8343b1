//! Outcomes of completed calls.

use serde::Serialize;
use serde_json::Value;

use crate::{Display, Error, Part, Result};

/// The outcome of a call: content for the model, data for programs, a display for the user.
///
/// ```
/// use toolhost_sdk::prelude::*;
///
/// let outcome = Outcome::text("3 files changed")
///     .structured(&json!({"changed": 3}))
///     .summary("3 files")
///     .display(Display::markdown("**3** files"));
/// assert_eq!(outcome.structured, Some(json!({"changed": 3})));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// One line.
    pub summary: Option<String>,
    /// Content for the model. If empty, the host shows `structured` as text.
    pub llm: Vec<Part>,
    /// Structured output that matches the tool's output schema.
    pub structured: Option<Value>,
    /// What the user sees.
    pub display: Option<Display>,
    /// The call completed with an error result, such as a command with exit code 1.
    pub error: Option<Error>,
    /// The content was cut.
    pub truncated: Option<Truncation>,
    /// A call whose result replaces this one.
    pub tail: Option<TailCall>,
    /// A JSON object for programs.
    pub meta: Option<Value>,
}

/// Describes how content was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncation {
    pub original_bytes: u64,
    pub shown_bytes: u64,
    /// File with the complete content.
    pub saved_to: Option<String>,
}

/// A call whose result replaces this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailCall {
    pub tool: String,
    pub input: Value,
}

impl Outcome {
    /// An outcome without any content.
    pub fn new() -> Self {
        Self::default()
    }

    /// Text for the model.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().part(Part::text(text))
    }

    /// Structured output only; the host shows it to the model as JSON.
    pub fn of_data(data: &impl Serialize) -> Result<Self> {
        let structured = serde_json::to_value(data).map_err(|error| not_json(&error))?;
        Ok(Self {
            structured: Some(structured),
            ..Self::default()
        })
    }

    /// Adds structured output. Data that cannot be serialized (a map whose keys are not strings) becomes the outcome's
    /// `error`.
    #[must_use]
    pub fn structured(mut self, data: &impl Serialize) -> Self {
        match serde_json::to_value(data) {
            Ok(data) => self.structured = Some(data),
            Err(error) => self.error = Some(not_json(&error)),
        }
        self
    }

    /// Adds a one-line summary.
    #[must_use]
    pub fn summary(mut self, line: impl Into<String>) -> Self {
        self.summary = Some(line.into());
        self
    }

    /// Adds a content part for the model.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        self.llm.push(part);
        self
    }

    /// Adds what the user sees.
    #[must_use]
    pub fn display(mut self, display: Display) -> Self {
        self.display = Some(display);
        self
    }

    /// Marks a completed call with an error result.
    #[must_use]
    pub fn logical_error(mut self, error: Error) -> Self {
        self.error = Some(error);
        self
    }

    /// Records that only `shown_bytes` of `original_bytes` are shown.
    #[must_use]
    pub fn truncated(mut self, original_bytes: u64, shown_bytes: u64) -> Self {
        self.truncated = Some(Truncation {
            original_bytes,
            shown_bytes,
            saved_to: None,
        });
        self
    }

    /// Requests another call, whose result replaces this one.
    #[must_use]
    pub fn tail(mut self, tool: impl Into<String>, input: Value) -> Self {
        self.tail = Some(TailCall {
            tool: tool.into(),
            input,
        });
        self
    }

    /// Adds a JSON object for programs.
    ///
    /// The host reads the member `executable`: `{"executable": {"/workspace/run.sh": true}}` sets or clears the
    /// executable bit of files that this call wrote. WASI has no call for that.
    #[must_use]
    pub fn meta(mut self, meta: Value) -> Self {
        self.meta = Some(meta);
        self
    }
}

fn not_json(error: &serde_json::Error) -> Error {
    Error::failed(format!(
        "the tool's data cannot be written as JSON: {error}"
    ))
    .code("bad_output")
}
