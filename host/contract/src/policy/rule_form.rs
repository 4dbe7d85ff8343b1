//! The string form of a rule: `Tool`, `Tool(specifier)`, `Bash(git *)`, `Read(~/.ssh/**)`, `WebFetch(domain:…)`.

use regex::Regex;
use serde_json::Value;

use super::argument_pattern::ArgumentPattern;
use super::call_analysis::{AccessKind, AccessRequest, CallAnalysis};
use super::domain_pattern::{DomainPattern, matches_wildcard};
use super::path_pattern::PathPattern;
use super::rule_spec::RuleSpec;
use super::tool_names::{NamePattern, ToolFamily, has_parameter};
use super::{Decision, PathContext};
use crate::{Descriptor, text};
use toolhost_shell_syntax as shell;

/// Input members that name the subject of a tool without paths, command or address, such as a skill or an agent.
pub(super) const TITLE_MEMBERS: [&str; 5] =
    ["skill", "name", "subagent_type", "agent", "agent_type"];

/// Input members that contain a command line.
pub(super) const COMMAND_MEMBERS: [&str; 2] = ["command", "cmd"];

/// A tool name with an optional target.
#[derive(Debug, Clone)]
pub(super) struct RuleForm {
    /// As written.
    pub shown: String,
    pub name: NamePattern,
    pub target: Option<RuleTarget>,
}

/// The target of a rule. An access is compared with the patterns for its kind.
#[derive(Debug, Clone, Default)]
pub(super) struct RuleTarget {
    pub paths: Vec<PathPattern>,
    pub commands: Vec<shell::CommandPattern>,
    pub command_regex: Option<Regex>,
    pub domains: Vec<DomainPattern>,
    /// Pattern with wildcards for destinations, by the sinks of the tool.
    pub destination: Option<String>,
    pub titles: Vec<String>,
    /// An input member and its pattern. With `commands`, it is one of two readings of `NAME:*`.
    pub argument: Option<ArgumentPattern>,
    /// The form is about a family of tools, such as `Bash`, and not about one tool.
    pub is_of_family: bool,
}

impl RuleForm {
    pub(super) fn parse(form: &str, path_context: &PathContext) -> Result<Self, String> {
        let form = form.trim();
        if form.len() > 8_192 {
            return Err("the rule is longer than 8192 bytes".to_owned());
        }
        let Some((name, rest)) = form.split_once('(') else {
            return Ok(Self {
                shown: text::escape_line(form, 200),
                name: NamePattern::parse(form)?,
                target: None,
            });
        };
        let name = NamePattern::parse(name)?;
        let Some(specifier) = rest.strip_suffix(')') else {
            return Err(format!(
                "`{}` is missing its closing `)`",
                text::escape_line(form, 120)
            ));
        };
        let specifier = specifier.trim();
        if specifier.is_empty() {
            return Err(format!(
                "`{}` has empty parentheses; omit them to match every call",
                text::escape_line(form, 120)
            ));
        }
        let target = if specifier == "*" {
            None
        } else {
            Some(RuleTarget::parse(name.family(), specifier, path_context)?)
        };
        Ok(Self {
            shown: text::escape_line(form, 200),
            name,
            target,
        })
    }
}

