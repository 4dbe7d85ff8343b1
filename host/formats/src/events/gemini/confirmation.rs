//! Confirmation dialogs of Gemini CLI, and the meaning of their outcomes.
//!
//! The content of a permission request is an object with these members, all optional: `kind` (`edit`, `exec`, `mcp`,
//! `info`), `command`, `root_command`, `server`, `tool`, `text`, `urls`, `choices` (objects with `scope`, `covers` and
//! `text`). The changes of a staged call come with the event.

use serde_json::{Value, json};

use crate::events::answer::{IncomingEvent, shown_file, wrong};
use crate::events::snapshot_view::{
    SnapshotView, changes_text, choice, escape_text, object_without_nulls,
};
use crate::events::{AnswerError, ApprovalCoverage, FrontEndAnswer, FrontEndDecision};
use toolhost_contract::policy::ApprovalScope;
use toolhost_contract::{ChangeSet, FileChange, McpToolName, text};

const MAX_TITLE_CHARS: usize = 300;

/// Returns the dialog of a permission request.
pub(super) fn details(
    call: SnapshotView<'_>,
    title: &str,
    summary: &str,
    content: &Value,
    changes: Option<&ChangeSet>,
) -> Value {
    let kind = kind(call, content, changes);
    let (name, members) = match kind {
        Kind::Edit(file) => ("edit", edit(file)),
        Kind::Exec => ("exec", exec(content)),
        Kind::Mcp => ("mcp", mcp(call, content)),
        Kind::Info => ("info", info(summary, content, changes)),
    };
    let title = json!(text::escape_line(title, MAX_TITLE_CHARS));
    // In Gemini this is a function; here it lists the possible outcomes.
    let confirm = json!({"callId": call.id(), "outcomes": outcomes(kind, content)});
    let own = members.into_iter();
    let members = [("type", json!(name)), ("title", title)].into_iter();
    let mut details = object_without_nulls(members.chain(own).chain([("onConfirm", confirm)]));
    if name == "edit" && details.get("originalContent").is_none() {
        details["originalContent"] = Value::Null;
    }
    details
}

