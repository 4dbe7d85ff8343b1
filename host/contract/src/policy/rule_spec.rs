//! Uncompiled rules: plain values, whatever file or flag they come from.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::argument_pattern::ArgumentPattern;
use super::diagnostic::{Diagnostic, RuleSource};
use super::rule::{Rule, annotation_value, compile_regex};
use super::rule_example::RuleExample;
use super::rule_form::{RuleForm, RuleTarget};
use super::{Decision, Mode, PathContext};
use crate::text;
use crate::version::{VersionReq, split_version};

/// Origin of a rule. A higher tier takes precedence, except that a deny applies from every tier.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    Default,
    Extension,
    Workspace,
    #[default]
    User,
    Admin,
}

impl Tier {
    pub const ALL: [Tier; 5] = [
        Tier::Default,
        Tier::Extension,
        Tier::Workspace,
        Tier::User,
        Tier::Admin,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Tier::Default => "default",
            Tier::Extension => "extension",
            Tier::Workspace => "workspace",
            Tier::User => "user",
            Tier::Admin => "admin",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Tier::ALL
            .into_iter()
            .find(|tier| tier.as_str() == name)
            .ok_or_else(|| {
                format!(
                    "`{}` is not a tier; write default, extension, workspace, user or admin",
                    text::escape_line(name, 40)
                )
            })
    }
}

/// The contents of a rule. Unset conditions match every call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// A stable id for records; default: tier and number, such as `user:3`.
    pub name: Option<String>,
    pub tier: Tier,
    /// 0 to 999; within a tier the highest priority decides.
    pub priority: u16,
    pub decision: Decision,
    /// `read_file`, `Bash(git *)`, `plugin/*`, `mcp__server`; at least one has to match.
    pub tools: Vec<String>,
    pub subagent: Option<String>,
    /// Patterns for the agent and the task that the program of the caller states.
    pub agent: Option<String>,
    pub task: Option<String>,
    pub user: Option<String>,
    pub version: Option<String>,
    pub annotations: BTreeMap<String, bool>,
    /// Name or JSON pointer of an input member, and its value or pattern.
    pub args: BTreeMap<String, Value>,
    /// Matched against the input as JSON with sorted members. For imported rules only.
    pub args_regex: Option<String>,
    pub command_prefix: Vec<String>,
    pub command_regex: Option<String>,
    pub path: Vec<String>,
    pub domain: Vec<String>,
    pub modes: Vec<Mode>,
    /// Applies only if the user can be prompted (`true`) or cannot (`false`).
    pub interactive: Option<bool>,
    /// An allow rule for a command also covers files it is redirected to.
    pub allow_redirection: bool,
    /// Whether an approval can be saved.
    pub remember: bool,
    /// An allow rule that does not apply in sessions with a stricter mode than the configured one.
    pub yields_to_mode: bool,
    /// A deny or ask rule for reads also applies to programs.
    pub programs: bool,
    pub deny_message: Option<String>,
    pub reason: Option<String>,
    /// Calls that the rule must match, and calls that it must not; checked when it is compiled.
    #[serde(skip)]
    pub matches: Vec<RuleExample>,
    #[serde(skip)]
    pub not_matches: Vec<RuleExample>,
    #[serde(skip)]
    pub source: RuleSource,
}

impl RuleSpec {
    pub const PRIORITY: u16 = 100;
    pub const MAX_PRIORITY: u16 = 999;

    /// Creates a user rule for one form such as `Bash(git *)`. A deny has the highest priority, so that no allow of the
    /// same tier overrides it, whatever priority a rule file or an import sets.
    pub fn new(decision: Decision, tool: impl Into<String>) -> Self {
        Self {
            name: None,
            tier: Tier::User,
            priority: match decision {
                Decision::Deny => Self::MAX_PRIORITY,
                Decision::Ask | Decision::Allow => Self::PRIORITY,
            },
            decision,
            tools: vec![tool.into()],
            subagent: None,
            agent: None,
            task: None,
            user: None,
            version: None,
            annotations: BTreeMap::new(),
            args: BTreeMap::new(),
            args_regex: None,
            command_prefix: Vec::new(),
            command_regex: None,
            path: Vec::new(),
            domain: Vec::new(),
            modes: Vec::new(),
            interactive: None,
            allow_redirection: false,
            remember: true,
            yields_to_mode: false,
            programs: true,
            deny_message: None,
            reason: None,
            matches: Vec::new(),
            not_matches: Vec::new(),
            source: RuleSource::default(),
        }
    }