impl RuleTarget {
    fn parse(
        family: Option<ToolFamily>,
        specifier: &str,
        path_context: &PathContext,
    ) -> Result<Self, String> {
        let mut target = Self {
            is_of_family: family.is_some(),
            ..Self::default()
        };
        if let Some(domain) = specifier.strip_prefix("domain:") {
            target.domains.push(DomainPattern::parse(domain)?);
            return Ok(target);
        }
        if let Some(destination) = specifier.strip_prefix("destination:") {
            target.destination = Some(destination.trim().to_owned());
            return Ok(target);
        }
        let argument = specifier.split_once(':').filter(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        if let Some((name, value)) = argument {
            // `git:*` is also a command pattern: every command that starts with `git`.
            let is_ambiguous = value == "*" && matches!(family, None | Some(ToolFamily::Bash));
            match name {
                // A command line is evaluated command by command, never as one text.
                "command" if !is_ambiguous => {
                    target.commands.push(shell::CommandPattern::parse(value)?);
                }
                name => {
                    let value = Value::String(value.to_owned());
                    target.argument = Some(ArgumentPattern::new(name, value, path_context));
                }
            }
            if is_ambiguous {
                target
                    .commands
                    .push(shell::CommandPattern::parse(specifier)?);
                target
                    .titles
                    .extend(family.is_none().then(|| specifier.to_owned()));
            }
            return Ok(target);
        }
        match family {
            Some(ToolFamily::Bash) => target
                .commands
                .push(shell::CommandPattern::parse(specifier)?),
            Some(ToolFamily::Read | ToolFamily::Edit) => {
                target
                    .paths
                    .push(PathPattern::parse(specifier, path_context)?);
            }
            Some(ToolFamily::Fetch) => {
                return Err(format!(
                    "`{}` is not a target; write `domain:example.com`",
                    text::escape_line(specifier, 80)
                ));
            }
            // Which inputs the tool takes is known only when it is called.
            None => {
                let path = PathPattern::parse(specifier, path_context);
                let command = shell::CommandPattern::parse(specifier);
                if let (Err(error), Err(_)) = (&path, &command) {
                    return Err(error.clone());
                }
                target.paths.extend(path.ok());
                target.commands.extend(command.ok());
                target.titles.push(specifier.to_owned());
            }
        }
        Ok(target)
    }

    /// Target from the keys `path`, `command_prefix`, `command_regex` and `domain`; `None` if all are empty.
    pub(super) fn of_keys(
        spec: &RuleSpec,
        path_context: &PathContext,
    ) -> Result<Option<Self>, String> {
        let mut target = Self::default();
        for path in &spec.path {
            target.paths.push(PathPattern::parse(path, path_context)?);
        }
        for prefix in &spec.command_prefix {
            let prefix = prefix.trim();
            if prefix.is_empty() || prefix.contains('*') {
                return Err(format!(
                    "command_prefix `{}` is empty or contains `*`; write the first words of the command",
                    text::escape_line(prefix, 80)
                ));
            }
            target
                .commands
                .push(shell::CommandPattern::parse(&format!("{prefix}:*"))?);
        }
        if let Some(regex) = &spec.command_regex {
            target.command_regex = Some(super::rule::compile_regex(&format!("^(?:{regex})"))?);
        }
        for domain in &spec.domain {
            target.domains.push(DomainPattern::parse(domain)?);
        }
        let empty =
            target.paths.is_empty() && !target.names_commands() && target.domains.is_empty();
        Ok((!empty).then_some(target))
    }

    pub(super) fn names_commands(&self) -> bool {
        !self.commands.is_empty() || self.command_regex.is_some()
    }

    /// Whether an allow rule for `NAME:*` means calls with this parameter: it names a tool that has it, and that takes no
    /// command which could start with this word.
    pub(super) fn reads_as_parameter(&self, name: &str, tool: &Descriptor) -> bool {
        !self.is_of_family
            && has_parameter(tool, name)
            && !COMMAND_MEMBERS
                .iter()
                .any(|command| has_parameter(tool, command))
    }

    pub(super) fn matches(
        &self,
        part: &AccessRequest,
        analysis: &CallAnalysis,
        decision: Decision,
    ) -> bool {
        let input = analysis.request.input;
        let allows = decision == Decision::Allow;
        // A variable that the input does not name is not covered by an allow rule for the input.
        if allows && matches!(part.kind, AccessKind::Variable { named: false, .. }) {
            return false;
        }
        if let Some(pattern) = &self.destination {
            let subject = analysis.request.subject;
            let matches = |destination: &String| matches_wildcard(pattern, destination);
            let mut destinations = subject.destinations.iter();
            return if allows {
                !subject.has_unknown_destinations
                    && destinations.len() > 0
                    && destinations.all(matches)
            } else {
                subject.has_unknown_destinations || destinations.any(matches)
            };
        }
        if let Some(argument) = &self.argument {
            let is_given = argument.matches(analysis, decision);
            let decides = if allows {
                analysis.request.subject.command.is_none()
                    && self.reads_as_parameter(&argument.name, analysis.request.tool)
            } else {
                is_given
            };
            if decides || self.commands.is_empty() {
                return is_given;
            }
        }
        match &part.kind {
            AccessKind::Path { path_ref, .. } if allows => {
                self.paths.iter().any(|path| path.matches_all(path_ref))
            }
            AccessKind::Path { path_ref, .. } => {
                self.paths.iter().any(|path| path.may_match(path_ref))
            }
            AccessKind::Command(_) if allows && part.depends_on_other_directory => self
                .commands
                .iter()
                .any(shell::CommandPattern::is_everything),
            AccessKind::Command(command) if allows => self.allows_command(command),
            AccessKind::Command(command) => {
                self.commands
                    .iter()
                    .any(|pattern| pattern.may_match(command))
                    || self.command_regex.is_some()
                        && command
                            .match_texts()
                            .iter()
                            .any(|text| self.regex_matches(text))
            }
            AccessKind::Unknown(_) | AccessKind::Variable { .. } => false,
            AccessKind::Address {
                host: Some(host), ..
            } => self.domains.iter().any(|domain| domain.matches(host)),
            AccessKind::Address { host: None, named } => {
                *named && !allows && !self.domains.is_empty()
            }
            AccessKind::Call => self.titles.iter().any(|title| {
                TITLE_MEMBERS.iter().any(|member| {
                    let found = input.get(member).and_then(Value::as_str);
                    found.is_some_and(|found| matches_wildcard(title, found))
                })
            }),
        }
    }

    /// Whether a pattern or the expression covers the command. An expression has to name every occurrence of an option
    /// that runs programs or writes files.
    fn allows_command(&self, command: &shell::SimpleCommand) -> bool {
        if self.commands.iter().any(|pattern| pattern.matches(command)) {
            return true;
        }
        let mut words = command.words.iter();
        let is_known = command.assignments.is_empty() && words.all(|word| word.literal().is_some());
        let regex = self.command_regex.as_ref().map_or("", Regex::as_str);
        let names = |one: &shell::RiskyOption| {
            regex.contains(&one.option)
                && !one.is_matched_by_wildcard(command, |text| self.regex_matches(text))
        };
        is_known
            && self.regex_matches(&command.text())
            && shell::find_risky_options(command).iter().all(names)
    }

    fn regex_matches(&self, command: &str) -> bool {
        self.command_regex
            .as_ref()
            .is_some_and(|regex| regex.is_match(command))
    }
}
