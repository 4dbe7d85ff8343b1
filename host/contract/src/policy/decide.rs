//! Verdicts for calls: combines the evaluations of all policy layers; the strictest decides.

use super::call_analysis::CallAnalysis;
use super::evaluation::{AccessDecision, PriorDecisions, Reason};
use super::path_pattern::PathRef;
use super::question::Question;
use super::rule::Rule;
use super::tool_names::{NamedTool, ToolNames};
use super::{
    Approval, Decision, Denial, DenialCode, Explanation, Grant, HookDecisions, Policy,
    PolicyRequest, ReadGuard, Tier, Verdict,
};
use crate::{ChangeSet, ToolName, text};

/// Permission to run a call staged, without applying its effects.
#[derive(Debug, Clone, PartialEq)]
pub struct StagedGrant {
    pub grant: Grant,
    /// Its reads need no approval, so its output may be forwarded while it runs.
    pub may_stream_output: bool,
}

/// The evaluation of a call by one policy: the session's own or a limit of the sub-agent.
pub(super) struct LayerEvaluation<'a> {
    pub policy: &'a Policy,
    pub analysis: CallAnalysis<'a>,
    pub traces: Vec<AccessDecision>,
}

impl LayerEvaluation<'_> {
    fn outcome(&self) -> Decision {
        let outcomes = self.traces.iter().map(AccessDecision::outcome);
        outcomes.max().unwrap_or(Decision::Deny)
    }
}

impl Policy {
    /// Returns a denial if a rule or the allowed paths forbid the call regardless of hooks.
    pub fn find_denial(&self, request: PolicyRequest<'_>) -> Option<Denial> {
        self.layers(request).find_map(|policy| {
            let analysis = policy.analyze(request);
            let trace = policy.find_forbidden(&analysis)?;
            Some(policy.denial(&trace, &analysis))
        })
    }

    /// Whether approvals cannot be saved.
    pub fn approves_only_once(&self) -> bool {
        self.inner.disable_always_allow
    }

    /// Whether a rule denies every call of a tool, whatever its input and caller. Such a tool is not listed.
    pub fn always_denies(&self, named: NamedTool<'_>) -> bool {
        let names = ToolNames::new(named);
        let rules = &self.inner.rules;
        let denies = |rule: &Rule| {
            rule.decision == Decision::Deny
                && rule.is_unconditional()
                && rule.target.is_none()
                && rule.forms.iter().any(|form| {
                    form.target.is_none() && form.name.matches_every_call(&names, named.tool)
                })
        };
        // Within a tier, a rule with a higher priority can take precedence for some calls.
        let outweighed = |deny: &Rule| {
            rules.iter().any(|rule| {
                rule.tier == deny.tier
                    && rule.priority > deny.priority
                    && rule.decision != Decision::Deny
            })
        };
        rules.iter().any(|rule| denies(rule) && !outweighed(rule))
    }

    /// Authorizes a staged run unless something denies what the call names. Its changes are evaluated afterwards by
    /// [`Policy::decide`] with a request whose `effects_known` is set.
    pub fn authorize_staged(
        &self,
        request: PolicyRequest<'_>,
        hooks: &HookDecisions,
        approvals: &[Approval],
        now_ms: i64,
    ) -> Result<StagedGrant, Denial> {
        if let Some(denial) = self.find_denial(PolicyRequest {
            // Effects that the tool does not name are known after the run.
            effects_known: true,
            ..request
        }) {
            return Err(denial);
        }
        let reading = request.subject.with_changes(&ChangeSet::default());
        let as_if_it_read = PolicyRequest {
            effects_known: true,
            subject: &reading,
            ..request
        };
        let as_it_says = PolicyRequest {
            effects_known: true,
            ..request
        };
        let decide = |request| self.decide(request, hooks, approvals, now_ms);
        let may_speak = match decide(as_if_it_read) {
            Verdict::Allow(_) => true,
            reading => match (reading, decide(as_it_says)) {
                (_, Verdict::Allow(_)) => true,
                (Verdict::Deny(denial), Verdict::Deny(_)) => return Err(denial),
                _ => false,
            },
        };
        let guard = ReadGuard::of(self.layers(request), request);
        let grant = Grant::staged(&request).with_guard(guard);
        Ok(StagedGrant {
            grant,
            may_stream_output: may_speak,
        })
    }

