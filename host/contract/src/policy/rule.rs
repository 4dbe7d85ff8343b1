//! A rule: as it is written, and as it is compiled once so that a thousand of them cost a call next to nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::diagnostic::{Diagnostic, Source};
use super::example::Example;
use super::facts::{Facts, Part};
use super::form::{Form, Target};
use super::names::{Family, NamePattern};
use super::place::Spot;
use super::version::VersionReq;
use super::{Decision, Mode, Places};
use crate::text;

/// Who wrote a rule. A higher tier's word counts more, except that a deny counts from everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
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

    fn from_str(word: &str) -> Result<Self, String> {
        Tier::ALL
            .into_iter()
            .find(|tier| tier.as_str() == word)
            .ok_or_else(|| {
                format!(
                    "`{}` is not a tier; write default, extension, workspace, user or admin",
                    text::inline(word, 40)
                )
            })
    }
}

/// What stands in the text of a rule. Everything that is left out holds for every call.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleSpec {
    /// A stable name for records; without one it is the tier and the place, such as `user:3`.
    pub name: Option<String>,
    pub tier: Tier,
    /// 0 to 999; within a tier the highest wins.
    pub priority: u16,
    pub decision: Decision,
    /// `read_file`, `Bash(git *)`, `plugin/*`, `mcp__server`; one of them has to match.
    pub tools: Vec<String>,
    pub subagent: Option<String>,
    pub user: Option<String>,
    pub version: Option<String>,
    pub annotations: BTreeMap<String, bool>,
    /// A member's name, or a JSON pointer, and its value or pattern.
    pub args: BTreeMap<String, Value>,
    /// On the input as JSON with sorted members. For imported rules only.
    pub args_regex: Option<String>,
    pub command_prefix: Vec<String>,
    pub command_regex: Option<String>,
    pub path: Vec<String>,
    pub domain: Vec<String>,
    pub modes: Vec<Mode>,
    /// Holds only where a person can be asked (true), or only where nobody can (false).
    pub interactive: Option<bool>,
    /// An allow for a command holds for the files that it is redirected to.
    pub allow_redirection: bool,
    /// May a person's yes be kept?
    pub remember: bool,
    pub deny_message: Option<String>,
    pub reason: Option<String>,
    /// Calls that it must speak of, and calls that it must not; checked when it is compiled.
    pub matches: Vec<Example>,
    pub not_matches: Vec<Example>,
    pub source: Source,
}

impl RuleSpec {
    pub const PRIORITY: u16 = 100;
    pub const MAX_PRIORITY: u16 = 999;

    /// A rule of the user for one form such as `Bash(git *)`.
    pub fn new(decision: Decision, tool: impl Into<String>) -> Self {
        Self {
            name: None,
            tier: Tier::User,
            priority: Self::PRIORITY,
            decision,
            tools: vec![tool.into()],
            subagent: None,
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
            deny_message: None,
            reason: None,
            matches: Vec::new(),
            not_matches: Vec::new(),
            source: Source::default(),
        }
    }

