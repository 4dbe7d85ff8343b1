//! Approval prompts: questions to the user, the offered answers, and the effect of an answer.

use std::sync::Arc;

use serde_json::Value;

use super::approval::{ApprovalScope, Narrowing, NewApproval, ToolIdentity};
use super::call_analysis::{AccessKind, AccessRequest, CallAnalysis};
use super::decide::{LayerEvaluation, used_approvals};
use super::evaluation::{AccessDecision, Reason};
use super::offer::{Offer, build_offers, exact_narrowing, suggest_rule};
use super::question_risk::Risk;
use super::rule::Rule;
use super::{
    AccessClass, Decision, Denial, DenialCode, Grant, HookDecisions, Mode, ReadGuard, Subject,
};
use crate::{
    ChangeSet, Display, Effect, OnlyPaths, PluginName, Principal, SessionId, ToolName, UserEdit,
    UserId, text,
};
use toolhost_shell_syntax as shell;

/// Presentation of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PromptKind {
    /// Shows a diff.
    Edit,
    /// Shows a command.
    Exec,
    /// Shows a server and its tool.
    Mcp,
    Info,
}

impl PromptKind {
    pub fn as_str(self) -> &'static str {
        match self {
            PromptKind::Edit => "edit",
            PromptKind::Exec => "exec",
            PromptKind::Mcp => "mcp",
            PromptKind::Info => "info",
        }
    }
}

/// A question to the user. Holds the grant that an approval releases.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub plugin: PluginName,
    pub tool: ToolName,
    pub effect: Effect,
    pub network: bool,
    pub kind: PromptKind,
    pub reason: String,
    /// Metadata from a hook, such as `{"risk": "high"}`.
    pub meta: Option<Value>,
    pub subject: Subject,
    /// The rule that requires approval.
    pub rule: Option<String>,
    /// The sub-agent that made the call.
    pub agent: Option<String>,
    /// The lists of directories to which callers narrowed the call.
    pub only_paths: Vec<OnlyPaths>,
    /// The first offer always applies to this call only.
    pub offers: Vec<Offer>,
    /// The changes that an approval applies. `None`: the call has not run.
    pub changes: Option<Arc<ChangeSet>>,
    /// Whether `host undo` can revert the changes afterwards, because they are recorded.
    pub can_undo: bool,
    /// Variables, with values, that the input does not show or that the call sets for later programs.
    pub variables: Vec<(String, String)>,
    /// The tool's own description of the call, in one line.
    pub description: Option<String>,
    /// What the tool shows in addition.
    pub rendering: Vec<Display>,
    /// How to avoid the question where no prompt is possible.
    pub remedy: String,
    grant: Grant,
    identity: ToolIdentity,
    mode: Mode,
    user: UserId,
    session: SessionId,
    /// What an approval of exactly this call covers; `None` if no saved approval can apply to it.
    exact_narrowing: Option<Narrowing>,
}

/// The user's answer. Created only by a prompter.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Allow {
        /// Index into the offers; 0 applies to this call only.
        offer: usize,
        note: Option<String>,
    },
    /// Approves this call only, with these contents instead of the proposed ones. Valid only if the question has
    /// changes, for edits that [`ChangeSet::accept`] accepts.
    Edit {
        edits: Vec<UserEdit>,
    },
    Deny {
        note: Option<String>,
    },
    /// Stops the turn.
    Cancel,
    /// Replaces the input and evaluates the call from the start.
    Modify {
        input: Value,
    },
    /// No terminal and no other way to prompt exists.
    NoPrompter,
    /// The user was not asked, because the prompter cannot show the whole question.
    Unreviewable {
        problem: String,
    },
    /// The user did not answer in time, or the client did not return a valid answer.
    TimedOut,
}

