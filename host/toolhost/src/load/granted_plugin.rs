//! A loaded plugin with what it is granted.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::{Backend, Digest, Limits, Manifest, ToolName};
use toolhost_hostfiles::create_private_dir_all;
use toolhost_kernel::PluginInfo;
use toolhost_runtime::{CodeState, Loaded, Plugin, PluginGrants, Staging, is_own_folder};
use toolhost_vfs::Scope;

use crate::grants::{GrantPlan, ScopeOpener, plan_grants};
use crate::host_resources::{HostResources, OUTPUT_PATH};
use crate::provided_directories;
use crate::settings::{AllowedPath, Settings};

/// A plugin with registered tools, and its grants.
#[derive(Clone)]
pub struct ServedPlugin {
    pub path: PathBuf,
    pub code_state: CodeState,
    /// How long loading took.
    pub load_time: Duration,
    pub manifest: Manifest,
    pub digest: Digest,
    /// Size of its file in bytes.
    pub size: u64,
    pub tools: Vec<ToolName>,
    /// Granted directories, for display.
    pub directories: Vec<GrantedDirectory>,
    pub env: Vec<String>,
    /// Other granted capabilities, for display.
    pub capability_names: Vec<String>,
    pub limits: Limits,
}

#[derive(Clone)]
pub struct GrantedDirectory {
    pub guest: String,
    pub host: PathBuf,
    pub access: &'static str,
}

impl GrantedDirectory {
    /// Whether it is a directory that the host provides (memory, skills or output of programs) and not one of the user.
    pub fn is_provided(&self) -> bool {
        is_own_folder(&self.guest)
    }
}

/// A plugin with its grants.
pub(super) struct PluginWithGrants {
    pub served: ServedPlugin,
    pub info: PluginInfo,
    pub plugin: Arc<Plugin>,
}

impl PluginWithGrants {
    pub fn registration(&self) -> (PluginInfo, Arc<dyn Backend>) {
        let backend = Arc::<Plugin>::clone(&self.plugin);
        (self.info.clone(), backend)
    }
}

/// Opens what the settings grant to a loaded plugin.
pub(super) fn grant(
    settings: &Settings,
    granter: &mut ScopeOpener,
    outlets: &HostResources,
    staging: Option<Staging>,
    mut loaded: Loaded,
) -> Result<PluginWithGrants, String> {
    let manifest = loaded.manifest().clone();
    let own = settings.per_plugin.get(&manifest.name);
    if !own.is_some_and(|own| own.may_run_alone) {
        loaded.serialize_exclusive_tools();
    }
    let mut plan = plan_grants(&manifest, settings, outlets.output_directory());
    for path in plan
        .provided
        .iter()
        .filter(|path| path.guest.starts_with("/memory/"))
    {
        let base = settings
            .external_access
            .memory
            .as_deref()
            .unwrap_or(&path.host);
        create_private_dir_all(base, &path.host).map_err(|error| format!("memory: {error}"))?;
    }
    plan.capabilities.net = outlets
        .net_for(&manifest)
        .map_err(|error| format!("{error:#}"))?;
    plan.capabilities.programs = outlets.programs_for(&manifest);
    let scope = granter.grant(&plan).map_err(|error| error.to_string())?;
    let processes = outlets.processes().filter(|_| reads_output(&plan));
    let own = provided_directories::session_directories(&manifest, settings, processes);
    let folders = granted_directories(&scope, &plan.provided);
    // Variables that are unset or not UTF-8 are not granted.
    let env: Vec<(String, String)> = plan
        .env
        .into_iter()
        .filter_map(|name| {
            let own = settings.external_access.variables.get(&name).cloned();
            let value = own.or_else(|| std::env::var(&name).ok());
            Some((name, value?))
        })
        .collect();
    let served = ServedPlugin {
        path: loaded.path().to_owned(),
        code_state: loaded.code_state(),
        load_time: Duration::ZERO,
        digest: loaded.digest(),
        size: loaded.size(),
        tools: Vec::new(),
        directories: folders,
        env: env.iter().map(|(name, _)| name.clone()).collect(),
        capability_names: plan.capability_names,
        limits: plan.limits.clone(),
        manifest,
    };
    let info = PluginInfo {
        name: served.manifest.name.clone(),
        version: served.manifest.version.clone(),
        digest: Some(served.digest),
        timeout: plan.limits.timeout,
    };
    let plugin = loaded
        .grant(PluginGrants {
            session_dirs: own,
            scope,
            env,
            limits: plan.limits,
            staging,
            capabilities: plan.capabilities,
        })
        .map_err(|error| error.to_string())?;
    Ok(PluginWithGrants {
        served,
        info,
        plugin: Arc::new(plugin),
    })
}

fn reads_output(plan: &GrantPlan) -> bool {
    plan.provided
        .iter()
        .any(|folder| folder.guest == OUTPUT_PATH)
}

fn granted_directories(scope: &Scope, own: &[AllowedPath]) -> Vec<GrantedDirectory> {
    let granted = scope.roots().iter().map(|root| GrantedDirectory {
        guest: root.guest().to_owned(),
        host: root.host().to_owned(),
        access: match root.access() {
            toolhost_vfs::Access::ReadOnly => "ro",
            toolhost_vfs::Access::ReadWrite => "rw",
        },
    });
    let own = own.iter().map(|folder| GrantedDirectory {
        guest: folder.guest.clone(),
        host: folder.host.clone(),
        access: folder.access.as_str(),
    });
    granted.chain(own).collect()
}
