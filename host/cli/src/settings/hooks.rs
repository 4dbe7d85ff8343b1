//! Effective hooks: programs with their paths and environment variables, in the order in which they run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolhost::{HookKind, HookSettings};
use toolhost_kernel::hooks::{self, CommandHook, Matcher, OnFailure};

use super::SettingsEnv;
use crate::config::{self, HookTable, HookTarget};

/// Default time to live of a cached result.
const DEFAULT_CACHE_TTL: Duration = Duration::from_secs(300);

pub(super) fn resolve(
    tables: Vec<HookTable>,
    world: &SettingsEnv<'_>,
    of_file: &dyn Fn(&str) -> Result<PathBuf, String>,
) -> Result<Vec<HookSettings>, String> {
    let mut found = Vec::with_capacity(tables.len());
    for table in tables {
        let is_cache = matches!(table.target, HookTarget::ReadCache { .. });
        let matcher = match &table.matcher {
            Some(text) => Matcher::parse(&text.0).map_err(|error| error.to_string())?,
            None => Matcher::everything(),
        };
        let kind = match table.target {
            HookTarget::Plugin(plugin) => HookKind::Plugin(plugin),
            HookTarget::ReadCache { ttl } => HookKind::ReadCache {
                ttl: ttl.unwrap_or(DEFAULT_CACHE_TTL),
            },
            HookTarget::Command { program, args, env } => HookKind::Command(CommandHook {
                program: resolve_program(&program, of_file)?,
                args,
                dir: world.directory.to_owned(),
                // Variables that are not set are not passed.
                env: env
                    .iter()
                    .filter_map(|name| {
                        let value = (world.variable)(name.as_str())?;
                        Some((name.as_str().to_owned(), value))
                    })
                    .collect(),
                events: table.on.clone(),
            }),
        };
        found.push(HookSettings {
            name: table.name,
            matcher,
            on: table.on,
            on_failure: match table.on_failure {
                Some(config::OnFailure::Open) => OnFailure::Open,
                // If the cache fails, the tool runs.
                None if is_cache => OnFailure::Open,
                Some(config::OnFailure::Closed) | None => OnFailure::Closed,
            },
            timeout: table.timeout.unwrap_or(hooks::DEFAULT_TIMEOUT),
            kind,
        });
    }
    // The cache runs last, so that it stores outcomes after other hooks have changed them, and these run before a hit.
    found.sort_by_key(|hook| matches!(hook.kind, HookKind::ReadCache { .. }));
    let caches = found
        .iter()
        .filter(|hook| matches!(hook.kind, HookKind::ReadCache { .. }));
    if caches.count() > 1 {
        return Err("more than one read-cache; keep one".to_owned());
    }
    Ok(found)
}

/// A bare name is looked up in PATH at run time. A path is relative to the configuration file, never to the working
/// directory, because a cloned repository must not provide its own hooks.
fn resolve_program(
    program: &str,
    of_file: &dyn Fn(&str) -> Result<PathBuf, String>,
) -> Result<PathBuf, String> {
    if program.contains('/') {
        of_file(program)
    } else {
        Ok(Path::new(program).to_owned())
    }
}
