//! The rules that a host passes to a host which one of its sub-agents starts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::domain_pattern::matches_wildcard;
use super::{
    Decision, Diagnostic, Inner, Mode, PathContext, Policy, PolicySpec, Restriction, Rule, RuleSpec,
};
use crate::Principal;

/// The rules and the mode of a session, for a sub-agent. Conditions on the caller, and on whether a user can be asked,
/// are already evaluated, because the other host has another user and other agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InheritedRules {
    configured_mode: Mode,
    /// The mode of the session.
    mode: Mode,
    rules: Vec<RuleSpec>,
    path_context: PathContext,
    plan_dir: Option<String>,
    protected: Vec<String>,
    allowed_paths: Vec<String>,
}

impl Policy {
    /// Returns the rules for a sub-agent `agent` of `caller` in a session with this mode.
    pub fn to_inherited(&self, mode: Mode, caller: &Principal, agent: &str) -> InheritedRules {
        let spec = &self.inner.spec;
        let rules = spec.rules.iter().zip(&self.inner.rules);
        InheritedRules {
            configured_mode: without_hooks(self.inner.configured_mode),
            mode: without_hooks(mode),
            rules: rules
                .filter(|(spec, _)| applies_to(spec, caller, agent))
                .filter(|(spec, _)| applies_without_user(spec, self.inner.interactive))
                .map(|(spec, rule)| for_any_caller(spec, rule))
                .filter_map(|rule| in_session_mode(rule, mode, self.mode))
                .collect(),
            path_context: spec.path_context.clone(),
            plan_dir: spec.plan_dir.clone(),
            protected: spec.protected.clone(),
            allowed_paths: spec.allowed_paths.clone(),
        }
    }
}

/// No user of the other host can be asked. An allow rule must apply there and here, another rule in one of both.
fn applies_without_user(rule: &RuleSpec, interactive: bool) -> bool {
    rule.interactive.is_none_or(|wanted| match rule.decision {
        Decision::Allow => !wanted && !interactive,
        Decision::Ask | Decision::Deny => !wanted || interactive,
    })
}

/// Mode default replaces mode custom, because hooks are not inherited: calls that they would decide are evaluated as in
/// mode default.
fn without_hooks(mode: Mode) -> Mode {
    match mode {
        Mode::Custom => Mode::Default,
        mode => mode,
    }
}

/// The rule for a host that knows only the mode of the session. `host` is the mode of the policy. `None`: it is an allow
/// rule of mode default, which does not apply in mode custom.
fn in_session_mode(mut rule: RuleSpec, session: Mode, host: Mode) -> Option<RuleSpec> {
    let applies_in = |mode| rule.modes.contains(&mode);
    match rule.decision {
        Decision::Ask | Decision::Deny if applies_in(session) || applies_in(host) => {
            rule.modes.push(without_hooks(session));
        }
        Decision::Allow
            if session == Mode::Custom && !rule.modes.is_empty() && !applies_in(Mode::Custom) =>
        {
            rule.modes.retain(|mode| *mode != Mode::Default);
            return (!rule.modes.is_empty()).then_some(rule);
        }
        Decision::Ask | Decision::Deny | Decision::Allow => {}
    }
    Some(rule)
}

/// Allow rules apply to the sub-agent. Other rules also apply if they are about the delegating agent, so that it cannot
/// avoid them with a sub-agent.
fn applies_to(rule: &RuleSpec, caller: &Principal, agent: &str) -> bool {
    let matches = |pattern: &Option<String>, stated: &str| {
        let pattern = pattern.as_ref();
        pattern.is_none_or(|pattern| matches_wildcard(pattern, stated))
    };
    let is_strict = rule.decision != Decision::Allow;
    let is_sub_agent = caller.parent_agent.is_some();
    let user = rule.user.as_deref();
    rule.subagent
        .as_deref()
        .is_none_or(|name| name == agent || is_strict && is_sub_agent && name == caller.agent)
        && (matches(&rule.agent, agent) || is_strict && matches(&rule.agent, &caller.agent))
        && matches(&rule.task, &caller.task)
        && user.is_none_or(|name| caller.user.name() == Some(name))
}

/// The rule under its id, without the conditions that were evaluated.
fn for_any_caller(spec: &RuleSpec, rule: &Rule) -> RuleSpec {
    RuleSpec {
        name: Some(rule.id.clone()),
        subagent: None,
        agent: None,
        task: None,
        user: None,
        interactive: None,
        matches: Vec::new(),
        not_matches: Vec::new(),
        ..spec.clone()
    }
}

impl Restriction {
    /// Returns the rules of each policy for a sub-agent `agent` of `caller`.
    pub fn to_inherited(&self, caller: &Principal, agent: &str) -> Vec<InheritedRules> {
        let layers = self.layers.iter();
        layers
            .map(|layer| layer.to_inherited(layer.mode, caller, agent))
            .collect()
    }
}

impl InheritedRules {
    /// Adds directories of the host to those to which a call was narrowed.
    #[must_use]
    pub fn with_directories(mut self, directories: &[String]) -> Self {
        if !self.allowed_paths.is_empty() {
            self.allowed_paths.extend_from_slice(directories);
        }
        self
    }

    /// Compiles the rules to limits for the calls of a host with the policy `own`. What the rules would ask about is
    /// denied, because no user of the other host can be asked.
    pub fn restriction(self, own: &Policy) -> Result<Restriction, Vec<Diagnostic>> {
        let mode = self.mode;
        let policy = Policy::new(PolicySpec {
            mode: self.configured_mode,
            rules: self.rules,
            path_context: self.path_context,
            plan_dir: self.plan_dir,
            protected: self.protected,
            allowed_paths: self.allowed_paths,
            ..PolicySpec::default()
        })?;
        let inner = policy.with_guest_paths_of(own);
        Ok(Restriction::new(Policy {
            mode,
            inner: Arc::new(Inner {
                is_inherited: true,
                ..inner
            }),
        }))
    }
}
