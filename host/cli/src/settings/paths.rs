//! Allowed paths: those of the command line and the file in one list, with the names by which tools know them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toolhost::{AllowedPath, Excludes, guest_name};

use crate::config::PathEntry;

/// Merges paths of the command line and the file. Paths of the command line come first, so that the first is
/// /workspace, and override the file. If one is given twice, the later one applies with the narrower access of both.
pub fn merge_paths(
    typed: Vec<(PathBuf, PathEntry)>,
    of_file: Vec<(PathBuf, PathEntry)>,
) -> Vec<(PathBuf, PathEntry)> {
    let known: BTreeSet<PathBuf> = typed.iter().map(|(path, _)| resolved(path)).collect();
    let mut latest: Vec<(PathBuf, PathEntry)> = Vec::new();
    for (path, entry) in typed {
        let same = |before: &PathBuf| resolved(before) == resolved(&path);
        match latest.iter_mut().find(|(before, _)| same(before)) {
            Some(before) => {
                let access = entry.access.min(before.1.access);
                *before = (path, PathEntry { access, ..entry });
            }
            None => latest.push((path, entry)),
        }
    }
    let others = of_file
        .into_iter()
        .filter(|(path, _)| !known.contains(&resolved(path)));
    latest.into_iter().chain(others).collect()
}

/// The path without symbolic links and `..`, to compare it. The path as written is what is granted, because the host
/// refuses one whose links a tool could change.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Warnings about rules and protected paths that start with `/` and lie in no granted directory.
pub fn check_rooted_paths(core: &toolhost::Settings) -> Vec<String> {
    let own = core
        .per_plugin
        .values()
        .filter_map(|own| own.paths.as_ref());
    let allowed = core.paths.iter().chain(own.flatten());
    let access = &core.external_access;
    let provided = access.memory.iter().chain(&access.skills);
    let granted: Vec<String> = allowed
        .map(|path| &path.host)
        .chain(provided)
        .map(|path| resolved(path).display().to_string())
        .collect();
    let found = core.policy.check_rooted_paths(&granted).into_iter();
    found
        .map(|mut one| {
            if let (true, Some(file)) = (one.position.file.is_empty(), &core.config_file) {
                one.position.file = file.display().to_string();
            }
            format!("{}: {}", one.position, one.message)
        })
        .collect()
}

pub fn assign_guest_paths(
    entries: Vec<(PathBuf, PathEntry)>,
    general: &Excludes,
) -> Vec<AllowedPath> {
    let mut paths: Vec<AllowedPath> = Vec::new();
    for (host, entry) in entries {
        let guest = entry.guest;
        let path = AllowedPath {
            guest: guest.unwrap_or_else(|| guest_name(&paths, &host)),
            host,
            access: entry.access,
            dangerous: entry.dangerous,
            exclude: Excludes {
                defaults: entry.default_excludes.unwrap_or(general.defaults),
                patterns: [general.patterns.clone(), entry.exclude].concat(),
            },
        };
        paths.push(path);
    }
    paths
}