impl Answer {
    /// Approves this call only.
    pub fn once() -> Self {
        Answer::Allow {
            offer: 0,
            note: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum AnswerOutcome {
    Granted {
        grant: Grant,
        /// The approval to save, if the offer lasts longer than this call.
        approval: Option<Box<NewApproval>>,
    },
    /// Granted once, with the user's edits of the changes.
    Edited {
        grant: Grant,
        edits: Vec<UserEdit>,
    },
    Modified {
        input: Value,
    },
}

/// Turns the user's answer into a grant, a new input or a denial.
pub fn apply_answer(question: Question, answer: Answer) -> Result<AnswerOutcome, Denial> {
    let tool = &question.tool;
    let denied = |code, reason| question.denial(code, reason);
    match answer {
        Answer::Allow { offer, .. } => grant_offer(question, offer),
        Answer::Edit { edits } => grant_edits(question, edits),
        Answer::Deny { note } => {
            let note = note
                .filter(|note| !note.trim().is_empty())
                .map(|note| text::escape_lines(&note, 2_000));
            let reason = match &note {
                Some(note) => format!("the user rejected `{tool}`: {note}"),
                None => format!("the user rejected `{tool}`"),
            };
            Err(Denial {
                note,
                ..denied(DenialCode::UserDenied, reason)
            })
        }
        Answer::Cancel => Err(denied(
            DenialCode::Cancelled,
            format!("the user cancelled the prompt for `{tool}`"),
        )),
        Answer::Modify { input } => Ok(AnswerOutcome::Modified { input }),
        Answer::NoPrompter => Err(Denial {
            remedy: Some(format!("to allow it: {}", question.remedy)),
            ..denied(
                DenialCode::PolicyViolation,
                format!(
                    "`{tool}` requires approval ({}), and no terminal is available to ask for it",
                    question.reason
                ),
            )
        }),
        Answer::Unreviewable { problem } => Err(denied(
            DenialCode::PolicyViolation,
            format!(
                "`{tool}` requires approval ({}), but {problem}",
                question.reason
            ),
        )),
        Answer::TimedOut => Err(Denial {
            remedy: Some(format!("to allow it: {}", question.remedy)),
            ..denied(
                DenialCode::PolicyViolation,
                format!(
                    "the prompt for `{tool}` got no valid answer ({})",
                    question.reason
                ),
            )
        }),
    }
}

fn grant_offer(question: Question, at: usize) -> Result<AnswerOutcome, Denial> {
    let Some(offer) = question.offers.get(at) else {
        return Err(question.denial(
            DenialCode::PolicyViolation,
            format!(
                "answer {at} to the prompt for `{}` was not offered; number of offers: {}",
                question.tool,
                question.offers.len()
            ),
        ));
    };
    let by = match offer.scope {
        ApprovalScope::Once => "the user, once".to_owned(),
        scope => format!("the user, {}", scope.label()),
    };
    let approval = (offer.scope != ApprovalScope::Once).then(|| {
        Box::new(NewApproval {
            identity: question.identity.clone(),
            narrowing: offer.narrowing.clone(),
            scope: offer.scope,
            user: question.user.clone(),
            session: (offer.scope == ApprovalScope::Session).then(|| question.session.clone()),
            mode_min: question.mode,
        })
    });
    Ok(AnswerOutcome::Granted {
        grant: question.grant.with_authorizer(by),
        approval,
    })
}

fn grant_edits(question: Question, edits: Vec<UserEdit>) -> Result<AnswerOutcome, Denial> {
    let changes = question.changes.as_deref();
    let accepted = changes.map_or_else(
        || Err("the call has not run, so it has no changes to edit".to_owned()),
        |changes| {
            changes
                .validate_edits(edits)
                .map_err(|error| error.to_string())
        },
    );
    let edits = accepted.map_err(|why| {
        question.denial(
            DenialCode::PolicyViolation,
            format!(
                "the edited changes of `{}` cannot be applied: {why}",
                question.tool
            ),
        )
    })?;
    if edits.is_empty() {
        return apply_answer(question, Answer::once());
    }
    Ok(AnswerOutcome::Edited {
        grant: question
            .grant
            .with_authorizer("the user, once, with changes".to_owned()),
        edits,
    })
}

/// Returns the reason of the first access that requires approval, and of risky options of the command.
fn full_reason(
    trace: &AccessDecision,
    asking: &[&AccessRequest],
    layer: &LayerEvaluation<'_>,
) -> String {
    let is_unreadable = asking.iter().any(|part| {
        matches!(part.kind, AccessKind::Unknown(_)) && part.describe() == trace.description
    });
    let reason = reason(trace, is_unreadable, layer);
    match option_reason(asking, layer) {
        Some(why) => format!("{reason}; {why}"),
        None => reason,
    }
}

/// Returns the variables of the session and of the input.
fn variables(analysis: &CallAnalysis<'_>) -> Vec<(String, String)> {
    let session = analysis.modifiers.session().iter();
    let session = session.map(|(name, value)| (name.clone(), value.clone()));
    session
        .chain(analysis.request.subject.variables.iter().cloned())
        .collect()
}

impl Question {
    fn denial(&self, code: DenialCode, reason: String) -> Denial {
        Denial {
            rule: self.rule.clone(),
            ..Denial::new(code, reason)
        }
    }

    /// Returns whether a call of this user in this session asks the question.
    pub fn is_of(&self, caller: &Principal) -> bool {
        self.user == caller.user && self.session == caller.session
    }

    /// Returns whether a user can answer both questions at once. Calls whose risk is not low are reviewed one by one, because
    /// a list does not show their input, and so are calls with another reason. The callers have to be the same too.
    pub fn is_similar(&self, other: &Self) -> bool {
        self.effect <= Effect::Writes
            && self.kind != PromptKind::Exec
            && self.risk().0 == Risk::Low
            && other.risk().0 == Risk::Low
            && self.plugin == other.plugin
            && self.tool == other.tool
            && self.effect == other.effect
            && self.kind == other.kind
            && self.reason == other.reason
            && self.rule == other.rule
            && self.meta == other.meta
            && self.only_paths == other.only_paths
    }

    /// Total size in bytes of the variables that the prompt shows.
    pub fn variable_bytes(&self) -> usize {
        let variables = self.variables.iter();
        variables
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }

    /// The approval to save for a call whose caller has disconnected. Covers exactly this input, these files and these
    /// commands. `None` if such a call requires approval each time, for example because it is dangerous.
    pub fn advance_approval(&self, scope: ApprovalScope) -> Option<NewApproval> {
        // An approval of a tool without a digest ends with the session.
        let holds = scope == ApprovalScope::Session || self.identity.has_digest();
        Some(NewApproval {
            identity: holds.then(|| self.identity.clone())?,
            narrowing: self.exact_narrowing.clone()?,
            scope,
            user: self.user.clone(),
            session: (scope == ApprovalScope::Session).then(|| self.session.clone()),
            mode_min: self.mode,
        })
    }

    pub(super) fn with_guard(mut self, guard: Option<Arc<ReadGuard>>) -> Self {
        self.grant = self.grant.with_guard(guard);
        self
    }

    pub(super) fn build(
        layers: &[LayerEvaluation<'_>],
        strictest: &LayerEvaluation<'_>,
        hooks: &HookDecisions,
    ) -> Self {
        let analysis = &strictest.analysis;
        let request = &analysis.request;
        // An access requires approval if any layer asks; all layers have the same accesses.
        let asks = |at: usize| {
            layers
                .iter()
                .any(|layer| layer.traces[at].outcome() == Decision::Ask)
        };
        let asking: Vec<&AccessRequest> = analysis
            .accesses
            .iter()
            .enumerate()
            .filter(|(at, _)| asks(*at))
            .map(|(_, part)| part)
            .collect();
        let first = strictest
            .traces
            .iter()
            .find(|trace| trace.outcome() == Decision::Ask);
        let rule = first.and_then(|trace| match trace.reason {
            Reason::Rule(at) => Some(&strictest.policy.inner.rules[at]),
            _ => None,
        });
        let may_look_up = layers
            .iter()
            .all(|layer| layer.traces.iter().all(|trace| trace.can_save_approval));
        let may_remember = may_look_up
            && layers
                .iter()
                .all(|layer| !layer.policy.inner.disable_always_allow);
        let path_context = strictest.policy.inner.path_context_of(request.plugin);
        let modes = layers
            .iter()
            .map(|layer| layer.policy.modes(request.mode)[0]);
        let mode = modes
            .reduce(|a, b| if a.is_at_least(b) { b } else { a })
            .unwrap_or_default();
        let remedy = match (rule, first.map(|trace| &trace.reason)) {
            (Some(rule), _) => {
                let (label, source) = (rule.label(), &rule.source);
                format!("remove or narrow rule {label} ({source}), or answer at a terminal")
            }
            // An allow rule does not override a hook's ask.
            (None, Some(Reason::HookAsk(_))) => {
                "answer at a terminal, or change the hook or tool that requires approval".to_owned()
            }
            (None, _) => suggest_rule(analysis, asking.iter().copied()),
        };
        Self {
            plugin: request.plugin.clone(),
            tool: request.name.clone(),
            effect: request.tool.effect(),
            network: request.tool.annotations.open_world == Some(true),
            kind: prompt_kind(&asking, analysis),
            reason: first.map_or_else(String::new, |trace| full_reason(trace, &asking, strictest)),
            meta: hooks.ask.as_ref().and_then(|ask| ask.meta.clone()),
            subject: request.subject.clone(),
            rule: rule.map(|rule| rule.id.clone()),
            agent: request
                .caller
                .parent_agent
                .as_ref()
                .map(|_| request.caller.agent.clone()),
            only_paths: request.only_paths().to_vec(),
            changes: None,
            can_undo: false,
            variables: variables(analysis),
            offers: build_offers(&asking, analysis, may_remember, path_context),
            exact_narrowing: exact_narrowing(&asking, analysis, path_context)
                .filter(|_| may_look_up),
            description: None,
            rendering: Vec::new(),
            remedy,
            grant: Grant::new(request, "the user".to_owned(), used_approvals(layers)),
            identity: ToolIdentity::of(request),
            mode,
            user: request.caller.user.clone(),
            session: request.caller.session.clone(),
        }
    }
}

fn prompt_kind(asking: &[&AccessRequest], analysis: &CallAnalysis) -> PromptKind {
    if analysis.runs_command {
        PromptKind::Exec
    } else if analysis.is_foreign {
        PromptKind::Mcp
    } else if asking.iter().any(|part| {
        part.classes
            .iter()
            .any(|column| matches!(column, AccessClass::Write | AccessClass::Protected))
    }) {
        PromptKind::Edit
    } else {
        PromptKind::Info
    }
}

/// Why the mode does not allow the access. `shown`: text of the access.
pub(super) fn class_reason(column: AccessClass, analysis: &CallAnalysis, shown: &str) -> String {
    match column {
        AccessClass::Protected if analysis.may_write_any_file => {
            "it changes files without naming them".to_owned()
        }
        AccessClass::Protected => {
            let mut parts = analysis
                .accesses
                .iter()
                .filter(|part| part.describe() == shown);
            match parts.find_map(|part| part.protection) {
                Some(why) => format!("{}: {why}", column.reason()),
                None => column.reason().to_owned(),
            }
        }
        column => column.reason().to_owned(),
    }
}

fn sets_variable(trace: &AccessDecision, layer: &LayerEvaluation<'_>) -> bool {
    let mut parts = layer.analysis.accesses.iter();
    parts.any(|part| {
        matches!(part.kind, AccessKind::Variable { .. }) && part.describe() == trace.description
    })
}

/// Why neither a wildcard rule nor a saved approval covers a command.
fn option_reason(asking: &[&AccessRequest], layer: &LayerEvaluation<'_>) -> Option<String> {
    let commands = || {
        asking.iter().filter_map(|part| match &part.kind {
            AccessKind::Command(command) if layer.analysis.host_runs_command => {
                Some((command, part.depends_on_other_directory))
            }
            _ => None,
        })
    };
    if let Some((command, _)) = commands().find(|(_, elsewhere)| *elsewhere) {
        return Some(format!(
            "what `{}` runs depends on the directory, and it would run in another one; only a rule for all commands and \
             an approval of exactly this input cover that",
            text::escape_line(command.program().unwrap_or_default(), 80)
        ));
    }
    let rules = layer.policy.inner.rules.iter();
    let allowing = rules.filter(|rule| rule.decision == Decision::Allow);
    let patterns: Vec<_> = allowing.flat_map(Rule::command_patterns).collect();
    let found = commands().find_map(|(command, _)| {
        // A rule may name some of the options.
        let mut uncovered = patterns.iter();
        uncovered
            .find_map(|pattern| pattern.find_uncovered_option(command))
            .or_else(|| shell::find_risky_options(command).into_iter().next())
    })?;
    Some(format!(
        "{found}; a wildcard in a rule or a saved approval does not cover it"
    ))
}

fn reason(trace: &AccessDecision, unreadable: bool, layer: &LayerEvaluation<'_>) -> String {
    let mut reason = match &trace.reason {
        Reason::Rule(at) => {
            let rule = &layer.policy.inner.rules[*at];
            match &rule.reason {
                Some(reason) => format!("rule {}: {}", rule.id, text::escape_line(reason, 300)),
                None => format!("rule {}", rule.label()),
            }
        }
        Reason::HookAsk(Some(reason)) => format!("a hook requires approval: {reason}"),
        Reason::HookAsk(None) => "a hook requires approval".to_owned(),
        Reason::UnknownAccess => format!("it would {}", trace.description),
        Reason::UnnamedWrites(at) => format!(
            "it may change files without naming them, and rule {} protects some files",
            layer.policy.inner.rules[*at].label()
        ),
        Reason::TailCall => "a tool's result requests it".to_owned(),
        Reason::Mode(..) if unreadable => format!("it would {}", trace.description),
        Reason::Mode(..) if sets_variable(trace, layer) => {
            format!(
                "it would {}, which can change what they run",
                trace.description
            )
        }
        Reason::Mode(_, column) => {
            let destroys = layer.analysis.request.tool.effect() == Effect::Destroys
                && !layer.analysis.runs_command;
            match column {
                AccessClass::Other | AccessClass::Write if destroys => {
                    "it may destroy data".to_owned()
                }
                column => class_reason(*column, &layer.analysis, &trace.description),
            }
        }
        Reason::HookAllow(_) | Reason::OutsideAllowedPaths(_) => String::new(),
    };
    let remarks = [
        layer.analysis.danger.map(str::to_owned),
        layer.analysis.typing_target(),
        layer.analysis.modifiers.reason(),
    ];
    for remark in remarks.into_iter().flatten() {
        reason.push_str("; ");
        reason.push_str(&remark);
    }
    reason
}