    /// Evaluates a call, including hook decisions and saved approvals.
    pub fn decide(
        &self,
        request: PolicyRequest<'_>,
        hooks: &HookDecisions,
        approvals: &[Approval],
        now_ms: i64,
    ) -> Verdict {
        let prior = PriorDecisions {
            hooks,
            approvals,
            now_ms,
        };
        if let Some(denial) = self.find_other_destination(&request) {
            return Verdict::Deny(denial);
        }
        let guard = || ReadGuard::of(self.layers(request), request);
        match verdict_of(&self.evaluate_layers(request, prior), hooks) {
            Verdict::Allow(grant) => Verdict::Allow(grant.with_guard(guard())),
            Verdict::Ask(question) => Verdict::Ask(Box::new(question.with_guard(guard()))),
            denied @ Verdict::Deny(_) => denied,
        }
    }

    /// A change of a file that is none of the destinations which the tool declares.
    fn find_other_destination(&self, request: &PolicyRequest<'_>) -> Option<Denial> {
        if request.tool.sinks.is_empty() {
            return None;
        }
        let path_context = self.inner.path_context_of(request.plugin);
        let declared = request.subject.destinations.iter();
        let declared: Vec<PathRef> = declared
            .map(|path| PathRef::parse(path, path_context))
            .collect();
        let mut changed = request.subject.paths.iter();
        let other = changed.find(|path| {
            let changed = PathRef::from_host(&path.path, path_context);
            let is_declared = |one: &PathRef| one.exact().is_some_and(|dir| changed.is_below(dir));
            path.on_host && path.write && !declared.iter().any(is_declared)
        })?;
        let reason = format!(
            "`{}` changed `{}`, which is none of the destinations that it declares",
            request.name,
            text::escape_line(&other.path, 300)
        );
        Some(Denial::new(DenialCode::DestinationMismatch, reason))
    }

    /// Evaluates a call like [`Policy::decide`] and returns every step.
    pub fn explain(
        &self,
        request: PolicyRequest<'_>,
        hooks: &HookDecisions,
        approvals: &[Approval],
        now_ms: i64,
    ) -> Explanation {
        let prior = PriorDecisions {
            hooks,
            approvals,
            now_ms,
        };
        let layers = self.evaluate_layers(request, prior);
        let verdict = verdict_of(&layers, hooks);
        Explanation::of(&layers, hooks, &verdict)
    }

    fn layers<'a>(&'a self, request: PolicyRequest<'a>) -> impl Iterator<Item = &'a Policy> {
        std::iter::once(self).chain(
            request
                .restriction
                .into_iter()
                .flat_map(|narrow| &narrow.layers),
        )
    }

