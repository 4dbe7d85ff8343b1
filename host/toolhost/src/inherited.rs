//! Limits that a host passes to a host which one of its sub-agents starts: its rules and its grants. They are in the
//! environment of the sub-agent's command, so that every process below it can find them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolhost_contract::policy::{Diagnostic, InheritedRules, Restriction};
use toolhost_contract::{Access, text};
use toolhost_kernel::AgentTask;

use crate::agents::ancestor_variable;
use crate::error::Error;
use crate::load::MessageSink;
use crate::settings::{AllowedPath, ExternalAccessSettings, Settings, guest_name};

/// Environment variable of a sub-agent's command that contains the limits as JSON.
pub const INHERITED_VARIABLE: &str = "TOOLHOST_INHERITED";
/// Maximum size of the limits in bytes. The kernel limits a variable to 128 KiB.
const MAX_BYTES: usize = 96 << 10;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inherited {
    grants: InheritedGrants,
    rules: InheritedRules,
    /// Lists of directories to which the delegating call is limited; a file must lie in a directory of each.
    directories: Vec<Vec<String>>,
}

/// What a host grants to its plugins, for its sub-agents.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InheritedGrants {
    paths: Vec<InheritedPath>,
    env: BTreeSet<String>,
    hosts: Vec<String>,
    denied_hosts: Vec<String>,
    programs: Vec<String>,
    unconfined: bool,
    program_network: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InheritedPath {
    host: PathBuf,
    is_writable: bool,
    /// Patterns of files that the grant hides.
    exclude: Vec<String>,
}

impl InheritedGrants {
    pub fn of(settings: &Settings) -> Self {
        let plugins = settings.per_plugin.values();
        let paths = plugins.clone().filter_map(|plugin| plugin.paths.as_ref());
        let paths = settings.paths.iter().chain(paths.flatten());
        let env = plugins.filter_map(|plugin| plugin.env.as_ref()).flatten();
        let external = &settings.external_access;
        Self {
            paths: paths
                .map(|path| InheritedPath {
                    host: real_path(&path.host),
                    is_writable: path.access == Access::ReadWrite,
                    exclude: path.exclude.all_patterns(),
                })
                .collect(),
            env: settings.env.iter().chain(env).cloned().collect(),
            hosts: external.hosts.clone(),
            denied_hosts: external.denied_hosts.clone(),
            programs: external.programs.clone(),
            unconfined: external.unconfined,
            program_network: external.program_network,
        }
    }

    /// Returns the value of [`INHERITED_VARIABLE`] for the command that gets this task.
    pub fn to_variable(&self, task: &AgentTask) -> Result<String, String> {
        let mode = task.context.mode.unwrap_or(task.policy.mode());
        let limits = task.context.restriction.as_deref();
        let limits = limits.map(Restriction::directories).unwrap_or_default();
        let inherited = Inherited {
            grants: self.clone(),
            rules: task.policy.to_inherited(mode, &task.caller, &task.agent),
            directories: limits.iter().map(|list| list.to_vec()).collect(),
        };
        let text = serde_json::to_string(&inherited).map_err(|error| error.to_string())?;
        if text.len() > MAX_BYTES {
            return Err(format!(
                "the rules and grants for a sub-agent have {} bytes; the limit is {MAX_BYTES}",
                text.len()
            ));
        }
        Ok(text)
    }

    /// Removes from the settings what these grants do not contain. Returns what was removed, for the user.
    fn narrow(&self, settings: &mut Settings) -> Vec<String> {
        let mut removed = Vec::new();
        self.narrow_paths(&mut settings.paths, &mut removed);
        self.narrow_env(&mut settings.env, &mut removed);
        for plugin in settings.per_plugin.values_mut() {
            if let Some(paths) = &mut plugin.paths {
                self.narrow_paths(paths, &mut removed);
            }
            if let Some(env) = &mut plugin.env {
                self.narrow_env(env, &mut removed);
            }
        }
        self.narrow_external(&mut settings.external_access, &mut removed);
        removed
    }

    fn narrow_env(&self, env: &mut BTreeSet<String>, removed: &mut Vec<String>) {
        env.retain(|name| is_kept("the variable", name, self.env.contains(name), removed));
    }

