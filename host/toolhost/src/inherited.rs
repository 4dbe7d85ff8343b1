//! Limits that a host passes to a host which one of its sub-agents starts: its rules and its grants. They are in the
//! environment of the sub-agent's command, so that every process below it can find them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolhost_contract::policy::{
    Diagnostic, InheritedRules, RebaseError, Restriction, rebase_excludes,
};
use toolhost_contract::{Access, PluginName, text};
use toolhost_kernel::AgentTask;
use toolhost_net::HostRule;
use toolhost_vfs::Protection;

use crate::agents::ancestor_variable;
use crate::error::Error;
use crate::grants::protected_paths;
use crate::load::MessageSink;
use crate::settings::{AllowedPath, Excludes, ExternalAccessSettings, Settings, guest_name};

/// Environment variable of a sub-agent's command that contains the limits as JSON.
pub const INHERITED_VARIABLE: &str = "TOOLHOST_INHERITED";
/// Maximum size of the limits in bytes. The kernel limits a variable to 128 KiB.
const MAX_BYTES: usize = 96 << 10;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inherited {
    grants: InheritedGrants,
    rules: InheritedRules,
    /// Other limits of the delegating call, such as the directories to which it was narrowed.
    limits: Vec<InheritedRules>,
}

/// What a host grants to its plugins, for its sub-agents.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InheritedGrants {
    /// For plugins without their own list.
    paths: Vec<InheritedPath>,
    env: BTreeSet<String>,
    per_plugin: BTreeMap<PluginName, InheritedLists>,
    /// Files that no tool may change.
    read_only: Vec<PathBuf>,
    /// Files that no tool may see.
    hidden: Vec<PathBuf>,
    hosts: Vec<String>,
    denied_hosts: Vec<String>,
    programs: Vec<String>,
    unconfined: bool,
    program_network: bool,
}

/// Lists of one plugin, which replace the general ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InheritedLists {
    paths: Option<Vec<InheritedPath>>,
    env: Option<BTreeSet<String>>,
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
        let per_plugin = settings.per_plugin.iter().map(|(name, own)| {
            let lists = InheritedLists {
                paths: own.paths.as_deref().map(inherited_paths),
                env: own.env.clone(),
            };
            (name.clone(), lists)
        });
        let protected = |protection| {
            let all = protected_paths(settings).into_iter();
            let some = all.filter(|protected| protected.protection == protection);
            some.map(|protected| protected.path).collect()
        };
        let external = &settings.external_access;
        Self {
            paths: inherited_paths(&settings.paths),
            env: settings.env.clone(),
            per_plugin: per_plugin.collect(),
            read_only: protected(Protection::ReadOnly),
            hidden: protected(Protection::Hidden),
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
        let limits = limits.map(|limits| limits.to_inherited(&task.caller, &task.agent));
        let inherited = Inherited {
            grants: self.clone(),
            rules: task.policy.to_inherited(mode, &task.caller, &task.agent),
            limits: limits.unwrap_or_default(),
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
        settings.read_only.extend(self.read_only.iter().cloned());
        settings.secrets.extend(self.hidden.iter().cloned());
        let mut removed = Vec::new();
        self.narrow_plugins(settings, &mut removed);
        narrow_paths(
            &self.paths,
            &mut settings.paths,
            &mut settings.secrets,
            &mut removed,
        );
        narrow_env(&self.env, &mut settings.env, &mut removed);
        self.narrow_external(&mut settings.external_access, &mut removed);
        removed
    }

    /// Narrows the lists of each plugin that has its own in either host. The general lists are not narrowed yet.
    fn narrow_plugins(&self, settings: &mut Settings, removed: &mut Vec<String>) {
        let names = self.per_plugin.keys().chain(settings.per_plugin.keys());
        let names: BTreeSet<PluginName> = names.cloned().collect();
        for name in names {
            let outer = self.per_plugin.get(&name).cloned().unwrap_or_default();
            let mut of_plugin = Vec::new();
            let own = settings.per_plugin.entry(name.clone()).or_default();
            if own.paths.is_some() || outer.paths.is_some() {
                let outer = outer.paths.as_ref().unwrap_or(&self.paths);
                let paths = own.paths.get_or_insert_with(|| settings.paths.clone());
                narrow_paths(outer, paths, &mut settings.secrets, &mut of_plugin);
            }
            if own.env.is_some() || outer.env.is_some() {
                let outer = outer.env.as_ref().unwrap_or(&self.env);
                let env = own.env.get_or_insert_with(|| settings.env.clone());
                narrow_env(outer, env, &mut of_plugin);
            }
            let of_plugin = of_plugin.into_iter();
            removed.extend(of_plugin.map(|one| format!("{one} of plugin `{name}`")));
        }
    }

    fn narrow_external(&self, own: &mut ExternalAccessSettings, removed: &mut Vec<String>) {
        let any_host = self.hosts.iter().any(|host| host == "*");
        let is_below_any =
            |host: &str| any_host && HostRule::parse(host).is_ok_and(|rule| rule.is_within_any());
        let is_granted = |host: &String| self.hosts.contains(host) || is_below_any(host);
        own.hosts
            .retain(|host| is_kept("the host", host, is_granted(host), removed));
        own.denied_hosts.extend(self.denied_hosts.iter().cloned());
        let programs = &self.programs;
        own.programs
            .retain(|name| is_kept("the program", name, programs.contains(name), removed));
        own.unconfined &= self.unconfined;
        own.program_network &= self.program_network;
    }
}