    fn evaluate_layers<'a>(
        &'a self,
        request: PolicyRequest<'a>,
        prior: PriorDecisions<'_>,
    ) -> Vec<LayerEvaluation<'a>> {
        // A hook's allow applies to the session only; it never lifts a sub-agent's limits.
        let held = HookDecisions {
            ask: prior.hooks.ask.clone(),
            allow: None,
        };
        self.layers(request)
            .enumerate()
            .map(|(at, policy)| {
                let analysis = policy.analyze(request);
                let hooks = if at == 0 { prior.hooks } else { &held };
                let traces = policy.evaluate_accesses(&analysis, PriorDecisions { hooks, ..prior });
                LayerEvaluation {
                    policy,
                    analysis,
                    traces,
                }
            })
            .collect()
    }

    pub(super) fn analyze<'a>(&'a self, request: PolicyRequest<'a>) -> CallAnalysis<'a> {
        CallAnalysis::analyze(
            request,
            self.inner.path_context_of(request.plugin),
            &self.inner.protected,
        )
    }

    fn rule_denial(&self, at: usize, analysis: &CallAnalysis) -> Denial {
        let rule = &self.inner.rules[at];
        let reason = match &rule.deny_message {
            Some(message) => crate::text::escape_lines(message, 1_000),
            None => format!("rule {} forbids `{}`", rule.label(), analysis.request.name),
        };
        let remedy = match rule.tier {
            Tier::Admin => {
                "set by an administrator's rule, which only an administrator can change".to_owned()
            }
            _ => format!(
                "to allow it: remove or narrow rule {} ({})",
                rule.label(),
                rule.source
            ),
        };
        Denial {
            remedy: Some(remedy),
            rule: Some(rule.id.clone()),
            ..Denial::new(DenialCode::PolicyViolation, reason)
        }
    }

    fn denial(&self, trace: &AccessDecision, analysis: &CallAnalysis) -> Denial {
        let name = analysis.request.name;
        match &trace.reason {
            Reason::OutsideAllowedPaths(path) => Denial::outside_allowed_paths(path),
            reason if self.inner.is_inherited => self.inherited_denial(reason, trace, name),
            Reason::Rule(at) => self.rule_denial(*at, analysis),
            Reason::Mode(mode, column) => Denial {
                remedy: Some(format!(
                    "to allow it: {}, or choose a mode that allows more",
                    super::offer::suggest_rule(analysis, &analysis.accesses)
                )),
                ..Denial::new(
                    DenialCode::PolicyViolation,
                    format!(
                        "`{name}` may not {} in mode {mode}: {}{}",
                        trace.description.replace("the call", "run"),
                        super::question::class_reason(*column, analysis, &trace.description),
                        analysis
                            .modifiers
                            .reason()
                            .map_or_else(String::new, |why| format!("; {why}"))
                    ),
                )
            },
            Reason::HookAllow(_)
            | Reason::HookAsk(_)
            | Reason::UnknownAccess
            | Reason::UnnamedWrites(_)
            | Reason::TailCall => Denial::new(
                DenialCode::PolicyViolation,
                format!("`{name}` may not {}", trace.description),
            ),
        }
    }

    fn inherited_denial(&self, reason: &Reason, trace: &AccessDecision, name: &ToolName) -> Denial {
        let by = match reason {
            Reason::Rule(at) => format!("rule {}", self.inner.rules[*at].label()),
            _ => format!("mode {}", self.mode),
        };
        let reason = format!(
            "`{name}` may not {} in a sub-agent: the host that started it does not allow it ({by})",
            trace.description
        );
        Denial {
            remedy: Some(
                "to allow it: add an allow rule to the configuration of that host".to_owned(),
            ),
            ..Denial::new(DenialCode::PolicyViolation, reason)
        }
    }

    /// What allowed an access, for the record.
    pub(super) fn authorizer(&self, trace: &AccessDecision) -> String {
        if let Some(id) = &trace.approved_by {
            return format!("approval:{id}");
        }
        match &trace.reason {
            Reason::Rule(at) => format!("rule {}", self.inner.rules[*at].label()),
            Reason::HookAllow(reason) if reason.is_empty() => "a hook".to_owned(),
            Reason::HookAllow(reason) => format!("a hook: {reason}"),
            Reason::Mode(mode, column) => format!("mode {mode}: {}", column.as_str()),
            Reason::HookAsk(_)
            | Reason::UnknownAccess
            | Reason::UnnamedWrites(_)
            | Reason::TailCall
            | Reason::OutsideAllowedPaths(_) => "the user".to_owned(),
        }
    }
}

fn verdict_of(layers: &[LayerEvaluation<'_>], hooks: &HookDecisions) -> Verdict {
    let outcome = layers
        .iter()
        .map(LayerEvaluation::outcome)
        .max()
        .unwrap_or(Decision::Deny);
    let strictest = layers.iter().find(|layer| layer.outcome() == outcome);
    let (Some(strictest), Some(first)) = (strictest, layers.first()) else {
        return Verdict::Deny(Denial::new(
            DenialCode::PolicyViolation,
            "no policy was evaluated",
        ));
    };
    match outcome {
        Decision::Deny => {
            let trace = strictest
                .traces
                .iter()
                .find(|trace| trace.outcome() == Decision::Deny);
            Verdict::Deny(match trace {
                Some(trace) => strictest.policy.denial(trace, &strictest.analysis),
                None => Denial::new(
                    DenialCode::PolicyViolation,
                    "the call contains no access to evaluate",
                ),
            })
        }
        Decision::Ask => Verdict::Ask(Box::new(Question::build(layers, strictest, hooks))),
        Decision::Allow => {
            let mut by: Vec<String> = Vec::new();
            for trace in &first.traces {
                let label = first.policy.authorizer(trace);
                if !by.contains(&label) {
                    by.push(label);
                }
            }
            let more = by.len().saturating_sub(3);
            by.truncate(3);
            let mut by = by.join(", ");
            if more > 0 {
                by = format!("{by} and {more} more");
            }
            Verdict::Allow(Grant::new(
                &first.analysis.request,
                by,
                used_approvals(layers),
            ))
        }
    }
}

/// Ids of the approvals that the verdict depends on.
pub(super) fn used_approvals(layers: &[LayerEvaluation<'_>]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for id in layers
        .iter()
        .flat_map(|layer| &layer.traces)
        .filter_map(|trace| trace.approved_by.as_ref())
    {
        if !ids.contains(id) {
            ids.push(id.clone());
        }
    }
    ids
}
