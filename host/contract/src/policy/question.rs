//! Approval prompts: questions to the user, the offered answers, and the effect of an answer.

use std::sync::Arc;

use serde_json::Value;

use super::approval::{Identity, Narrowing, NewApproval, Scope};
use super::decide::{Layer, used};
use super::facts::{Facts, Part, What};
use super::offer::{Offer, exactly, how_to_allow, offers};
use super::walk::{Because, Trace};
use super::{Column, Decision, Denial, DenialCode, Grant, HookSaid, Mode, ReadGuard, Subject};
use crate::{ChangeSet, Edit, Effect, PluginName, SessionId, ToolName, UserId, shell, text};

/// Presentation of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AskKind {
    /// Shows a diff.
    Edit,
    /// Shows a command.
    Exec,
    /// Shows a server and its tool.
    Mcp,
    Info,
}

impl AskKind {
    pub fn as_str(self) -> &'static str {
        match self {
            AskKind::Edit => "edit",
            AskKind::Exec => "exec",
            AskKind::Mcp => "mcp",
            AskKind::Info => "info",
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
    pub kind: AskKind,
    pub reason: String,
    /// Metadata from a hook, such as `{"risk": "high"}`.
    pub meta: Option<Value>,
    pub subject: Subject,
    /// The rule that requires approval.
    pub rule: Option<String>,
    /// The sub-agent that made the call.
    pub agent: Option<String>,
    /// The first offer always applies to this call only.
    pub offers: Vec<Offer>,
    /// The changes that an approval applies. `None`: the call has not run.
    pub changes: Option<Arc<ChangeSet>>,
    /// Variables, with values, that the input does not show or that the call sets for later programs.
    pub variables: Vec<(String, String)>,
    /// How to avoid the question where no prompt is possible.
    pub remedy: String,
    grant: Grant,
    identity: Identity,
    mode: Mode,
    user: UserId,
    session: SessionId,
    /// What an approval of exactly this call covers; `None` if no saved approval can apply to it.
    exact: Option<Narrowing>,
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
        edits: Vec<Edit>,
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
    NobodyToAsk,
    /// The user did not answer in time.
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
pub enum Settled {
    Granted {
        grant: Grant,
        /// The approval to save, if the offer lasts longer than this call.
        approval: Option<Box<NewApproval>>,
    },
    /// Granted once, with the user's edits of the changes.
    Edited {
        grant: Grant,
        edits: Vec<Edit>,
    },
    Modified {
        input: Value,
    },
}

/// Turns the user's answer into a grant, a new input or a denial.
pub fn settle(question: Question, answer: Answer) -> Result<Settled, Denial> {
    let tool = &question.tool;
    let denied = |code, reason: String| Denial {
        rule: question.rule.clone(),
        ..Denial::new(code, reason)
    };
    match answer {
        Answer::Allow { offer: at, .. } => {
            let Some(offer) = question.offers.get(at) else {
                return Err(denied(
                    DenialCode::PolicyViolation,
                    format!(
                        "answer {at} to the prompt for `{tool}` was not offered; number of offers: {}",
                        question.offers.len()
                    ),
                ));
            };
            let by = match offer.scope {
                Scope::Once => "the user, once".to_owned(),
                scope => format!("the user, {}", scope.words()),
            };
            let approval = (offer.scope != Scope::Once).then(|| {
                Box::new(NewApproval {
                    identity: question.identity.clone(),
                    narrowing: offer.narrowing.clone(),
                    scope: offer.scope,
                    user: question.user.clone(),
                    session: (offer.scope == Scope::Session).then(|| question.session.clone()),
                    mode_min: question.mode,
                })
            });
            Ok(Settled::Granted {
                grant: question.grant.given_by(by),
                approval,
            })
        }
        Answer::Edit { edits } => {
            let changes = question.changes.as_deref();
            let accepted = changes.map_or_else(
                || Err("the call has not run, so it has no changes to edit".to_owned()),
                |changes| changes.accept(edits).map_err(|error| error.to_string()),
            );
            let edits = accepted.map_err(|why| {
                denied(
                    DenialCode::PolicyViolation,
                    format!("the edited changes of `{tool}` cannot be applied: {why}"),
                )
            })?;
            if edits.is_empty() {
                return settle(question, Answer::once());
            }
            Ok(Settled::Edited {
                grant: question
                    .grant
                    .given_by("the user, once, with changes".to_owned()),
                edits,
            })
        }
        Answer::Deny { note } => {
            let note = note.map(|note| text::block(&note, 2_000));
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
        Answer::Modify { input } => Ok(Settled::Modified { input }),
        Answer::NobodyToAsk => Err(Denial {
            remedy: Some(format!("to allow it: {}", question.remedy)),
            ..denied(
                DenialCode::PolicyViolation,
                format!(
                    "`{tool}` requires approval ({}), and no terminal is available to ask for it",
                    question.reason
                ),
            )
        }),
        Answer::TimedOut => Err(Denial {
            remedy: Some(format!("to allow it: {}", question.remedy)),
            ..denied(
                DenialCode::PolicyViolation,
                format!(
                    "the prompt for `{tool}` was not answered in time ({})",
                    question.reason
                ),
            )
        }),
    }
}

impl Question {
    /// Total size in bytes of the variables that the prompt shows.
    pub fn variable_bytes(&self) -> usize {
        let variables = self.variables.iter();
        variables
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }

    /// The approval to save for a call whose caller has disconnected. Covers exactly this input, these files and these
    /// commands. `None` if such a call requires approval each time, for example because it is dangerous.
    pub fn in_advance(&self, scope: Scope) -> Option<NewApproval> {
        // An approval of a tool without a digest ends with the session.
        let holds = scope == Scope::Session || self.identity.is_lasting();
        Some(NewApproval {
            identity: holds.then(|| self.identity.clone())?,
            narrowing: self.exact.clone()?,
            scope,
            user: self.user.clone(),
            session: (scope == Scope::Session).then(|| self.session.clone()),
            mode_min: self.mode,
        })
    }

    pub(super) fn guarded(mut self, guard: Option<Arc<ReadGuard>>) -> Self {
        self.grant = self.grant.guarded(guard);
        self
    }

    pub(super) fn of(layers: &[Layer<'_>], strictest: &Layer<'_>, hooks: &HookSaid) -> Self {
        let analysis = &strictest.analysis;
        let request = &analysis.request;
        // An access requires approval if any layer asks; all layers have the same accesses.
        let asks = |at: usize| {
            layers
                .iter()
                .any(|layer| layer.traces[at].outcome() == Decision::Ask)
        };
        let asking: Vec<&Part> = analysis
            .parts
            .iter()
            .enumerate()
            .filter(|(at, _)| asks(*at))
            .map(|(_, part)| part)
            .collect();
        let first = strictest
            .traces
            .iter()
            .find(|trace| trace.outcome() == Decision::Ask);
        let rule = first.and_then(|trace| match trace.because {
            Because::Rule(at) => Some(&strictest.policy.inner.rules[at]),
            _ => None,
        });
        let may_look_up = layers
            .iter()
            .all(|layer| layer.traces.iter().all(|trace| trace.may_remember));
        let may_remember = may_look_up
            && layers
                .iter()
                .all(|layer| !layer.policy.inner.disable_always_allow);
        let places = &strictest.policy.inner.places;
        let modes = layers
            .iter()
            .map(|layer| layer.policy.modes(request.mode)[0]);
        let mode = modes
            .reduce(|a, b| if a.is_at_least(b) { b } else { a })
            .unwrap_or_default();
        let remedy = match (rule, first.map(|trace| &trace.because)) {
            (Some(rule), _) => format!(
                "remove or narrow rule {} ({}), or answer at a terminal",
                rule.label(),
                rule.source
            ),
            // An allow rule does not override a hook's ask.
            (None, Some(Because::HookAsks(_))) => {
                "answer at a terminal, or change the hook that asks".to_owned()
            }
            (None, _) => how_to_allow(analysis, asking.iter().copied()),
        };
        Self {
            plugin: request.plugin.clone(),
            tool: request.name.clone(),
            effect: request.tool.effect(),
            network: request.tool.annotations.open_world == Some(true),
            kind: kind(&asking, analysis),
            reason: first.map_or_else(String::new, |trace| {
                let unreadable = asking.iter().any(|part| {
                    matches!(part.what, What::Unknown(_)) && part.shown() == trace.shown
                });
                let mut reason = reason(trace, unreadable, strictest);
                if let Some(why) = option_reason(&asking, analysis) {
                    reason.push_str("; ");
                    reason.push_str(&why);
                }
                reason
            }),
            meta: hooks.ask.as_ref().and_then(|ask| ask.meta.clone()),
            subject: request.subject.clone(),
            rule: rule.map(|rule| rule.id.clone()),
            agent: request
                .caller
                .parent_agent
                .as_ref()
                .map(|_| request.caller.agent.clone()),
            changes: None,
            variables: {
                let session = analysis.steering.session().iter();
                let session = session.map(|(name, value)| (name.clone(), value.clone()));
                session
                    .chain(request.subject.variables.iter().cloned())
                    .collect()
            },
            offers: offers(&asking, analysis, may_remember, places),
            exact: exactly(&asking, analysis, places).filter(|_| may_look_up),
            remedy,
            grant: Grant::new(request, "the user".to_owned(), used(layers)),
            identity: Identity::of(request),
            mode,
            user: request.caller.user.clone(),
            session: request.caller.session.clone(),
        }
    }
}

fn kind(asking: &[&Part], analysis: &Facts) -> AskKind {
    if analysis.runs_command {
        AskKind::Exec
    } else if analysis.foreign {
        AskKind::Mcp
    } else if asking.iter().any(|part| {
        part.columns
            .iter()
            .any(|column| matches!(column, Column::Write | Column::Protected))
    }) {
        AskKind::Edit
    } else {
        AskKind::Info
    }
}

/// Why the mode does not allow the access. `shown`: text of the access.
pub(super) fn words(column: Column, analysis: &Facts, shown: &str) -> String {
    match column {
        Column::Protected if analysis.hides_writes => {
            "it changes files without naming them".to_owned()
        }
        Column::Protected => {
            let mut parts = analysis.parts.iter().filter(|part| part.shown() == shown);
            match parts.find_map(|part| part.protected) {
                Some(why) => format!("{}: {why}", column.words()),
                None => column.words().to_owned(),
            }
        }
        column => column.words().to_owned(),
    }
}

fn sets_variable(trace: &Trace, layer: &Layer<'_>) -> bool {
    let mut parts = layer.analysis.parts.iter();
    parts.any(|part| matches!(part.what, What::Variable { .. }) && part.shown() == trace.shown)
}

/// Why neither a wildcard rule nor a saved approval covers a command.
fn option_reason(asking: &[&Part], analysis: &Facts) -> Option<String> {
    let mut commands = asking.iter().filter_map(|part| match &part.what {
        What::Command(command) if analysis.executes => Some(command),
        _ => None,
    });
    let found = commands.find_map(|command| shell::risky_options(command).into_iter().next())?;
    Some(format!(
        "{found}; a wildcard in a rule or a saved approval does not cover it"
    ))
}

fn reason(trace: &Trace, unreadable: bool, layer: &Layer<'_>) -> String {
    let mut reason = match &trace.because {
        Because::Rule(at) => {
            let rule = &layer.policy.inner.rules[*at];
            match &rule.reason {
                Some(reason) => format!("rule {}: {}", rule.id, text::inline(reason, 300)),
                None => format!("rule {}", rule.label()),
            }
        }
        Because::HookAsks(Some(reason)) => format!("a hook requires approval: {reason}"),
        Because::HookAsks(None) => "a hook requires approval".to_owned(),
        Because::Unreadable => format!("it would {}", trace.shown),
        Because::Unnamed(at) => format!(
            "it may change files without naming them, and rule {} protects some files",
            layer.policy.inner.rules[*at].label()
        ),
        Because::Tail => "a tool's result requests it".to_owned(),
        Because::Mode(..) if unreadable => format!("it would {}", trace.shown),
        Because::Mode(..) if sets_variable(trace, layer) => {
            format!("it would {}, which can change what they run", trace.shown)
        }
        Because::Mode(_, column) => {
            let destroys = layer.analysis.request.tool.effect() == Effect::Destroys
                && !layer.analysis.runs_command;
            match column {
                Column::Other | Column::Write if destroys => "it may destroy data".to_owned(),
                column => words(*column, &layer.analysis, &trace.shown),
            }
        }
        Because::HookAllows(_) | Because::Outside(_) => String::new(),
    };
    let remarks = [
        layer.analysis.danger.map(str::to_owned),
        layer.analysis.types_into(),
        layer.analysis.steering.reason(),
    ];
    for remark in remarks.into_iter().flatten() {
        reason.push_str("; ");
        reason.push_str(&remark);
    }
    reason
}