/// The narrower grant applies to a path that is granted twice.
fn inherited_paths(paths: &[AllowedPath]) -> Vec<InheritedPath> {
    let mut inherited: Vec<InheritedPath> = Vec::new();
    for path in paths {
        let host = real_path(&path.host);
        let is_writable = path.access == Access::ReadWrite;
        let exclude = path.exclude.all_patterns();
        if let Some(known) = inherited.iter_mut().find(|known| known.host == host) {
            known.is_writable &= is_writable;
            known.exclude.extend(exclude);
        } else {
            inherited.push(InheritedPath {
                host,
                is_writable,
                exclude,
            });
        }
    }
    inherited
}

fn narrow_env(outer: &BTreeSet<String>, env: &mut BTreeSet<String>, removed: &mut Vec<String>) {
    env.retain(|name| is_kept("the variable", name, outer.contains(name), removed));
}

/// Paths whose limits cannot be expressed are added to `hidden`.
fn narrow_paths(
    outer: &[InheritedPath],
    paths: &mut Vec<AllowedPath>,
    hidden: &mut Vec<PathBuf>,
    removed: &mut Vec<String>,
) {
    let length = |path: &Path| path.as_os_str().len();
    let mut narrowed = Vec::new();
    for path in std::mem::take(paths) {
        let real = real_path(&path.host);
        let around = outer.iter().filter(|outer| real.starts_with(&outer.host));
        let nearest = around.max_by_key(|outer| length(&outer.host));
        let Some(nearest) = nearest else {
            is_kept("the path", &path.host.display().to_string(), false, removed);
            continue;
        };
        match nearest.excludes_in(&real) {
            Ok(excludes) => {
                let own = path.exclude.all_patterns();
                narrowed.push((real, own, nearest.limit(path, excludes)));
            }
            Err(reason) => {
                removed.push(path_removed(&path.host, &reason));
                hide_if_unsupported(real, &reason, hidden);
            }
        }
    }
    paths.extend(narrowed.iter().map(|(_, _, path)| path.clone()));
    // Directories below them to which the other host gives less access.
    for inner in outer {
        let around = narrowed.iter();
        let around = around.filter(|(real, ..)| inner.host.starts_with(real));
        let nearest = around.max_by_key(|(real, ..)| length(real));
        let Some((real, own, nearest)) = nearest.filter(|(real, ..)| *real != inner.host) else {
            continue;
        };
        let patterns = match rebase_excludes(own, below(&inner.host, real)) {
            Ok(patterns) => patterns,
            Err(reason) => {
                if reason != RebaseError::Hidden {
                    removed.push(path_removed(&inner.host, &reason));
                }
                hide_if_unsupported(inner.host.clone(), &reason, hidden);
                continue;
            }
        };
        let path = AllowedPath {
            guest: guest_name(paths, &inner.host),
            host: inner.host.clone(),
            exclude: Excludes {
                defaults: false,
                patterns,
            },
            ..nearest.clone()
        };
        paths.push(inner.limit(path, inner.exclude.clone()));
    }
}

impl InheritedPath {
    /// Its patterns for a grant of `path`, which is in its directory.
    fn excludes_in(&self, path: &Path) -> Result<Vec<String>, RebaseError> {
        rebase_excludes(&self.exclude, below(path, &self.host))
    }

    fn limit(&self, mut path: AllowedPath, excludes: Vec<String>) -> AllowedPath {
        if !self.is_writable {
            path.access = Access::ReadOnly;
        }
        // Without those that show a file again, so that a file hidden by either list stays hidden.
        let hidden = excludes.into_iter();
        let hidden = hidden.filter(|pattern| !pattern.starts_with('!'));
        path.exclude.patterns.extend(hidden);
        path
    }
}

/// Without its own grant, the path would get the access of a grant above it.
fn hide_if_unsupported(path: PathBuf, reason: &RebaseError, hidden: &mut Vec<PathBuf>) {
    match reason {
        // The patterns of that grant hide it.
        RebaseError::Hidden => {}
        RebaseError::Unsupported(_) => hidden.push(path),
    }
}

fn below<'a>(path: &'a Path, directory: &Path) -> &'a Path {
    path.strip_prefix(directory).unwrap_or(path)
}

fn path_removed(path: &Path, reason: &RebaseError) -> String {
    let shown = text::escape_line(&path.display().to_string(), 200);
    format!("the path {shown} ({reason})")
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
            "note: not granted, because the host that started this sub-agent does not allow it: {}",
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
        let provided = settings.kernel().provided_directories;
        let mut limits = self.rules.restriction(own)?;
        for rules in self.limits {
            limits = limits.and(&rules.with_directories(&provided).restriction(own)?);
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests;
