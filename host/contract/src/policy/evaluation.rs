//! Evaluation of the accesses of a call. One pass both decides and records how it decided.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::call_analysis::{AccessKind, AccessRequest, CallAnalysis};
use super::rule::Rule;
use super::tool_names::{NamePattern, ToolFamily};
use super::{
    AccessClass, Approval, Decision, HookDecisions, Inner, Mode, Policy, RuleSpec, Tier,
    ToolIdentity,
};
use crate::Effect;

/// The reason for the decision on an access. A rule is an index into the policy's rules.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reason {
    Rule(usize),
    HookAllow(String),
    HookAsk(Option<String>),
    Mode(Mode, AccessClass),
    /// The command or its redirection target cannot be determined.
    UnknownAccess,
    /// The call may change files without naming them, and this rule protects some files.
    UnnamedWrites(usize),
    /// Requested by a tool's result, which does not authorize side effects.
    TailCall,
    /// Outside the allowed paths.
    OutsideAllowedPaths(String),
}

/// How one access was decided.
#[derive(Debug, Clone)]
pub(super) struct AccessDecision {
    pub description: String,
    /// Matching rules, the strongest of each tier first.
    pub matched: Vec<usize>,
    /// The deciding rule of each tier, from low to high.
    pub deciding_by_tier: [Option<usize>; 5],
    /// The decision before saved approvals were considered.
    pub decision: Decision,
    pub reason: Reason,
    /// Ids of the saved approvals considered, with the result for each.
    pub approvals: Vec<(String, String)>,
    pub approved_by: Option<String>,
    pub can_save_approval: bool,
}

impl AccessDecision {
    pub(super) fn outcome(&self) -> Decision {
        match (&self.approved_by, self.decision) {
            (Some(_), Decision::Ask) => Decision::Allow,
            (_, decision) => decision,
        }
    }
}

/// Index of rules by name, so that a call is compared only with rules that can match it.
#[derive(Debug, Clone, Default)]
pub(super) struct RuleIndex {
    by_name: HashMap<String, Vec<usize>>,
    by_plugin: HashMap<String, Vec<usize>>,
    /// Rules that match only foreign tools.
    servers: Vec<usize>,
    by_family: [Vec<usize>; 4],
    rest: Vec<usize>,
}