    #[must_use]
    pub fn tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        self
    }

    #[must_use]
    pub fn at(mut self, source: RuleSource) -> Self {
        self.source = source;
        self
    }

    /// Compiles the rule. `number` is its position in its tier, from 1.
    pub fn compile(self, number: usize, path_context: &PathContext) -> Result<Rule, Diagnostic> {
        let source = self.source.clone();
        let (matches, not_matches) = (self.matches.clone(), self.not_matches.clone());
        self.build(number, path_context)
            .and_then(|rule| {
                super::rule_example::check_examples(&rule, &matches, &not_matches, path_context)?;
                Ok(rule)
            })
            .map_err(|message| Diagnostic::error(&source, message))
    }

    fn build(self, number: usize, path_context: &PathContext) -> Result<Rule, String> {
        if self.priority > Self::MAX_PRIORITY {
            return Err(format!(
                "priority {} is above {}",
                self.priority,
                Self::MAX_PRIORITY
            ));
        }
        if self.tools.is_empty() {
            return Err(
                "a rule names no tool; write `tool = \"…\"`, or `tool = \"*\"` for all".to_owned(),
            );
        }
        let (tools, version) = self.versioned()?;
        let forms = tools
            .iter()
            .map(|tool| RuleForm::parse(tool, path_context))
            .collect::<Result<Vec<_>, _>>()?;
        let target = RuleTarget::of_keys(&self, path_context)?;
        for name in self.annotations.keys() {
            if annotation_value(crate::Annotations::default(), name).is_none() {
                return Err(format!(
                    "`{}` is not an annotation; use read_only, pure, destructive, idempotent, open_world, interactive",
                    text::escape_line(name, 40)
                ));
            }
        }
        let args = self
            .args
            .iter()
            .map(|(name, value)| match value {
                Value::Array(_) | Value::Object(_) => Err(format!(
                    "the matcher of `{}` is not a string, number or boolean",
                    text::escape_line(name, 40)
                )),
                value => Ok(ArgumentPattern::new(name, value.clone(), path_context)),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let id = self
            .name
            .clone()
            .unwrap_or_else(|| format!("{}:{number}", self.tier));
        Ok(Rule {
            tools_text: text::escape_line(&self.tools.join(", "), 200),
            id: text::escape_line(&id, 80),
            tier: self.tier,
            priority: self.priority,
            decision: self.decision,
            deny_message: self.deny_message,
            reason: self.reason,
            remember: self.remember,
            yields_to_mode: self.yields_to_mode && self.decision == Decision::Allow,
            programs: self.programs,
            modes: self.modes,
            source: self.source,
            allow_redirection: self.allow_redirection,
            forms,
            target,
            subagent: self.subagent,
            agent: self.agent,
            task: self.task,
            user: self.user,
            version,
            annotations: self.annotations.into_iter().collect(),
            args,
            args_regex: self.args_regex.as_deref().map(compile_regex).transpose()?,
            interactive: self.interactive,
        })
    }

    /// Splits off the version that a form may contain: `grep@1.2.3`, `Bash@^2(git *)`.
    fn versioned(&self) -> Result<(Vec<String>, Option<VersionReq>), String> {
        let mut version = self.version.as_deref().map(VersionReq::parse).transpose()?;
        let mut tools = Vec::with_capacity(self.tools.len());
        for form in &self.tools {
            let (name, specifier) = form.split_at(form.find('(').unwrap_or(form.len()));
            let (name, wanted) = split_version(name);
            if let Some(wanted) = wanted {
                if version.is_some() || self.tools.len() > 1 {
                    return Err(format!(
                        "`{}` names a version next to another tool or version; write a separate rule for it",
                        text::escape_line(form, 120)
                    ));
                }
                version = Some(VersionReq::parse(wanted)?);
            }
            tools.push(format!("{name}{specifier}"));
        }
        Ok((tools, version))
    }
}
