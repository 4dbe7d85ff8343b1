//! Grants of a plugin: the intersection of its manifest's requests and the operator's settings.

use std::path::{Path, PathBuf};

use toolhost_contract::{Access, Capability, Limits, Manifest, text};
use toolhost_runtime::Capabilities;
use toolhost_vfs::{PathGrant, ProtectedPath, Protection, Scope, ScopeError};

use crate::host_resources::OUTPUT_PATH;
use crate::provided_directories;
use crate::settings::{AllowedPath, Excludes, Settings};

/// The grants as plain values, before any directory is opened or variable read.
#[derive(Debug, Clone)]
pub struct GrantPlan {
    pub paths: Vec<AllowedPath>,
    /// Directories that the host provides, as for the local user. Each session gets its own.
    pub provided: Vec<AllowedPath>,
    /// The access to files; `None` grants no files regardless of `paths`.
    pub files: Option<Access>,
    /// Names of environment variables.
    pub env: Vec<String>,
    pub limits: Limits,
    /// Other granted capabilities, for display.
    pub capability_names: Vec<String>,
    pub capabilities: Capabilities,
}

/// What the settings would grant to a plugin, for display.
pub fn planned_grants(manifest: &Manifest, settings: &Settings) -> Vec<String> {
    let plan = plan_grants(manifest, settings, None);
    let shown = |path: &AllowedPath| {
        let host = text::escape_line(&path.host.to_string_lossy(), 200);
        format!("{} = {host} ({})", path.guest, path.access.as_str())
    };
    let paths = plan.paths.iter().filter(|_| plan.files.is_some());
    let paths = paths.chain(&plan.provided).map(shown);
    let env = plan.env.iter().map(|name| format!("${name}"));
    let others = plan.capability_names.iter();
    let others = others.map(|name| text::escape_line(name, 80));
    paths.chain(env).chain(others).collect()
}

/// Computes the grants of a plugin. `output` is the directory with the output of programs.
pub fn plan_grants(manifest: &Manifest, settings: &Settings, output: Option<&Path>) -> GrantPlan {
    let own = settings.per_plugin.get(&manifest.name);
    let files = match (
        manifest.needs(Capability::FsRead),
        manifest.needs(Capability::FsWrite),
    ) {
        (_, true) => Some(Access::ReadWrite),
        (true, false) => Some(Access::ReadOnly),
        (false, false) => None,
    };
    let mut paths = match files {
        Some(_) => own
            .and_then(|own| own.paths.as_ref())
            .unwrap_or(&settings.paths)
            .clone(),
        None => Vec::new(),
    };
    let skills = skill_directories(manifest, settings);
    let mut folders = provided_directories::memory_directories(manifest, settings);
    if let Some(output) = output.filter(|_| files.is_some()) {
        folders.push(provided_directory(
            output.to_owned(),
            OUTPUT_PATH.to_owned(),
            Access::ReadOnly,
        ));
    }
    let more = || skills.iter().chain(&folders);
    // A writable host directory does not make others writable.
    if more().next().is_some() && files == Some(Access::ReadOnly) {
        for path in &mut paths {
            path.access = Access::ReadOnly;
        }
    }
    let files = more().map(|path| path.access).chain(files).max();
    paths.extend(skills);
    let allowed = own
        .and_then(|own| own.env.as_ref())
        .unwrap_or(&settings.env);
    let mut env: Vec<String> = manifest
        .variables()
        .filter(|name| {
            settings.external_access.variables.contains_key(*name) || allowed.contains(*name)
        })
        .map(ToOwned::to_owned)
        .collect();
    env.sort();
    env.dedup();
    let mut limits = Limits::default();
    manifest.limits.apply(&mut limits);
    if let Some(own) = own {
        own.limits.apply(&mut limits);
    }
    limits.timeout = settings.plugin_timeout(&manifest.name, manifest.limits.timeout);
    let (capabilities, capability_names) = capabilities(manifest, settings);
    GrantPlan {
        paths,
        provided: folders,
        files,
        env,
        limits,
        capability_names,
        capabilities,
    }
}

