//! Answers of front ends to open questions, independent of the format in which they arrive.

use serde_json::{Map, Value};
use toolhost_contract::policy::{ApprovalScope, Offer};
use toolhost_contract::{Answer, CallId, ChangeSet, FileChange, McpToolName, UserEdit, text};

/// Maximum length in bytes of an identifier or a name in an answer.
const MAX_NAME_BYTES: usize = 1_000;
/// Maximum length in bytes of a note; the rest is dropped.
const MAX_NOTE_BYTES: usize = 2_000;

/// An answer to an open question.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontEndAnswer {
    pub target: AnswerTarget,
    pub decision: FrontEndDecision,
}

/// The call that an answer is about: its identifier, the name of its tool, or both, which then must agree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnswerTarget {
    pub call: Option<String>,
    /// As in the events of the front end, which can be a name of a profile.
    pub tool: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrontEndDecision {
    Allow {
        scope: ApprovalScope,
        coverage: ApprovalCoverage,
        note: Option<String>,
    },
    /// Approves this call only, with this text as the content of the file that it changes.
    Edit {
        text: String,
    },
    Deny {
        note: Option<String>,
    },
    /// Denies the call and stops the turn.
    Cancel,
}

/// What an approval that outlasts the call applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalCoverage {
    /// The subject of the prompt: a command prefix, a path or a host.
    Subject,
    /// Every call of the tool.
    Tool,
    /// Every tool of the server.
    Server,
}

/// Why an answer was not accepted. The question is still open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error(
        "the events of {system} contain no answers; answer the `ask` line with an `answer` line"
    )]
    NoAnswers { system: &'static str },
    #[error("`{kind}` does not answer a question; send {expected}")]
    UnknownType {
        kind: String,
        expected: &'static str,
    },
    #[error("member `{member}` of the event {problem}")]
    Member {
        member: &'static str,
        problem: String,
    },
    #[error("{0} is not waiting for an answer: it is unknown, has ended or has not asked")]
    NotWaiting(String),
    #[error("call `{call}` is a call of `{tool}`, not of `{named}`")]
    OtherTool {
        call: String,
        tool: String,
        named: String,
    },
    #[error("{count} calls of `{tool}` wait for an answer; name one of them by its id")]
    Ambiguous { tool: String, count: usize },
    #[error("an approval {wanted} is not offered for this call; offered: {offered}")]
    NotOffered { wanted: String, offered: String },
    #[error("the proposed content cannot be replaced: {0}")]
    NotEditable(String),
}

impl FrontEndAnswer {
    pub(super) fn of_call(call: &str, decision: FrontEndDecision) -> Self {
        let target = AnswerTarget {
            call: Some(call.to_owned()),
            tool: None,
        };
        Self { target, decision }
    }
}

impl AnswerTarget {
    /// Returns the call among those that wait for an answer. `canonical` is the canonical name of [`Self::tool`], and
    /// `waiting` has the canonical name of each call's tool.
    pub fn find<'a>(
        &self,
        canonical: Option<&str>,
        waiting: impl IntoIterator<Item = (&'a CallId, &'a str)>,
    ) -> Result<CallId, AnswerError> {
        let mut waiting = waiting.into_iter();
        let named = self.tool.as_deref().map(shown).unwrap_or_default();
        if let Some(call) = &self.call {
            let found = waiting.find(|(id, _)| id.0 == *call);
            let (id, tool) =
                found.ok_or_else(|| AnswerError::NotWaiting(format!("call `{}`", shown(call))))?;
            return match canonical {
                Some(canonical) if !is_same_tool(tool, canonical) => Err(AnswerError::OtherTool {
                    call: shown(call),
                    tool: shown(tool),
                    named,
                }),
                _ => Ok(id.clone()),
            };
        }
        let canonical = canonical.unwrap_or_default();
        let mut found: Vec<&CallId> = waiting
            .filter(|(_, tool)| is_same_tool(tool, canonical))
            .map(|(id, _)| id)
            .collect();
        match (found.pop(), found.len()) {
            (Some(id), 0) => Ok(id.clone()),
            (Some(_), others) => Err(AnswerError::Ambiguous {
                tool: named,
                count: others + 1,
            }),
            (None, _) => Err(AnswerError::NotWaiting(format!("a call of `{named}`"))),
        }
    }
}

/// Sema names tools of MCP servers without the prefix.
fn is_same_tool(tool: &str, named: &str) -> bool {
    McpToolName::without_prefix(tool) == McpToolName::without_prefix(named)
}

