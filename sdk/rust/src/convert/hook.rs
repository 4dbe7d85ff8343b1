//! Conversion of outcomes for hooks, and of hook results to the contract's types.

use serde_json::Value;

use super::text;
use crate::bindings::hook::exports::toolhost::plugin::hooks;
use crate::bindings::toolhost::plugin::types as wit;
use crate::{
    After, Before, Display, Error, ErrorKind, FileDiff, Outcome, Part, Patch, TailCall, Truncation,
};

impl From<Before> for hooks::PreToolUseResult {
    fn from(before: Before) -> Self {
        Self {
            decision: before.decision.as_str().to_owned(),
            reason: before.reason,
            updated_input: text(before.input.as_ref()),
            outcome: before.outcome.map(Into::into),
            meta: text(before.meta.as_ref()),
        }
    }
}

impl From<After> for hooks::PostToolUseResult {
    fn from(after: After) -> Self {
        let (action, patch, outcome) = match after {
            After::Keep => ("keep", None, None),
            After::Update(patch) => ("update", Some(patch.into()), None),
            After::Replace(outcome) => ("replace", None, Some((*outcome).into())),
        };
        Self {
            action: action.to_owned(),
            patch,
            outcome,
        }
    }
}

impl From<Patch> for hooks::Patch {
    fn from(patch: Patch) -> Self {
        let parts = |parts: Vec<Part>| parts.into_iter().map(Into::into).collect();
        Self {
            summary: patch.summary,
            llm: patch.llm.map(parts),
            structured: text(patch.structured.as_ref()),
            meta: text(patch.meta.as_ref()),
        }
    }
}

impl From<wit::Outcome> for Outcome {
    fn from(outcome: wit::Outcome) -> Self {
        Self {
            summary: outcome.summary,
            llm: outcome.llm.into_iter().map(Into::into).collect(),
            structured: outcome.structured.map(value),
            display: outcome.display.map(Into::into),
            error: outcome.error.map(Into::into),
            truncated: outcome.truncated.map(Into::into),
            tail: outcome.tail.map(Into::into),
            meta: outcome.meta.map(value),
        }
    }
}

impl From<wit::Part> for Part {
    fn from(part: wit::Part) -> Self {
        Self {
            kind: part.kind,
            text: part.text,
            data: part.data,
            media_type: part.media_type,
            uri: part.uri,
            name: part.name,
        }
    }
}

impl From<wit::Display> for Display {
    fn from(display: wit::Display) -> Self {
        Self {
            kind: display.kind,
            text: display.text,
            diff: display.diff.map(Into::into),
            data: display.data.map(value),
        }
    }
}

impl From<wit::FileDiff> for FileDiff {
    fn from(diff: wit::FileDiff) -> Self {
        Self {
            file_name: diff.file_name,
            diff: diff.diff,
            original: diff.original,
            new: diff.new,
        }
    }
}

impl From<wit::Failure> for Error {
    fn from(failure: wit::Failure) -> Self {
        Self {
            kind: (failure.code.as_deref()).map_or(ErrorKind::Failed, ErrorKind::of_code),
            code: failure.code,
            message: failure.message,
            recommendations: failure.recommendations,
            retryable: failure.retryable,
            cause: failure.cause,
            details: failure.details.map(value),
        }
    }
}

impl From<wit::Truncation> for Truncation {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the contract counts in f64, and the cast stops at both ends"
    )]
    fn from(truncation: wit::Truncation) -> Self {
        Self {
            original_bytes: truncation.original_bytes as u64,
            shown_bytes: truncation.shown_bytes as u64,
            saved_to: truncation.saved_to,
        }
    }
}

impl From<wit::TailCall> for TailCall {
    fn from(tail: wit::TailCall) -> Self {
        Self {
            tool: tail.tool,
            input: value(tail.input),
        }
    }
}

/// JSON from the host. Invalid JSON is passed to the hook as a string.
fn value(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_outcome_is_converted_without_loss() {
        let diff = FileDiff {
            file_name: "f".to_owned(),
            diff: "+x".to_owned(),
            original: None,
            new: "x".to_owned(),
        };
        let outcome = Outcome::text("hello")
            .part(Part::json(&json!([1])))
            .part(Part::image([1_u8], "image/png"))
            .part(Part::resource_link("x:y", "y"))
            .structured(&json!({"a": null}))
            .summary("s")
            .display(Display::diff(diff))
            .logical_error(
                Error::failed("no")
                    .code("c")
                    .recommend("r")
                    .retryable()
                    .cause("m"),
            )
            .truncated(9, 3)
            .tail("t", json!({"b": 1}))
            .meta(json!({"c": 2}));
        assert_eq!(Outcome::from(wit::Outcome::from(outcome.clone())), outcome);
    }
}
