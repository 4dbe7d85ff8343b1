//! Decisions of hooks before and after calls.
//!
//! A hook can restrict a call, supply its result, or change its input and outcome. It cannot create a grant; only
//! [`crate::policy`] does.

use serde_json::Value;

use crate::{Failure, Outcome, Part};

/// The response of a hook before a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PreHookResponse {
    pub decision: PreHookDecision,
    /// Replaces the input. The call is validated and authorized again with it.
    pub updated_input: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub enum PreHookDecision {
    /// No decision.
    #[default]
    Continue,
    /// Equivalent to an allow rule of the user: does not override a deny rule or an ask rule of an administrator.
    Allow { reason: Option<String> },
    /// The user must approve the call, whatever the rules allow.
    Ask {
        reason: Option<String>,
        /// Data for the prompt, for example `{"risk": "high"}`.
        meta: Option<Value>,
    },
    /// Denies the call without a prompt.
    Deny {
        reason: Option<String>,
        /// The outcome for the model, in place of the default message.
        outcome: Option<Box<Outcome>>,
    },
    /// Skips the call and uses this outcome.
    Result(Box<Outcome>),
}

/// The response of a hook after a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum PostHookResponse {
    #[default]
    Keep,
    /// Members that are present replace those of the outcome.
    Update(Box<OutcomePatch>),
    Replace(Box<Outcome>),
}

/// A partial outcome.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OutcomePatch {
    pub summary: Option<String>,
    pub llm: Option<Vec<Part>>,
    pub structured: Option<Value>,
    /// Merged into the existing object.
    pub meta: Option<Value>,
    /// Whether the hook was shown only the text for the model. If so, `llm` also replaces the error message, and the
    /// display is removed, because both may contain text that the hook removed.
    pub text_only: bool,
}

impl PostHookResponse {
    pub fn apply(self, outcome: Outcome) -> Outcome {
        match self {
            PostHookResponse::Keep => outcome,
            PostHookResponse::Replace(other) => *other,
            PostHookResponse::Update(patch) => patch.apply(outcome),
        }
    }
}

impl OutcomePatch {
    fn apply(self, mut outcome: Outcome) -> Outcome {
        let OutcomePatch {
            summary,
            llm,
            structured,
            meta,
            text_only,
        } = self;
        outcome.summary = summary.or(outcome.summary);
        if let Some(llm) = llm {
            outcome.llm = llm;
            if text_only {
                outcome.display = None;
                let message = outcome.model_text();
                outcome.error = outcome.error.map(|error| Failure {
                    message,
                    recommendations: Vec::new(),
                    cause: None,
                    details: None,
                    ..error
                });
            }
        }
        outcome.structured = structured.or(outcome.structured);
        match (&mut outcome.meta, meta) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => old.extend(new),
            (old, Some(new)) => *old = Some(new),
            (_, None) => {}
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r_211_an_update_changes_named_members_and_a_replacement_all() {
        let outcome = Outcome {
            summary: Some("old".to_owned()),
            structured: Some(json!(1)),
            meta: Some(json!({"a": 1, "b": 1})),
            ..Outcome::text("long")
        };
        let patch = OutcomePatch {
            llm: Some(vec![Part::Text("short".to_owned())]),
            meta: Some(json!({"b": 2})),
            ..OutcomePatch::default()
        };
        let updated = PostHookResponse::Update(Box::new(patch)).apply(outcome.clone());
        assert_eq!(
            updated,
            Outcome {
                summary: Some("old".to_owned()),
                structured: Some(json!(1)),
                meta: Some(json!({"a": 1, "b": 2})),
                ..Outcome::text("short")
            }
        );
        assert_eq!(PostHookResponse::Keep.apply(outcome.clone()), outcome);
        assert_eq!(
            PostHookResponse::Replace(Box::new(Outcome::text("x"))).apply(outcome),
            Outcome::text("x")
        );
    }
}