impl FrontEndDecision {
    /// Returns the answer to a question with these offers and changes. An approval is never wider than the decision:
    /// if its scope is not offered, the decision is refused and not replaced by another one.
    pub fn to_answer(
        &self,
        offers: &[Offer],
        changes: Option<&ChangeSet>,
    ) -> Result<Answer, AnswerError> {
        Ok(match self {
            FrontEndDecision::Allow {
                scope,
                coverage,
                note,
            } => Answer::Allow {
                offer: find_offer(offers, *scope, *coverage)?,
                note: note.clone(),
            },
            FrontEndDecision::Edit { text } => Answer::Edit {
                edits: vec![edit(changes, text)?],
            },
            FrontEndDecision::Deny { note } => Answer::Deny { note: note.clone() },
            FrontEndDecision::Cancel => Answer::Cancel,
        })
    }
}

/// Returns the index of the narrowest offer with this scope and coverage.
fn find_offer(
    offers: &[Offer],
    scope: ApprovalScope,
    coverage: ApprovalCoverage,
) -> Result<usize, AnswerError> {
    // Offers are listed from narrow to wide.
    let found = offers.iter().position(|offer| {
        offer.scope == scope
            && match coverage {
                ApprovalCoverage::Subject => true,
                ApprovalCoverage::Tool => offer.narrowing.tool,
                // No offer covers several tools.
                ApprovalCoverage::Server => false,
            }
    });
    found.ok_or_else(|| {
        let lifetime = match scope {
            ApprovalScope::Once => "for this call",
            ApprovalScope::Session => "for the session",
            ApprovalScope::Project => "for the project",
            ApprovalScope::User => "for all projects",
        };
        let of = match coverage {
            ApprovalCoverage::Subject => "",
            ApprovalCoverage::Tool => "of every call of the tool ",
            ApprovalCoverage::Server => "of every tool of the server ",
        };
        let texts: Vec<String> = offers
            .iter()
            .map(|offer| text::escape_line(&offer.text, 200))
            .collect();
        AnswerError::NotOffered {
            wanted: format!("{of}{lifetime}"),
            offered: texts.join("; "),
        }
    })
}

fn edit(changes: Option<&ChangeSet>, text: &str) -> Result<UserEdit, AnswerError> {
    let not_editable = |problem: &str| AnswerError::NotEditable(problem.to_owned());
    let changes = changes.ok_or_else(|| not_editable("the call has not proposed changes"))?;
    let file = changes
        .only_file()
        .ok_or_else(|| not_editable("the call does not change exactly one file"))?;
    let edit = UserEdit {
        path: file.path.clone(),
        text: text.to_owned(),
    };
    changes
        .validate_edits(vec![edit.clone()])
        .map_err(|error| AnswerError::NotEditable(error.to_string()))?;
    Ok(edit)
}

/// Returns the only changed file, if a front end can show its diff.
pub(super) fn shown_file(changes: Option<&ChangeSet>) -> Option<&FileChange> {
    changes?.only_file().filter(|file| file.diff.is_some())
}

fn shown(name: &str) -> String {
    text::escape_line(name, 80)
}

/// The members of an event that a front end sent.
#[derive(Clone, Copy)]
pub(super) struct IncomingEvent<'a> {
    members: &'a Map<String, Value>,
}

impl<'a> IncomingEvent<'a> {
    /// Checks the type of the event. `expected` names `types` for the error.
    pub(super) fn read(
        event: &'a Value,
        types: &[&str],
        expected: &'static str,
    ) -> Result<Self, AnswerError> {
        let kind = event["type"].as_str().unwrap_or_default();
        match event {
            Value::Object(members) if types.contains(&kind) => Ok(Self { members }),
            _ => Err(AnswerError::UnknownType {
                kind: shown(kind),
                expected,
            }),
        }
    }

    /// Returns a name or an identifier.
    pub(super) fn name(self, member: &'static str) -> Result<&'a str, AnswerError> {
        self.optional_name(member)?
            .ok_or_else(|| wrong(member, "is missing"))
    }

    pub(super) fn optional_name(
        self,
        member: &'static str,
    ) -> Result<Option<&'a str>, AnswerError> {
        match self.members.get(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Err(wrong(member, "is empty")),
            Some(Value::String(text)) if text.len() > MAX_NAME_BYTES => Err(wrong(
                member,
                format!("has more than {MAX_NAME_BYTES} bytes"),
            )),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(member, "is not a text")),
        }
    }

    /// Returns a text of the user, which is truncated if it is too long.
    pub(super) fn note(self, member: &'static str) -> Result<Option<String>, AnswerError> {
        match self.members.get(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(note)) => Ok(Some(note_text(note)).filter(|note| !note.is_empty())),
            Some(_) => Err(wrong(member, "is not a text")),
        }
    }

    pub(super) fn get(self, member: &str) -> &'a Value {
        self.members.get(member).unwrap_or(&Value::Null)
    }
}

pub(super) fn note_text(note: &str) -> String {
    text::head(note.trim(), MAX_NOTE_BYTES).to_owned()
}

pub(super) fn wrong(member: &'static str, problem: impl Into<String>) -> AnswerError {
    AnswerError::Member {
        member,
        problem: problem.into(),
    }
}
