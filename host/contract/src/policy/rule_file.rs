//! Rules in TOML: `[[rule]]` tables with source positions for error messages.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::diagnostic::{Diagnostic, RuleSource};
use super::rule_example::{ExampleText, RuleExample};
use super::rule_spec::{RuleSpec, Tier};
use crate::{McpToolName, serde_errors};

/// Maximum size of a rule file in bytes.
const MAX_BYTES: usize = 1 << 20;

/// One `[[rule]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleTable {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    tool: Option<Spanned<OneOrMany>>,
    #[serde(default)]
    mcp: Option<Spanned<OneOrMany>>,
    #[serde(default)]
    subagent: Option<String>,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    task: Option<String>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    version: Option<Spanned<String>>,
    #[serde(default)]
    annotations: BTreeMap<String, bool>,
    #[serde(default)]
    args: BTreeMap<String, Value>,
    #[serde(default)]
    args_regex: Option<Spanned<String>>,
    #[serde(default)]
    command_prefix: Option<OneOrMany>,
    #[serde(default)]
    command_regex: Option<Spanned<String>>,
    #[serde(default)]
    path: Option<OneOrMany>,
    #[serde(default)]
    domain: Option<OneOrMany>,
    decision: Spanned<String>,
    #[serde(default)]
    priority: Option<Spanned<i64>>,
    #[serde(default)]
    deny_message: Option<String>,
    #[serde(default)]
    modes: Vec<Spanned<String>>,
    #[serde(default)]
    interactive: Option<bool>,
    #[serde(default)]
    allow_redirection: bool,
    #[serde(default = "default_true")]
    remember: bool,
    #[serde(default = "default_true")]
    programs: bool,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    safety_checker: Option<Spanned<Value>>,
    #[serde(default, rename = "match")]
    matches: Vec<Spanned<ExampleText>>,
    #[serde(default)]
    not_match: Vec<Spanned<ExampleText>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Vec<String> {
    fn from(texts: OneOrMany) -> Self {
        match texts {
            OneOrMany::One(text) => vec![text],
            OneOrMany::Many(texts) => texts,
        }
    }
}

fn default_true() -> bool {
    true
}

/// A file that contains only rules.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleFile {
    #[serde(default, rename = "rule")]
    rules: Vec<Spanned<RuleTable>>,
}

impl RuleFile {
    /// Parses a rule file. Returns every error found.
    pub fn parse(file: &str, text: &str, tier: Tier) -> Result<Vec<RuleSpec>, Vec<Diagnostic>> {
        if text.len() > MAX_BYTES {
            let message = format!(
                "{} bytes of rules exceed the limit of {MAX_BYTES}",
                text.len()
            );
            return Err(vec![Diagnostic::error(&RuleSource::file(file), message)]);
        }
        let parsed: Self = toml::from_str(text).map_err(|error| {
            let source = match error.span() {
                Some(span) => RuleSource::at_offset(file, text, span.start),
                None => RuleSource::file(file),
            };
            vec![Diagnostic::error(
                &source,
                serde_errors::describe_serde_error(error.message()),
            )]
        })?;
        RuleTable::all(parsed.rules, file, text, tier)
    }
}

impl RuleTable {
    /// Converts the rules of a larger file. `text` is the whole file.
    pub fn all(
        tables: Vec<Spanned<RuleTable>>,
        file: &str,
        text: &str,
        tier: Tier,
    ) -> Result<Vec<RuleSpec>, Vec<Diagnostic>> {
        let mut rules = Vec::with_capacity(tables.len());
        let mut wrong = Vec::new();
        for table in tables {
            let at = |span: Range<usize>| RuleSource::at_offset(file, text, span.start);
            let start = table.span();
            match table.into_inner().spec(tier, start, at) {
                Ok(rule) => rules.push(rule),
                Err(diagnostic) => wrong.push(diagnostic),
            }
        }
        if wrong.is_empty() {
            Ok(rules)
        } else {
            Err(wrong)
        }
    }

    fn spec(
        self,
        tier: Tier,
        start: Range<usize>,
        at: impl Fn(Range<usize>) -> RuleSource,
    ) -> Result<RuleSpec, Diagnostic> {
        let wrong = |span: Range<usize>, message: String| Diagnostic::error(&at(span), message);
        if let Some(checker) = self.safety_checker {
            let message =
                "safety_checker is not supported; remove it and use a hook to inspect calls";
            return Err(wrong(checker.span(), message.to_owned()));
        }
        let decision = self
            .decision
            .get_ref()
            .parse()
            .map_err(|message| wrong(self.decision.span(), message))?;
        let source = self
            .tool
            .as_ref()
            .or(self.mcp.as_ref())
            .map_or_else(|| at(start.clone()), |names| at(names.span()));
        let (tools, servers) = (listed(self.tool), listed(self.mcp));
        if tools.is_empty() && servers.is_empty() {
            let message = "a rule names no tool; write `tool = \"…\"`, `mcp = \"server\"`, or `tool = \"*\"` for all";
            return Err(wrong(start, message.to_owned()));
        }
        let priority = self
            .priority
            .as_ref()
            .map_or(Ok(RuleSpec::PRIORITY), |number| {
                priority(*number.get_ref()).map_err(|message| wrong(number.span(), message))
            })?;
        let mode = |name: &Spanned<String>| {
            let mode = name.get_ref().parse();
            mode.map_err(|error: super::UnknownMode| wrong(name.span(), error.to_string()))
        };
        let modes = self.modes.iter().map(mode).collect::<Result<_, _>>()?;
        let example = |one: Spanned<ExampleText>| match one.get_ref().clone() {
            ExampleText::Call(call) => Ok(call.into()),
            ExampleText::Form(form) => form
                .parse::<RuleExample>()
                .map_err(|message| wrong(one.span(), message)),
        };
        Ok(RuleSpec {
            name: self.name,
            tier,
            priority,
            decision,
            tools: McpToolName::forms(&servers, tools),
            subagent: self.subagent,
            agent: self.agent,
            task: self.task,
            user: self.user,
            version: self.version.map(Spanned::into_inner),
            annotations: self.annotations,
            args: self.args,
            args_regex: self.args_regex.map(Spanned::into_inner),
            command_prefix: self.command_prefix.map(Into::into).unwrap_or_default(),
            command_regex: self.command_regex.map(Spanned::into_inner),
            path: self.path.map(Into::into).unwrap_or_default(),
            domain: self.domain.map(Into::into).unwrap_or_default(),
            modes,
            interactive: self.interactive,
            allow_redirection: self.allow_redirection,
            remember: self.remember,
            programs: self.programs,
            yields_to_mode: false,
            deny_message: self.deny_message,
            reason: self.reason,
            matches: self
                .matches
                .into_iter()
                .map(example)
                .collect::<Result<_, _>>()?,
            not_matches: self
                .not_match
                .into_iter()
                .map(example)
                .collect::<Result<_, _>>()?,
            source,
        })
    }
}

fn listed(names: Option<Spanned<OneOrMany>>) -> Vec<String> {
    names.map_or_else(Vec::new, |names| names.into_inner().into())
}

fn priority(number: i64) -> Result<u16, String> {
    let valid = u16::try_from(number).ok();
    valid
        .filter(|number| *number <= RuleSpec::MAX_PRIORITY)
        .ok_or_else(|| {
            format!(
                "priority {number} is not between 0 and {}",
                RuleSpec::MAX_PRIORITY
            )
        })
}