/// The directories of skills, which are the same for all users.
fn skill_directories(manifest: &Manifest, settings: &Settings) -> Vec<AllowedPath> {
    if !manifest.needs(Capability::Skills) {
        return Vec::new();
    }
    let skills = settings.external_access.skills.iter().enumerate();
    skills
        .map(|(number, dir)| {
            let guest = format!("/skills/{}", number + 1);
            provided_directory(dir.clone(), guest, Access::ReadOnly)
        })
        .collect()
}

pub(crate) fn provided_directory(host: PathBuf, guest: String, access: Access) -> AllowedPath {
    AllowedPath {
        host,
        guest,
        access,
        dangerous: false,
        exclude: Excludes {
            defaults: true,
            patterns: Vec::new(),
        },
    }
}

/// A directory name that is unique for the project.
pub(crate) fn project_name(project: &Path) -> String {
    let name: String = project
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c))
        .take(40)
        .collect();
    let hash = blake3::hash(project.as_os_str().as_encoded_bytes()).to_hex();
    format!("{name}-{}", &hash[..12])
}

/// The capabilities of a plugin. Services of the host prompt the user or run the whole call pipeline themselves; access
/// outside the host also requires the operator's settings.
fn capabilities(manifest: &Manifest, settings: &Settings) -> (Capabilities, Vec<String>) {
    let needs = |need| manifest.needs(need);
    let capabilities = Capabilities {
        session: needs(Capability::Session),
        user: needs(Capability::User),
        agents: needs(Capability::Agents)
            && (settings.external_access.other_agents
                || !settings.external_access.agents.is_empty()),
        resources: needs(Capability::Resources),
        tools: manifest
            .names(Capability::Tools)
            .map(str::to_owned)
            .collect(),
        net: None,
        programs: None,
    };
    let names = [
        (capabilities.session, "session"),
        (capabilities.user, "user"),
        (capabilities.agents, "agents"),
        (capabilities.resources, "resources"),
        (!capabilities.tools.is_empty(), "tools"),
    ];
    let mut names: Vec<String> = names
        .iter()
        .filter(|(granted, _)| *granted)
        .map(|(_, name)| (*name).to_owned())
        .collect();
    if needs(Capability::Net) && !settings.external_access.hosts.is_empty() {
        names.push("net".to_owned());
    }
    let programs = manifest.names(Capability::Process).filter(|name| {
        settings
            .external_access
            .programs
            .iter()
            .any(|one| one == name)
    });
    names.extend(programs.map(|name| format!("program:{name}")));
    if !capabilities.tools.is_empty() && !capabilities.tools.iter().any(|name| name == "*") {
        names.extend(capabilities.tools.iter().map(|name| format!("tool:{name}")));
    }
    (capabilities, names)
}

/// Opens granted directories. Each list of paths is opened once and shared by plugins.
pub struct ScopeOpener {
    protected: Vec<ProtectedPath>,
    /// Paths that any list grants for writing.
    writable: Vec<PathBuf>,
    opened: Vec<(Vec<AllowedPath>, Scope)>,
}

impl ScopeOpener {
    /// Opens every list of the settings, including unused ones, so that invalid paths are reported at startup.
    pub fn new(settings: &Settings) -> anyhow::Result<Self> {
        Self::with_hidden(settings, None)
    }

