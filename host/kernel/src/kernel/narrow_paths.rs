//! Narrowing of a call to the directories that its caller names.

use std::path::Path;
use std::sync::Arc;

use toolhost_contract::policy::{Policy, Restriction};
use toolhost_contract::{CallError, ErrorClass, OnlyPath, OnlyPaths, PluginName, text};

use super::running_call::RunningCall;
use super::{Kernel, Refusal};
use crate::ToolEntry;

/// Maximum length of the list of granted directories in an error.
const MAX_SHOWN: usize = 300;

impl Kernel {
    /// Adds the directories that the caller names to the limits of the call. Each must be in a granted directory, so
    /// that naming one never adds access. The directories that the host provides (memory, skills, output of programs)
    /// stay usable.
    pub(super) async fn narrow_paths(
        &self,
        entry: &ToolEntry,
        run: &mut RunningCall<'_>,
    ) -> Result<(), Refusal> {
        // Taken, because the calls that this one makes get its restriction.
        let lists = std::mem::take(&mut run.context.only_paths);
        if lists.is_empty() {
            return Ok(());
        }
        let policy = self.policy();
        let provided = Arc::clone(&self.settings.provided_directories);
        let plugin = entry.plugin.name.clone();
        let narrowing =
            tokio::task::spawn_blocking(move || narrow(&lists, &plugin, &policy, &provided));
        let narrowed = narrowing
            .await
            .unwrap_or_else(|_| Err(CallError::internal("the allowed paths were not checked")))?;
        let known = run.context.restriction.take();
        let both = known.map_or(narrowed.clone(), |known| known.and(&narrowed));
        run.context.restriction = Some(Arc::new(both));
        Ok(())
    }
}

fn narrow(
    lists: &[OnlyPaths],
    plugin: &PluginName,
    policy: &Policy,
    provided: &[String],
) -> Result<Restriction, CallError> {
    let mut all: Option<Restriction> = None;
    for list in lists {
        let (mut directories, mut real) = (Vec::new(), Vec::new());
        for path in list.iter() {
            let names = granted_directory(path, plugin, policy)?;
            real.push(names[1].parse::<OnlyPath>().map_err(CallError::internal)?);
            directories.extend(names);
        }
        for path in provided {
            directories.extend(real_path(path));
            directories.push(path.clone());
        }
        let one = Restriction::to_directories(&directories, policy)
            .map_err(|_| CallError::internal("the allowed paths are not a policy"))?;
        // Approvals are bound to these. The same name can be another directory in another project.
        let real = OnlyPaths::try_from(real).map_err(CallError::internal)?;
        let one = one.named(real);
        all = Some(all.map_or(one.clone(), |all| all.and(&one)));
    }
    Ok(all.unwrap_or_default())
}

/// The path of the directory on the host, as named and with links resolved, because rules match both.
fn granted_directory(
    path: &OnlyPath,
    plugin: &PluginName,
    policy: &Policy,
) -> Result<[String; 2], CallError> {
    let mounts = policy.mounts_of(plugin);
    let is_granted = |host: &str| {
        let mut mounts = mounts.iter();
        mounts.any(|mount| Path::new(host).starts_with(&mount.host))
    };
    let refused = |problem: &str| {
        let mut names: Vec<&str> = mounts.iter().map(|mount| mount.guest.as_str()).collect();
        names.sort_unstable();
        let remedy = if names.is_empty() {
            "no directory is granted; start the host with `--allow-path DIR`".to_owned()
        } else {
            let names = text::escape_line(&names.join(", "), MAX_SHOWN);
            format!("name a directory in one that is granted: {names}")
        };
        let message = format!("the call cannot be narrowed to `{path}`: {problem}");
        let error = CallError::new(ErrorClass::InvalidInput, message).code("invalid_only_path");
        error.recommend(remedy)
    };
    let host = policy.resolve_path_of(plugin, path.as_str());
    if !is_granted(&host) {
        return Err(refused("it is not in a granted directory"));
    }
    let real = real_path(&host).ok_or_else(|| refused("there is no such directory"))?;
    if !is_granted(&real) {
        return Err(refused("it is a link out of the granted directories"));
    }
    if !Path::new(&real).is_dir() {
        return Err(refused("it is not a directory"));
    }
    Ok([host, real])
}

fn real_path(path: &str) -> Option<String> {
    let real = Path::new(path).canonicalize().ok()?;
    real.into_os_string().into_string().ok()
}
