//! The risk of a question, which decides its place in the inbox.

use serde_json::Value;
use toolhost_contract::policy::PromptKind;
use toolhost_contract::{ChangeKind, Effect, FileKind, Question};
use toolhost_shell_syntax::{describe_danger, parse};

/// A risk in words and as an order. Higher risks are listed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    Low,
    Medium,
    High,
}

impl Risk {
    pub fn as_str(self) -> &'static str {
        match self {
            Risk::Low => "low",
            Risk::Medium => "medium",
            Risk::High => "high",
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            Risk::Low => "Low risk",
            Risk::Medium => "Medium risk",
            Risk::High => "High risk",
        }
    }
}

/// Rates a question by what a hook reported, by the effect of the tool and by what is known about the call. Returns the
/// reason too.
pub fn assess(question: &Question) -> (Risk, &'static str) {
    let subject = &question.subject;
    let deletes = question.changes.as_ref().is_some_and(|set| {
        let mut changes = set.changes.iter();
        changes
            .any(|change| change.kind == ChangeKind::Deleted && change.file_kind != FileKind::Link)
    });
    match hook_risk(question.meta.as_ref()) {
        Some(Risk::High) => return (Risk::High, "a hook reports a high risk"),
        Some(Risk::Medium) => return (Risk::Medium, "a hook reports a medium risk"),
        Some(Risk::Low) | None => {}
    }
    // The effect of staged changes is known exactly.
    if question.changes.is_none()
        && question.effect == Effect::Destroys
        && question.kind != PromptKind::Exec
    {
        return (Risk::High, "it may destroy data");
    }
    if deletes {
        return (Risk::High, "it deletes files");
    }
    if question.kind == PromptKind::Exec {
        return command_risk(subject.command.as_deref());
    }
    if subject.has_unknown_destinations {
        return (Risk::High, "its destination is not known");
    }
    if question.network || !subject.urls.is_empty() || !subject.destinations.is_empty() {
        return (Risk::Medium, "it uses the network");
    }
    if question.kind == PromptKind::Mcp {
        return (
            Risk::Medium,
            "another program runs it, outside of the sandbox",
        );
    }
    match (&question.changes, question.effect) {
        (Some(_), _) => (Risk::Low, "it changes the files shown, and can be undone"),
        (None, Effect::Pure | Effect::Reads) => (Risk::Low, "it only reads"),
        (None, _) => (Risk::Medium, "it has effects that are not known in advance"),
    }
}

fn command_risk(command: Option<&str>) -> (Risk, &'static str) {
    let Some(command) = command else {
        return (Risk::High, "it runs a command that the input does not show");
    };
    match parse(command) {
        Err(_) => (Risk::High, "it cannot be told what the command runs"),
        Ok(script) => match describe_danger(&script) {
            Some(danger) => (Risk::High, danger),
            None => (Risk::Medium, "it runs a command"),
        },
    }
}

/// The risk that a hook reported. An unknown word counts as high.
fn hook_risk(meta: Option<&Value>) -> Option<Risk> {
    match meta?.get("risk")? {
        Value::Null => None,
        Value::String(risk) => Some(match risk.as_str() {
            "none" | "low" => Risk::Low,
            "medium" => Risk::Medium,
            _ => Risk::High,
        }),
        _ => Some(Risk::High),
    }
}
