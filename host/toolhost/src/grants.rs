//! What a plugin gets: what its manifest asks for ∩ what the operator allows, and nothing else.

use std::path::{Path, PathBuf};

use toolhost_contract::{Access, Capability, Limits, Manifest};
use toolhost_runtime::Capabilities;
use toolhost_vfs::{PathGrant, Protected, Scope, ScopeError, Shield};

use crate::outlets::OUTPUT;
use crate::own;
use crate::settings::{AllowedPath, Excludes, Settings};

/// The intersection as plain values, before a folder is opened or a variable read.
#[derive(Debug, Clone)]
pub struct Plan {
    pub paths: Vec<AllowedPath>,
    /// Folders of the host's own as the local user gets them; every session gets its own.
    pub own: Vec<AllowedPath>,
    /// None: no files at all, whatever `paths` are.
    pub files: Option<Access>,
    /// Names of variables.
    pub env: Vec<String>,
    pub limits: Limits,
    /// Names of what it may use beside files and variables, as people read them.
    pub beyond: Vec<String>,
    pub capabilities: Capabilities,
}

/// `output`: where what programs wrote can be read.
pub fn plan(manifest: &Manifest, settings: &Settings, output: Option<&Path>) -> Plan {
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
    let skills = skills(manifest, settings);
    let mut folders = own::memory(manifest, settings);
    if let Some(output) = output.filter(|_| files.is_some()) {
        folders.push(own_folder(
            output.to_owned(),
            OUTPUT.to_owned(),
            Access::ReadOnly,
        ));
    }
    let more = || skills.iter().chain(&folders);
    // That one of its own folders may be written to opens no other.
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
        .filter(|name| settings.beyond.variables.contains_key(*name) || allowed.contains(*name))
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
    let (capabilities, beyond) = beyond(manifest, settings);
    Plan {
        paths,
        own: folders,
        files,
        env,
        limits,
        beyond,
        capabilities,
    }
}

/// Skills are the operator's, and the same for everybody.
fn skills(manifest: &Manifest, settings: &Settings) -> Vec<AllowedPath> {
    if !manifest.needs(Capability::Skills) {
        return Vec::new();
    }
    let skills = settings.beyond.skills.iter().enumerate();
    skills
        .map(|(number, dir)| {
            let guest = format!("/skills/{}", number + 1);
            own_folder(dir.clone(), guest, Access::ReadOnly)
        })
        .collect()
}

