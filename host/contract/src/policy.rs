//! Who may do what: two pure functions, and the only way to a [`Grant`].
//!
//! The first cut of the rules. A tool that only reads, inside the paths its plugin was granted, may run; anything
//! else needs a rule or a person's yes, and where there is nobody to ask the answer is no. Every answer names the
//! rule that gave it.

use std::time::Duration;

use crate::{Descriptor, Effect, Limits, PluginName, ToolName};

/// Names of tools by decision: `name`, `plugin/name`, `plugin/*` or `*`. Deny beats ask beats allow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
}

/// How much of what the plugin was granted this call gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileAccess {
    Nothing,
    ReadOnly,
    AsGranted,
}

/// Permission for one call. Cannot be made outside this module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    files: FileAccess,
    environment: bool,
    timeout: Duration,
    by: String,
    _made_here: (),
}

impl Grant {
    pub fn files(&self) -> FileAccess {
        self.files
    }

    /// May the call see the variables that its plugin was granted?
    pub fn environment(&self) -> bool {
        self.environment
    }

    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The rule or person that allowed it.
    pub fn by(&self) -> &str {
        &self.by
    }
}

/// Everything a decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub plugin: &'a PluginName,
    /// The name the caller used for it, after qualification.
    pub name: &'a ToolName,
    pub tool: &'a Descriptor,
    /// From configuration or the plugin's manifest, before the tool's own wish.
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allow(Grant),
    /// The grant waits inside for an [`Answer`].
    Ask(Question),
    Deny(Denial),
}

/// What a person is asked. Holds the grant that a yes would release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub plugin: PluginName,
    pub tool: ToolName,
    pub effect: Effect,
    pub network: bool,
    pub reason: String,
    grant: Grant,
}

/// Only a prompter makes one, and only from what a person said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Allow,
    Deny {
        note: Option<String>,
    },
    /// There is no terminal and no other way to ask.
    NobodyToAsk,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    pub reason: String,
    pub remedy: Option<String>,
    /// `policy_violation` or `user_denied`.
    pub code: &'static str,
}

/// Looks at the rules, then at what the tool can do at worst.
pub fn decide(rules: &Rules, request: Request<'_>) -> Verdict {
    let Request {
        plugin, name, tool, ..
    } = request;
    let grant = |by: String| {
        let (files, environment) = match tool.effect() {
            Effect::Pure => (FileAccess::Nothing, false),
            Effect::Reads => (FileAccess::ReadOnly, true),
            Effect::Writes | Effect::Destroys => (FileAccess::AsGranted, true),
        };
        Grant {
            files,
            environment,
            timeout: timeout(request),
            by,
            _made_here: (),
        }
    };
    let question = |reason: String, grant: Grant| {
        Verdict::Ask(Question {
            plugin: plugin.clone(),
            tool: name.clone(),
            effect: tool.effect(),
            network: tool.annotations.open_world == Some(true),
            reason,
            grant,
        })
    };

    if let Some(rule) = find(&rules.deny, request) {
        return Verdict::Deny(Denial {
            reason: format!("rule deny `{rule}` forbids `{name}`"),
            remedy: Some(format!(
                "remove `{rule}` from the deny rules (--deny-tool, or `deny` under [policy])"
            )),
            code: "policy_violation",
        });
    }
    if let Some(rule) = find(&rules.ask, request) {
        return question(
            format!("rule ask `{rule}`"),
            grant(format!("a person, as rule ask `{rule}` wants")),
        );
    }
    if let Some(rule) = find(&rules.allow, request) {
        return Verdict::Allow(grant(format!("rule allow `{rule}`")));
    }
    let harmless = tool.effect() <= Effect::Reads
        && tool.annotations.open_world != Some(true)
        && tool.annotations.interactive != Some(true);
    if harmless {
        return Verdict::Allow(grant(
            "default: reads only, inside granted paths".to_owned(),
        ));
    }
    let reason = match tool.effect() {
        Effect::Pure | Effect::Reads => "it reaches beyond this machine or a person".to_owned(),
        Effect::Writes => "it changes files".to_owned(),
        Effect::Destroys => "it may destroy data".to_owned(),
    };
    question(reason, grant("a person".to_owned()))
}

/// Turns a person's answer into a grant or a refusal.
pub fn settle(question: Question, answer: Answer) -> Result<Grant, Denial> {
    match answer {
        Answer::Allow => Ok(question.grant),
        Answer::Deny { note } => Err(Denial {
            reason: match note {
                Some(note) => format!("the user said no to `{}`: {note}", question.tool),
                None => format!("the user said no to `{}`", question.tool),
            },
            remedy: None,
            code: "user_denied",
        }),
        Answer::NobodyToAsk => Err(Denial {
            reason: format!(
                "`{}` needs a person's yes ({}), and there is no terminal to ask at",
                question.tool, question.reason
            ),
            remedy: Some(format!(
                "to allow it: run host with --allow-tool {tool}, or put `allow = [\"{tool}\"]` under [policy] in toolhost.toml",
                tool = question.tool
            )),
            code: "policy_violation",
        }),
    }
}

/// Configuration beats the tool's own wish, which beats the default for its kind; nothing beats the maximum.
fn timeout(request: Request<'_>) -> Duration {
    let by_kind = if request.tool.annotations.open_world == Some(true) {
        Limits::NETWORK_TIMEOUT
    } else {
        Limits::TIMEOUT
    };
    request
        .timeout
        .or(request.tool.timeout)
        .unwrap_or(by_kind)
        .min(Limits::MAX_TIMEOUT)
}

fn find<'a>(patterns: &'a [String], request: Request<'_>) -> Option<&'a str> {
    patterns
        .iter()
        .map(String::as_str)
        .find(|pattern| match pattern.split_once('/') {
            None => {
                *pattern == "*"
                    || *pattern == request.name.as_str()
                    || *pattern == request.tool.name.as_str()
            }
            Some((plugin, tool)) => {
                plugin == request.plugin.as_str()
                    && (tool == "*" || tool == request.tool.name.as_str())
            }
        })
}

#[cfg(test)]
mod tests;