impl RuleIndex {
    pub(super) fn of(rules: &[Rule]) -> Self {
        let mut index = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            for form in &rule.forms {
                match &form.name {
                    NamePattern::Name(name) => {
                        index.by_name.entry(name.clone()).or_default().push(at);
                    }
                    NamePattern::Plugin { plugin, .. } => {
                        index.by_plugin.entry(plugin.clone()).or_default().push(at);
                    }
                    NamePattern::Server(_) => index.servers.push(at),
                    NamePattern::All | NamePattern::Glob(_) => index.rest.push(at),
                }
                if let Some(family) = form.name.family() {
                    index.by_family[family as usize].push(at);
                }
            }
        }
        index
    }

    fn candidates(&self, analysis: &CallAnalysis) -> Vec<usize> {
        let mut found = self.rest.clone();
        for name in &analysis.names.all {
            found.extend(self.by_name.get(name).into_iter().flatten());
        }
        found.extend(
            self.by_plugin
                .get(analysis.names.plugin())
                .into_iter()
                .flatten(),
        );
        if analysis.names.is_foreign() {
            found.extend(&self.servers);
        }
        for family in ToolFamily::ALL {
            // A deny matches more than an allow, so this finds every rule that can match. A command may name any path.
            if analysis.runs_command
                || analysis.writes_unnamed
                || analysis
                    .accesses
                    .iter()
                    .any(|part| family.covers(part, analysis, Decision::Deny))
            {
                found.extend(&self.by_family[family as usize]);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Hook decisions and saved approvals that apply to an evaluation.
#[derive(Clone, Copy)]
pub(super) struct PriorDecisions<'a> {
    pub hooks: &'a HookDecisions,
    pub approvals: &'a [Approval],
    pub now_ms: i64,
}

impl Policy {
    /// The policy's own mode and the session's, the narrower first.
    pub(super) fn modes(&self, session: Option<Mode>) -> Vec<Mode> {
        let mut modes = vec![self.mode()];
        match session {
            None => {}
            Some(mode) if mode == modes[0] => {}
            // `Custom` is not comparable; as the session's mode it comes first.
            Some(mode) if modes[0].is_at_least(mode) || mode == Mode::Custom => {
                modes.insert(0, mode);
            }
            Some(mode) => modes.push(mode),
        }
        // A host that was started in `ask` also asks about what `plan` and `readonly` allow.
        let narrow = |mode: &Mode| matches!(mode, Mode::Plan | Mode::ReadOnly);
        if self.inner.configured_mode == Mode::Ask && modes.iter().any(narrow) {
            modes.push(Mode::Ask);
        }
        modes
    }

    pub(super) fn evaluate_accesses(
        &self,
        analysis: &CallAnalysis,
        prior: PriorDecisions<'_>,
    ) -> Vec<AccessDecision> {
        let modes = self.modes(analysis.request.mode);
        let live = self.applicable_rules(analysis, &modes);
        let identity = ToolIdentity::of(&analysis.request);
        analysis
            .accesses
            .iter()
            .map(|part| {
                let mut trace = self.match_rules(part, analysis, &live);
                // A hook sees the input but not the variables of the session.
                if analysis.modifiers.session().is_empty() {
                    self.apply_hook_allow(&mut trace, prior.hooks);
                }
                if trace.matched.is_empty() && !matches!(trace.reason, Reason::HookAllow(_)) {
                    (trace.decision, trace.reason) = self.apply_modes(part, analysis, &modes);
                }
                if let Some(path) = self.outside_allowed_paths(part) {
                    (trace.decision, trace.reason) =
                        (Decision::Deny, Reason::OutsideAllowedPaths(path));
                }
                self.ask_if_unknown(&mut trace, part, analysis, &live, &modes);
                self.ask_if_writes_unnamed(&mut trace, analysis, &live);
                ask_if_tail_call(&mut trace, analysis);
                apply_hook_ask(&mut trace, prior.hooks);
                if self.inner.is_inherited {
                    trace.decision = match trace.decision {
                        Decision::Ask => Decision::Deny,
                        decision => decision,
                    };
                    return trace;
                }
                apply_approvals(&mut trace, part, analysis, &modes, &identity, prior);
                trace
            })
            .collect()
    }

    /// Finds an access that the allowed paths or a rule forbid regardless of hooks.
    pub(super) fn find_forbidden(&self, analysis: &CallAnalysis) -> Option<AccessDecision> {
        let modes = self.modes(analysis.request.mode);
        let live = self.applicable_rules(analysis, &modes);
        analysis.accesses.iter().find_map(|part| {
            let mut trace = self.match_rules(part, analysis, &live);
            if let Some(path) = self.outside_allowed_paths(part) {
                trace.reason = Reason::OutsideAllowedPaths(path);
                return Some(trace);
            }
            (trace.decision == Decision::Deny && matches!(trace.reason, Reason::Rule(_)))
                .then_some(trace)
        })
    }

    fn applicable_rules(&self, analysis: &CallAnalysis, modes: &[Mode]) -> Vec<usize> {
        let mut live = self.inner.index.candidates(analysis);
        live.retain(|at| self.is_applicable(*at, analysis, modes));
        live
    }

    /// Filters rules to those whose conditions on the whole call hold.
    pub(super) fn filter_applicable(
        &self,
        rules: impl Iterator<Item = usize>,
        analysis: &CallAnalysis,
    ) -> Vec<usize> {
        let modes = self.modes(analysis.request.mode);
        rules
            .filter(|at| self.is_applicable(*at, analysis, &modes))
            .collect()
    }

    fn is_applicable(&self, at: usize, analysis: &CallAnalysis, modes: &[Mode]) -> bool {
        let rule = &self.inner.rules[at];
        let narrowed = modes
            .iter()
            .any(|mode| !mode.is_at_least(self.inner.configured_mode));
        !(narrowed && rule.yields_to_mode) && rule.applies(analysis, modes, self.inner.interactive)
    }

    /// Matches rules against an access. Within a tier the highest priority decides, of equals the strictest. Across
    /// tiers a deny applies from every tier, otherwise the highest tier decides.
    pub(super) fn match_rules(
        &self,
        part: &AccessRequest,
        analysis: &CallAnalysis,
        live: &[usize],
    ) -> AccessDecision {
        let rules = &self.inner.rules;
        let mut matched: Vec<usize> = live
            .iter()
            .copied()
            .filter(|at| rules[*at].covers(part, analysis))
            .collect();
        self.inner.sort_by_precedence(&mut matched);
        // An ask that matches only an alias requested by the tool must not replace an equally strict rule, because a
        // hook or a saved approval could answer it.
        let given = matched
            .iter()
            .copied()
            .filter(|at| !rules[*at].matches_only_requested_alias(part, analysis));
        let (mut tiers, mut winner) = self.inner.deciding_rules(given);
        if winner.is_none_or(|at| rules[at].decision == Decision::Allow) {
            (tiers, winner) = self.inner.deciding_rules(matched.iter().copied());
        }
        let (decision, because, may_remember) = match winner {
            Some(at) => (rules[at].decision, Reason::Rule(at), rules[at].remember),
            // Overwritten by the mode's decision.
            None => (Decision::Deny, Reason::UnknownAccess, true),
        };
        AccessDecision {
            description: part.describe(),
            matched,
            deciding_by_tier: tiers,
            decision,
            reason: because,
            approvals: Vec::new(),
            approved_by: None,
            can_save_approval: may_remember,
        }
    }

    /// Applies a hook's allow, which counts like an allow rule of the user with default priority. It does not override
    /// a deny, an administrator's ask, or a user's ask of at least that priority.
    fn apply_hook_allow(&self, trace: &mut AccessDecision, hooks: &HookDecisions) {
        let Some(reason) = &hooks.allow else { return };
        let beaten = match trace.reason {
            Reason::Rule(at) => {
                let rule = &self.inner.rules[at];
                rule.decision != Decision::Deny
                    && (rule.tier < Tier::User
                        || rule.tier == Tier::User && rule.priority < RuleSpec::PRIORITY)
            }
            _ => trace.matched.is_empty(),
        };
        if beaten {
            trace.decision = Decision::Allow;
            trace.reason = Reason::HookAllow(crate::text::escape_line(reason, 200));
        }
    }

    /// The strictest decision of all modes for every class of the access.
    fn apply_modes(
        &self,
        part: &AccessRequest,
        analysis: &CallAnalysis,
        modes: &[Mode],
    ) -> (Decision, Reason) {
        let mut worst = (Decision::Allow, Reason::Mode(modes[0], part.classes[0]));
        for mode in modes {
            for column in &part.classes {
                let decision = self.mode_decision(*mode, *column, part, analysis);
                if decision > worst.0 {
                    worst = (decision, Reason::Mode(*mode, *column));
                }
            }
        }
        worst
    }

    fn mode_decision(
        &self,
        mode: Mode,
        column: AccessClass,
        part: &AccessRequest,
        analysis: &CallAnalysis,
    ) -> Decision {
        let planning = mode == Mode::Plan;
        match column {
            AccessClass::Write | AccessClass::Protected
                if planning && self.is_plan_write(part, analysis) =>
            {
                Decision::Allow
            }
            AccessClass::Exec if planning && analysis.is_read_only => Decision::Ask,
            // A foreign server's `read_only` is only a hint, which the user may accept.
            AccessClass::Other
                if planning
                    && analysis.is_foreign
                    && analysis.request.tool.annotations.read_only == Some(true) =>
            {
                Decision::Ask
            }
            column => mode.decision(column),
        }
    }

    /// Whether the access writes a plan below `plan_dir`.
    fn is_plan_write(&self, part: &AccessRequest, analysis: &CallAnalysis) -> bool {
        let (
            Some(dir),
            AccessKind::Path {
                path_ref,
                write: true,
                ..
            },
        ) = (&self.inner.plan_dir, &part.kind)
        else {
            return false;
        };
        !matches!(
            analysis.request.tool.kind.as_str(),
            "delete" | "move" | "execute"
        ) && path_ref.is_below(dir)
            && path_ref
                .exact()
                .is_some_and(|path| path.strip_suffix(".md").is_some())
    }

    fn outside_allowed_paths(&self, part: &AccessRequest) -> Option<String> {
        let AccessKind::Path {
            path_ref, shown, ..
        } = &part.kind
        else {
            return None;
        };
        let allowed = &self.inner.allowed_paths;
        let inside = allowed.is_empty() || allowed.iter().any(|dir| path_ref.is_below(dir));
        (!inside).then(|| shown.clone())
    }

    /// Requires approval for an unknown command or redirection. Only mode yolo allows it, and only if no rule restricts
    /// commands or files.
    fn ask_if_unknown(
        &self,
        trace: &mut AccessDecision,
        part: &AccessRequest,
        analysis: &CallAnalysis,
        live: &[usize],
        modes: &[Mode],
    ) {
        let AccessKind::Unknown(_) = part.kind else {
            return;
        };
        trace.can_save_approval = false;
        let looked_into = || {
            live.iter()
                .any(|at| self.inner.rules[*at].may_cover(part, analysis))
        };
        let free = modes.iter().all(|mode| *mode == Mode::Yolo) && !looked_into();
        if trace.decision == Decision::Allow && !free {
            (trace.decision, trace.reason) = (Decision::Ask, Reason::UnknownAccess);
        }
    }

    /// Requires approval if a mode alone allows unnamed writes while a rule protects files. Foreign tools are exempt:
    /// they change files elsewhere.
    fn ask_if_writes_unnamed(
        &self,
        trace: &mut AccessDecision,
        analysis: &CallAnalysis,
        live: &[usize],
    ) {
        let by_mode = matches!(trace.reason, Reason::Mode(..));
        let passes = by_mode && trace.decision == Decision::Allow;
        if !passes || !analysis.writes_unnamed || analysis.is_foreign {
            return;
        }
        let guards = |at: &&usize| self.inner.rules[**at].restricts_writes();
        if let Some(at) = live.iter().find(guards) {
            (trace.decision, trace.reason) = (Decision::Ask, Reason::UnnamedWrites(*at));
        }
    }
}

impl Inner {
    fn sort_by_precedence(&self, matched: &mut [usize]) {
        matched.sort_by_key(|at| {
            let rule = &self.rules[*at];
            (
                Reverse(rule.tier),
                Reverse(rule.priority),
                Reverse(rule.decision),
                *at,
            )
        });
    }

    /// The deciding rule of each tier and of all tiers. Expects rules sorted by strength, strongest first.
    fn deciding_rules(
        &self,
        matched: impl DoubleEndedIterator<Item = usize>,
    ) -> ([Option<usize>; 5], Option<usize>) {
        let rules = &self.rules;
        let mut tiers = [None; 5];
        for at in matched.rev() {
            tiers[rules[at].tier as usize] = Some(at);
        }
        let from_above = || tiers.iter().rev().flatten().copied();
        let denies = from_above().find(|at| rules[*at].decision == Decision::Deny);
        (tiers, denies.or_else(|| from_above().next()))
    }

    /// The deciding rule.
    pub(super) fn deciding_rule(&self, mut matched: Vec<usize>) -> Option<usize> {
        self.sort_by_precedence(&mut matched);
        self.deciding_rules(matched.into_iter()).1
    }
}

/// Whether a call requested by a tool's result needs approval. It does if it has side effects, and a request to another
/// host can carry what the first tool read; a foreign server's hints do not prove otherwise.
fn is_untrusted_tail_call(analysis: &CallAnalysis) -> bool {
    let request = &analysis.request;
    let sends = |access: &AccessRequest| matches!(access.kind, AccessKind::Address { .. });
    request.is_tail_call
        && (analysis.is_foreign
            || request.tool.effect() > Effect::Reads
            || analysis.accesses.iter().any(sends))
}

fn ask_if_tail_call(trace: &mut AccessDecision, analysis: &CallAnalysis) {
    if !is_untrusted_tail_call(analysis) {
        return;
    }
    if trace.decision == Decision::Allow {
        (trace.decision, trace.reason) = (Decision::Ask, Reason::TailCall);
    }
    // Saved approvals do not apply, and this approval is not saved.
    trace.can_save_approval = false;
}

/// Requires approval if a hook asks, whatever the rules allow.
fn apply_hook_ask(trace: &mut AccessDecision, hooks: &HookDecisions) {
    let Some(ask) = &hooks.ask else { return };
    if trace.decision == Decision::Allow {
        let reason = ask
            .reason
            .as_deref()
            .map(|reason| crate::text::escape_line(reason, 1_000));
        trace.decision = Decision::Ask;
        trace.reason = Reason::HookAsk(reason);
    }
    // An approval of a high-risk call is never reused.
    trace.can_save_approval &= !ask.is_high_risk();
}

fn apply_approvals(
    trace: &mut AccessDecision,
    part: &AccessRequest,
    analysis: &CallAnalysis,
    modes: &[Mode],
    identity: &ToolIdentity,
    prior: PriorDecisions<'_>,
) {
    // An approval is bound to the input, which contains neither session variables nor the program that is typed into.
    trace.can_save_approval &= analysis.danger.is_none()
        && analysis.modifiers.session().is_empty()
        && analysis.typing_target().is_none();
    if trace.decision != Decision::Ask || !trace.can_save_approval {
        return;
    }
    for approval in prior
        .approvals
        .iter()
        .filter(|approval| approval.identity.is_same_tool(identity))
    {
        let outcome = match approval.why_inapplicable(analysis, modes, identity, prior.now_ms) {
            Some(obstacle) => obstacle,
            None if approval.narrowing.covers(part, analysis) => {
                trace.approved_by = Some(approval.id.clone());
                "covers it".to_owned()
            }
            None => "it covers other calls of the tool".to_owned(),
        };
        trace.approvals.push((approval.id.clone(), outcome));
        if trace.approved_by.is_some() {
            break;
        }
    }
}
