//! Parsing and validation of the answer of a command hook.

use serde_json::{Map, Value};
use toolhost_contract::hook::OutcomePatch;
use toolhost_contract::{Failure, Outcome, Part, nearest, text};

use super::strict;

/// Maximum length of a reason, in characters.
pub(super) const MAX_REASON: usize = 4096;
const ANSWER: [&str; 9] = [
    "decision",
    "reason",
    "updated_input",
    "result",
    "replace",
    "update",
    "additional_context",
    "meta",
    "continue",
];
const RESULT: [&str; 6] = ["summary", "text", "structured", "is_error", "code", "meta"];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ProtocolError {
    #[error(
        "standard output is not valid JSON ({0}); write one object or nothing, and log to standard error"
    )]
    NotJson(String),
    #[error("unknown member `{name}` in {location}; {fix}")]
    Unknown {
        name: String,
        location: &'static str,
        fix: String,
    },
    #[error("`{name}` is {found} but must be {expected}")]
    WrongType {
        name: &'static str,
        found: &'static str,
        expected: &'static str,
    },
    #[error("`{0}` is not a decision; use allow, deny, ask, defer or continue")]
    Decision(String),
    #[error("`{name}` has no effect {location}; {fix}")]
    Misplaced {
        name: &'static str,
        location: &'static str,
        fix: &'static str,
    },
}

type Result<T> = std::result::Result<T, ProtocolError>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecisionKeyword {
    Allow,
    Deny,
    Ask,
    Continue,
}

/// The typed members of an answer. Which of them may be combined depends on the event.
pub(super) struct Answer {
    pub(super) decision: Option<DecisionKeyword>,
    pub(super) reason: Option<String>,
    pub(super) updated_input: Option<Value>,
    pub(super) result: Option<OutcomeValue>,
    pub(super) replace: Option<OutcomeValue>,
    pub(super) update: Option<OutcomeValue>,
    pub(super) context: Option<String>,
    pub(super) meta: Option<Value>,
    /// The command returned `continue: false`.
    pub(super) stop: bool,
}

impl Answer {
    /// Parses standard output. Returns `None` if it is empty.
    pub(super) fn parse(stdout: &[u8]) -> Result<Option<Self>> {
        if stdout.trim_ascii().is_empty() {
            return Ok(None);
        }
        let value = strict::parse(stdout)
            .map_err(|error| ProtocolError::NotJson(text::escape_line(&error, 200)))?;
        let mut members =
            Members::of(value, "standard output", "the answer", &ANSWER, "an object")?;
        let decision = members
            .text("decision")?
            .map(|decision| match decision.as_str() {
                "allow" => Ok(DecisionKeyword::Allow),
                "deny" => Ok(DecisionKeyword::Deny),
                "ask" | "defer" => Ok(DecisionKeyword::Ask),
                "continue" => Ok(DecisionKeyword::Continue),
                _ => Err(ProtocolError::Decision(text::escape_line(&decision, 80))),
            });
        Ok(Some(Self {
            decision: decision.transpose()?,
            reason: members
                .text("reason")?
                .map(|reason| text::escape_lines(&reason, MAX_REASON)),
            updated_input: members.object("updated_input")?,
            result: members.shape("result")?,
            replace: members.shape("replace")?,
            update: members.shape("update")?,
            context: members.text("additional_context")?,
            meta: members.object("meta")?,
            stop: members.flag("continue")? == Some(false),
        }))
    }
}

/// An outcome, or a part of one, as written by a command. A string is text for the model.
#[derive(Default)]
pub(super) struct OutcomeValue {
    summary: Option<String>,
    text: Option<String>,
    structured: Option<Value>,
    is_error: Option<bool>,
    code: Option<String>,
    meta: Option<Value>,
}

impl OutcomeValue {
    fn parse(value: Value, name: &'static str) -> Result<Self> {
        if let Value::String(text) = value {
            return Ok(Self {
                text: Some(text),
                ..Self::default()
            });
        }
        let mut members = Members::of(value, name, name, &RESULT, "a string or an object")?;
        let shape = Self {
            summary: members.text("summary")?,
            text: members.text("text")?,
            structured: members.take("structured"),
            is_error: members.flag("is_error")?,
            code: members.text("code")?,
            meta: members.object("meta")?,
        };
        let lone = shape.code.is_some() && shape.is_error != Some(true);
        let fix = "set `is_error: true`";
        reject_misplaced(lone, "code", "on a success", fix)?;
        Ok(shape)
    }

    pub(super) fn outcome(self) -> Outcome {
        let error = (self.is_error == Some(true)).then(|| {
            let message = self.text.clone().or_else(|| self.summary.clone());
            let message =
                message.unwrap_or_else(|| "a hook reported that the call failed".to_owned());
            let code = self.code.as_deref().unwrap_or("hook_result");
            Failure::new(code, message)
        });
        Outcome {
            summary: self.summary,
            llm: self.text.map(Part::Text).into_iter().collect(),
            structured: self.structured,
            error,
            meta: self.meta,
            ..Outcome::default()
        }
    }

    pub(super) fn patch(self) -> Result<OutcomePatch> {
        let fix = "only `replace` can turn an error into a success or a success into an error";
        reject_misplaced(self.is_error.is_some(), "is_error", "in `update`", fix)?;
        Ok(OutcomePatch {
            text_only: self.text.is_some(),
            summary: self.summary,
            llm: self.text.map(|text| vec![Part::Text(text)]),
            structured: self.structured,
            meta: self.meta,
        })
    }
}

/// The members of an object whose names have been checked. `null` counts as absent.
struct Members(Map<String, Value>);

impl Members {
    fn of(
        value: Value,
        name: &'static str,
        location: &'static str,
        known: &[&str],
        expected: &'static str,
    ) -> Result<Self> {
        let Value::Object(members) = value else {
            return Err(wrong(name, &value, expected));
        };
        for name in members.keys() {
            if !known.contains(&name.as_str()) {
                let fix = match nearest(name, known.iter().copied(), 1).first() {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("expected one of {}", known.join(", ")),
                };
                return Err(ProtocolError::Unknown {
                    name: text::escape_line(name, 80),
                    location,
                    fix,
                });
            }
        }
        Ok(Self(members))
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &'static str) -> Result<Option<String>> {
        match self.take(name) {
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(name, &other, "a string")),
            None => Ok(None),
        }
    }

    fn flag(&mut self, name: &'static str) -> Result<Option<bool>> {
        match self.take(name) {
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong(name, &other, "true or false")),
            None => Ok(None),
        }
    }

    fn object(&mut self, name: &'static str) -> Result<Option<Value>> {
        match self.take(name) {
            Some(Value::Object(object)) => Ok(Some(Value::Object(object))),
            Some(other) => Err(wrong(name, &other, "an object")),
            None => Ok(None),
        }
    }

    fn shape(&mut self, name: &'static str) -> Result<Option<OutcomeValue>> {
        self.take(name)
            .map(|value| OutcomeValue::parse(value, name))
            .transpose()
    }
}

fn wrong(name: &'static str, value: &Value, expected: &'static str) -> ProtocolError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    ProtocolError::WrongType {
        name,
        found,
        expected,
    }
}

pub(super) fn reject_misplaced(
    is: bool,
    name: &'static str,
    location: &'static str,
    fix: &'static str,
) -> Result<()> {
    if is {
        Err(ProtocolError::Misplaced {
            name,
            location,
            fix,
        })
    } else {
        Ok(())
    }
}