pub(crate) fn own_folder(host: PathBuf, guest: String, access: Access) -> AllowedPath {
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

/// A folder's name that is the same for the same project and no other's.
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

/// What of its host it may use. Services ask a person, or go the whole way of a call, by themselves; what reaches out of
/// the host needs the operator's word as well.
fn beyond(manifest: &Manifest, settings: &Settings) -> (Capabilities, Vec<String>) {
    let needs = |need| manifest.needs(need);
    let capabilities = Capabilities {
        session: needs(Capability::Session),
        people: needs(Capability::People),
        agents: needs(Capability::Agents)
            && (settings.beyond.other_agents || !settings.beyond.agents.is_empty()),
        resources: needs(Capability::Resources),
        tools: manifest
            .names(Capability::Tools)
            .map(str::to_owned)
            .collect(),
        net: None,
        programs: None,
    };
    let words = [
        (capabilities.session, "session"),
        (capabilities.people, "people"),
        (capabilities.agents, "agents"),
        (capabilities.resources, "resources"),
        (!capabilities.tools.is_empty(), "tools"),
    ];
    let mut words: Vec<String> = words
        .iter()
        .filter(|(granted, _)| *granted)
        .map(|(_, word)| (*word).to_owned())
        .collect();
    if needs(Capability::Net) && !settings.beyond.hosts.is_empty() {
        words.push("net".to_owned());
    }
    let programs = manifest
        .names(Capability::Process)
        .filter(|name| settings.beyond.programs.iter().any(|one| one == name));
    words.extend(programs.map(|name| format!("program:{name}")));
    if !capabilities.tools.is_empty() && !capabilities.tools.iter().any(|name| name == "*") {
        words.extend(capabilities.tools.iter().map(|name| format!("tool:{name}")));
    }
    (capabilities, words)
}

/// Opens folders, each list of them once, however many plugins share it.
pub struct Granter {
    protected: Vec<Protected>,
    /// What any list lets tools write to.
    writable: Vec<PathBuf>,
    opened: Vec<(Vec<AllowedPath>, Scope)>,
}

impl Granter {
    /// Opens every list that the settings name, also those that no plugin asks for: a wrong path is said at the start.
    pub fn new(settings: &Settings) -> anyhow::Result<Self> {
        Self::hiding(settings, None)
    }

    /// With more directories that no grant opens up.
    pub fn hiding<'a>(
        settings: &Settings,
        own: impl IntoIterator<Item = &'a Path>,
    ) -> anyhow::Result<Self> {
        let mut protected = protected(settings);
        protected.extend(own.into_iter().map(|path| Protected {
            path: path.to_owned(),
            shield: Shield::Hidden,
        }));
        let lists = settings
            .per_plugin
            .values()
            .filter_map(|own| own.paths.as_ref());
        let writable = std::iter::once(&settings.paths)
            .chain(lists)
            .flatten()
            .filter(|path| path.access == Access::ReadWrite)
            .map(|path| path.host.clone())
            .collect();
        let mut granter = Self {
            protected,
            writable,
            opened: Vec::new(),
        };
        granter.scope(&settings.paths)?;
        for own in settings.per_plugin.values() {
            granter.scope(own.paths.as_deref().unwrap_or_default())?;
        }
        Ok(granter)
    }

    /// Without the folders of [`Plan::own`], which each session gets for itself.
    pub fn grant(&mut self, plan: &Plan) -> anyhow::Result<Scope> {
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
                exclude: path.exclude.all(),
            })
            .collect();
        let scope = Scope::open_beside(&grants, &self.protected, &self.writable)
            .map_err(|error| in_our_words(&error))?;
        self.opened.push((paths.to_vec(), scope.clone()));
        Ok(scope)
    }
}

/// The file system does not know how a grant is written here.
fn in_our_words(error: &ScopeError) -> anyhow::Error {
    let hint = match error {
        ScopeError::NeedsDangerous { path, .. } => {
            format!(
                " (in a configuration file: {{ path = \"{}\", dangerous = true }})",
                path.display()
            )
        }
        ScopeError::Missing(path) if path.to_string_lossy().contains(':') => {
            " (an access is written `:ro` or `:rw`)".to_owned()
        }
        _ => String::new(),
    };
    anyhow::anyhow!("{error}{hint}")
}

/// What no grant opens up. A tool that could write these would decide what it may do next time.
pub fn protected(settings: &Settings) -> Vec<Protected> {
    let places = &settings.places;
    let keep = |path: &PathBuf, shield| Protected {
        path: path.clone(),
        shield,
    };
    // Each user gets their own of these folders, beside what is granted.
    let users = settings.beyond.memory.as_ref();
    let users = users.map(|memory| memory.join(own::USERS));
    // Whoever can write the store can write what recovery and undo do.
    let hidden = [&places.cache, &places.state, &settings.store]
        .into_iter()
        .flatten()
        .chain(&settings.secrets)
        .chain(&users)
        .map(|path| keep(path, Shield::Hidden));
    let readable = [&places.config, &settings.config_file]
        .into_iter()
        .flatten();
    let commands = settings.files_of_commands();
    let readable = readable
        .chain(&settings.plugins)
        .chain(&settings.read_only)
        .chain(&commands)
        .map(|path| keep(path, Shield::ReadOnly));
    hidden.chain(readable).collect()
}
