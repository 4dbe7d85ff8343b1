//! Evaluation of the accesses of a call. One pass both decides and records how it decided.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::facts::{Facts, Part, What};
use super::names::{Family, NamePattern};
use super::rule::Rule;
use super::{Approval, Column, Decision, HookSaid, Identity, Inner, Mode, Policy, RuleSpec, Tier};
use crate::Effect;

/// The reason for the decision on an access. A rule is an index into the policy's rules.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Because {
    Rule(usize),
    HookAllows(String),
    HookAsks(Option<String>),
    Mode(Mode, Column),
    /// The command or its redirection target cannot be determined.
    Unreadable,
    /// The call may change files without naming them, and this rule protects some files.
    Unnamed(usize),
    /// Requested by a tool's result, which does not authorize side effects.
    Tail,
    /// Outside the allowed paths.
    Outside(String),
}

/// How one access was decided.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    pub shown: String,
    /// Matching rules, the strongest of each tier first.
    pub matched: Vec<usize>,
    /// The deciding rule of each tier, from low to high.
    pub tiers: [Option<usize>; 5],
    /// The decision before saved approvals were considered.
    pub decision: Decision,
    pub because: Because,
    /// Ids of the saved approvals considered, with the result for each.
    pub approvals: Vec<(String, String)>,
    pub approved_by: Option<String>,
    pub may_remember: bool,
}

impl Trace {
    pub(super) fn outcome(&self) -> Decision {
        match (&self.approved_by, self.decision) {
            (Some(_), Decision::Ask) => Decision::Allow,
            (_, decision) => decision,
        }
    }
}

/// Index of rules by name, so that a call is compared only with rules that can match it.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    by_name: HashMap<String, Vec<usize>>,
    by_plugin: HashMap<String, Vec<usize>>,
    /// Rules that match only foreign tools.
    servers: Vec<usize>,
    by_family: [Vec<usize>; 4],
    rest: Vec<usize>,
}

impl Index {
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