    fn narrow_external(&self, own: &mut ExternalAccessSettings, removed: &mut Vec<String>) {
        let any_host = self.hosts.iter().any(|host| host == "*");
        let hosts = &self.hosts;
        own.hosts
            .retain(|host| is_kept("the host", host, any_host || hosts.contains(host), removed));
        own.denied_hosts.extend(self.denied_hosts.iter().cloned());
        let programs = &self.programs;
        own.programs
            .retain(|name| is_kept("the program", name, programs.contains(name), removed));
        own.unconfined &= self.unconfined;
        own.program_network &= self.program_network;
    }

    fn narrow_paths(&self, paths: &mut Vec<AllowedPath>, removed: &mut Vec<String>) {
        for path in std::mem::take(paths) {
            let real = real_path(&path.host);
            let outer = self
                .paths
                .iter()
                .filter(|outer| real.starts_with(&outer.host));
            let outer = outer.max_by_key(|outer| outer.host.as_os_str().len());
            let Some(outer) = outer.filter(|outer| outer.fits(&real)) else {
                let shown = path.host.display().to_string();
                is_kept("the path", &shown, false, removed);
                continue;
            };
            let narrowed = outer.limit(path);
            // Directories below it to which the other host gives less access.
            let inner: Vec<&InheritedPath> = self
                .paths
                .iter()
                .filter(|inner| inner.host.starts_with(&real) && inner.host != real)
                .collect();
            let template = narrowed.clone();
            paths.push(narrowed);
            for inner in inner {
                if paths.iter().any(|known| known.host == inner.host) {
                    continue;
                }
                let path = AllowedPath {
                    guest: guest_name(paths, &inner.host),
                    host: inner.host.clone(),
                    ..template.clone()
                };
                paths.push(inner.limit(path));
            }
        }
    }
}

impl InheritedPath {
    /// Whether its patterns can be applied to a grant of `path`: those with a directory are relative to its own root.
    fn fits(&self, path: &Path) -> bool {
        let is_relative = |pattern: &String| pattern.trim_end_matches('/').contains('/');
        path == self.host || !self.exclude.iter().any(is_relative)
    }

    fn limit(&self, mut path: AllowedPath) -> AllowedPath {
        if !self.is_writable {
            path.access = Access::ReadOnly;
        }
        // Without those that show a file again, so that a file hidden by either list stays hidden.
        let hidden = self
            .exclude
            .iter()
            .filter(|pattern| !pattern.starts_with('!'));
        path.exclude.patterns.extend(hidden.cloned());
        path
    }
}

fn is_kept(kind: &str, name: &str, is_kept: bool, removed: &mut Vec<String>) -> bool {
    if !is_kept {
        removed.push(format!("{kind} {}", text::escape_line(name, 200)));
    }
    is_kept
}

fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Applies the limits of the host of which this process is a sub-agent: removes grants, and returns the limits of calls.
pub fn apply(
    settings: &mut Settings,
    on_message: &MessageSink,
) -> Result<Option<Arc<Restriction>>, Error> {
    let Some(value) = ancestor_variable(INHERITED_VARIABLE) else {
        return Ok(None);
    };
    let invalid = |reason: String| {
        let shown = text::escape_line(&reason, 400);
        Error::Settings(format!("{INHERITED_VARIABLE} is not valid: {shown}"))
    };
    let inherited: Inherited =
        serde_json::from_slice(&value).map_err(|error| invalid(error.to_string()))?;
    let removed = inherited.grants.narrow(settings);
    if !removed.is_empty() {
        on_message(&format!(
            "note: not granted, because the host that started this sub-agent does not have it: {}",
            removed.join(", ")
        ));
    }
    let limits = inherited.limits(settings).map_err(|wrong| {
        let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        invalid(wrong.join("; "))
    })?;
    Ok(Some(Arc::new(limits)))
}

impl Inherited {
    fn limits(self, settings: &Settings) -> Result<Restriction, Vec<Diagnostic>> {
        let own = &settings.policy;
        let mut limits = self.rules.restriction(own)?;
        for mut list in self.directories {
            list.extend(settings.kernel().provided_directories.iter().cloned());
            limits = limits.and(&Restriction::to_directories(&list, own)?);
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests;
