//! The string form of a rule: `Tool`, `Tool(what)`, `Bash(git *)`, `Read(~/.ssh/**)`, `WebFetch(domain:…)`.

use regex::Regex;
use serde_json::Value;

use super::address::{DomainPattern, wildcard};
use super::facts::{Facts, Part, What};
use super::names::{Family, NamePattern};
use super::place::PathPattern;
use super::rule::argument;
use super::rule_spec::RuleSpec;
use super::{Decision, Places};
use crate::{shell, text};

/// Input members that name the subject of a tool without paths, command or address, such as a skill or an agent.
pub(super) const TITLES: [&str; 5] = ["skill", "name", "subagent_type", "agent", "agent_type"];

/// A tool name with an optional target.
#[derive(Debug, Clone)]
pub(super) struct Form {
    /// As written.
    pub shown: String,
    pub name: NamePattern,
    pub target: Option<Target>,
}

/// The target of a rule. An access is compared with the patterns for its kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Target {
    pub paths: Vec<PathPattern>,
    pub commands: Vec<shell::Pattern>,
    pub command_regex: Option<Regex>,
    pub domains: Vec<DomainPattern>,
    pub titles: Vec<String>,
    /// An input member and its pattern.
    pub argument: Option<(String, String)>,
}

impl Form {
    pub(super) fn parse(form: &str, places: &Places) -> Result<Self, String> {
        let form = form.trim();
        if form.len() > 8_192 {
            return Err("the rule is longer than 8192 bytes".to_owned());
        }
        let Some((name, rest)) = form.split_once('(') else {
            return Ok(Self {
                shown: text::inline(form, 200),
                name: NamePattern::parse(form)?,
                target: None,
            });
        };
        let name = NamePattern::parse(name)?;
        let Some(what) = rest.strip_suffix(')') else {
            return Err(format!(
                "`{}` is missing its closing `)`",
                text::inline(form, 120)
            ));
        };
        let what = what.trim();
        if what.is_empty() {
            return Err(format!(
                "`{}` has empty parentheses; omit them to match every call",
                text::inline(form, 120)
            ));
        }
        let target = if what == "*" {
            None
        } else {
            Some(Target::parse(name.family(), what, places)?)
        };
        Ok(Self {
            shown: text::inline(form, 200),
            name,
            target,
        })
    }
}

impl Target {
    fn parse(family: Option<Family>, what: &str, places: &Places) -> Result<Self, String> {
        let mut target = Self::default();
        if let Some(domain) = what.strip_prefix("domain:") {
            target.domains.push(DomainPattern::parse(domain)?);
            return Ok(target);
        }
        let argument = what.split_once(':').filter(|(name, value)| {
            let ident =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            // `git:*` is a command pattern: every command that starts with `git`.
            ident && (*value != "*" || family.is_some_and(|family| family != Family::Bash))
        });
        if let Some((name, value)) = argument {
            match name {
                // A command line is evaluated command by command, never as one text.
                "command" => target.commands.push(shell::Pattern::parse(value)?),
                name => target.argument = Some((name.to_owned(), value.to_owned())),
            }
            return Ok(target);
        }
        match family {
            Some(Family::Bash) => target.commands.push(shell::Pattern::parse(what)?),
            Some(Family::Read | Family::Edit) => {
                target.paths.push(PathPattern::parse(what, places)?);
            }
            Some(Family::Fetch) => {
                return Err(format!(
                    "`{}` is not a target; write `domain:example.com`",
                    text::inline(what, 80)
                ));
            }
            // Which inputs the tool takes is known only when it is called.
            None => {
                let path = PathPattern::parse(what, places);
                let command = shell::Pattern::parse(what);
                if let (Err(error), Err(_)) = (&path, &command) {
                    return Err(error.clone());
                }
                target.paths.extend(path.ok());
                target.commands.extend(command.ok());
                target.titles.push(what.to_owned());
            }
        }
        Ok(target)
    }

    /// Target from the keys `path`, `command_prefix`, `command_regex` and `domain`; `None` if all are empty.
    pub(super) fn of_keys(spec: &RuleSpec, places: &Places) -> Result<Option<Self>, String> {
        let mut target = Self::default();
        for path in &spec.path {
            target.paths.push(PathPattern::parse(path, places)?);
        }
        for prefix in &spec.command_prefix {
            let prefix = prefix.trim();
            if prefix.is_empty() || prefix.contains('*') {
                return Err(format!(
                    "command_prefix `{}` is empty or contains `*`; write the first words of the command",
                    text::inline(prefix, 80)
                ));
            }
            target
                .commands
                .push(shell::Pattern::parse(&format!("{prefix}:*"))?);
        }
        if let Some(regex) = &spec.command_regex {
            target.command_regex = Some(super::rule::regex(&format!("^(?:{regex})"))?);
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

    pub(super) fn matches(&self, part: &Part, analysis: &Facts, decision: Decision) -> bool {
        let input = analysis.request.input;
        let allows = decision == Decision::Allow;
        // A variable that the input does not name is not covered by an allow rule for the input.
        if allows && matches!(part.what, What::Variable { named: false, .. }) {
            return false;
        }
        if let Some((name, pattern)) = &self.argument {
            return argument(input, name, &Value::String(pattern.clone()));
        }
        match &part.what {
            What::Path { path_ref, .. } if allows => {
                self.paths.iter().any(|path| path.surely(path_ref))
            }
            What::Path { path_ref, .. } => self.paths.iter().any(|path| path.maybe(path_ref)),
            What::Command(command) if allows => {
                let known = || {
                    command.assignments.is_empty()
                        && command.words.iter().all(|word| word.literal().is_some())
                };
                self.commands.iter().any(|pattern| pattern.matches(command))
                    || known() && self.regex_finds(&command.text()) && self.regex_spells(command)
            }
            What::Command(command) => {
                self.commands
                    .iter()
                    .any(|pattern| pattern.could_match(command))
                    || self.command_regex.is_some()
                        && command.texts().iter().any(|text| self.regex_finds(text))
            }
            What::Unknown(_) | What::Variable { .. } => false,
            What::Address {
                host: Some(host), ..
            } => self.domains.iter().any(|domain| domain.matches(host)),
            What::Address { host: None, named } => *named && !allows && !self.domains.is_empty(),
            What::Whole => self.titles.iter().any(|title| {
                TITLES.iter().any(|member| {
                    let found = input.get(member).and_then(Value::as_str);
                    found.is_some_and(|found| wildcard(title, found))
                })
            }),
        }
    }

    /// Whether the expression contains each option of the command that runs programs or writes files.
    fn regex_spells(&self, command: &shell::Simple) -> bool {
        let regex = self.command_regex.as_ref().map_or("", Regex::as_str);
        let options = shell::risky_options(command);
        options.iter().all(|one| regex.contains(&one.option))
    }

    fn regex_finds(&self, command: &str) -> bool {
        self.command_regex
            .as_ref()
            .is_some_and(|regex| regex.is_match(command))
    }
}
