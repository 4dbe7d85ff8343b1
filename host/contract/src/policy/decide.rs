//! Verdicts for calls: combines the evaluations of all policy layers; the strictest decides.

use super::facts::Facts;
use super::names::Names;
use super::question::Question;
use super::rule::Rule;
use super::walk::{Because, Said, Trace};
use super::{
    Approval, Decision, Denial, DenialCode, Explanation, Grant, HookSaid, Policy, ReadGuard,
    Request, Tier, Verdict,
};
use crate::{ChangeSet, Descriptor, PluginName, ToolName};

/// Permission to run a call staged, without applying its effects.
#[derive(Debug, Clone, PartialEq)]
pub struct Hold {
    pub grant: Grant,
    /// Its reads need no approval, so its output may be forwarded while it runs.
    pub may_speak: bool,
}

/// The evaluation of a call by one policy: the session's own or a limit of the sub-agent.
pub(super) struct Layer<'a> {
    pub policy: &'a Policy,
    pub analysis: Facts<'a>,
    pub traces: Vec<Trace>,
}

impl Layer<'_> {
    fn outcome(&self) -> Decision {
        let outcomes = self.traces.iter().map(Trace::outcome);
        outcomes.max().unwrap_or(Decision::Deny)
    }
}

impl Policy {
    /// Returns a denial if a rule or the allowed paths forbid the call regardless of hooks.
    pub fn forbids(&self, request: Request<'_>) -> Option<Denial> {
        self.layers(request).find_map(|policy| {
            let analysis = policy.facts(request);
            let trace = policy.forbidding(&analysis)?;
            Some(policy.denied(&trace, &analysis))
        })
    }