    fn candidates(&self, analysis: &Facts) -> Vec<usize> {
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
        for family in Family::ALL {
            // A deny matches more than an allow, so this finds every rule that can match. A command may name any path.
            if analysis.runs_command
                || analysis.writes_unnamed
                || analysis
                    .parts
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
pub(super) struct Said<'a> {
    pub hooks: &'a HookSaid,
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
        modes
    }

    pub(super) fn walk(&self, analysis: &Facts, said: Said<'_>) -> Vec<Trace> {
        let modes = self.modes(analysis.request.mode);
        let live = self.live(analysis, &modes);
        let identity = Identity::of(&analysis.request);
        analysis
            .parts
            .iter()
            .map(|part| {
                let mut trace = self.rules_on(part, analysis, &live);
                // A hook sees the input but not the variables of the session.
                if analysis.steering.session().is_empty() {
                    self.hook_allows(&mut trace, said.hooks);
                }
                if trace.matched.is_empty() && !matches!(trace.because, Because::HookAllows(_)) {
                    (trace.decision, trace.because) = self.modes_on(part, analysis, &modes);
                }
                if let Some(path) = self.outside(part) {
                    (trace.decision, trace.because) = (Decision::Deny, Because::Outside(path));
                }
                self.careful(&mut trace, part, analysis, &live, &modes);
                self.unnamed(&mut trace, analysis, &live);
                tail_asks(&mut trace, analysis);
                hook_asks(&mut trace, said.hooks);
                look_up(&mut trace, part, analysis, &modes, &identity, said);
                trace
            })
            .collect()
    }

    /// Finds an access that the allowed paths or a rule forbid regardless of hooks.
    pub(super) fn forbidding(&self, analysis: &Facts) -> Option<Trace> {
        let modes = self.modes(analysis.request.mode);
        let live = self.live(analysis, &modes);
        analysis.parts.iter().find_map(|part| {
            let mut trace = self.rules_on(part, analysis, &live);
            if let Some(path) = self.outside(part) {
                trace.because = Because::Outside(path);
                return Some(trace);
            }
            (trace.decision == Decision::Deny && matches!(trace.because, Because::Rule(_)))
                .then_some(trace)
        })
    }

    fn live(&self, analysis: &Facts, modes: &[Mode]) -> Vec<usize> {
        let mut live = self.inner.index.candidates(analysis);
        live.retain(|at| self.is_live(*at, analysis, modes));
        live
    }

    /// Filters rules to those whose conditions on the whole call hold.
    pub(super) fn live_among(
        &self,
        rules: impl Iterator<Item = usize>,
        analysis: &Facts,
    ) -> Vec<usize> {
        let modes = self.modes(analysis.request.mode);
        rules
            .filter(|at| self.is_live(*at, analysis, &modes))
            .collect()
    }

    fn is_live(&self, at: usize, analysis: &Facts, modes: &[Mode]) -> bool {
        let rule = &self.inner.rules[at];
        let narrowed = modes
            .first()
            .is_some_and(|mode| *mode < self.inner.configured_mode);
        !(narrowed && rule.yields_to_mode) && rule.applies(analysis, modes, self.inner.interactive)
    }

    /// Matches rules against an access. Within a tier the highest priority decides, of equals the strictest. Across
    /// tiers a deny applies from every tier, otherwise the highest tier decides.
    fn rules_on(&self, part: &Part, analysis: &Facts, live: &[usize]) -> Trace {
        let rules = &self.inner.rules;
        let mut matched: Vec<usize> = live
            .iter()
            .copied()
            .filter(|at| rules[*at].covers(part, analysis))
            .collect();
        self.inner.sort(&mut matched);
        // An ask that matches only an alias requested by the tool must not replace an equally strict rule, because a
        // hook or a saved approval could answer it.
        let given = matched
            .iter()
            .copied()
            .filter(|at| !rules[*at].is_wished_for(part, analysis));
        let (mut tiers, mut winner) = self.inner.spokesman(given);
        if winner.is_none_or(|at| rules[at].decision == Decision::Allow) {
            (tiers, winner) = self.inner.spokesman(matched.iter().copied());
        }
        let (decision, because, may_remember) = match winner {
            Some(at) => (rules[at].decision, Because::Rule(at), rules[at].remember),
            // Overwritten by the mode's decision.
            None => (Decision::Deny, Because::Unreadable, true),
        };
        Trace {
            shown: part.shown(),
            matched,
            tiers,
            decision,
            because,
            approvals: Vec::new(),
            approved_by: None,
            may_remember,
        }
    }

    /// Applies a hook's allow, which counts like an allow rule of the user with default priority. It does not override
    /// a deny, an administrator's ask, or a user's ask of at least that priority.
    fn hook_allows(&self, trace: &mut Trace, hooks: &HookSaid) {
        let Some(reason) = &hooks.allow else { return };
        let beaten = match trace.because {
            Because::Rule(at) => {
                let rule = &self.inner.rules[at];
                rule.decision != Decision::Deny
                    && (rule.tier < Tier::User
                        || rule.tier == Tier::User && rule.priority < RuleSpec::PRIORITY)
            }
            _ => trace.matched.is_empty(),
        };
        if beaten {
            trace.decision = Decision::Allow;
            trace.because = Because::HookAllows(crate::text::inline(reason, 200));
        }
    }

    /// The strictest decision of all modes for every class of the access.
    fn modes_on(&self, part: &Part, analysis: &Facts, modes: &[Mode]) -> (Decision, Because) {
        let mut worst = (Decision::Allow, Because::Mode(modes[0], part.columns[0]));
        for mode in modes {
            for column in &part.columns {
                let decision = self.mode_on(*mode, *column, part, analysis);
                if decision > worst.0 {
                    worst = (decision, Because::Mode(*mode, *column));
                }
            }
        }
        worst
    }

    fn mode_on(&self, mode: Mode, column: Column, part: &Part, analysis: &Facts) -> Decision {
        let planning = mode == Mode::Plan;
        match column {
            Column::Write | Column::Protected if planning && self.is_plan(part, analysis) => {
                Decision::Allow
            }
            Column::Exec if planning && analysis.reads_only => Decision::Ask,
            // A foreign server's `read_only` is only a hint, which the user may accept.
            Column::Other
                if planning
                    && analysis.foreign
                    && analysis.request.tool.annotations.read_only == Some(true) =>
            {
                Decision::Ask
            }
            column => mode.says(column),
        }
    }

    /// Whether the access writes a plan below `plan_dir`.
    fn is_plan(&self, part: &Part, analysis: &Facts) -> bool {
        let (
            Some(dir),
            What::Path {
                path_ref,
                write: true,
                ..
            },
        ) = (&self.inner.plan_dir, &part.what)
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

    fn outside(&self, part: &Part) -> Option<String> {
        let What::Path {
            path_ref, shown, ..
        } = &part.what
        else {
            return None;
        };
        let allowed = &self.inner.allowed_paths;
        let inside = allowed.is_empty() || allowed.iter().any(|dir| path_ref.is_below(dir));
        (!inside).then(|| shown.clone())
    }

    /// Requires approval for an unknown command or redirection. Only mode yolo allows it, and only if no rule restricts
    /// commands or files.
    fn careful(
        &self,
        trace: &mut Trace,
        part: &Part,
        analysis: &Facts,
        live: &[usize],
        modes: &[Mode],
    ) {
        let What::Unknown(_) = part.what else { return };
        trace.may_remember = false;
        let looked_into = || {
            live.iter()
                .any(|at| self.inner.rules[*at].may_cover(part, analysis))
        };
        let free = modes.iter().all(|mode| *mode == Mode::Yolo) && !looked_into();
        if trace.decision == Decision::Allow && !free {
            (trace.decision, trace.because) = (Decision::Ask, Because::Unreadable);
        }
    }

    /// Requires approval if a mode alone allows unnamed writes while a rule protects files. Foreign tools are exempt:
    /// they change files elsewhere.
    fn unnamed(&self, trace: &mut Trace, analysis: &Facts, live: &[usize]) {
        let by_mode = matches!(trace.because, Because::Mode(..));
        let passes = by_mode && trace.decision == Decision::Allow;
        if !passes || !analysis.writes_unnamed || analysis.foreign {
            return;
        }
        let guards = |at: &&usize| self.inner.rules[**at].guards_files();
        if let Some(at) = live.iter().find(guards) {
            (trace.decision, trace.because) = (Decision::Ask, Because::Unnamed(*at));
        }
    }
}

impl Inner {
    fn sort(&self, matched: &mut [usize]) {
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
    fn spokesman(
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
    pub(super) fn strongest(&self, mut matched: Vec<usize>) -> Option<usize> {
        self.sort(&mut matched);
        self.spokesman(matched.into_iter()).1
    }
}

/// Whether a call requested by a tool's result needs approval. It does if it has side effects; a foreign server's hints
/// do not prove otherwise.
fn is_doubtful_tail(analysis: &Facts) -> bool {
    let request = &analysis.request;
    request.tail && (analysis.foreign || request.tool.effect() > Effect::Reads)
}

fn tail_asks(trace: &mut Trace, analysis: &Facts) {
    if !is_doubtful_tail(analysis) {
        return;
    }
    if trace.decision == Decision::Allow {
        (trace.decision, trace.because) = (Decision::Ask, Because::Tail);
    }
    // Saved approvals do not apply, and this approval is not saved.
    trace.may_remember = false;
}

/// Requires approval if a hook asks, whatever the rules allow.
fn hook_asks(trace: &mut Trace, hooks: &HookSaid) {
    let Some(ask) = &hooks.ask else { return };
    if trace.decision == Decision::Allow {
        let reason = ask
            .reason
            .as_deref()
            .map(|reason| crate::text::inline(reason, 300));
        trace.decision = Decision::Ask;
        trace.because = Because::HookAsks(reason);
    }
    // An approval of a high-risk call is never reused.
    trace.may_remember &= !ask.is_high_risk();
}

fn look_up(
    trace: &mut Trace,
    part: &Part,
    analysis: &Facts,
    modes: &[Mode],
    identity: &Identity,
    said: Said<'_>,
) {
    // An approval is bound to the input, which contains neither session variables nor the program that is typed into.
    trace.may_remember &= analysis.danger.is_none()
        && analysis.steering.session().is_empty()
        && analysis.types_into().is_none();
    if trace.decision != Decision::Ask || !trace.may_remember {
        return;
    }
    for approval in said
        .approvals
        .iter()
        .filter(|approval| approval.identity.is_same_tool(identity))
    {
        let outcome = match approval.obstacle(analysis, modes, identity, said.now_ms) {
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