    #[must_use]
    pub fn tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        self
    }

    #[must_use]
    pub fn at(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// `number` is the rule's place in its tier, from 1.
    pub fn compile(self, number: usize, places: &Places) -> Result<Rule, Diagnostic> {
        let source = self.source.clone();
        let (matches, not_matches) = (self.matches.clone(), self.not_matches.clone());
        self.build(number, places)
            .and_then(|rule| {
                super::example::check(&rule, &matches, &not_matches, places)?;
                Ok(rule)
            })
            .map_err(|message| Diagnostic::error(&source, message))
    }

    fn build(self, number: usize, places: &Places) -> Result<Rule, String> {
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
        let forms = self
            .tools
            .iter()
            .map(|tool| Form::parse(tool, places))
            .collect::<Result<Vec<_>, _>>()?;
        let target = Target::of_keys(&self, places)?;
        for name in self.annotations.keys() {
            if annotation(crate::Annotations::default(), name).is_none() {
                return Err(format!(
                    "`{}` is not an annotation; known are read_only, pure, destructive, idempotent, open_world, interactive",
                    text::inline(name, 40)
                ));
            }
        }
        let args = self
            .args
            .iter()
            .map(|(name, value)| match value {
                Value::Array(_) | Value::Object(_) => Err(format!(
                    "the matcher of `{}` is neither text nor a number nor true or false",
                    text::inline(name, 40)
                )),
                value => Ok((name.clone(), value.clone())),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let id = self
            .name
            .clone()
            .unwrap_or_else(|| format!("{}:{number}", self.tier));
        Ok(Rule {
            shown: text::inline(&self.tools.join(", "), 200),
            id: text::inline(&id, 80),
            tier: self.tier,
            priority: self.priority,
            decision: self.decision,
            deny_message: self.deny_message,
            reason: self.reason,
            remember: self.remember,
            modes: self.modes,
            source: self.source,
            allow_redirection: self.allow_redirection,
            forms,
            target,
            subagent: self.subagent,
            user: self.user,
            version: self.version.as_deref().map(VersionReq::parse).transpose()?,
            annotations: self.annotations.into_iter().collect(),
            args,
            args_regex: self.args_regex.as_deref().map(regex).transpose()?,
            interactive: self.interactive,
        })
    }
}

/// Linear in the length of the text, and bounded in size.
pub(super) fn regex(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(1 << 20)
        .build()
        .map_err(|error| {
            let shown = text::inline(pattern, 80);
            format!(
                "`{shown}` is not a regular expression: {}",
                text::inline(&error.to_string(), 200)
            )
        })
}

/// A compiled rule.
#[derive(Debug, Clone)]
pub struct Rule {
    pub(super) id: String,
    pub(super) shown: String,
    pub(super) tier: Tier,
    pub(super) priority: u16,
    pub(super) decision: Decision,
    pub(super) deny_message: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) remember: bool,
    pub(super) modes: Vec<Mode>,
    pub(super) source: Source,
    pub(super) allow_redirection: bool,
    pub(super) forms: Vec<Form>,
    pub(super) target: Option<Target>,
    pub(super) subagent: Option<String>,
    pub(super) user: Option<String>,
    pub(super) version: Option<VersionReq>,
    pub(super) annotations: Vec<(String, bool)>,
    pub(super) args: Vec<(String, Value)>,
    pub(super) args_regex: Option<Regex>,
    pub(super) interactive: Option<bool>,
}

impl Rule {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn tier(&self) -> Tier {
        self.tier
    }

    pub fn priority(&self) -> u16 {
        self.priority
    }

    pub fn decision(&self) -> Decision {
        self.decision
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The tools it names, as they were written.
    pub fn tools(&self) -> &str {
        &self.shown
    }

    /// `user:3 allow Bash(git *)`
    pub(super) fn label(&self) -> String {
        format!("{} {} `{}`", self.id, self.decision, self.shown)
    }

    /// Does everything hold that the rule asks of the call as a whole? `modes` are those of the session, the
    /// narrowest first.
    pub(super) fn applies(&self, facts: &Facts, modes: &[Mode], interactive: bool) -> bool {
        let allows = self.decision == Decision::Allow;
        let request = &facts.request;
        let mode = self.modes.is_empty()
            || if allows {
                modes.first().is_some_and(|mode| self.modes.contains(mode))
            } else {
                modes.iter().any(|mode| self.modes.contains(mode))
            };
        let hints = request.tool.annotations;
        mode && self.interactive.is_none_or(|wanted| wanted == interactive)
            && self.subagent.as_ref().is_none_or(|name| {
                *name == request.caller.agent_id && request.caller.parent_agent_id.is_some()
            })
            && self
                .user
                .as_ref()
                .is_none_or(|name| request.caller.user_id.as_ref() == Some(name))
            && self.version.as_ref().is_none_or(|wanted| {
                wanted.matches(&request.tool.version).unwrap_or(!allows)
            })
            // What an author left open may be either: that is enough to deny and not enough to allow.
            && self.annotations.iter().all(|(name, wanted)| {
                annotation(hints, name).flatten().map_or(!allows, |said| said == *wanted)
            })
            && self.fits_input(facts)
    }

    pub(super) fn fits_input(&self, facts: &Facts) -> bool {
        self.args
            .iter()
            .all(|(name, wanted)| argument(facts.request.input, name, wanted))
            && self
                .args_regex
                .as_ref()
                .is_none_or(|regex| regex.is_match(facts.sorted_input()))
    }

    /// Does it hold for every call of its tools?
    pub(super) fn is_unconditional(&self) -> bool {
        self.modes.is_empty()
            && self.interactive.is_none()
            && self.subagent.is_none()
            && self.user.is_none()
            && self.version.is_none()
            && self.annotations.is_empty()
            && self.args.is_empty()
            && self.args_regex.is_none()
    }

    /// Does the rule speak of this part of the call?
    pub(super) fn covers(&self, part: &Part, facts: &Facts) -> bool {
        self.speaks_of(part, facts) || self.allow_redirection && self.redirects(part, facts)
    }

    /// Would the rule speak of a command that could not be read, if one knew what it is?
    pub(super) fn may_cover(&self, part: &Part, facts: &Facts) -> bool {
        let by_command =
            |target: &Option<Target>| target.as_ref().is_some_and(Target::names_commands);
        self.decision != Decision::Allow
            && self.forms.iter().any(|form| {
                (by_command(&self.target) || by_command(&form.target))
                    && form.name.covers(part, facts, self.decision)
            })
    }

    /// Does it speak of reading this path, by whatever tool?
    pub(super) fn hides(&self, spot: &Spot) -> bool {
        self.forms.iter().any(|form| {
            let reads =
                matches!(form.name, NamePattern::All) || form.name.family() == Some(Family::Read);
            let mut targets = form.target.iter().chain(&self.target).peekable();
            let narrowed = targets.peek().is_some();
            reads
                && narrowed
                && targets.all(|target| target.paths.iter().any(|path| path.maybe(spot)))
        })
    }

    fn speaks_of(&self, part: &Part, facts: &Facts) -> bool {
        let fits = |target: &Option<Target>| {
            target
                .as_ref()
                .is_none_or(|target| target.matches(part, facts, self.decision))
        };
        self.forms
            .iter()
            .any(|form| form.name.covers(part, facts, self.decision) && fits(&form.target))
            && fits(&self.target)
    }

    /// A redirection of commands which the rule allows, every one of them.
    fn redirects(&self, part: &Part, facts: &Facts) -> bool {
        let mut commands = facts
            .parts
            .iter()
            .filter(|part| part.is_command())
            .peekable();
        self.decision == Decision::Allow
            && part.redirected
            && commands.peek().is_some()
            && commands.all(|command| self.speaks_of(command, facts))
    }
}

/// `None`: no such annotation.
#[expect(
    clippy::option_option,
    reason = "an unknown word differs from what an author left open"
)]
fn annotation(hints: crate::Annotations, name: &str) -> Option<Option<bool>> {
    Some(match name {
        "read_only" | "readOnlyHint" => hints.read_only,
        "pure" => hints.pure,
        "destructive" | "destructiveHint" => hints.destructive,
        "idempotent" | "idempotentHint" => hints.idempotent,
        "open_world" | "openWorldHint" => hints.open_world,
        "interactive" => hints.interactive,
        _ => return None,
    })
}

/// A member by name, or by JSON pointer, compared with a value; text may hold `*`.
pub(super) fn argument(input: &Value, name: &str, wanted: &Value) -> bool {
    let found = if name.starts_with('/') {
        input.pointer(name)
    } else {
        input.get(name)
    };
    match (found, wanted) {
        (Some(found), Value::String(pattern)) => super::address::scalar(found)
            .is_some_and(|found| super::address::wildcard(pattern, &found)),
        (Some(found), wanted) => found == wanted,
        (None, _) => false,
    }
}