    /// Whether a rule denies every call of a tool, whatever its input and caller. Such a tool is not listed.
    pub fn never_allows(
        &self,
        plugin: &PluginName,
        name: &ToolName,
        tool: &Descriptor,
        aliases: &[String],
    ) -> bool {
        let names = Names::new(plugin.as_str(), name.as_str(), tool, aliases);
        let rules = &self.inner.rules;
        let denies = |rule: &Rule| {
            rule.decision == Decision::Deny
                && rule.is_unconditional()
                && rule.target.is_none()
                && rule
                    .forms
                    .iter()
                    .any(|form| form.target.is_none() && form.name.always_means(&names, tool))
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
    pub fn hold(
        &self,
        request: Request<'_>,
        hooks: &HookSaid,
        approvals: &[Approval],
        now_ms: i64,
    ) -> Result<Hold, Denial> {
        if let Some(denial) = self.forbids(Request {
            // Effects that the tool does not name are known after the run.
            known: true,
            ..request
        }) {
            return Err(denial);
        }
        let reading = request.subject.known(&ChangeSet::default());
        let as_if_it_read = Request {
            known: true,
            subject: &reading,
            ..request
        };
        let as_it_says = Request {
            known: true,
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
        let grant = Grant::held_back(&request).guarded(guard);
        Ok(Hold { grant, may_speak })
    }

    /// Evaluates a call, including hook decisions and saved approvals.
    pub fn decide(
        &self,
        request: Request<'_>,
        hooks: &HookSaid,
        approvals: &[Approval],
        now_ms: i64,
    ) -> Verdict {
        let said = Said {
            hooks,
            approvals,
            now_ms,
        };
        let guard = || ReadGuard::of(self.layers(request), request);
        match conclude(&self.evaluate(request, said), hooks) {
            Verdict::Allow(grant) => Verdict::Allow(grant.guarded(guard())),
            Verdict::Ask(question) => Verdict::Ask(Box::new(question.guarded(guard()))),
            denied @ Verdict::Deny(_) => denied,
        }
    }

    /// Evaluates a call like [`Policy::decide`] and returns every step.
    pub fn explain(
        &self,
        request: Request<'_>,
        hooks: &HookSaid,
        approvals: &[Approval],
        now_ms: i64,
    ) -> Explanation {
        let said = Said {
            hooks,
            approvals,
            now_ms,
        };
        let layers = self.evaluate(request, said);
        let verdict = conclude(&layers, hooks);
        Explanation::of(&layers, hooks, &verdict)
    }

    fn layers<'a>(&'a self, request: Request<'a>) -> impl Iterator<Item = &'a Policy> {
        std::iter::once(self).chain(request.narrow.into_iter().flat_map(|narrow| &narrow.layers))
    }

    fn evaluate<'a>(&'a self, request: Request<'a>, said: Said<'_>) -> Vec<Layer<'a>> {
        // A hook's allow applies to the session only; it never lifts a sub-agent's limits.
        let held = HookSaid {
            ask: said.hooks.ask.clone(),
            allow: None,
        };
        self.layers(request)
            .enumerate()
            .map(|(at, policy)| {
                let analysis = policy.facts(request);
                let hooks = if at == 0 { said.hooks } else { &held };
                let traces = policy.walk(&analysis, Said { hooks, ..said });
                Layer {
                    policy,
                    analysis,
                    traces,
                }
            })
            .collect()
    }

    pub(super) fn facts<'a>(&self, request: Request<'a>) -> Facts<'a> {
        Facts::of(request, &self.inner.places, &self.inner.protected)
    }

    fn denied_by_rule(&self, at: usize, analysis: &Facts) -> Denial {
        let rule = &self.inner.rules[at];
        let reason = match &rule.deny_message {
            Some(message) => crate::text::block(message, 1_000),
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

    fn denied(&self, trace: &Trace, analysis: &Facts) -> Denial {
        let name = analysis.request.name;
        match &trace.because {
            Because::Rule(at) => self.denied_by_rule(*at, analysis),
            Because::Outside(path) => Denial::outside(path),
            Because::Mode(mode, column) => Denial {
                remedy: Some(format!(
                    "to allow it: {}, or choose a mode that allows more",
                    super::offer::how_to_allow(analysis, &analysis.parts)
                )),
                ..Denial::new(
                    DenialCode::PolicyViolation,
                    format!(
                        "`{name}` may not {} in mode {mode}: {}{}",
                        trace.shown.replace("the call", "run"),
                        super::question::words(*column, analysis, &trace.shown),
                        analysis
                            .steering
                            .reason()
                            .map_or_else(String::new, |why| format!("; {why}"))
                    ),
                )
            },
            Because::HookAllows(_)
            | Because::HookAsks(_)
            | Because::Unreadable
            | Because::Unnamed(_)
            | Because::Tail => Denial::new(
                DenialCode::PolicyViolation,
                format!("`{name}` may not {}", trace.shown),
            ),
        }
    }

    /// What allowed an access, for the record.
    pub(super) fn allowed_by(&self, trace: &Trace) -> String {
        if let Some(id) = &trace.approved_by {
            return format!("approval:{id}");
        }
        match &trace.because {
            Because::Rule(at) => format!("rule {}", self.inner.rules[*at].label()),
            Because::HookAllows(reason) if reason.is_empty() => "a hook".to_owned(),
            Because::HookAllows(reason) => format!("a hook: {reason}"),
            Because::Mode(mode, column) => format!("mode {mode}: {}", column.as_str()),
            Because::HookAsks(_)
            | Because::Unreadable
            | Because::Unnamed(_)
            | Because::Tail
            | Because::Outside(_) => "the user".to_owned(),
        }
    }
}

fn conclude(layers: &[Layer<'_>], hooks: &HookSaid) -> Verdict {
    let outcome = layers
        .iter()
        .map(Layer::outcome)
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
                Some(trace) => strictest.policy.denied(trace, &strictest.analysis),
                None => Denial::new(
                    DenialCode::PolicyViolation,
                    "the call contains no access to evaluate",
                ),
            })
        }
        Decision::Ask => Verdict::Ask(Box::new(Question::of(layers, strictest, hooks))),
        Decision::Allow => {
            let mut by: Vec<String> = Vec::new();
            for trace in &first.traces {
                let label = first.policy.allowed_by(trace);
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
            Verdict::Allow(Grant::new(&first.analysis.request, by, used(layers)))
        }
    }
}

/// Ids of the approvals that the verdict depends on.
pub(super) fn used(layers: &[Layer<'_>]) -> Vec<String> {
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
