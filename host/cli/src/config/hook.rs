//! `[[hook]]` tables: what a hook runs, which calls it matches, and the effect of its failure.

use std::time::Duration;

use serde::Deserialize;
use toolhost_contract::{PluginName, nearest, text};
use toolhost_kernel::hooks::{HookEvent, Matcher};

use super::external_access::CommandLine;
use super::{Variable, values};

/// A validated hook.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "HookFields")]
pub struct HookTable {
    /// For messages and records.
    pub name: String,
    pub matcher: Option<MatcherText>,
    pub on: Vec<HookEvent>,
    pub target: HookTarget,
    pub on_failure: Option<OnFailure>,
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum HookTarget {
    /// A program, which runs with the privileges of the host process.
    Command {
        program: String,
        args: Vec<String>,
        /// Names of environment variables to pass to it.
        env: Vec<Variable>,
    },
    /// A loaded plugin that exports hooks.
    Plugin(PluginName),
    /// A cache that answers repeated reads from memory.
    ReadCache {
        /// How long a result is kept.
        ttl: Option<Duration>,
    },
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HookFields {
    name: Option<String>,
    #[serde(deserialize_with = "values::text")]
    matcher: Option<MatcherText>,
    #[serde(deserialize_with = "values::text_list")]
    on: Option<Vec<HookEventName>>,
    command: Option<CommandLine>,
    plugin: Option<PluginName>,
    builtin: Option<BuiltinHook>,
    on_failure: Option<OnFailure>,
    #[serde(deserialize_with = "values::duration")]
    timeout: Option<Duration>,
    #[serde(deserialize_with = "values::duration")]
    ttl: Option<Duration>,
    env: Vec<Variable>,
}

impl TryFrom<HookFields> for HookTable {
    type Error = String;

    fn try_from(written: HookFields) -> Result<Self, String> {
        let target = written.target()?;
        if written.ttl.is_some() && !matches!(target, HookTarget::ReadCache { .. }) {
            return Err("`ttl` requires `builtin = \"read-cache\"`".to_owned());
        }
        if !written.env.is_empty() && !matches!(target, HookTarget::Command { .. }) {
            return Err("`env` requires a hook with a `command`".to_owned());
        }
        let on: Option<Vec<HookEvent>> = written
            .on
            .map(|on| on.into_iter().map(|moment| moment.0).collect());
        let both = vec![HookEvent::BeforeTool, HookEvent::AfterTool];
        let on = match (&target, on) {
            (_, Some(on)) if on.is_empty() => {
                return Err("`on` is empty, so the hook would never run".to_owned());
            }
            (HookTarget::ReadCache { .. }, Some(_)) => {
                return Err(
                    "the read-cache always runs before and after calls; omit `on`".to_owned(),
                );
            }
            (HookTarget::Plugin(_), Some(on)) if on.contains(&HookEvent::MessagesChanged) => {
                return Err("a plugin hook only supports `before` and `after`".to_owned());
            }
            (_, Some(on)) => on,
            (HookTarget::Command { .. }, None) => vec![HookEvent::BeforeTool],
            (HookTarget::Plugin(_) | HookTarget::ReadCache { .. }, None) => both,
        };
        let name = match (written.name, &target) {
            (Some(name), _) => name,
            (None, HookTarget::Command { program, .. }) => {
                program.rsplit('/').next().unwrap_or(program).to_owned()
            }
            (None, HookTarget::Plugin(plugin)) => plugin.to_string(),
            (None, HookTarget::ReadCache { .. }) => "read-cache".to_owned(),
        };
        if name.is_empty() || name.len() > 64 || text::escape_line(&name, 64) != name {
            return Err(format!(
                "`{}` is not a valid hook name; use at most 64 printable characters",
                text::escape_line(&name, 80)
            ));
        }
        Ok(Self {
            name,
            matcher: written.matcher,
            on,
            target,
            on_failure: written.on_failure,
            timeout: written.timeout,
        })
    }
}

impl HookFields {
    fn target(&self) -> Result<HookTarget, String> {
        match (&self.command, &self.plugin, self.builtin) {
            (Some(CommandLine { program, args }), None, None) => Ok(HookTarget::Command {
                program: program.clone(),
                args: args.clone(),
                env: self.env.clone(),
            }),
            (None, Some(plugin), None) => Ok(HookTarget::Plugin(plugin.clone())),
            (None, None, Some(BuiltinHook::ReadCache)) => Ok(HookTarget::ReadCache { ttl: self.ttl }),
            _ => Err(
                "a hook needs exactly one of `command = [\"program\"]`, `plugin = \"name\"` and `builtin = \"read-cache\"`"
                    .to_owned(),
            ),
        }
    }
}

/// A validated pattern of tool names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatcherText(pub String);

impl std::str::FromStr for MatcherText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match Matcher::parse(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// When a hook runs: `before`, `after` or `messages`, or an event name of another system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HookEventName(HookEvent);

impl std::str::FromStr for HookEventName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let event = match name {
            "before" => HookEvent::BeforeTool,
            "after" => HookEvent::AfterTool,
            "messages" => HookEvent::MessagesChanged,
            name => HookEvent::parse(name).map_err(|_| {
                let near = nearest(name, ["before", "after", "messages"], 1);
                let near = near.first().copied().unwrap_or("before, after or messages");
                format!(
                    "`{}` is not a hook event; use {near}",
                    text::escape_line(name, 80)
                )
            })?,
        };
        Ok(Self(event))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum BuiltinHook {
    ReadCache,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The call is denied.
    Closed,
    /// The call continues.
    Open,
}
