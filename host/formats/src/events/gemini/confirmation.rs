//! Confirmation dialogs of Gemini CLI, and the meaning of their outcomes.
//!
//! The content of a permission request is an object with these members, all optional: `kind` (`edit`, `exec`, `mcp`,
//! `info`), `diff` (`file_name`, `diff`, `original`, `new`), `command`, `root_command`, `server`, `tool`, `text`,
//! `urls`. Without `kind`, the members present determine it.

use serde_json::{Value, json};

use crate::events::snapshot_view::{SnapshotView, escape_text, object_without_nulls};
use toolhost_contract::{McpToolName, text};

const MAX_TITLE_CHARS: usize = 300;

/// Returns the dialog of a permission request.
pub(super) fn details(
    call: SnapshotView<'_>,
    title: &str,
    summary: &str,
    content: &Value,
) -> Value {
    let dialog = match kind(call, content) {
        Kind::Edit => edit(content),
        Kind::Exec => exec(content),
        Kind::Mcp => mcp(call, content),
        Kind::Info => info(summary, content),
    };
    let (kind, members, outcomes) = dialog;
    let title = json!(text::escape_line(title, MAX_TITLE_CHARS));
    // In Gemini this is a function; here it lists the possible outcomes.
    let confirm = json!({"callId": call.id(), "outcomes": outcomes});
    let own = members.into_iter();
    let members = [("type", json!(kind)), ("title", title)].into_iter();
    let mut details = object_without_nulls(members.chain(own).chain([("onConfirm", confirm)]));
    if kind == "edit" && details.get("originalContent").is_none() {
        details["originalContent"] = Value::Null;
    }
    details
}

/// The kind of a dialog, its members and its possible outcomes.
type Dialog = (
    &'static str,
    Vec<(&'static str, Value)>,
    &'static [&'static str],
);

const OUTCOMES: &[&str] = &["ProceedOnce", "ProceedAlways", "Cancel"];

fn shown(value: &Value) -> Option<String> {
    value.as_str().map(escape_text)
}

fn edit(content: &Value) -> Dialog {
    let diff = &content["diff"];
    let members = vec![
        ("fileName", json!(shown(&diff["file_name"]))),
        ("fileDiff", json!(shown(&diff["diff"]))),
        // Not escaped, because an editor opens the text and returns it. Without `original`, the file is new.
        ("originalContent", diff["original"].clone()),
        ("newContent", diff["new"].clone()),
    ];
    (
        "edit",
        members,
        &["ProceedOnce", "ProceedAlways", "ModifyWithEditor", "Cancel"],
    )
}

fn exec(content: &Value) -> Dialog {
    let command = shown(&content["command"]).unwrap_or_default();
    let root = shown(&content["root_command"])
        .or_else(|| command.split_whitespace().next().map(str::to_owned));
    let members = vec![("command", json!(command)), ("rootCommand", json!(root))];
    ("exec", members, OUTCOMES)
}

fn mcp(call: SnapshotView<'_>, content: &Value) -> Dialog {
    let name = McpToolName::without_prefix(call.name());
    let (server, tool) = name.split_once("__").unwrap_or(("", name));
    let server = shown(&content["server"]).unwrap_or_else(|| server.to_owned());
    let tool = shown(&content["tool"]).unwrap_or_else(|| tool.to_owned());
    let members = vec![
        ("serverName", json!(server)),
        ("toolName", json!(tool)),
        ("toolDisplayName", json!(call.name())),
    ];
    (
        "mcp",
        members,
        &[
            "ProceedOnce",
            "ProceedAlwaysTool",
            "ProceedAlwaysServer",
            "Cancel",
        ],
    )
}

fn info(summary: &str, content: &Value) -> Dialog {
    let prompt = shown(&content["text"]).unwrap_or_else(|| escape_text(summary));
    let members = vec![("prompt", json!(prompt)), ("urls", content["urls"].clone())];
    ("info", members, OUTCOMES)
}

enum Kind {
    Edit,
    Exec,
    Mcp,
    Info,
}

fn kind(call: SnapshotView<'_>, content: &Value) -> Kind {
    let (diff, command) = (content["diff"].is_object(), content["command"].is_string());
    // A dialog without its subject would ask for blind approval, so the members must match the kind.
    match content["kind"].as_str() {
        Some("edit") | None if diff => Kind::Edit,
        Some("exec") | None if command => Kind::Exec,
        Some("mcp") => Kind::Mcp,
        None if content["server"].is_string() || McpToolName::has_prefix(call.name()) => Kind::Mcp,
        _ => Kind::Info,
    }
}

/// The outcome of a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmationOutcome {
    Allow {
        /// `once`, `session` or `project`.
        scope: &'static str,
        width: ApprovalTarget,
    },
    /// The user changed the input, and the call is validated again.
    Modify,
    /// Cancels this call and the calls of its batch that have not started.
    Cancel,
}

/// What a lasting approval applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalTarget {
    /// The subject of the prompt: a command prefix, a path or a host.
    Subject,
    Tool,
    Server,
}

/// Parses an outcome. Both Gemini's names and their values in messages (`proceed_once`) are supported.
pub fn parse_outcome(outcome: &str) -> Option<ConfirmationOutcome> {
    let allow = |scope, width| ConfirmationOutcome::Allow { scope, width };
    Some(match outcome {
        "ProceedOnce" | "proceed_once" => allow("once", ApprovalTarget::Subject),
        // Applies to this session only; a separate outcome saves the approval (C-25).
        "ProceedAlways" | "proceed_always" => allow("session", ApprovalTarget::Subject),
        "ProceedAlwaysTool" | "proceed_always_tool" => allow("session", ApprovalTarget::Tool),
        "ProceedAlwaysServer" | "proceed_always_server" => allow("session", ApprovalTarget::Server),
        "ProceedAlwaysAndSave" | "proceed_always_and_save" => {
            allow("project", ApprovalTarget::Subject)
        }
        "ModifyWithEditor" | "modify_with_editor" => ConfirmationOutcome::Modify,
        "Cancel" | "cancel" => ConfirmationOutcome::Cancel,
        _ => return None,
    })
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