    /// Like [`Granter::new`], with additional directories that are never granted.
    pub fn with_hidden<'a>(
        settings: &Settings,
        own: impl IntoIterator<Item = &'a Path>,
    ) -> anyhow::Result<Self> {
        let mut protected = protected_paths(settings);
        protected.extend(own.into_iter().map(|path| ProtectedPath {
            path: path.to_owned(),
            protection: Protection::Hidden,
        }));
        let mut granter = Self {
            protected,
            writable: writable_paths(settings).collect(),
            opened: Vec::new(),
        };
        granter.scope(&settings.paths)?;
        for own in settings.per_plugin.values() {
            granter.scope(own.paths.as_deref().unwrap_or_default())?;
        }
        Ok(granter)
    }

    /// Opens the paths of a plan, except [`Plan::own`], which is opened for each session.
    pub fn grant(&mut self, plan: &GrantPlan) -> anyhow::Result<Scope> {
        match plan.files {
            None => Ok(Scope::empty()),
            Some(Access::ReadOnly) => Ok(self.scope(&plan.paths)?.read_only()),
            Some(Access::ReadWrite) => self.scope(&plan.paths),
        }
    }

    fn scope(&mut self, paths: &[AllowedPath]) -> anyhow::Result<Scope> {
        if let Some((_, scope)) = self.opened.iter().find(|(known, _)| known == paths) {
            return Ok(scope.clone());
        }
        let grants: Vec<PathGrant> = paths
            .iter()
            .map(|path| PathGrant {
                host: path.host.clone(),
                guest: path.guest.clone(),
                access: match path.access {
                    Access::ReadOnly => toolhost_vfs::Access::ReadOnly,
                    Access::ReadWrite => toolhost_vfs::Access::ReadWrite,
                },
                dangerous: path.dangerous,
                exclude: path.exclude.all_patterns(),
            })
            .collect();
        let scope = Scope::open_with_writable(&grants, &self.protected, &self.writable)
            .map_err(|error| with_syntax_hint(&error))?;
        self.opened.push((paths.to_vec(), scope.clone()));
        Ok(scope)
    }
}

/// Adds a hint on the configuration syntax, which `vfs` does not know.
fn with_syntax_hint(error: &ScopeError) -> anyhow::Error {
    let hint = match error {
        ScopeError::NeedsDangerous { path, .. } => {
            format!(
                " (in a configuration file: {{ path = \"{}\", dangerous = true }})",
                path.display()
            )
        }
        ScopeError::Missing(path) if path.to_string_lossy().contains(':') => {
            " (the access is `:ro` or `:rw`)".to_owned()
        }
        _ => String::new(),
    };
    anyhow::anyhow!("{error}{hint}")
}

/// Paths that any list grants for writing.
pub fn writable_paths(settings: &Settings) -> impl Iterator<Item = PathBuf> {
    let lists = settings.per_plugin.values();
    let lists = lists.filter_map(|own| own.paths.as_ref());
    std::iter::once(&settings.paths)
        .chain(lists)
        .flatten()
        .filter(|path| path.access == Access::ReadWrite)
        .map(|path| path.host.clone())
}

/// Paths that are never granted. A tool with write access to them could extend its own permissions.
pub fn protected_paths(settings: &Settings) -> Vec<ProtectedPath> {
    let host_paths = &settings.host_paths;
    let keep = |path: &PathBuf, shield| ProtectedPath {
        path: path.clone(),
        protection: shield,
    };
    // Each user's directory below this one is granted separately.
    let users = settings.external_access.memory.as_ref();
    let users = users.map(|memory| memory.join(provided_directories::USERS_DIR));
    // Write access to the store would control recovery and undo.
    let hidden = [&host_paths.cache, &host_paths.state, &settings.store]
        .into_iter()
        .flatten()
        .chain(&settings.secrets)
        .chain(&users)
        .map(|path| keep(path, Protection::Hidden));
    let readable = [&host_paths.config, &settings.config_file]
        .into_iter()
        .flatten();
    let commands = settings.all_command_files();
    // A plugin directory contains the manifests and signatures of its plugins; a plugin file does not.
    let files = settings.plugins.iter().filter(|path| path.is_file());
    let beside: Vec<PathBuf> = files
        .flat_map(|path| {
            [
                toolhost_contract::side_manifest_path(path),
                toolhost_packages::bundle_path(path),
            ]
        })
        .collect();
    let readable = readable
        .chain(&settings.plugins)
        .chain(&beside)
        .chain(&settings.read_only)
        .chain(&commands)
        .map(|path| keep(path, Protection::ReadOnly));
    hidden.chain(readable).collect()
}
