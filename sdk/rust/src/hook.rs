//! Types of hooks: the calls they see and the decisions they return.

use serde_json::Value;

use crate::{Outcome, Part};

/// A call before or after it runs. The caller is in the [`Context`](crate::Context).
///
/// In tests, use `HookCall::new("shell", json!({"command": "ls"}))`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookCall {
    /// Canonical name of the tool.
    pub tool: String,
    /// A JSON object, validated against the tool's schema.
    pub input: Value,
    /// Other names of the tool.
    pub aliases: Vec<String>,
    /// The tool's version.
    pub version: String,
    /// `read`, `edit`, `execute`, `fetch` …
    pub kind: String,
    /// The worst effect of the tool: `pure`, `reads`, `writes` or `destroys`.
    pub effect: String,
}

impl HookCall {
    /// A call of a tool without further metadata.
    pub fn new(tool: impl Into<String>, input: Value) -> Self {
        Self {
            tool: tool.into(),
            input,
            ..Self::default()
        }
    }

    /// Whether the tool has this name or alias.
    pub fn is(&self, name: &str) -> bool {
        self.tool == name || self.aliases.iter().any(|alias| alias == name)
    }

    /// A string argument.
    pub fn text(&self, argument: &str) -> Option<&str> {
        self.input.get(argument).and_then(Value::as_str)
    }
}

/// The decision of a hook before a call.
///
/// ```
/// use toolhost_sdk::prelude::*;
///
/// fn careful(_: &Context, call: &HookCall) -> Before {
///     match call.text("path") {
///         Some("/etc/passwd") => Before::deny("that file is private"),
///         Some(path) if path.starts_with("/etc/") => Before::ask("it is a system file").meta(json!({"risk": "high"})),
///         _ => Before::proceed(),
///     }
/// }
///
/// let call = HookCall::new("read_file", json!({"path": "/etc/hosts"}));
/// assert_eq!(careful(&Context::test(), &call).decision, Decision::Ask);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Before {
    pub decision: Decision,
    /// The reason, for the user and the model.
    pub reason: Option<String>,
    /// The new input, a JSON object.
    pub input: Option<Value>,
    /// The outcome that replaces the call.
    pub outcome: Option<Outcome>,
    /// A JSON object for the prompt.
    pub meta: Option<Value>,
}

/// What should happen with a call. A hook can only restrict a call, so there is no variant that allows one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decision {
    /// No decision.
    #[default]
    Proceed,
    /// The user must approve.
    Ask,
    /// The call is denied.
    Deny,
    /// The call is not made; the hook provides its outcome.
    Answer,
}

impl Decision {
    /// The name in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proceed => "continue",
            Self::Ask => "ask",
            Self::Deny => "deny",
            Self::Answer => "result",
        }
    }
}

impl Before {
    /// No decision: the call proceeds.
    pub fn proceed() -> Self {
        Self::default()
    }

    /// The user must approve.
    pub fn ask(reason: impl Into<String>) -> Self {
        Self {
            decision: Decision::Ask,
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// The call is not made, and the user is not asked.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self {
            decision: Decision::Deny,
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// The call is not made; `outcome` is its result.
    pub fn answer(outcome: Outcome) -> Self {
        Self {
            decision: Decision::Answer,
            outcome: Some(outcome),
            ..Self::default()
        }
    }

    /// Changes the input of the call, which is then validated and authorized again.
    pub fn with_input(mut self, input: Value) -> Self {
        self.input = Some(input);
        self
    }

    /// With [`deny`](Self::deny): what the model gets instead of the host's error.
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = Some(outcome);
        self
    }

    /// With [`ask`](Self::ask): a JSON object for the prompt, such as `{"risk": "high"}`.
    pub fn meta(mut self, meta: Value) -> Self {
        self.meta = Some(meta);
        self
    }
}

/// The changes of a hook after a call.
///
/// ```
/// use toolhost_sdk::prelude::*;
///
/// fn brief(_: &Context, _: &HookCall, outcome: &Outcome) -> After {
///     match &outcome.summary {
///         Some(summary) if outcome.llm.len() > 100 => After::text(summary.as_str()),
///         _ => After::keep(),
///     }
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub enum After {
    #[default]
    Keep,
    /// Members that are set replace those of the outcome.
    Update(Patch),
    Replace(Box<Outcome>),
}

/// Changes to an outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    pub summary: Option<String>,
    pub llm: Option<Vec<Part>>,
    pub structured: Option<Value>,
    /// Merged into the existing members.
    pub meta: Option<Value>,
}

impl After {
    /// Keeps the outcome.
    pub fn keep() -> Self {
        Self::Keep
    }

    /// Replaces the outcome.
    pub fn replace(outcome: Outcome) -> Self {
        Self::Replace(Box::new(outcome))
    }

    /// Changes some members of the outcome.
    pub fn update(patch: Patch) -> Self {
        Self::Update(patch)
    }

    /// Replaces the text for the model; the rest of the outcome stays.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Update(Patch {
            llm: Some(vec![Part::text(text)]),
            ..Patch::default()
        })
    }

    /// The resulting outcome. For tests.
    #[must_use]
    pub fn apply(self, mut outcome: Outcome) -> Outcome {
        let patch = match self {
            Self::Keep => return outcome,
            Self::Replace(other) => return *other,
            Self::Update(patch) => patch,
        };
        outcome.summary = patch.summary.or(outcome.summary);
        outcome.llm = patch.llm.unwrap_or(outcome.llm);
        outcome.structured = patch.structured.or(outcome.structured);
        match (&mut outcome.meta, patch.meta) {
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
    fn aliases_match() {
        let call = HookCall {
            aliases: vec!["bash".to_owned()],
            ..HookCall::new("shell", json!({"command": "ls", "times": 1}))
        };
        assert!(call.is("shell") && call.is("bash") && !call.is("sh"));
        assert_eq!(
            (call.text("command"), call.text("times")),
            (Some("ls"), None)
        );
    }

    #[test]
    fn before_decisions() {
        assert_eq!(Before::proceed(), Before::default());
        let ask = Before::ask("why").meta(json!({"risk": "high"}));
        assert_eq!(
            (ask.decision, ask.reason.as_deref(), ask.meta),
            (Decision::Ask, Some("why"), Some(json!({"risk": "high"})))
        );
        let deny = Before::deny("no").outcome(Outcome::text("never"));
        assert_eq!(
            (deny.decision, deny.outcome),
            (Decision::Deny, Some(Outcome::text("never")))
        );
        let input = Before::proceed().with_input(json!({"a": 1})).input;
        assert_eq!(input, Some(json!({"a": 1})));
    }

    #[test]
    fn r_211_after_changes() {
        let outcome = || {
            Outcome::text("long")
                .summary("s")
                .meta(json!({"a": 1, "b": 1}))
        };
        assert_eq!(After::keep().apply(outcome()), outcome());
        let short = Outcome::text("short")
            .summary("s")
            .meta(json!({"a": 1, "b": 1}));
        assert_eq!(After::text("short").apply(outcome()), short);
        let patch = Patch {
            meta: Some(json!({"b": 2})),
            ..Patch::default()
        };
        let merged = Outcome::text("long")
            .summary("s")
            .meta(json!({"a": 1, "b": 2}));
        assert_eq!(After::update(patch).apply(outcome()), merged);
        let other = After::replace(Outcome::new()).apply(outcome());
        assert_eq!(other, Outcome::new());
    }
}