type Members = Vec<(&'static str, Value)>;

/// The outcomes that the host accepts: those whose scope is offered.
fn outcomes(kind: Kind<'_>, content: &Value) -> Vec<&'static str> {
    let is_offered = |scope, covers| choice(content, scope, covers).is_some();
    let mut outcomes = vec!["ProceedOnce"];
    let (always, covers) = match kind {
        Kind::Mcp => ("ProceedAlwaysTool", Some("tool")),
        Kind::Edit(_) | Kind::Exec | Kind::Info => ("ProceedAlways", None),
    };
    if is_offered("session", covers) {
        outcomes.push(always);
    }
    if is_offered("project", None) {
        outcomes.push("ProceedAlwaysAndSave");
    }
    if let Kind::Edit(file) = kind
        && file.editable_diff().is_some()
    {
        outcomes.push("ModifyWithEditor");
    }
    outcomes.push("Cancel");
    outcomes
}

fn shown(value: &Value) -> Option<String> {
    value.as_str().map(escape_text)
}

fn edit(file: &FileChange) -> Members {
    let diff = file.diff.as_ref();
    vec![
        (
            "fileName",
            json!(diff.map(|diff| escape_text(&diff.file_name))),
        ),
        ("fileDiff", json!(diff.map(|diff| escape_text(&diff.diff)))),
        // Not escaped, because an editor opens the text and returns it. Without it, the file is new.
        (
            "originalContent",
            json!(diff.and_then(|diff| diff.original.as_ref())),
        ),
        ("newContent", json!(diff.map(|diff| &diff.new))),
    ]
}

fn exec(content: &Value) -> Members {
    let command = shown(&content["command"]).unwrap_or_default();
    let root = shown(&content["root_command"])
        .or_else(|| command.split_whitespace().next().map(str::to_owned));
    vec![("command", json!(command)), ("rootCommand", json!(root))]
}

fn mcp(call: SnapshotView<'_>, content: &Value) -> Members {
    let name = McpToolName::without_prefix(call.name());
    let (server, tool) = name.split_once("__").unwrap_or(("", name));
    let server = shown(&content["server"]).unwrap_or_else(|| server.to_owned());
    let tool = shown(&content["tool"]).unwrap_or_else(|| tool.to_owned());
    vec![
        ("serverName", json!(server)),
        ("toolName", json!(tool)),
        ("toolDisplayName", json!(call.name())),
    ]
}

/// The prompt contains what the other kinds have members for, because an approval without its subject would be blind.
fn info(summary: &str, content: &Value, changes: Option<&ChangeSet>) -> Members {
    let mut prompt = shown(&content["text"]).unwrap_or_else(|| escape_text(summary));
    if let Some(diff) = changes_text(changes) {
        prompt.push('\n');
        prompt.push_str(&diff);
    }
    vec![("prompt", json!(prompt)), ("urls", content["urls"].clone())]
}

#[derive(Clone, Copy)]
enum Kind<'a> {
    Edit(&'a FileChange),
    Exec,
    Mcp,
    Info,
}

fn kind<'a>(call: SnapshotView<'_>, content: &Value, changes: Option<&'a ChangeSet>) -> Kind<'a> {
    if let Some(file) = shown_file(changes) {
        return Kind::Edit(file);
    }
    // A dialog without its subject would ask for blind approval, so the members must match the kind.
    match content["kind"].as_str() {
        Some("exec") | None if content["command"].is_string() => Kind::Exec,
        Some("mcp") => Kind::Mcp,
        None if content["server"].is_string() || McpToolName::has_prefix(call.name()) => Kind::Mcp,
        _ => Kind::Info,
    }
}

/// The outcome of a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmationOutcome {
    Allow {
        scope: ApprovalScope,
        coverage: ApprovalCoverage,
    },
    /// The user changed the proposed content in an editor.
    Modify,
    /// Cancels this call and the calls of its batch that have not started.
    Cancel,
}

/// Parses an outcome. Both Gemini's names and their values in messages (`proceed_once`) are supported.
pub fn parse_outcome(outcome: &str) -> Option<ConfirmationOutcome> {
    use ApprovalCoverage::{Server, Subject, Tool};
    let allow = |scope, coverage| ConfirmationOutcome::Allow { scope, coverage };
    Some(match outcome {
        "ProceedOnce" | "proceed_once" => allow(ApprovalScope::Once, Subject),
        // Applies to this session only; a separate outcome saves the approval (C-25).
        "ProceedAlways" | "proceed_always" => allow(ApprovalScope::Session, Subject),
        "ProceedAlwaysTool" | "proceed_always_tool" => allow(ApprovalScope::Session, Tool),
        "ProceedAlwaysServer" | "proceed_always_server" => allow(ApprovalScope::Session, Server),
        "ProceedAlwaysAndSave" | "proceed_always_and_save" => {
            allow(ApprovalScope::Project, Subject)
        }
        "ModifyWithEditor" | "modify_with_editor" => ConfirmationOutcome::Modify,
        "Cancel" | "cancel" => ConfirmationOutcome::Cancel,
        _ => return None,
    })
}

/// Parses the call of `onConfirm`, as an event.
pub(super) fn parse_answer(event: &Value) -> Result<FrontEndAnswer, AnswerError> {
    let event = IncomingEvent::read(event, &["onConfirm"], "`onConfirm`")?;
    let call = event.name("callId")?;
    let outcome = parse_outcome(event.name("outcome")?)
        .ok_or_else(|| wrong("outcome", "is not one of the outcomes of the dialog"))?;
    let text = match event.get("payload") {
        Value::Null => None,
        payload => match &payload["newContent"] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            _ => return Err(wrong("payload", "has a `newContent` that is not a text")),
        },
    };
    let decision = match (outcome, text) {
        (ConfirmationOutcome::Cancel, _) => FrontEndDecision::Cancel,
        // The user has seen and saved exactly this text, so it is approved, once.
        (
            ConfirmationOutcome::Modify
            | ConfirmationOutcome::Allow {
                scope: ApprovalScope::Once,
                ..
            },
            Some(text),
        ) => FrontEndDecision::Edit { text },
        (ConfirmationOutcome::Modify, None) => {
            let problem =
                "has no `newContent`; open the editor and send the text that the user saved";
            return Err(wrong("payload", problem));
        }
        (ConfirmationOutcome::Allow { .. }, Some(_)) => {
            let problem = "has `newContent`, which can only be approved once; send `ProceedOnce`";
            return Err(wrong("payload", problem));
        }
        (ConfirmationOutcome::Allow { scope, coverage }, None) => FrontEndDecision::Allow {
            scope,
            coverage,
            note: None,
        },
    };
    Ok(FrontEndAnswer::of_call(call, decision))
}

/// Returns the outcome of a decided call.
pub(super) fn outcome(call: SnapshotView<'_>) -> Option<&'static str> {
    if call.approval("required") != &Value::Bool(true) {
        return None;
    }
    let scope = call.approval("scope").as_str();
    match (call.approval("decision").as_str()?, scope) {
        ("allow", Some("session")) => Some("ProceedAlways"),
        ("allow", Some("project" | "user")) => Some("ProceedAlwaysAndSave"),
        ("allow", _) => Some("ProceedOnce"),
        _ => Some("Cancel"),
    }
}
