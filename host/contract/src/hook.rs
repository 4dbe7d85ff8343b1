//! What a hook may say before a call runs and after it ended.
//!
//! A hook can make the host more careful, answer in a call's place, or change what goes in and what comes out. It can
//! never make a grant: only [`crate::policy`] does.

use serde_json::Value;

use crate::{Failure, Outcome, Part};

/// What a hook says before a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Before {
    pub decision: Decision,
    /// Input to use from here on. It is checked and judged again from the start.
    pub updated_input: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub enum Decision {
    /// No opinion.
    #[default]
    Continue,
    /// Counts like an allow rule of the user: it beats no deny and no ask of an administrator.
    Allow { reason: Option<String> },
    /// A person has to say yes, whatever the rules allow.
    Ask {
        reason: Option<String>,
        /// For the prompt, such as `{"risk": "high"}`.
        meta: Option<Value>,
    },
    /// A veto. Nobody is asked.
    Deny {
        reason: Option<String>,
        /// What the model gets instead of the usual words.
        outcome: Option<Box<Outcome>>,
    },
    /// The call is not made; this is its outcome.
    Result(Box<Outcome>),
}

/// What a hook says after a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum After {
    #[default]
    Keep,
    /// Members that are there replace those of the outcome.
    Update(Box<Patch>),
    Replace(Box<Outcome>),
}

/// A part of an outcome.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    pub summary: Option<String>,
    pub llm: Option<Vec<Part>>,
    pub structured: Option<Value>,
    /// Merged into the members that are there.
    pub meta: Option<Value>,
    /// The hook was shown the text for the model and no other: `llm` also replaces the words of an error, and what is
    /// displayed to people is removed. Both may hold what the new text leaves out.
    pub text_only: bool,
}

impl After {
    pub fn apply(self, outcome: Outcome) -> Outcome {
        match self {
            After::Keep => outcome,
            After::Replace(other) => *other,
            After::Update(patch) => patch.apply(outcome),
        }
    }
}

impl Patch {
    fn apply(self, mut outcome: Outcome) -> Outcome {
        let Patch {
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
    fn r_211_an_update_changes_what_it_names_and_a_replacement_everything() {
        let outcome = Outcome {
            summary: Some("old".to_owned()),
            structured: Some(json!(1)),
            meta: Some(json!({"a": 1, "b": 1})),
            ..Outcome::text("long")
        };
        let patch = Patch {
            llm: Some(vec![Part::Text("short".to_owned())]),
            meta: Some(json!({"b": 2})),
            ..Patch::default()
        };
        let updated = After::Update(Box::new(patch)).apply(outcome.clone());
        assert_eq!(
            updated,
            Outcome {
                summary: Some("old".to_owned()),
                structured: Some(json!(1)),
                meta: Some(json!({"a": 1, "b": 2})),
                ..Outcome::text("short")
            }
        );
        assert_eq!(After::Keep.apply(outcome.clone()), outcome);
        assert_eq!(
            After::Replace(Box::new(Outcome::text("x"))).apply(outcome),
            Outcome::text("x")
        );
    }
}
